"""Compressed files are read like plain ones, within bounds, and as far as they go where they are damaged."""

from __future__ import annotations

import gzip
import os
import random
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from npuprof.errors import SourceError
from npuprof.sources.files import gzip_file, memory_limit
from npuprof.sources.files.gzip_file import is_plain, is_zipped, read_head, read_tail, read_whole

HEAVY = pytest.mark.skipif(not os.environ.get("NPUPROF_HEAVY"), reason="set NPUPROF_HEAVY=1")
CONTENT = b"".join(b"%d,%d\n" % (number, number * number) for number in range(20_000))


@pytest.fixture(params=[False, True], ids=["plain", "gz"])
def path(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    path = tmp_path / "file.gz"  # the name says nothing
    path.write_bytes(gzip.compress(CONTENT) if request.param else CONTENT)
    return path


@pytest.mark.slow
def test_the_content_is_the_same(path: Path) -> None:
    assert read_head(path, 100) == CONTENT[:100]
    assert read_whole(path, len(CONTENT)) == (CONTENT, "")
    assert is_zipped(path) == (path.read_bytes() != CONTENT)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf_16_reads_like_utf_8(tmp_path: Path, encoding: str, packed: bool) -> None:
    path, text = tmp_path / "file.csv", "Name,Größe\r\né𝄞,1\r\n"
    content = text.encode(encoding)
    path.write_bytes(gzip.compress(content) if packed else content)
    assert not is_plain(path)
    assert read_head(path, 3) == b"Nam"
    assert read_whole(path, 1000) == (text.encode(), "")
    assert read_tail(path, 8) == b",1\r\n"


@pytest.mark.parametrize("content", [b"", b"a", b"a\0b", b"\0\0\0\0\0\0\0\0", b"a\0b\0c\0\1\0", b"Name,Gr\0e\r\n"])
def test_broken_utf_16_stays(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file.csv"
    path.write_bytes(content)
    assert is_plain(path)
    assert read_whole(path, 1000)[0] == read_head(path, 1000) == read_tail(path, 1000) == content


@pytest.mark.slow
def test_a_content_beyond_the_bound_is_refused(path: Path) -> None:
    with pytest.raises(SourceError, match="too large to be such a file"):
        read_whole(path, len(CONTENT) - 1)


@pytest.mark.slow
def test_endless_archive_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(bytes(8 << 20)))
    with pytest.raises(SourceError, match="too large"):
        read_whole(path, 1 << 20)
    assert read_head(path, 10) == bytes(10)


@pytest.mark.slow
def test_an_archive_made_to_fill_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gzip_file, "_STRETCH_BYTES", 1 << 20)
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(bytes(32 << 20)))
    tracemalloc.start()
    with pytest.raises(SourceError, match=r"unpacks to more than .* MiB: no such file shrinks that much"):
        read_whole(path, 1 << 40)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20 << 20


@pytest.mark.slow
def test_content_that_does_not_fit_into_memory_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_limit, "ALWAYS_BYTES", 0)
    for module in (memory_limit, gzip_file):
        monkeypatch.setattr(module, "free_memory", lambda: 1000)
    with pytest.raises(SourceError, match=r"do not fit|does not fit"):
        read_whole(path, 1 << 40)


@pytest.mark.slow
@pytest.mark.parametrize("lost", [1, 100, 5000])
def test_what_a_cut_archive_still_holds_is_read(tmp_path: Path, lost: int) -> None:
    path = tmp_path / "cut.gz"
    path.write_bytes(gzip.compress(CONTENT)[:-lost])
    content, problem = read_whole(path, len(CONTENT))
    assert CONTENT.startswith(content)
    assert len(content) > len(CONTENT) // 2
    assert "the gzip archive is damaged" in problem


@pytest.mark.slow
@pytest.mark.parametrize("size", [100, 1 << 20])
def test_the_last_bytes_are_those_of_the_content(path: Path, size: int) -> None:
    assert read_tail(path, size) == CONTENT[-size:]


@pytest.mark.slow
def test_last_bytes_cross_block_borders(tmp_path: Path) -> None:
    path = tmp_path / "long.gz"
    path.write_bytes(gzip.compress(CONTENT * 10))
    assert read_tail(path, len(CONTENT) * 9) == CONTENT * 9


@pytest.mark.slow
def test_tail_of_cut_archive_is_before_damage(tmp_path: Path) -> None:
    path = tmp_path / "cut.gz"
    path.write_bytes(gzip.compress(CONTENT)[:-5000])
    tail = read_tail(path, 1000)
    assert len(tail) == 1000
    assert tail in CONTENT


_PEAK = """
import resource, sys, tempfile
from npuprof.errors import SourceError
from npuprof.sources.text.csv_table import CsvTable
from npuprof.tables.notes import Notes
from pathlib import Path
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    CsvTable(Path(sys.argv[1]), Notes())
except SourceError as error:
    assert "no such file shrinks that much" in str(error)
else:
    raise AssertionError("it was read")
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""


@pytest.mark.long
@pytest.mark.parametrize("mib", [300, pytest.param(3000, marks=HEAVY)])
@pytest.mark.parametrize("sound_first", [False, True])
def test_memory_bomb_table_takes_a_fraction(tmp_path: Path, mib: int, *, sound_first: bool) -> None:
    path = tmp_path / "kernel_details.csv.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(b"Name,Duration(us)\n")
        if sound_first:  # what does not shrink makes room for what does
            file.write(random.Random(1).randbytes(6 << 20).hex().encode() + b",1\n")
        rows = b"MatMul,12.5\n" * 90_000
        for _ in range(mib):
            file.write(rows)
    ran = subprocess.run([sys.executable, "-c", _PEAK, str(path)], capture_output=True, text=True, check=True)
    assert int(ran.stdout) < 230

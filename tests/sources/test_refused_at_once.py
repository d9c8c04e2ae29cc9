"""What no result can be is refused before time goes into it, with an error that says what to do."""

from __future__ import annotations

import gzip
import io
import os
import signal
import struct
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import npuprof
from npuprof.errors import NpuprofError, SourceError
from tests import pace

_TOO_MANY = 201_000


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The directory of temporary files, which a refusal leaves empty."""
    folder = tmp_path / "place"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    assert not list(folder.iterdir())


def many_in_zip(path: Path, named: int) -> Path:
    """Write a zip of many empty files, whose last record gives another number of them."""
    local = b"PK\x03\x04" + struct.pack("<5H3I2H", 20, 0, 0, 0, 33, 0, 0, 0, 6, 0) + b"000000"
    entry = struct.pack("<6H3I5H2I", 20, 20, 0, 0, 0, 33, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0)
    directory = b"".join(b"PK\x01\x02" + entry + b"%06d" % number for number in range(_TOO_MANY))
    record = struct.pack("<4sQ2H2I4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, named, named, len(directory), len(local))
    locator = struct.pack("<4sIQI", b"PK\x06\x07", 0, len(local) + len(directory), 1)
    few = min(named, 0xFFFF)
    end = struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, few, few, len(directory), len(local), 0)
    path.write_bytes(local + directory + record + locator + end)
    return path


def many_in_tar(path: Path, packed: bool) -> Path:
    header = tarfile.TarInfo("a.csv").tobuf()
    content = header * _TOO_MANY + bytes(2 * tarfile.BLOCKSIZE)
    path.write_bytes(gzip.compress(content, 1) if packed else content)
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    "write",
    [
        pytest.param(lambda path: many_in_zip(path, _TOO_MANY), id="zip"),
        pytest.param(lambda path: many_in_zip(path, 3), id="zip that names three"),
        pytest.param(lambda path: many_in_tar(path, packed=True), id="tar.gz"),
        pytest.param(lambda path: many_in_tar(path, packed=False), id="tar"),
    ],
)
def test_too_many_members_are_refused_at_once(tmp_path: Path, place: Path, write: Callable[[Path], Path]) -> None:
    path = write(tmp_path / "many")
    begin = time.process_time()
    with pytest.raises(SourceError, match="holds more than 200000 files"):
        npuprof.load(path)
    assert time.process_time() - begin < pace.seconds(4)


_EVENT = b'{"ph":"X","name":"a","pid":1,"tid":1,"ts":"1.000","dur":1,"cat":"cpu_op"}'


@pytest.mark.slow
@pytest.mark.parametrize(
    ("head", "filling", "told"),
    [
        (b'{"traceEvents":[', b"{},", "its first 100,000 objects are no events"),
        (b'{"traceEvents":[', b'{"a":[{}]},', "its first 100,000 objects are no events"),
        (b"[" + _EVENT + b",", b'{"ph":"X"},', "no timeline shrinks that much"),
        (b"", _EVENT + b"\n", "no timeline shrinks that much"),
    ],
)
def test_a_megabyte_that_unpacks_to_nothing_is_refused(tmp_path: Path, head: bytes, filling: bytes, told: str) -> None:
    path = tmp_path / "trace_view.json.gz"
    part = gzip.compress(filling * ((16 << 20) // len(filling)))
    with path.open("wb") as file:
        file.write(gzip.compress(head, 1))
        for _ in range(64):
            file.write(part)
    begin = time.process_time()
    with pytest.raises(SourceError, match=told):
        npuprof.load(path).kernels  # noqa: B018 - reads it
    assert time.process_time() - begin < pace.seconds(4)


def test_objects_without_events_end_a_plain_file(tmp_path: Path) -> None:
    path = tmp_path / "trace_view.json"
    path.write_bytes(b"[" + _EVENT + b"," + b"{}," * 4_000_000 + _EVENT + b"]")
    begin = time.process_time()
    notes = npuprof.load(path).notes
    assert notes["message"].str.contains("one after the other are no events; the rest of the file is not read").any()
    assert time.process_time() - begin < pace.seconds(4)


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("", "the path is empty"),
        ("a\0b", "has a NUL character"),
        ("/tmp/\0", "has a NUL character"),
        ("~nobody_of_that_name/run", "home directory of a user who has none"),
        ("/proc", "shows its state, not files"),
        ("/proc/self", "shows its state, not files"),
        ("/proc/self/status", "shows its state, not files"),
        ("/sys", "shows its state, not files"),
        ("/sys/kernel", "shows its state, not files"),
        ("/dev", "shows its state, not files"),
        ("/dev/zero", "is a pipe, socket or device"),
        ("/dev/null", "is a pipe, socket or device"),
        ("a" * 5000, "cannot be read"),
    ],
)
@pytest.mark.parametrize("load", [npuprof.load, npuprof.load_set])
def test_paths_of_no_result_are_refused(load: Callable[[str], object], path: str, told: str) -> None:
    with pytest.raises(NpuprofError, match=told):
        load(path)


def test_a_comparison_refuses_them_too() -> None:
    with pytest.raises(NpuprofError, match="the path is empty"):
        npuprof.compare("", "")


@pytest.mark.parametrize("through", ["pipe", "link"])
def test_a_pipe_is_not_opened(tmp_path: Path, through: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    with pytest.raises(NpuprofError, match="is a pipe, socket or device"):
        npuprof.load(tmp_path / through)


def test_pipes_in_a_folder_are_not_opened(tmp_path: Path) -> None:
    for name in ("trace_view.json", "kernel_details.csv", "npuprof.json", "a.json.gz", "msprof_1.db", "a.zip"):
        os.mkfifo(tmp_path / name)
    with pytest.raises(NpuprofError, match="holds nothing"):
        npuprof.load(tmp_path)


def test_files_in_shared_memory_are_files(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        (Path(folder) / "trace_view.json").write_bytes(b"[" + _EVENT + b"]")
        assert len(npuprof.load(folder).notes) >= 0


_LOADS = """
import sys, npuprof, zipfile, tempfile
tempfile.tempdir = sys.argv[2]
run = npuprof.load_set(sys.argv[1])
print("open", flush=True)
sys.stdin.read()
"""


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_next_load_removes_killed_leftovers(tmp_path: Path, number: signal.Signals) -> None:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        archive.writestr("rank_0/trace_view.json", b"[" + _EVENT + b"]")
        archive.writestr("rank_1/trace_view.json", b"[" + _EVENT + b"]")
    path, place = tmp_path / "run.zip", tmp_path / "place"
    path.write_bytes(held.getvalue())
    place.mkdir()
    loads = [
        subprocess.Popen(
            [sys.executable, "-c", _LOADS, str(path), str(place)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for _ in range(2)
    ]
    killed = loads[0]
    try:
        for child in loads:
            assert child.stdout is not None
            assert child.stdout.readline() == b"open\n"
        assert len(list(place.iterdir())) == 2
        killed.send_signal(number)
        killed.wait()
        for folder in place.iterdir():
            os.utime(folder, (0, 0))
        code = _LOADS.replace("sys.stdin.read()", "")
        subprocess.run([sys.executable, "-c", code, str(path), str(place)], check=True, capture_output=True)
        assert len(list(place.iterdir())) == 1, "of the one that is alive"
    finally:
        for child in loads:
            child.communicate(b"", timeout=pace.seconds(30))
    assert not list(place.iterdir())

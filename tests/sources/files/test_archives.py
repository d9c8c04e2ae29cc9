"""Results in an archive are read as they are outside of one."""

from __future__ import annotations

import gc
import gzip
import os
import stat
import subprocess
import sys
import tempfile
import zipfile
from itertools import count
from pathlib import Path

import pandas as pd
import pytest

import npuprof
from npuprof.errors import SourceError
from npuprof.loading import open_path
from npuprof.ranks.profile_set import ProfileSet
from npuprof.session.offline import offline_analyse
from npuprof.sources.files import archives, members
from npuprof.sources.files.archives import Unpacked, is_archive, unpack
from tests.interrupts import interrupted
from tests.sources.files.packing import (
    RUNS,
    SUFFIXES,
    files_of,
    loose_result,
    member,
    pack,
    patch,
    tar_of,
    torch_result,
    zip_of,
)
from tests.sources.trace.maker import small_trace


@pytest.mark.long
@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("prefix", ["", "PROF_1/", "a/b/rank_3_ascend_pt/"])
@pytest.mark.parametrize("kind", RUNS)
def test_a_run_in_an_archive_has_the_tables_of_the_run(tmp_path: Path, suffix: str, prefix: str, kind: str) -> None:
    folder = RUNS[kind](tmp_path / "PROF_000001_20260821120000000_ABCDEFGHIJKLMNOP")
    archive = pack(folder, tmp_path / f"sent{suffix}", prefix)
    before = archive.read_bytes()
    plain, packed = npuprof.load(folder), npuprof.load(archive)
    assert any(map(len, plain.tables.values()))
    for name, frame in plain.tables.items():
        pd.testing.assert_frame_equal(packed.tables[name], frame)
    assert packed.info.recording == archive
    assert packed.info.source == plain.info.source
    # A folder that is called as torch_npu's results are is expected to have their description.
    described = ~packed.notes["message"].str.startswith("profiler_info*.json is missing")
    assert packed.notes["message"][described].tolist() == plain.notes["message"].tolist()
    assert archive.read_bytes() == before
    assert tempfile.gettempdir() not in f"{packed!r}{packed.info}{packed.notes.to_string()}"


@pytest.mark.slow
def test_of_one_run_the_folder_is_gone_when_it_is_loaded(tmp_path: Path, place: Path) -> None:
    archive = pack(torch_result(tmp_path / "run"), tmp_path / "run.zip")
    run = npuprof.load(archive)
    gc.collect()
    assert not list(place.iterdir())
    assert len(run.tasks)


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
def test_runs_of_a_set_are_read_when_they_are_asked_for(tmp_path: Path, place: Path, processes: int) -> None:
    for rank in range(3):
        torch_result(tmp_path / "job" / f"rank{rank}_ascend_pt", rank)
    (tmp_path / "job/rank2_ascend_pt/ASCEND_PROFILER_OUTPUT/trace_view.json").write_bytes(b"[")
    archive = pack(tmp_path / "job", tmp_path / "job.tgz", "job/")
    runs = open_path(archive)
    assert isinstance(runs, ProfileSet)
    (folder,) = place.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert all(not file.stat().st_mode & 0o077 for file in folder.rglob("*"))
    assert runs.info["path"].tolist() == [f"job/rank{rank}_ascend_pt" for rank in range(3)]
    assert len(runs.read(processes).failed) == 1
    assert runs[0].info.recording == archive
    assert len(runs[1].tasks)
    shown = str(runs) + str(runs._repr_html_()) + runs.notes.to_string() + "".join(runs.failed.values())
    assert str(place) not in shown
    assert str(archive) in shown
    del runs, folder


@pytest.mark.slow
def test_an_archive_is_known_by_its_content(tmp_path: Path) -> None:
    packed = pack(torch_result(tmp_path / "run"), tmp_path / "run.tar.gz").rename(tmp_path / "download")
    assert is_archive(packed)
    assert len(npuprof.load(packed).tasks)
    trace = small_trace().write(tmp_path / "trace_view.json")
    assert not is_archive(trace)
    compressed = tmp_path / "trace_view.json.gz"
    compressed.write_bytes(gzip.compress(trace.read_bytes()))
    assert not is_archive(compressed)
    assert not is_archive(tmp_path)
    assert not is_archive(tmp_path / "absent")
    assert len(npuprof.load(compressed).tasks)


@pytest.mark.slow
def test_an_archive_without_a_result_says_so(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"holiday\.zip holds nothing that npuprof can read"):
        npuprof.load(zip_of(tmp_path / "holiday.zip", {"a.txt": b"sun", "b.txt": b"sea"}))


@pytest.mark.slow
def test_foreign_file_names_are_read(tmp_path: Path) -> None:
    """Windows' own packer wrote backslashes and folders that end in one; macOS adds files of its own."""
    run = torch_result(tmp_path / "run")
    path, packed = tmp_path / "a.zip", tmp_path / "a.tgz"
    trace = (run / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").read_bytes()
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("run\\", b"")
        archive.writestr("run\\ASCEND_PROFILER_OUTPUT\\", b"")
        archive.writestr("run\\ASCEND_PROFILER_OUTPUT\\trace_view.json", trace)
        archive.writestr("__MACOSX/run/ASCEND_PROFILER_OUTPUT/._trace_view.json", b"\0\5\x16\7")
        archive.writestr("run\\.DS_Store", b"1")
    tar_of(
        packed,
        member("./._r\udcffn", b"\0\5\x16\7"),
        member("./r\udcffn/ASCEND_PROFILER_OUTPUT/._trace_view.json", b"\0\5\x16\7"),
        member("./r\udcffn/ASCEND_PROFILER_OUTPUT/trace_view.json", trace),
    )
    plain = npuprof.load(run)
    for one in (path, packed):
        assert len(files_of(unpack(one))) == 1
        read = npuprof.load(one)
        pd.testing.assert_frame_equal(read.kernels, plain.kernels)
        assert not read.notes["message"].str.contains("archive").any()


@pytest.mark.slow
def test_encrypted_files_are_reported(tmp_path: Path) -> None:
    path = zip_of(tmp_path / "a.zip", {"a.txt": b"1", "b.txt": b"2"})
    patch(path, 6, 8, 1)
    with pytest.raises(SourceError, match="holds no file that can be read: an encrypted file: unpack the archive with"):
        npuprof.load(path)


@pytest.mark.slow
def test_a_compression_that_is_not_read_is_reported(tmp_path: Path) -> None:
    """As of large files that Windows packs (deflate64), or one whose dictionary may fill the memory."""
    path = zip_of(tmp_path / "a.zip", {"a.txt": b"1", "b.txt": b"2"})
    patch(path, 8, 10, 9 ^ zipfile.ZIP_DEFLATED)
    with pytest.raises(SourceError, match="compressed by another method than deflate"):
        npuprof.load(path)


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".zip", ".tar", ".tgz"])
def test_cut_archive_gives_its_whole_files(tmp_path: Path, suffix: str) -> None:
    folder = torch_result(tmp_path / "run")
    (folder / "ASCEND_PROFILER_OUTPUT" / "zz.csv").write_bytes(os.urandom(50_000))
    path = pack(folder, tmp_path / f"cut{suffix}")
    path.write_bytes(path.read_bytes()[:-40_000])
    if suffix == ".zip":
        with pytest.raises(SourceError, match=r"is a damaged archive \(the list of its files is missing: it was cut"):
            npuprof.load(path)
    else:
        run = npuprof.load(path)
        assert len(run.tasks)
        told = run.notes[run.notes["message"].str.contains("all that follows the damage of the archive")]
        assert told["severity"].tolist() == ["warning"]


@pytest.mark.slow
@pytest.mark.parametrize("head", [b"7z\xbc\xaf\x27\x1c\0\4", b"Rar!\x1a\x07\1\0", b"\xfd7zXZ\0\0\4", b"BZh91AY&SY"])
def test_other_archives_are_refused_with_what_to_do(tmp_path: Path, head: bytes) -> None:
    path = tmp_path / "run.other"
    path.write_bytes(head + bytes(100))
    with pytest.raises(SourceError, match=r"is compressed as \w+, which npuprof does not open: unpack it"):
        npuprof.load(path)


@pytest.mark.slow
def test_archives_in_a_directory_are_reported(tmp_path: Path) -> None:
    for rank in range(3):
        torch_result(tmp_path / "job" / f"rank{rank}_ascend_pt", rank)
        pack(tmp_path / f"job/rank{rank}_ascend_pt", tmp_path / f"job/rank{rank}_ascend_pt.zip")
    assert not open_path(tmp_path / "job").notes["message"].str.contains("archives").any()
    (tmp_path / "job/rank2_ascend_pt").rename(tmp_path / "elsewhere")
    runs = open_path(tmp_path / "job")
    told = rf"not opened \({tmp_path}/job/rank2_ascend_pt\.zip\): load each by itself"
    assert runs.notes["message"].str.contains(told).sum() == 1
    (tmp_path / "job/rank1_ascend_pt").rename(tmp_path / "elsewhere1")
    assert npuprof.load(tmp_path / "job").notes["message"].str.contains(r"not opened \(.*rank1.*rank2").sum() == 1
    (tmp_path / "job/rank0_ascend_pt").rename(tmp_path / "elsewhere0")
    with pytest.raises(SourceError, match="archives that lie in a directory are not opened"):
        npuprof.load(tmp_path / "job")
    with pytest.raises(SourceError, match=r"job\.zip holds nothing.*; archives that lie in a directory are not opened"):
        npuprof.load(pack(tmp_path / "job", tmp_path / "job.zip"))
    (tmp_path / "elsewhere").rename(tmp_path / "job/rank2_found_again")
    message = npuprof.load(pack(tmp_path / "job", tmp_path / "job.zip")).notes["message"]
    assert message.str.contains(rf"not opened \({tmp_path}/job\.zip/rank0_ascend_pt\.zip").sum() == 1
    loose = loose_result(tmp_path / "loose")
    pack(loose, loose / "other.tgz")
    assert npuprof.load(loose).notes["message"].str.contains("not opened").any()


@pytest.mark.slow
@pytest.mark.parametrize("fault", [SourceError, KeyboardInterrupt, ValueError])
def test_failed_load_leaves_nothing(
    tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch, fault: type[BaseException]
) -> None:
    archive = pack(torch_result(tmp_path / "run"), tmp_path / "run.zip")

    def fail(*_: object, lazily: bool) -> None:
        assert lazily
        raise fault("no")

    monkeypatch.setattr("npuprof.loading.decode_run", fail)
    with pytest.raises(fault) as held:
        npuprof.load(archive)
    assert held.traceback
    assert not list(place.iterdir())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a file that the system closes
def test_an_interrupt_at_any_line_leaves_nothing(tmp_path: Path, place: Path, request: pytest.FixtureRequest) -> None:
    archive = zip_of(tmp_path / "a.zip", {"a/b": b"1"})
    kept: list[Unpacked] = []
    gc.collect()
    gc.freeze()  # each collection then looks at what is new alone
    request.addfinalizer(gc.unfreeze)
    for line in count():
        came = interrupted(lambda: kept.append(unpack(archive)), {archives.__name__, members.__name__}, line)
        kept.clear()
        gc.collect()
        assert not list(place.iterdir()), line
        if not came:
            break
    assert line > 50


@pytest.mark.long
def test_a_set_is_removed_at_the_end_of_the_process(tmp_path: Path, place: Path) -> None:
    for rank in range(2):
        torch_result(tmp_path / "job" / f"rank{rank}_ascend_pt", rank)
    archive = pack(tmp_path / "job", tmp_path / "job.zip")
    code = "import sys, npuprof, os; runs = npuprof.load(sys.argv[1]); print(os.listdir(os.environ['TMPDIR']))"
    shown = subprocess.run(
        [sys.executable, "-c", code, str(archive)],
        env={**os.environ, "TMPDIR": str(place)},
        capture_output=True,
        check=True,
    )
    assert b"npuprof-" in shown.stdout


@pytest.mark.long
def test_tables_are_not_saved_beside_an_archive(tmp_path: Path) -> None:
    archive = pack(torch_result(tmp_path / "run"), tmp_path / "run.zip")
    with pytest.raises(SourceError, match="unpack it, and analyse that"):
        offline_analyse(archive)

"""Which source takes a path, and what is said when none does."""

from __future__ import annotations

import os
import re
import socket
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

import npuprof
from npuprof.errors import SourceError
from npuprof.ranks.profile_set import ProfileSet
from npuprof.simulator import synthesise
from npuprof.sources import detect
from npuprof.sources.files.walk import walk


def _make(path: Path, kind: str) -> Path:
    if kind == "empty directory":
        path.mkdir()
    elif kind == "empty file":
        path.write_bytes(b"")
    elif kind == "pointer":
        path.write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 870000000\n")
    elif kind == "text":
        path.write_text("hello")
    elif kind == "page":
        path = path.with_suffix(".HTML")
        path.write_text("<!DOCTYPE html><title>npuprof</title>")
    elif kind == "other directory":
        (path / "PROF_000001_20260101_EMPTY").mkdir(parents=True)
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("missing", "does not exist: check the path"),
        ("empty directory", "is an empty directory"),
        ("empty file", "is empty: the tool that wrote it was stopped"),
        ("pointer", "git lfs pull"),
        ("text", "holds nothing that npuprof can read"),
        ("page", "is a web page: open it in a browser, or give the result that it was made of"),
        ("other directory", "holds nothing that npuprof can read"),
    ],
)
def test_unreadable_path_says_why(tmp_path: Path, kind: str, told: str) -> None:
    with pytest.raises(SourceError, match=told):
        npuprof.load(_make(tmp_path / "given", kind))


@pytest.mark.parametrize("name", ["op_summary_1.csv", "kernel_details (1).csv"])
def test_renamed_files_list_readable_ones(tmp_path: Path, name: str) -> None:
    text = "Op Name,Task Type,Task Start Time(us),Task Duration(us)\nAdd,AI_CORE,1000,500\n"
    (tmp_path / name).write_text(text)
    (tmp_path / "holiday.csv").write_text("day,place\n1,sea\n")
    with pytest.raises(SourceError, match=re.escape(f"one at a time: give {name}") + "$"):
        npuprof.load(tmp_path)
    assert len(npuprof.load(tmp_path / name).kernels) == 1


def test_folders_of_copied_files_are_ranks_where_nothing_else_is_there(tmp_path: Path) -> None:
    header = "Step Id,Device_id,Name,Type,Accelerator Core,Start Time(us),Duration(us),Wait Time(us),Block Dim\n"
    for rank in range(2):
        folder = tmp_path / "job" / f"rank_{rank}"
        folder.mkdir(parents=True)
        (folder / "kernel_details.csv").write_text(f"{header}1,{rank},Add,Add,AI_CORE,1735689600000000.5,20.25,0,8\n")
    runs = npuprof.load(tmp_path)
    assert isinstance(runs, ProfileSet)
    assert runs.ranks == [0, 1]
    assert [len(run.kernels) for run in runs] == [1, 1]
    synthesise(tmp_path / "raw", launches=3)  # beside a whole result they are taken for copies of it
    assert len(npuprof.load(tmp_path).kernels) == 3


@pytest.mark.parametrize("kind", ["pipe", "socket", "device"])
def test_special_file_is_refused_at_once(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "given"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        monkeypatch.chdir(path.parent)
        with closing(socket.socket(socket.AF_UNIX)) as listener:
            listener.bind(path.name)  # whole paths of sockets may have 107 bytes only
    else:
        path = Path("/dev/zero")
    with pytest.raises(SourceError, match="is a pipe, socket or device, not a file: save its content"):
        npuprof.load(path)


@pytest.mark.parametrize(
    "piece", ["host", "device_0", "device_0/data", "host/info.json", "host/data/unaging.additional.hash_dic.slice_0"]
)
def test_raw_piece_names_its_whole(tmp_path: Path, piece: str) -> None:
    path = synthesise(tmp_path, launches=3)
    with pytest.raises(SourceError, match=f"it is a part of {re.escape(str(path))}, which can be read: give that"):
        npuprof.load(path / piece)


def test_files_left_out_by_the_walk_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synthesise(tmp_path / "a", launches=3)
    for number in range(9):
        (tmp_path / f"b{number}" / "c").mkdir(parents=True)
    monkeypatch.setattr(detect, "walk", partial(walk, max_directories=12))
    told = npuprof.load(tmp_path).notes
    assert told["message"].str.contains("there may be more runs: stopped after 12 directories").sum() == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_path_without_permission_says_so(tmp_path: Path) -> None:
    secret = tmp_path / "secret.json"
    secret.write_text("[]")
    secret.chmod(0)
    with pytest.raises(SourceError, match="check its permissions"):
        npuprof.load(secret)


def test_a_directory_around_one_run_is_that_run(samples: Path) -> None:
    around = samples / "raw" / "minimal"
    run = npuprof.load(around)
    assert len(run.kernels) == 3
    assert run.info.recording == next(around.glob("PROF_*"))


@pytest.mark.slow
def test_recording_without_its_own_file_is_read(tmp_path: Path) -> None:
    synthesise(tmp_path / "run", launches=3)
    assert not npuprof.load(tmp_path / "run").notes["message"].str.contains("recording.json").any()
    (tmp_path / "run" / "python_stacks.parquet").write_bytes(b"")
    for place in (tmp_path / "run", tmp_path):
        run = npuprof.load(place)
        told = run.notes[run.notes["message"].str.contains("is a recording whose recording.json is gone")]
        assert told["severity"].tolist() == ["warning"]
        assert len(run.kernels) == 3

"""A directory around several runs is a set of them, each read when it is asked for."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

import npuprof
from npuprof.errors import NpuprofError, OptionsError, SourceError
from npuprof.notes import Notes
from npuprof.profile_set import ProfileSet
from npuprof.profiles import Profile, open_path
from npuprof.recording import Recording
from npuprof.sources.base import Decoded
from tests import factories
from tests.sources.msprof.results import result
from tests.sources.trace_maker import small_trace


def _torch(root: Path, rank: int, ended_ns: int = 1_763_600_000_000_000_000, world: int = 4) -> Path:
    output = root / "ASCEND_PROFILER_OUTPUT"
    output.mkdir(parents=True)
    small_trace().write(output / "trace_view.json")
    told = {
        "rank_id": rank,
        "start_info": {"start_monotonic": 1},
        "end_info": {"collectionTimeEnd": ended_ns, "MonotonicTimeEnd": 1001},
    }
    (root / f"profiler_info_{rank}.json").write_text(json.dumps(told))
    metadata = {"distributed_args": {"rank": rank, "world_size": world}}
    (root / "profiler_metadata.json").write_text(json.dumps(metadata))
    return root


def _open(path: Path) -> ProfileSet:
    opened = open_path(path)
    assert isinstance(opened, ProfileSet)
    return opened


@pytest.fixture
def four(tmp_path: Path) -> Path:
    """Ranks 0 and 1 (which ran twice), a damaged rank 3, a run of msprof without a rank; rank 2 is absent."""
    _torch(tmp_path / "b_ascend_pt", 1)
    _torch(tmp_path / "deeper" / "z_ascend_pt", 0)
    _torch(tmp_path / "a_ascend_pt", 1, ended_ns=1_763_600_009_000_000_000)
    (_torch(tmp_path / "c_ascend_pt", 3) / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").write_bytes(b"")
    result(tmp_path / "PROF_1")
    return tmp_path


def test_info_lists_a_row_for_each_rank_and_session(four: Path) -> None:
    info = _open(four).info
    assert info["rank"].tolist() == [0, 1, 1, 3, pd.NA]
    assert info["path"].tolist() == ["deeper/z_ascend_pt", "b_ascend_pt", "a_ascend_pt", "c_ascend_pt", "PROF_1"]
    assert info["front_end"].tolist() == ["torch_npu"] * 4 + ["msprof"]
    assert info["state"].tolist() == ["found"] * 5
    assert info["started"].iloc[0] == pd.Timestamp(1_763_600_000_000_000_000 - 1000, tz="UTC")


def test_a_rank_is_read_when_it_is_asked_for_and_once(four: Path) -> None:
    runs = _open(four)
    assert runs[0] is runs[0]
    assert len(runs[0].tasks) == 3
    assert runs.info["state"].tolist() == ["loaded", "found", "found", "found", "found"]
    assert runs[1].info.recording == four / "a_ascend_pt"  # its newest session
    assert runs.at(4).kernels["name"].tolist() == ["MatMul_0"]
    assert 1 in runs
    with pytest.raises(KeyError, match="rank 2 has no run"):
        runs[2]


def test_ranks_that_failed_or_are_absent_are_told(four: Path) -> None:
    runs = _open(four)
    assert runs.absent == [2]
    with pytest.raises(SourceError, match="is empty"):
        runs[3]
    assert list(runs.failed) == [3]
    assert runs.info["state"].tolist()[3] == "failed"
    assert len(list(runs)) == 4
    assert set(runs.notes["source"]) == {"rank 2", "rank 3"}


def test_a_table_of_all_ranks_says_whose_row_it_is(four: Path) -> None:
    runs = _open(four)
    tasks = runs.table("tasks")
    assert tasks.groupby("rank", dropna=False).size().tolist() == [3, 6, 1]
    assert sorted(set(tasks["run"])) == [0, 1, 2, 4]
    assert not len(runs.table("allocations"))
    assert {"rank", "run"} <= set(runs.table("allocations"))
    with pytest.raises(NpuprofError, match="the tables are steps"):
        runs.table("nothing")


def test_shown_it_lists_its_runs_without_reading_them(four: Path) -> None:
    (four / "deeper").rename(four / "<b>deeper")
    runs = _open(four)
    assert "5 runs below" in repr(runs)
    assert "absent ranks: [2]" in repr(runs)
    assert "&lt;b&gt;deeper" in runs._repr_html_()
    assert "<b>deeper" not in runs._repr_html_()
    assert set(runs.info["state"]) == {"found"}


def test_every_kind_of_run_can_be_in_a_set(tmp_path: Path) -> None:
    Profile(Decoded(factories.profile(5), factories.info(), Notes())).save(tmp_path / "saved")
    (tmp_path / "live_rank_7").mkdir()
    Recording(tmp_path / "live_rank_7", "mine", "acl", False, started_ns=5).write()
    (tmp_path / "raw" / "host").mkdir(parents=True)
    (tmp_path / "raw" / "host" / "info.json").write_text('{"rank_id": 2}')
    unparsed = _torch(tmp_path / "unparsed_ascend_pt", 5, world=1)
    (unparsed / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").unlink()
    (unparsed / "ASCEND_PROFILER_OUTPUT").rmdir()
    (unparsed / "FRAMEWORK").mkdir()
    (unparsed / "FRAMEWORK" / "torch.op_range").write_bytes(b"x")
    info = _open(tmp_path).info.set_index("path")
    told = info.loc["unparsed_ascend_pt", ["rank", "front_end", "source"]].tolist()
    assert told == [5, "torch_npu", "torch_npu raw files"]
    assert info.loc["live_rank_7", ["rank", "front_end", "source"]].tolist() == [7, "acl", "recording"]
    assert info.loc["raw", ["rank", "source"]].tolist() == [2, "raw"]
    assert "saved" in info.index


def test_one_run_below_is_that_run_and_the_choice_is_checked(tmp_path: Path) -> None:
    result(tmp_path / "deep" / "PROF_1")
    assert isinstance(open_path(tmp_path), Profile)
    with pytest.raises(OptionsError, match="must be 'raw', 'parsed' or None"):
        npuprof.load(tmp_path, source="both")  # type: ignore[arg-type]  # what a user may write
    with pytest.raises(SourceError, match="holds no raw data"):
        npuprof.load(tmp_path, source="raw")


def test_a_damaged_description_does_not_hide_the_others(tmp_path: Path) -> None:
    _torch(tmp_path / "a_ascend_pt", 0, world=1)
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "profile.json").write_text("{")
    runs = _open(tmp_path)
    assert runs.info["state"].tolist() == ["found", "failed"]
    assert "saved" in runs.failed

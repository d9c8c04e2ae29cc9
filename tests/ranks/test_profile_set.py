"""A directory around several runs is a set of them, each read when it is asked for."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import npuprof
from npuprof import tables
from npuprof.errors import NpuprofError, OptionsError, SourceError
from npuprof.loading import open_path
from npuprof.profiles.profile import Profile
from npuprof.ranks import entries, processes
from npuprof.ranks.profile_set import ProfileSet
from npuprof.recordings.recording import Recording
from npuprof.sources.base import Decoded
from npuprof.sources.columns.decimals import US_TO_NS, scaled_one
from npuprof.sources.decoding import decode_run
from npuprof.sources.detect import DetectedResult
from npuprof.sources.selection import Selection
from npuprof.sources.text.vendor_sums import DURATIONS
from npuprof.tables.notes import Notes
from tests import factories
from tests.sources.cluster import maker
from tests.sources.msprof.results import result
from tests.sources.trace.maker import TraceMaker, small_trace


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


def _told_of_sessions(runs: ProfileSet) -> list[tuple[str, str, int]]:
    notes = runs.notes[runs.notes["message"].str.contains("runs")]
    told = notes.loc[~notes["message"].str.contains("there is no run"), ["severity", "message", "count"]]
    return [
        (severity, message.split(";")[0].split(":")[-1].strip(), count) for severity, message, count in told.to_numpy()
    ]


@pytest.mark.slow
def test_ranks_with_several_runs_are_reported(tmp_path: Path) -> None:
    for rank in (0, 1):
        _torch(tmp_path / f"{rank}_first_ascend_pt", rank, world=2)
    assert _told_of_sessions(_open(tmp_path)) == []
    _torch(tmp_path / "0_second_ascend_pt", 0, 1_763_600_009_000_000_000, 2)
    assert _told_of_sessions(_open(tmp_path)) == [("warning", "1 of rank 1", 1)]
    _torch(tmp_path / "1_second_ascend_pt", 1, 1_763_600_009_000_000_000, 2)
    assert [(severity, count) for severity, _, count in _told_of_sessions(_open(tmp_path))] == [("info", 2)]
    _torch(tmp_path / "copies" / "1_second_ascend_pt", 1, 1_763_600_009_000_000_000, 2)
    (_, copies) = _told_of_sessions(_open(tmp_path))
    assert copies == ("warning", "they are copies of one, which the set counts again", 2)


def test_info_lists_a_row_for_each_rank_and_session(four: Path) -> None:
    info = _open(four).info
    assert info["rank"].tolist() == [0, 1, 1, 3, pd.NA]
    assert info["path"].tolist() == ["deeper/z_ascend_pt", "b_ascend_pt", "a_ascend_pt", "c_ascend_pt", "PROF_1"]
    assert info["front_end"].tolist() == ["torch_npu"] * 4 + ["msprof"]
    assert info["state"].tolist() == ["found"] * 5
    assert info["started"].iloc[0] == pd.Timestamp(1_763_600_000_000_000_000 - 1000, tz="UTC")


@pytest.mark.slow
def test_a_rank_is_read_when_it_is_asked_for_and_once(four: Path) -> None:
    runs = _open(four)
    assert runs[0] is runs[0]
    assert len(runs[0].tasks) == 3
    assert runs.info["state"].tolist() == ["loaded", "found", "found", "found", "found"]
    assert runs[1].info.recording == four / "a_ascend_pt"  # its newest session
    assert runs.at(4).kernels["name"].tolist() == ["MatMul_0"]
    assert 1 in runs
    with pytest.raises(KeyError, match="rank 2 has no run") as refused:
        runs[2]
    assert str(refused.value) == "rank 2 has no run here: the ranks are 0, 1, 3"


@pytest.mark.slow
def test_ranks_that_failed_or_are_absent_are_reported(four: Path) -> None:
    runs = _open(four)
    assert runs.absent == [2]
    with pytest.raises(SourceError, match="is empty"):
        runs[3]
    assert list(runs.failed) == [3]
    assert runs.info["state"].tolist()[3] == "failed"
    assert len(list(runs)) == 4
    assert set(runs.notes["source"]) == {"rank 2", "rank 3", "ranks"}


@pytest.mark.slow
def test_a_table_of_all_ranks_says_whose_row_it_is(four: Path) -> None:
    runs = _open(four)
    tasks = runs.table("tasks")
    assert tasks.groupby("rank", dropna=False).size().tolist() == [3, 6, 1]
    assert sorted(set(tasks["run"])) == [0, 1, 2, 4]
    assert not len(runs.table("allocations"))
    assert {"rank", "run"} <= set(runs.table("allocations"))
    with pytest.raises(NpuprofError, match="the tables are steps"):
        runs.table("nothing")


@pytest.mark.slow
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


def test_tables_of_all_ranks_are_there_by_name_too(tmp_path: Path) -> None:
    for rank in range(2):
        Profile(Decoded(factories.profile(6), factories.info(rank=rank))).save(tmp_path / f"rank{rank}")
    runs = npuprof.load_set(tmp_path)
    assert list(runs.tables) == list(tables.NAMES)
    pd.testing.assert_frame_equal(runs.tables["kernels"], runs.table("kernels"))
    assert runs.tables["kernels"]["rank"].tolist() == [0] * 6 + [1] * 6
    with pytest.raises(KeyError):
        runs.tables["kernel"]
    assert "\n" not in repr(runs.tables)


@pytest.mark.slow
def test_one_run_below_is_that_run_and_the_choice_is_checked(tmp_path: Path) -> None:
    result(tmp_path / "deep" / "PROF_1")
    assert isinstance(open_path(tmp_path), Profile)
    with pytest.raises(OptionsError, match=r"source of load\(\) must be one of text, db, raw, parsed or None"):
        npuprof.load(tmp_path, source="both")  # type: ignore[call-overload]  # what a user may write
    with pytest.raises(SourceError, match="holds no raw data"):
        npuprof.load(tmp_path, source="raw")


def test_a_damaged_description_does_not_hide_the_others(tmp_path: Path) -> None:
    _torch(tmp_path / "a_ascend_pt", 0, world=1)
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "profile.json").write_text("{")
    runs = _open(tmp_path)
    assert runs.info["state"].tolist() == ["found", "failed"]
    assert "saved" in runs.failed


def test_a_rank_whose_description_is_damaged_is_no_absent_one(tmp_path: Path) -> None:
    _torch(tmp_path / "rank_0", 0, world=2)
    (tmp_path / "rank_1").mkdir()
    (tmp_path / "rank_1" / "recording.json").write_text("{")
    runs = _open(tmp_path)
    assert (runs.ranks, runs.absent, list(runs.failed)) == ([0, 1], [], [1])
    assert runs.notes["source"].tolist() == ["rank 1"]
    with pytest.raises(SourceError, match=r"recording\.json cannot be read"):
        runs[1]


@pytest.mark.slow
def test_reading_all_of_them_here_or_apart_gives_the_same(four: Path) -> None:
    here, apart = _open(four).read(processes=1), _open(four).read(processes=2)
    assert here.info.astype(str).equals(apart.info.astype(str))
    assert here.info["state"].tolist() == ["loaded", "loaded", "loaded", "failed", "loaded"]
    assert here.failed == apart.failed
    for row in (0, 1, 2, 4):
        for name, frame in here.at(row).tables.items():
            pd.testing.assert_frame_equal(apart.at(row).tables[name], frame)
        assert apart.at(row).info == here.at(row).info
        assert apart.at(row).notes.equals(here.at(row).notes)
    assert apart.at(0) is apart[0]


@pytest.mark.slow
def test_where_no_process_can_be_started_it_reads_here(four: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "")
    assert _open(four).read(processes=4).info["state"].tolist() == ["loaded"] * 3 + ["failed", "loaded"]


@pytest.mark.slow
def test_little_is_read_here(four: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "Processes", None)
    assert len(_open(four).table("tasks")) == 10


@pytest.mark.slow
def test_a_fault_in_reading_one_run_does_not_lose_the_others(four: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def decode(run: DetectedResult, selection: Selection | None = None) -> Decoded:
        if "z_ascend" in run.path.name:
            raise ZeroDivisionError("an oversight")
        return decode_run(run, selection)

    monkeypatch.setattr(entries, "decode_run", decode)
    runs = _open(four)
    assert len(list(runs)) == 3
    assert "ZeroDivisionError: an oversight" in runs.failed[0]
    assert "load it by itself" in runs.notes["message"].tolist()[1]


@pytest.mark.slow
def test_failed_run_is_not_retried_together(four: Path) -> None:
    runs = _open(four).read()
    small_trace().write(four / "c_ascend_pt" / "ASCEND_PROFILER_OUTPUT" / "trace_view.json")
    assert list(runs.read().failed) == [3]
    assert len(runs[3].tasks) == 3
    assert not runs.failed


@pytest.mark.slow
def test_ranks_and_the_analysis_of_all_of_them_are_both_shown(tmp_path: Path) -> None:
    folder = tmp_path / "rank_64"
    for rank in (0, 1):
        _torch(folder / f"r{rank}_ascend_pt", rank, world=2)
    maker.text_result(folder / "cluster_analysis_output")
    maker.database(folder / "cluster_analysis_output" / "cluster_analysis.db")
    runs = _open(folder)
    assert runs.info["source"].tolist()[-1] == "cluster analysis"
    assert runs.info["rank"].tolist() == [0, 1, pd.NA]
    assert runs.ranks == [0, 1]
    assert runs.absent == [2, 3, 4]  # the database tells of five
    assert runs.info["host"].tolist()[:2] == ["alpha", "alpha"]
    assert runs.cluster is not None
    assert len(runs.cluster.step_times) == 6
    assert not len(runs.table("step_times"))
    tasks = runs.table("tasks")
    assert tasks["host"].unique().tolist() == ["alpha"]
    assert sorted(set(tasks["run"])) == [0, 1]
    assert len(runs.clocks()) == 2
    assert len(list(runs)) == 3


def test_an_analysis_copied_beside_the_ranks_hides_none(tmp_path: Path) -> None:
    _torch(tmp_path / "r0_ascend_pt", 0, world=1)
    maker.text_result(tmp_path)
    runs = _open(tmp_path)
    assert runs.ranks == [0]
    assert runs.cluster is not None
    assert runs.absent == [1, 2, 3]


def test_a_set_without_an_analysis_has_none(four: Path) -> None:
    assert _open(four).cluster is None


@pytest.mark.slow
def test_runs_of_two_hosts_can_be_set_to_one_clock(tmp_path: Path) -> None:
    ahead = 5_000_000
    for rank, host in ((0, "alpha"), (1, "beta")):
        own = factories.all_tables(**factories.profile(60))
        for name in ("communication", "kernels"):
            own[name] = own[name].assign(start_ns=own[name]["start_ns"] + rank * ahead)
        operators = own["communication"]
        own["communication"] = operators.assign(
            name=pd.Categorical([f"hcom_allReduce__152_{number}_1" for number in range(len(operators))])
        )
        assert len(operators) >= 5
        Profile(Decoded(own, factories.info(rank=rank, environment={"host": host}), Notes())).save(tmp_path / host)
    runs = _open(tmp_path)
    clocks = runs.clocks()
    assert clocks["basis"].tolist() == ["estimate", "estimate"]
    assert clocks["offset_ns"].tolist() == [0, ahead]
    assert "of 2 hosts" in runs.notes["message"].iloc[0]
    recorded, aligned = runs.table("kernels"), runs.table("kernels", align=True)
    first = aligned[aligned["run"] == 0]["start_ns"].tolist()
    assert aligned[aligned["run"] == 1]["start_ns"].tolist() == first
    assert recorded[recorded["run"] == 1]["start_ns"].tolist() == [start + ahead for start in first]


@pytest.mark.slow
def test_very_many_absent_ranks_are_reported_in_a_few_words(tmp_path: Path) -> None:
    for rank in (0, 2):
        _torch(tmp_path / f"r{rank}_ascend_pt", rank, world=100_000)
    runs = _open(tmp_path)
    assert len(runs.absent) == 99_998
    assert "Ranks 1 and 3-99999 are not here" in str(runs)
    assert len(runs.notes) < 100
    assert "42-99999" in runs.notes["message"].iloc[-1]


@pytest.mark.slow
@pytest.mark.parametrize("form", ["text", "db"])
def test_ranks_that_only_transfers_name_are_absent_too(samples: Path, form: str) -> None:
    runs = _open(samples / "torch_npu" / form / "level1")
    assert (runs.ranks, runs.absent) == ([0, 1], [2, 3, 4, 5, 6, 7])
    tasks = runs.table("communication_tasks")
    told = tasks[tasks["dst_rank"].notna()]
    assert told["dst_global_rank"].eq(told["dst_rank"]).all()
    assert runs.absent == [2, 3, 4, 5, 6, 7]


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
def test_ranks_of_a_real_model(samples: Path, processes: int) -> None:
    folder = "torch_npu/llm_pp2dp2"
    truth = json.loads((samples / "TRUTH.json").read_bytes())
    runs = _open(samples / folder).read(processes)
    assert (runs.ranks, runs.absent, runs.failed) == ([0, 1], [2, 3], {})
    steps = runs.table("step_times")
    assert steps["rank"].tolist() == [0, 1]
    for row in steps.to_dict("records"):
        of_rank = f"{folder}/rank_{row['rank']}_ascend_pt/ASCEND_PROFILER_OUTPUT"
        (known,) = truth[f"{of_rank}/step_trace_time.csv"]
        assert (str(row["step"]), str(row["device_id"])) == (known["Step"], known["Device_id"])
        for ours, theirs in DURATIONS.items():
            assert row[ours] == scaled_one(repr(known[theirs]), US_TO_NS), theirs
        told = truth[f"{of_rank}/communication.json"]
        times = runs[int(row["rank"])].statistics["communication"]
        assert len(times) == sum(kind["ops"] for kind in told.values()) == 15
        for key, kind in told.items():
            own = times[times["kind"] == key.partition("/")[2]]
            assert (own["group"].nunique(), len(own)) == (kind["groups"], kind["ops"])
            assert sorted(own["name"] + "@" + own["group"])[:3] == kind["names"]
            for name in ("Elapse Time(ms)", "Idle Time(ms)", "Transit Time(ms)", "Wait Time(ms)"):
                assert own[name].sum() == pytest.approx(kind["total"][name], abs=1e-9)
        matrix = runs[int(row["rank"])].statistics["communication_matrix"]
        for key, kind in truth[f"{of_rank}/communication_matrix.json"].items():
            own = matrix[matrix["kind"] == key.partition("/")[2]]
            assert len(own.groupby(["name", "group"])) == kind["keys"]
    assert runs.table("kernels")["rank"].unique().tolist() == [0]
    assert runs.clocks()["clock"].tolist() == [0, 0]


@pytest.mark.slow
def test_tables_of_unlike_results_are_stacked(samples: Path) -> None:
    runs = _open(samples / "torch_npu")
    versions = {run.info.versions.get("cann") for run in runs}
    for name in tables.NAMES:
        parts = [len(run.tables[name]) for run in runs]
        assert len(runs.table(name)) == sum(parts), name
    kernels = runs.table("kernels")
    assert len(versions) > 1
    assert kernels["aic_mac_ratio"].dtype == "float64"
    assert 0 < kernels["aic_mac_ratio"].notna().sum() < len(kernels)  # not every result has counters


@pytest.mark.parametrize("processes", ["2", 0, -1, 1.5, True])
def test_a_wrong_number_of_processes_is_refused(four: Path, processes: Any) -> None:
    with pytest.raises(OptionsError, match=r"processes (of read\(\) )?must be a whole number"):
        _open(four).read(processes=processes)


@pytest.mark.parametrize("row", [5, 9, -6, "0", None])
def test_a_row_that_is_not_there_is_refused(four: Path, row: Any) -> None:
    with pytest.raises(OptionsError, match=f"row {row!r} is not one of a set of 5 runs|row of at\\(\\) must be"):
        _open(four).at(row)


def test_a_set_without_a_readable_run_is_not_saved(tmp_path: Path) -> None:
    for rank in (0, 1):
        root = _torch(tmp_path / "runs" / f"{rank}_ascend_pt", rank)
        (root / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").write_bytes(b"")
    with pytest.raises(NpuprofError, match=r"nothing was saved in .*saved.*no run can be read .*0_ascend_pt: "):
        _open(tmp_path / "runs").save(tmp_path / "saved")
    assert not (tmp_path / "saved").exists()


def test_rank_with_other_hit_rate_unit_is_named(tmp_path: Path) -> None:
    for rank, largest in enumerate((0.98, 97.0, 92.0)):
        counters = {
            "time_ns": [factories.START_NS, factories.START_NS + 1],
            "counter": ["LLC read Hit Rate"] * 2,
            "value": [0.0, largest],
            "unit": ["%"] * 2,
        }
        frames = {**factories.profile(6), "counters": tables.build("counters", counters)}
        Profile(Decoded(frames, factories.info(rank=rank))).save(tmp_path / f"rank{rank}")
    runs = _open(tmp_path)
    assert not runs.notes["message"].str.contains("Hit Rate").any()  # nothing was read yet
    runs.read(1)
    (told,) = runs.notes[runs.notes["message"].str.contains("Hit Rate")].itertuples()
    assert (told.severity, told.source, told.count) == ("warning", "rank 0", 1)
    assert "reaches 0.98 %, and 92 % on the other ranks" in told.message


def test_ranks_whose_files_have_hit_rates_in_different_units_are_named(tmp_path: Path) -> None:
    values = ({0: 0.4, 1: 1.2}, {0: 40.0, 1: 88.0}, {0: 35.0, 1: 91.0})
    for rank, of_rank in enumerate(values):
        maker = TraceMaker()
        maker.process(7, "LLC", "NPU 1", 21)
        for time, value in of_rank.items():
            maker.counter(7, "LLC 1 Read/Hit Rate", time, **{"Hit Rate(%)": value})
        root = _torch(tmp_path / f"{rank}_ascend_pt", rank)
        maker.write(root / "ASCEND_PROFILER_OUTPUT" / "trace_view.json")
    runs = _open(tmp_path)
    runs.table("counters")
    (warned,) = runs.notes[runs.notes["message"].str.contains("Hit Rate is read")].itertuples()
    assert (warned.severity, warned.source, warned.count) == ("warning", "rank 0", 1)
    assert "from fractions here, and on rank 1, 2 from percent" in warned.message

"""Selected parts of a run: which rows stay, that their links stay right, and what is said of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import npuprof
from npuprof import tables
from npuprof.errors import SourceError
from npuprof.loading import open_path
from npuprof.profiles.profile import Profile
from npuprof.recordings.recording import Recording
from npuprof.simulator import synthesise
from npuprof.sources import raw
from npuprof.sources.base import Decoded
from npuprof.sources.columns.concatenation import stacked
from npuprof.sources.columns.steps import assign_steps
from npuprof.sources.detect import detect
from npuprof.sources.selection import choose
from npuprof.sources.slicing import cut
from tests import factories
from tests.sources.torch_npu.test_raw_files import run_around

_SPANS = ("python", "operators", "api", "tasks", "kernels", "communication", "marks")


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    frames = factories.profile(60)
    columns = {"kind": "operator_api", "source_table": "operators", "target_table": "api"}
    operators = {name: pd.Categorical([value] * 60) for name, value in columns.items()}
    calls = tables.build("links", {**operators, "source_row": np.arange(60), "target_row": np.arange(60)})
    frames["links"] = stacked([frames["links"], calls])
    assign_steps(frames, ("kernels",))
    decoded = Decoded(frames, factories.info(), statistics={"op_statistic": pd.DataFrame({"Count": [1]})})
    return Profile(decoded).save(tmp_path_factory.mktemp("saved") / "profile")


def links_told(run: Profile) -> set[tuple[Any, ...]]:
    """Links by what they join, whatever their row numbers."""
    told = set()
    for link in run.links.to_dict("records"):
        ends = []
        for side in ("source", "target"):
            row = run.tables[link[f"{side}_table"]].iloc[link[f"{side}_row"]]
            ends.append((link[f"{side}_table"], row["start_ns"], row["duration_ns"]))
        told.add((link["kind"], *ends))
    return told


def rows(frame: pd.DataFrame) -> list[tuple[Any, ...]]:
    plain = frame.astype(object)
    return [tuple(row) for row in plain.where(plain.notna(), None).to_numpy().tolist()]


def stretches(run: Profile, count: int = 6) -> Iterator[tuple[int, int]]:
    """Stretches all over a run, some with bounds on those of rows."""
    edges = sorted({*run.tasks["start_ns"].tolist(), *(run.tasks["start_ns"] + run.tasks["duration_ns"]).tolist()})
    edges += [run.api["start_ns"].iloc[len(run.api) // 2] + 1, edges[-1] + 1_000]
    edges.sort()
    for number in range(count):
        yield edges[number * len(edges) // (count + 1)], edges[(number + 2) * len(edges) // (count + 2)]


@pytest.mark.slow
def test_rows_that_overlap_stay_with_what_launched_them(saved: Path) -> None:
    whole = npuprof.load(saved)
    for start, end in stretches(whole):
        part = npuprof.load(saved, start=start, end=end)
        for name, frame in part.tables.items():
            tables.check(name, frame)
        for name in _SPANS:
            frame = whole.tables[name]
            inside = frame[(frame["start_ns"] < end) & (frame["start_ns"] + frame["duration_ns"] > start)]
            extra = set(rows(part.tables[name])) - set(rows(inside))
            assert set(rows(inside)) <= set(rows(part.tables[name]))
            assert not extra or name in ("api", "operators")
        assert 0 < len(part.tasks) < len(whole.tasks)
        # Every kernel keeps the call and the operator that it has in the whole run.
        kernels = {("kernels", row["start_ns"], row["duration_ns"]) for row in part.kernels.to_dict("records")}
        calls = {link for link in links_told(whole) if link[2] in kernels}
        causes = {link for link in links_told(whole) if link[2] in {call[1] for call in calls}}
        assert calls
        assert causes
        assert calls | causes <= links_told(part)
        assert links_told(part) <= links_told(whole)
        moments = whole.memory["time_ns"]
        assert part.memory["time_ns"].tolist() == moments[(moments >= start) & (moments < end)].tolist()


@pytest.mark.slow
def test_what_a_call_from_before_launched_keeps_it(saved: Path) -> None:
    whole = npuprof.load(saved)
    link = whole.links[whole.links["kind"] == "api_task"].iloc[20]
    call, task = whole.api.iloc[link["source_row"]], whole.kernels.iloc[link["target_row"]]
    start = int(task["start_ns"]) + 1
    assert call["start_ns"] + call["duration_ns"] < start  # GIVEN a launch that was over when its kernel ran
    part = npuprof.load(saved, start=start, end=start + 1)
    assert ("api_task", ("api", *call.iloc[:2]), ("kernels", *task.iloc[:2])) in links_told(part)


@pytest.mark.slow
def test_intervals_of_device_time_are_cut_at_the_bounds(saved: Path) -> None:
    whole = npuprof.load(saved)
    start, end = list(stretches(whole))[2]
    part = npuprof.load(saved, start=start, end=end)
    assert int(part.overlap["start_ns"].min()) == start
    assert part.summary.wall_ns == end - start


@pytest.mark.slow
def test_steps_keep_what_they_launched(saved: Path) -> None:
    whole = npuprof.load(saved)
    numbers = whole.steps["step"].tolist()
    part = npuprof.load(saved, steps=numbers[1])
    assert part.steps["step"].tolist() == numbers[1:2]
    assert rows(part.kernels) == rows(whole.kernels[whole.kernels["step"] == numbers[1]])
    kernels = set(zip(part.kernels["device_id"], part.kernels["stream_id"], part.kernels["start_ns"], strict=True))
    assert kernels <= set(zip(part.tasks["device_id"], part.tasks["stream_id"], part.tasks["start_ns"], strict=True))
    several = [npuprof.load(saved, steps=number) for number in numbers]
    assert sum(len(one.kernels) for one in several) == int(whole.kernels["step"].notna().sum())
    assert len(npuprof.load(saved, steps=numbers).kernels) == int(whole.kernels["step"].notna().sum())


@pytest.mark.slow
def test_a_saved_part_remembers_what_it_is(saved: Path, tmp_path: Path) -> None:
    start = factories.START_NS + 100_000
    part = npuprof.load(saved, start=pd.Timedelta(microseconds=100))
    assert part.info.selection == {"start_ns": start}
    again = npuprof.load(part.save(tmp_path / "part"))
    assert again.info.selection == {"start_ns": start}
    assert rows(again.kernels) == rows(part.kernels)
    assert f"only a part of the run was asked for: start {start} ns" in again.notes["message"].tolist()
    assert "statistics without times are those of the whole run" in again.notes["message"].tolist()


@pytest.mark.slow
def test_empty_window_says_when_the_run_was(saved: Path) -> None:
    whole = npuprof.load(saved)
    first = int(whole.python["start_ns"].min())
    part = npuprof.load(saved, start=1, end=2)
    assert all(frame.empty for frame in part.tables.values())
    (told,) = part.notes.loc[part.notes["severity"] == "warning", "message"]
    assert told.startswith(f"nothing of the run lies in it: its rows are from {first} to ")
    assert npuprof.load(saved).info.selection == {}


@pytest.mark.slow
def test_lacking_step_names_existing_ones(saved: Path) -> None:
    with pytest.raises(SourceError, match="has no step 77; its steps are 0-"):
        npuprof.load(saved, steps=[0, 77])


@pytest.mark.slow
def test_set_applies_selection_and_reports_lacking_runs(tmp_path: Path, saved: Path) -> None:
    run = npuprof.load(saved)
    run.save(tmp_path / "rank_0")
    run.tables["steps"] = run.tables["steps"].assign(step=run.tables["steps"]["step"] + 100)
    run.save(tmp_path / "rank_1")
    found: Any = open_path(tmp_path, steps=0)
    assert len(found) == 2
    assert [one.info.selection for one in found] == [{"steps": [0]}]
    assert "has no step 0; its steps are 100-" in found.failed[1]


def test_device_steps_select_their_work(tmp_path: Path, samples: Path) -> None:
    part = npuprof.load(samples / "raw" / "model_step", steps=1)
    assert len(part.kernels) == 6
    (step,) = part.steps.to_dict("records")
    ends = part.tasks["start_ns"] + part.tasks["duration_ns"]
    assert ((part.tasks["start_ns"] < step["start_ns"] + step["duration_ns"]) & (ends > step["start_ns"])).all()


@pytest.mark.slow
@pytest.mark.parametrize("result", ["text", "db"])
def test_parsed_results_take_the_same_selection(samples: Path, result: str) -> None:
    path = samples / "torch_npu" / result / "level1" / "rank0_ascend_pt"
    whole, part = npuprof.load(path), npuprof.load(path, steps=[50])
    assert rows(part.kernels) == rows(whole.kernels[whole.kernels["step"] == 50])
    assert len(part.python) < len(whole.python)
    (step,) = whole.steps.to_dict("records")
    stretch = npuprof.load(path, start=int(step["start_ns"]), end=int(step["start_ns"] + step["duration_ns"] // 2))
    assert 0 < len(stretch.tasks) < len(whole.tasks)
    assert links_told(stretch) <= links_told(whole)
    assert {link for link in links_told(stretch) if link[0] == "api_task"}


@pytest.mark.slow
def test_steps_that_only_rows_name_are_theirs(saved: Path, tmp_path: Path) -> None:
    run = npuprof.load(saved)
    run.tables["steps"] = tables.empty("steps")
    path = run.save(tmp_path / "unmarked")
    number = int(run.kernels["step"].dropna().iloc[-1])
    part = npuprof.load(path, steps=number)
    assert rows(part.kernels) == rows(run.kernels[run.kernels["step"] == number])


@pytest.mark.slow
def test_a_simulated_run_is_selected_by_time_since_its_beginning(tmp_path: Path) -> None:
    path = synthesise(tmp_path, launches=200)
    whole = npuprof.load(path)
    started = whole.info.started_ns
    assert started is not None
    middle = int(whole.tasks["start_ns"][100]) - started
    part = npuprof.load(path, start=pd.Timedelta(nanoseconds=middle))
    assert part.info.selection == {"start_ns": started + middle}
    assert set(rows(part.tasks)) == set(
        rows(whole.tasks[whole.tasks["start_ns"] + whole.tasks["duration_ns"] > started + middle])
    )
    assert np.isin(part.tasks["connection_id"], part.api["connection_id"]).all()


def both_ways(path: Path, **asked: Any) -> tuple[Profile, Profile]:
    """A selected run as it is read, and as it would be if its source read everything first."""
    selection = choose(asked.get("steps"), asked.get("start"), asked.get("end"))
    assert selection is not None
    run = detect(path).results[0]
    whole = run.source.read(run.path)
    every = Profile(whole)
    cut(whole, selection)
    part = npuprof.load(path, **asked)
    assert len(part.tasks) < len(every.tasks)
    return part, Profile(whole)


def same(part: Profile, whole: Profile) -> None:
    for name, frame in whole.tables.items():
        columns = [column for column in frame if column in part.tables[name] or frame[column].notna().any()]
        assert rows(part.tables[name][columns]) == rows(frame[columns]), name


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """A recording of ours, in whose steps the host is ahead of the device."""
    recording = Recording(tmp_path / "recording", "run", "simulator", True)
    recording.directory.mkdir()
    path = synthesise(recording.directory, launches=900, streams=2, threads=2)
    calls = raw.read(path).tables["api"]
    recording.started_ns = int(calls["start_ns"].min()) - 500
    edges = np.linspace(recording.started_ns, int(calls["start_ns"].max()), 10).astype(np.int64).tolist()
    recording.steps = [(number, *edges[number : number + 2]) for number in range(9)]
    recording.write()
    return recording.directory


@pytest.mark.slow
@pytest.mark.parametrize("asked", [{"steps": 4}, {"steps": [0, 7]}, {"start": pd.Timedelta(microseconds=700)}])
def test_a_part_of_a_recording_is_that_part_of_the_whole(recorded: Path, asked: dict[str, Any]) -> None:
    part, whole = both_ways(recorded, **asked)
    same(part, whole)
    assert len(part.kernels)
    if "steps" in asked:
        assert set(part.kernels["step"]) == set(part.steps["step"])


@pytest.mark.slow
@pytest.mark.parametrize("through_queue", [False, True])
@pytest.mark.parametrize("step", [1, 2])
def test_framework_step_keeps_its_kernels(tmp_path: Path, through_queue: bool, step: int) -> None:
    device = synthesise(tmp_path, launches=20, streams=1)
    path = run_around(device, through_queue).write(tmp_path)
    part, whole = both_ways(path, steps=step)
    same(part, whole)
    assert part.kernels["step"].tolist() == [step] * 10
    first = 10 * (step - 1)
    names = set(part.operators["name"].astype(str))
    assert {f"aten::op{number}" for number in range(first, first + 10)} <= names
    caused = part.links[part.links["kind"] == "operator_api"]
    assert len(caused) == 10

"""What npuprof writes and reads again is the same run: Chrome traces and saved profiles, of one run and of a set."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings

import npuprof
from npuprof.loading import open_path
from npuprof.profiles.profile import Profile
from npuprof.ranks.profile_set import ProfileSet
from npuprof.simulator import npu
from npuprof.sources.base import Decoded
from tests import factories
from tests.budget import examples
from tests.generated_tables import runs as generated_runs
from tests.same_runs import assert_same_frames, assert_same_run
from tests.test_agreement import FOLDERS, alone, forms_below, whole

EXPORTS: dict[str, Callable[[Profile, Path], Path]] = {
    "trace.json": Profile.to_chrome_trace,
    "trace.json.gz": Profile.to_chrome_trace,
    "saved": Profile.save,
}
"""The exports that ``load`` reads, by the name of the file or folder."""

_HOLDS = "a Chrome trace holds the tables, facts and notes of a run"


def _again(run: Profile, name: str, folder: Path) -> Profile:
    again = open_path(EXPORTS[name](run, folder / name))
    assert isinstance(again, Profile)
    return again


def _check(run: Profile, name: str, folder: Path) -> None:
    again = _again(run, name, folder)
    assert_same_run(run, again)
    notes = again.notes[~again.notes["message"].str.startswith(_HOLDS)].reset_index(drop=True)
    pd.testing.assert_frame_equal(notes, run.notes)
    assert len(notes) + ("trace" in name) == len(again.notes)


def _kineto(samples: Path) -> Iterator[Profile]:
    for path in sorted((samples / "kineto").glob("*/*.json.gz")):
        run = open_path(path)
        assert isinstance(run, Profile)
        yield run


def _runs_below(folder: Path, files: Iterable[Path]) -> Iterator[Profile]:
    for found in whole(folder):
        yield from [found] if isinstance(found, Profile) else found
    yield from alone(files)


_LARGE = ("msprof", "raw", "torch_npu/text", "torch_npu/llm_4ranks")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["trace.json", "saved"])
@pytest.mark.parametrize(
    "folder", [pytest.param(each, marks=pytest.mark.long if each in _LARGE else ()) for each in (*FOLDERS, "kineto")]
)
def test_real_results(samples: Path, tmp_path: Path, folder: str, name: str) -> None:
    files = [same[0] for same in forms_below(samples / folder)]
    found = _kineto(samples) if folder == "kineto" else _runs_below(samples / folder, files)
    for number, run in enumerate(found):
        if run.info.source != "cluster analysis" or any(map(len, run.tables.values())):
            _check(run, name, tmp_path / str(number))


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["trace.json", "saved"])
@pytest.mark.parametrize("folder", FOLDERS)
def test_further_files_of_a_form(samples: Path, tmp_path: Path, folder: str, name: str) -> None:
    files = [file for same in forms_below(samples / folder) for file in same[1:]]
    for number, run in enumerate(alone(files)):
        if run.info.source != "cluster analysis" or any(map(len, run.tables.values())):
            _check(run, name, tmp_path / str(number))


@pytest.mark.parametrize("name", EXPORTS)
def test_a_run_of_the_simulator(name: str, tmp_path: Path) -> None:
    with npuprof.profile(output=tmp_path / "recording", collector="simulator", memory=True, name="a <b>") as prof:
        for _ in range(2):
            with npuprof.range("forward"):
                left = npu.asarray([[1.0] * 64] * 64)
                (left @ left).sum()
            prof.step()
    run = prof.result
    assert all(len(run.tables[table]) for table in ("steps", "marks", "api", "tasks", "kernels", "links", "memory"))
    _check(run, name, tmp_path)
    assert _again(run, name, tmp_path / "once more").info.simulated


@pytest.mark.slow
@settings(max_examples=examples(30))
@given(generated_runs())
def test_any_tables(decoded: Decoded) -> None:
    run = Profile(decoded)
    with TemporaryDirectory() as folder:
        again = _again(run, "trace.json", Path(folder))
        assert_same_frames(run.tables, again.tables)
        assert_same_frames(run.statistics, again.statistics)
        assert run.info.to_dict() | {"recording": None, "source": ""} == again.info.to_dict() | {
            "recording": None, "source": "",
        }  # fmt: skip


def _set(folder: Path, count: int) -> ProfileSet:
    for rank in range(count):
        Profile(Decoded(factories.profile(30 + rank), factories.info(rank=rank))).save(folder / f"rank{rank}")
    return npuprof.load_set(folder)


def _check_set(runs: ProfileSet, path: Path) -> None:
    again = npuprof.load(runs.to_chrome_trace(path))
    assert isinstance(again, ProfileSet)
    assert again.ranks == runs.ranks
    for rank in runs.ranks:
        assert_same_run(runs[rank], again[rank])
    for answer in (ProfileSet.waits, ProfileSet.breakdown):
        assert_same_frames({"answer": answer(runs)}, {"answer": answer(again)})


@pytest.mark.long
def test_a_set_of_ranks(tmp_path: Path) -> None:
    _check_set(_set(tmp_path / "set", 3), tmp_path / "all.json.gz")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["torch_npu/llm_4ranks", "torch_npu/db/level1", "torch_npu/text/level1"])
def test_real_sets_whose_clocks_differ(samples: Path, tmp_path: Path, name: str) -> None:
    _check_set(npuprof.load_set(samples / name), tmp_path / "all.json")


@pytest.mark.slow
def test_a_window_is_what_load_selects(samples: Path, tmp_path: Path) -> None:
    path = samples / "torch_npu/db/level1/rank0_ascend_pt"
    run = npuprof.load(path)
    first = int(run.steps["start_ns"].iloc[0])
    start_ns, end_ns = first + 20_000_000, first + 40_000_000
    again = npuprof.load(run.to_chrome_trace(tmp_path / "window.json", start_ns=start_ns, end_ns=end_ns))
    selected = npuprof.load(path, start=start_ns, end=end_ns)
    assert 0 < len(again.kernels) < len(run.kernels)
    assert_same_frames(selected.tables, again.tables)
    assert again.info.selection == selected.info.selection == {"start_ns": start_ns, "end_ns": end_ns}
    pd.testing.assert_frame_equal(selected.breakdown(), again.breakdown())


def _rewritten(path: Path, change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> Path:
    """Write a trace anew as a tool does that reads it with ``json``."""
    trace = json.loads(path.read_text())
    trace["traceEvents"] = change(trace["traceEvents"])
    path.write_text(json.dumps(trace, indent=1))
    return path


def _by_time(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(events, key=lambda event: event.get("ts", -1.0))


def _without_others(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [event for event in events if event["ph"] != "M" or event["name"].startswith("npuprof_")]


@pytest.mark.parametrize("change", [list, _by_time, _without_others])
def test_a_trace_that_a_tool_wrote_anew_is_the_same(change: Callable[..., Any], tmp_path: Path) -> None:
    run = Profile(Decoded(factories.profile(30), factories.info()))
    path = run.to_chrome_trace(tmp_path / "trace.json")
    assert_same_run(run, npuprof.load(_rewritten(path, change)))
    events = json.loads(path.read_text())["traceEvents"]
    path.write_text(json.dumps(events))  # a list, without otherData
    assert_same_run(run, npuprof.load(path))


@pytest.mark.parametrize("category", ["task", "step", "python_function", "collective", "api_task", "runtime_call"])
def test_events_that_were_removed_are_counted(category: str, tmp_path: Path) -> None:
    run = Profile(Decoded(factories.profile(30), factories.info()))
    before = run.to_chrome_trace(tmp_path / "trace.json")
    removed: list[dict[str, Any]] = []

    def change(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        some = [event for event in events if event.get("cat") == category and event["ph"] in "Xs"]
        removed.extend(random.Random(1).sample(some, len(some) // 2 or 1))
        return [event for event in events if event not in removed]

    again = npuprof.load(_rewritten(before, change))
    missing = again.notes[again.notes["message"].str.contains("a row is missing")]
    assert len(removed) <= int(missing["count"].sum())
    assert set(missing["severity"]) == {"warning"}
    for name, frame in again.tables.items():
        if len(frame) == len(run.tables[name]) and name not in ("links", "communication_tasks"):
            assert_same_frames({name: run.tables[name]}, {name: frame})
    whole = again.links
    assert ((whole["target_row"] >= 0) & (whole["source_row"] >= 0)).all()


def test_a_trace_twice_in_a_file_is_one(tmp_path: Path) -> None:
    run = Profile(Decoded(factories.profile(10), factories.info()))
    path = run.to_chrome_trace(tmp_path / "trace.json.gz")
    content = gzip.decompress(path.read_bytes())
    path.write_bytes(gzip.compress(content + content))
    assert_same_run(run, npuprof.load(path))


def test_a_cut_trace_keeps_what_there_is(tmp_path: Path) -> None:
    run = Profile(Decoded(factories.profile(40), factories.info()))
    path = run.to_chrome_trace(tmp_path / "trace.json")
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])
    again = npuprof.load(path)
    assert again.info.simulated
    assert 0 < sum(map(len, again.tables.values())) < sum(map(len, run.tables.values()))
    assert again.notes["message"].str.contains("its end is incomplete").any()
    assert again.notes["message"].str.contains("a row is missing, since the trace was cut").any()

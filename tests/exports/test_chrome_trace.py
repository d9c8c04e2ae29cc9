"""The Chrome trace: every slice at its exact time, and readable again."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
from collections import defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import npuprof
from npuprof.exports import chrome_trace
from npuprof.exports.nesting import nested_tracks
from npuprof.simulator import npu
from npuprof.sources.base import Decoded
from tests import factories

_SAMPLES = (
    "torch_npu/text/level1/rank0_ascend_pt",
    "torch_npu/db/level1/rank0_ascend_pt",
    "torch_npu/llm_4ranks",
    "raw/everything",
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> npuprof.Profile:
    with npuprof.profile(
        output=tmp_path_factory.mktemp("trace"), collector="simulator", activities="npu", memory=True, name="a <b>"
    ) as prof:
        with npuprof.range("forward"):
            left = npu.asarray([[1.0] * 64] * 64)
            (left @ left).sum()
        prof.step()
    return prof.result


def _read(path: Path) -> tuple[int, list[dict[str, Any]]]:
    """Return the base of times and the events, with exact decimals in the place of floats."""
    plain = json.loads(path.read_text(), parse_float=Decimal)
    return int(plain["otherData"]["base_ns"]), plain["traceEvents"]


@pytest.fixture(scope="module")
def events(run: npuprof.Profile, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    path = run.to_chrome_trace(tmp_path_factory.mktemp("written") / "trace.json")
    assert json.loads(path.read_text())["otherData"]["simulated"] is True
    base_ns, read = _read(path)
    for event in read:
        if "ts" in event:
            event["ts"] += Decimal(base_ns) / 1000
    return read


def _broken_rules(events: list[dict[str, Any]]) -> list[str]:
    """Return which of Perfetto's documented rules a trace breaks.

    Times are numbers, no slice of a thread crosses another, each flow begins once and ends no earlier on a slice, its
    id is one that JavaScript keeps.
    """
    broken = []
    by_thread: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    flows: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for event in events:
        if event["ph"] in "XCsf" and not isinstance(event["ts"], int | Decimal):
            broken.append(f"time {event['ts']!r}")
        if event["ph"] == "X":
            start = int(event["ts"] * 1000)
            by_thread[event["pid"], event["tid"]].append((start, start + int(event["dur"] * 1000)))
        elif event["ph"] in "sf":
            flows[event["id"]].append(event)
        elif event["ph"] == "C" and not all(isinstance(value, int | Decimal) for value in event["args"].values()):
            broken.append(f"value of {event['name']}")
    for thread, slices in by_thread.items():
        ends: list[int] = []
        for start, end in sorted(slices, key=lambda one: (one[0], -one[1])):
            while ends and ends[-1] <= start:
                ends.pop()
            broken += [f"a slice of {thread} crosses another"] * bool(ends and ends[-1] < end)
            ends.append(end)
    begins = {(*thread, start) for thread, slices in by_thread.items() for start, _ in slices}
    for number, pair in flows.items():
        phases = [event["ph"] for event in pair]
        if phases != ["s", "f"] or pair[0]["ts"] > pair[1]["ts"] or not 0 <= number < 1 << 53:
            broken.append(f"flow {number}")
        ends_of_flow = {(event["pid"], event["tid"], int(event["ts"] * 1000)) for event in pair}
        broken += [f"flow {number} without a slice"] * bool(ends_of_flow - begins)
    return broken


@pytest.mark.slow
@pytest.mark.parametrize("name", _SAMPLES)
def test_traces_of_real_results_keep_perfettos_rules(samples: Path, tmp_path: Path, name: str) -> None:
    runs = npuprof.load(samples / name)
    for run in runs if isinstance(runs, npuprof.ProfileSet) else [runs]:
        base_ns, events = _read(run.to_chrome_trace(tmp_path / f"{run.info.rank}.json"))
        assert not _broken_rules(events)
        slices = [event for event in events if event["ph"] == "X"]
        device = "tasks" if len(run.tasks) else "kernels"  # which a result without a timeline has
        tables = (
            *("steps", "python", "operators", "api", "marks", device),
            *("communication", "communication_tasks", "overlap"),
        )
        assert len(slices) == sum(len(run.tables[table]) for table in tables)
        assert base_ns + min(int(event["ts"] * 1000) for event in slices) == min(
            run.tables[table]["start_ns"].min() for table in tables if len(run.tables[table])
        )


def test_kernels_that_have_no_task_are_written_too() -> None:
    tables = factories.profile(launches=6)
    written = []
    for tasks in (6, 2, 0):
        out = io.StringIO()
        fewer = {**tables, "tasks": tables["tasks"].iloc[:tasks]}
        chrome_trace.write(out, [chrome_trace.TracedRun(Decoded(fewer, factories.info()))])
        events = json.loads(out.getvalue())["traceEvents"]
        written.append(sorted(f"{e['name']} {e['pid']} {e['tid']} {e['ts']}" for e in events if e["ph"] == "X"))
    assert written == [written[0]] * 3


def test_arrows_of_kernels_that_start_before_their_launch_lead_to_it() -> None:
    run = factories.profile(launches=6)
    early = run["tasks"].assign(start_ns=run["tasks"]["start_ns"] - 20_000 * (np.arange(6) < 2))
    links = run["links"].assign(target_table=factories.names(["tasks"], np.zeros(6, np.int64)))
    out = io.StringIO()
    tables = {**run, "kernels": early, "tasks": early, "links": links}
    chrome_trace.write(out, [chrome_trace.TracedRun(Decoded(tables, factories.info()))])
    trace = json.loads(out.getvalue(), parse_float=Decimal)
    assert not _broken_rules(trace["traceEvents"])
    arrows = [event for event in trace["traceEvents"] if event["ph"] in "sf"]
    assert len(arrows) == 2 * len(run["links"])
    backwards = [event for event in arrows if event["name"] == f"api_task{chrome_trace.EFFECT_FIRST}"]
    assert len(backwards) == 4
    assert trace["otherData"]["flows_backwards"] == 2
    begins = [trace["otherData"]["base_ns"], [int(event["ts"] * 1000) for event in backwards if event["ph"] == "s"]]
    assert [int(begins[0]) + at for at in begins[1]] == early["start_ns"].tolist()[:2]


_HTA = """
import sys
from hta.trace_analysis import TraceAnalysis
trace = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir="/").t.get_trace(0)
print(len(trace))
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", _SAMPLES)
def test_holistic_trace_analysis_loads_every_slice(samples: Path, tmp_path: Path, name: str) -> None:
    python = os.environ.get("NPUPROF_HTA")
    if not python:
        pytest.skip("NPUPROF_HTA names no Python with HolisticTraceAnalysis")
    runs = npuprof.load_set(samples / name)
    path = runs.at(0).to_chrome_trace(tmp_path / "trace.json")
    slices = sum(event["ph"] == "X" for event in _read(path)[1])
    done = subprocess.run([python, "-c", _HTA, str(path)], check=True, capture_output=True, text=True)
    assert int(done.stdout.split()[-1]) == slices


@pytest.mark.slow
def test_a_trace_of_several_ranks_keeps_perfettos_rules(samples: Path, tmp_path: Path) -> None:
    runs = npuprof.load_set(samples / "torch_npu/llm_4ranks")
    assert not _broken_rules(_read(runs.to_chrome_trace(tmp_path / "all.json"))[1])


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 20), st.integers(0, 10)), max_size=30))
def test_slices_of_a_track_nest(slices: list[tuple[int, int, int]]) -> None:
    groups, starts, durations = np.array(slices, np.int64).reshape(-1, 3).T
    tracks = nested_tracks(starts, starts + durations, groups)
    events = [
        {"ph": "X", "pid": int(group), "tid": int(track), "ts": Decimal(int(start)), "dur": Decimal(int(duration))}
        for group, track, start, duration in zip(groups, tracks, starts, durations, strict=True)
    ]
    assert not _broken_rules(events)
    alone = [{**event, "tid": 0} for event in events]
    assert bool(tracks.any()) == bool(_broken_rules(alone))


def test_a_window_holds_its_slices_whole_and_the_links_between_them() -> None:
    tables = factories.profile(40)
    tasks = tables["tasks"]
    middle = tasks.iloc[len(tasks) // 2]
    start_ns, end_ns = int(middle["start_ns"]), int(middle["start_ns"] + middle["duration_ns"])
    out = io.StringIO()
    run = chrome_trace.TracedRun(Decoded(tables, factories.info()))
    chrome_trace.write(out, [run], start_ns=start_ns, end_ns=end_ns)
    written = json.loads(out.getvalue(), parse_float=Decimal)
    events = written["traceEvents"]
    assert not _broken_rules(events)
    streams = [event for event in events if event["ph"] == "X" and "Task Type" in event["args"]]
    overlapping = tasks[(tasks["start_ns"] < end_ns) & (tasks["start_ns"] + tasks["duration_ns"] > start_ns)]
    assert 0 < len(streams) == len(overlapping) < len(tasks)
    assert [int(event["dur"] * 1000) for event in streams] == overlapping["duration_ns"].tolist()


def times(events: list[dict[str, Any]], process: str) -> list[tuple[int, int]]:
    pids = {
        event["pid"]
        for event in events
        if event["name"] == "process_name" and str(event["args"]["name"]).startswith(process)
    }
    return sorted(
        (int(event["ts"] * 1_000), int(event["dur"] * 1_000))
        for event in events
        if event["ph"] == "X" and event["pid"] in pids
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("table", "process"), [("api", "CANN"), ("tasks", "Ascend Hardware"), ("steps", "Steps"), ("marks", "Markers")]
)
def test_every_slice_is_there_at_its_exact_time(
    run: npuprof.Profile, events: list[dict[str, Any]], table: str, process: str
) -> None:
    frame = run.tables[table]
    assert len(frame)
    expected = sorted(zip(frame["start_ns"].tolist(), frame["duration_ns"].tolist(), strict=True))
    assert times(events, process) == expected


@pytest.mark.slow
def test_each_link_is_an_arrow_with_two_ends(run: npuprof.Profile, events: list[dict[str, Any]]) -> None:
    ends: dict[int, list[str]] = {}
    for event in events:
        if event["ph"] in "sf":
            ends.setdefault(event["id"], []).append(event["ph"])
    assert ends
    assert set(map(tuple, ends.values())) == {("s", "f")}
    assert len(ends) <= len(run.links)


@pytest.mark.slow
def test_a_compressed_trace_holds_the_same(run: npuprof.Profile, tmp_path: Path) -> None:
    plain = run.to_chrome_trace(tmp_path / "trace.json").read_text()
    with gzip.open(run.to_chrome_trace(tmp_path / "trace.json.gz"), "rt") as file:
        assert file.read() == plain


def test_a_simulated_trace_is_called_simulated_when_it_is_read_again(run: npuprof.Profile, tmp_path: Path) -> None:
    for name in ("trace.json", "trace.json.gz"):
        again = npuprof.load(run.to_chrome_trace(tmp_path / name))
        assert "simulated NPU" in str(again)
        assert (again.info.collector, again.info.source) == ("simulator", "Chrome trace of npuprof")

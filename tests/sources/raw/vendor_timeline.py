"""Comparisons with the layers of the vendor's timelines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import pytest

from npuprof.sources.trace.columns import gather
from npuprof.sources.trace.conversion import build_tables
from npuprof.sources.trace.events import read_events
from npuprof.tables.notes import Notes

from .vendor import ROUNDED_NS, Check, Sample, file_kind, ns, number, rows

_FIRST_MARK_CONNECTION = 4_000_000_001
_DEVICE_TYPES = {"SDMA_SQE": "MEMCPY_ASYNC"}  # of a copy the timeline gives the device's type, the database the host's


def _spans(events: list[dict[str, Any]]) -> list[tuple[int, int, str]]:
    return sorted((ns(event["ts"]), ns(event["dur"]), event["name"]) for event in events)


def calls(sample: Sample) -> int:
    events = sample.layer("CANN X")
    wanted = []
    for event in events:
        own = event["args"]
        name = own["id"] if own["level"] == "acl" else own["Mode"]
        if own["level"] == "communication":
            name = event["name"].partition("@")[2]
        wanted.append((ns(event["ts"]), ns(event["dur"]), name, own["level"], own["Thread Id"], own["connection_id"]))
    columns = ("start_ns", "duration_ns", "name", "level", "thread_id")
    found = rows(sample.table("api"), *columns)
    assert sorted(found) == sorted(row[:5] for row in wanted)
    return len(events)


def _called(sample: Sample) -> dict[int, int]:
    """When the call of each connection began. Every export numbers connections anew."""
    return {event["args"]["connection_id"]: ns(event["ts"]) for event in sample.layer("CANN X")}


def hardware(sample: Sample) -> int:
    events, called = sample.layer("Ascend Hardware X"), _called(sample)
    own_calls = dict(rows(sample.table("api"), "connection_id", "start_ns"))
    tasks = sample.table("tasks")
    parts = set(tasks.loc[tasks["context_id"].notna(), "connection_id"])
    tasks = tasks[~(tasks["context_id"].isna() & tasks["connection_id"].isin(parts))]  # drawn by their parts
    found = {
        (start, length, stream, task): (name or kind, kind, context, batch, connection, model)
        for start, length, stream, task, name, kind, context, batch, connection, model in rows(
            tasks.assign(model=tasks.get("model_id")),
            *("start_ns", "duration_ns", "stream_id", "task_id", "name", "task_type", "context_id", "batch_id"),
            *("connection_id", "model"),
        )
    }
    for event in events:
        args = event["args"]
        own = found.pop((ns(event["ts"]), ns(event["dur"]), event["tid"], args["Task Id"]))
        assert own[0] == event["name"]
        if "Task Type" in args:  # the device side of a mark has none of these
            kind = _DEVICE_TYPES.get(args["Task Type"], args["Task Type"])
            assert own[1:4] == (kind, number(args["Subtask Id"]), args["Batch Id"])
            assert own[5] == number(args["Model Id"])
            assert own_calls[own[4]] == called[args["connection_id"]]
    assert not found
    return len(events)


def flows(sample: Sample) -> int:
    """Arrows from calls to tasks and collectives: every link of ours, from the same moment to the same moment."""
    layers = ("CANN s HostToDevice", "Ascend Hardware f HostToDevice", "Communication f HostToDevice")
    count = 0
    ends: dict[str, list[int]] = {}
    starts: dict[str, int] = {}
    for name in layers:
        if f"msprof.json {name}" in sample.items:
            for event in sample.layer(name):
                count += 1
                if event["ph"] == "s":
                    starts[event["id"]] = ns(event["ts"])
                else:
                    ends.setdefault(event["id"], []).append(ns(event["ts"]))
    wanted = {(starts[key], moment) for key, moments in ends.items() for moment in moments}
    assert starts.keys() == ends.keys()
    links = sample.table("links").query("kind == 'api_task'")
    begun = sample.table("api")["start_ns"].to_numpy()[links["source_row"]]
    tasks = sample.table("tasks").iloc[links["target_row"]]
    own = set(zip(begun.tolist(), tasks["start_ns"].tolist(), strict=True))
    # The vendor draws one arrow a call: to the task that tells most of it. Where a call has several tasks (a task and
    # its parts, a collective and its steps, one copy) ours link them all.
    assert wanted <= own
    assert {start for start, _ in wanted} == {start for start, _ in own}
    return count


def marks(kind: str) -> Check:
    def check(sample: Sample) -> int:
        events = sample.layer("python3 X", kind)
        found = rows(sample.table("marks"), "start_ns", "duration_ns", "message", "thread_id", "kind", "domain")
        assert sorted(found, key=str) == sorted(
            (
                (
                    *(ns(event["ts"]), ns(event["dur"]), event["name"], event["tid"]),
                    *(event["args"]["event_type"], event["args"].get("domain")),
                )
                for event in events
            ),
            key=str,
        )
        return len(events)

    return check


def mark_starts(kind: str) -> Check:
    return _mark_flows("python3 s MsTx", kind, "marks", "source_row")


def mark_ends(kind: str) -> Check:
    return _mark_flows("Ascend Hardware f MsTx", kind, "tasks", "target_row")


def _mark_flows(layer: str, kind: str, table: str, column: str) -> Check:
    def check(sample: Sample) -> int:
        events = sample.layer(layer, kind)
        links = sample.table("links").query("kind == 'mark'")
        ids = sample.table("marks")["id"].iloc[links["source_row"]]
        moments = sample.table(table)["start_ns"].iloc[links[column]]
        assert sorted(zip(ids.tolist(), moments.tolist(), strict=True)) == sorted(
            (int(event["id"]) - _FIRST_MARK_CONNECTION, ns(event["ts"])) for event in events
        )
        return len(events)

    return check


def device_marks(sample: Sample) -> int:
    events = sample.layer("Ascend Hardware X", "msprof_tx")
    found = sample.table("marks").dropna(subset=["device_start_ns"])
    assert _spans(events) == sorted(rows(found, "device_start_ns", "device_duration_ns", "message"))
    return len(events)


def overlap(sample: Sample) -> int:
    names = {
        "Computing": "computing",
        "Communication": "communication",
        "Communication(Not Overlapped)": "communication_not_overlapped",
        "Free": "free",
    }
    events = sample.layer("Overlap Analysis X")
    wanted = sorted((start, length, names[name]) for start, length, name in _spans(events))
    assert sorted(rows(sample.table("overlap"), "start_ns", "duration_ns", "kind")) == wanted
    return len(events)


def iterations(kind: str) -> Check:
    def check(sample: Sample) -> int:
        events = sample.layer("Ascend Hardware X Iteration Time", kind)
        found = rows(sample.table("steps"), "start_ns", "duration_ns", "step")
        assert found == [(ns(one["ts"]), ns(one["dur"]), one["args"]["Iteration ID"]) for one in events]
        return len(events)

    return check


def communication(sample: Sample) -> int:
    events = sample.layer("Communication X")
    steps, operators = sample.table("communication_tasks"), sample.table("communication")
    found = rows(steps, "start_ns", "duration_ns", "task_type") + rows(operators, "start_ns", "duration_ns", "name")
    assert sorted(found) == _spans(events)
    return len(events)


def frequency(sample: Sample) -> int:
    events = sample.layer("AI Core Freq C")
    found = rows(sample.table("counters").query("counter == 'AI Core Freq'"), "time_ns", "value")
    start, end = sample.decoded.info.started_ns, sample.decoded.info.stopped_ns
    assert end is not None
    # Each change is drawn twice, and points are added at the start and the end of the session.
    drawn = [(ns(event["ts"]), event["args"]["MHz"]) for event in events]
    changes = sorted({row for row in drawn if row[0] not in (start, end // 1000 * 1000)})
    assert found == changes
    return len(events)


def counters(sample: Sample) -> int:
    """Compare all counters that a text result of this timeline has, but those that have a check of their own."""
    path = next(path for path in sample.files() if path.suffix == ".json" and file_kind(path) == "msprof")
    notes = Notes()
    trace = gather(read_events(path, notes), notes, path.name)
    shown = build_tables(trace, notes, path.name).tables["counters"]
    own = sample.table("counters").astype({"counter": object, "instance": object})
    compared = 0
    for key, part in _by_series(shown).items():
        if key[0].startswith(("NPU MEM", *_OTHER)):
            continue
        series = own[(own["counter"] == key[0]) & (own["instance"].eq(key[1]) | (key[1] == ""))]
        for time_ns, value in zip(part["time_ns"], part["value"], strict=True):
            (found,) = series.loc[(series["time_ns"] - time_ns).abs() <= ROUNDED_NS, "value"]
            # a first interval, a share of nothing, events that were not all counted: no value here, 0 there
            assert (0.0 if pd.isna(found) else found) == pytest.approx(value, rel=3e-5, abs=0.0005), key
            compared += 1
    assert compared > 100
    return sum(rows for name, rows in sample.items.items() if name.removeprefix("msprof.json ") in CHECKED_TOGETHER)


_OTHER = ("AI Core Freq", "PCIe nonpost_latency Rx")  # drawn twice; not in the file, the vendor shows 0
CHECKED_TOGETHER = tuple(
    f"{name} C" for name in ("Acc PMU", "HBM", "HCCS", "PCIe", "SIO", "Stars Soc Info", "LLC", "NIC", "RoCE")
)


def _by_series(frame: pd.DataFrame) -> dict[tuple[str, str], pd.DataFrame]:
    keys = [frame["counter"].astype(object), frame["instance"].astype(object).fillna("")]
    return {(str(name), str(which)): part for (name, which), part in frame.groupby(keys)}


def memory(sample: Sample) -> int:
    events = sample.layer("NPU MEM C")
    columns = {"DDR": "ddr_bytes", "HBM": "hbm_bytes", "Memory": "reserved_bytes"}
    found = sample.table("memory").set_index("component")
    for event in events:
        component, _, kind = event["name"].partition("/")
        mine = found.loc[component]
        (value,) = mine.loc[(mine["time_ns"] - ns(event["ts"])).abs() <= ROUNDED_NS, columns[kind]]
        assert value == event["args"]["KB"] * 1024
    return len(events)


CHECKS: Mapping[str, Check] = {
    "msprof.json AI Core Freq C": frequency,
    "msprof.json Ascend Hardware X": hardware,
    "msprof.json Ascend Hardware X Iteration Time": iterations("msprof"),
    "msprof.json Ascend Hardware f MsTx": mark_ends("msprof"),
    "msprof.json CANN X": calls,
    "msprof.json Communication X": communication,
    "msprof.json NPU MEM C": memory,
    "msprof.json Overlap Analysis X": overlap,
    "msprof.json python3 X": marks("msprof"),
    "msprof.json python3 s MsTx": mark_starts("msprof"),
    "msprof_tx.json Ascend Hardware X": device_marks,
    "msprof_tx.json Ascend Hardware f MsTx": mark_ends("msprof_tx"),
    "msprof_tx.json python3 X": marks("msprof_tx"),
    "msprof_tx.json python3 s MsTx": mark_starts("msprof_tx"),
    "step_trace.json Ascend Hardware X Iteration Time": iterations("step_trace"),
}
TOGETHER: Mapping[tuple[str, ...], Check] = {
    ("CANN s HostToDevice", "Ascend Hardware f HostToDevice", "Communication f HostToDevice"): flows,
    CHECKED_TOGETHER: counters,
}
"""Layers that only make sense side by side; their checks account for the rows of all of them."""

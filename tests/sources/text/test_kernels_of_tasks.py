"""Tasks of cores that are no kernels: those of collectives, and the parents of other tasks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import npuprof
from npuprof import tables
from npuprof.sources.text.kernels_of_tasks import are_of_collectives, are_parents
from tests.sources.trace.maker import NPU, TraceMaker, ns, small_trace


def _tasks(*rows: dict[str, Any]) -> pd.DataFrame:
    plain = {"start_ns": 0, "duration_ns": 10, "device_id": 0, "stream_id": 4, "task_id": 7, "context_id": None}
    frame = pd.DataFrame([{**plain, "name": "AI_CORE", "task_type": "AI_CORE", **row} for row in rows])
    columns: dict[str, Any] = {name: frame[name] for name in frame}
    for name in ("stream_id", "task_id", "context_id"):
        columns[name] = pd.array(frame[name].tolist(), dtype="Int64")
    for name in ("name", "task_type"):
        columns[name] = pd.Categorical(frame[name])
    return tables.build("tasks", columns)


def test_a_task_whose_number_has_contexts_meanwhile_is_their_parent() -> None:
    tasks = _tasks(
        {"duration_ns": 100},
        {"start_ns": 5, "context_id": 0},
        {"start_ns": 20, "context_id": 1},
        {"start_ns": 500},  # the number is used again
        {"start_ns": 5, "stream_id": 5},
        {"start_ns": 5, "device_id": 1},
    )
    assert are_parents(tasks).tolist() == [True, False, False, False, False, False]


_ROWS = st.lists(st.tuples(*[st.integers(0, 2)] * 3, st.integers(0, 30), st.integers(0, 9), st.booleans()), max_size=12)


@given(_ROWS)
def test_parents_match_an_exhaustive_search(rows: list[tuple[int, int, int, int, int, bool]]) -> None:
    names = ("device_id", "stream_id", "task_id", "start_ns", "duration_ns")
    made: list[dict[str, Any]] = [
        {**dict(zip(names, row, strict=False)), "context_id": 0 if row[5] else None} for row in rows
    ]
    if not made:
        return
    expected = [
        one["context_id"] is None
        and any(
            other["context_id"] is not None
            and all(one[name] == other[name] for name in names[:3])
            and one["start_ns"] <= other["start_ns"] < one["start_ns"] + one["duration_ns"]
            for other in made
        )
        for one in made
    ]
    assert are_parents(_tasks(*made)).tolist() == expected


def test_each_sign_of_a_collective() -> None:
    operators = tables.build(
        "communication",
        {
            "start_ns": np.array([100_000]),
            "duration_ns": np.array([50_000]),
            "device_id": np.array([0]),
            "connection_id": pd.array([11], dtype="Int64"),
        },
    )
    steps = tables.build(
        "communication_tasks",
        {"start_ns": np.array([100_000]), "duration_ns": np.array([9]), "device_id": np.array([0])},
    ).assign(stream_id=pd.array([2], dtype="Int64"), task_id=pd.array([70], dtype="Int64"))
    tasks = _tasks(
        {"name": "hcom_allReduce__586_0_1"},
        {},
        {"stream_id": 2, "task_id": 70},
        {"start_ns": 98_000, "duration_ns": 54_000},  # around the operator, and without a name
        {"start_ns": 98_000, "duration_ns": 54_000, "name": "MatMul"},
        {"start_ns": 80_000, "duration_ns": 90_000},  # begins long before it
    ).assign(connection_id=pd.array([None, 11, None, None, None, None], dtype="Int64"))
    frames = {"tasks": tasks, "communication": operators, "communication_tasks": steps}
    assert are_of_collectives(frames).tolist() == [True, True, True, True, False, False]
    assert not are_of_collectives({"tasks": tasks.iloc[4:]}).any()


def test_a_foreign_trace_does_not_count_tasks_of_collectives_as_kernels(tmp_path: Path) -> None:
    before = npuprof.load(small_trace().write(tmp_path / "plain.json"))
    maker: TraceMaker = small_trace()
    operator = before.communication.iloc[0]
    start_us = (int(operator["start_ns"]) - ns(0)) / 1000
    maker.slice(
        NPU, 9, "AI_CORE", start_us - 1, int(operator["duration_ns"]) / 1000 + 2, "",
        **{"Task Type": "AI_CORE", "Physic Stream Id": 9, "Task Id": 1},
    )  # fmt: skip
    again = npuprof.load(maker.write(tmp_path / "trace_view.json"))
    assert len(again.tasks) == len(before.tasks) + 1
    assert again.kernels["start_ns"].tolist() == before.kernels["start_ns"].tolist()


@pytest.mark.slow
@pytest.mark.parametrize("level", ["level0", "level1"])
def test_parents_of_collectives_add_no_computing(samples: Path, tmp_path: Path, level: str) -> None:
    run = npuprof.load(samples / f"torch_npu/db/{level}/rank0_ascend_pt")
    path = run.to_chrome_trace(tmp_path / "trace.json")
    events = [event for event in json.loads(path.read_text())["traceEvents"] if not event["name"].startswith("npuprof")]
    for event in events:
        for own in ("npuprof_row", "kernel"):
            event.get("args", {}).pop(own, None)
    path.write_text(json.dumps(events))  # as a tool leaves it that knows nothing of npuprof
    foreign = npuprof.load(path)
    assert len(foreign.tasks) == len(run.tasks)
    computing = int(run.kernels["duration_ns"].sum())
    assert 0.99 * computing < int(foreign.kernels["duration_ns"].sum()) <= computing

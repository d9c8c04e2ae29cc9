"""Runs with any number of rows of one kind, and few of all others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.arrays import Int64
from npuprof.profiles.profile import Profile
from npuprof.sources.base import Decoded
from tests import factories
from tests.factories import START_NS, all_tables, names

_EACH_NS = 40_000
_SMALL = 40


def launches(count: int, **changed: Any) -> dict[str, pd.DataFrame]:
    """Tables of operators that call CANN once and launch a kernel each; `changed` are columns as ``table__column``."""
    index = np.arange(count, dtype=np.int64)
    zeros = np.zeros(count, np.int64)
    starts = START_NS + index * _EACH_NS
    columns: dict[str, dict[str, Any]] = {
        "operators": {
            "start_ns": starts,
            "duration_ns": zeros + 30_000,
            "name": names(["aten::add"], zeros),
            "thread_id": zeros + 100,
            "kind": names(["op"], zeros),
            "id": index,
        },
        "api": {
            "start_ns": starts + 5_000,
            "duration_ns": zeros + 12_000,
            "name": names(["launch"], zeros),
            "level": names(["node"], zeros),
            "thread_id": zeros + 100,
            "connection_id": index,
        },
        "kernels": {
            "start_ns": starts + 20_000,
            "duration_ns": zeros + 12_000,
            "device_id": zeros,
            "stream_id": zeros + 2,
            "task_id": index % 65_536,
            "batch_id": index // 65_536,
            "task_type": names(["AI_VECTOR_CORE"], zeros),
            "name": names(["Add"], zeros),
            "connection_id": index,
            "op_name": names(["Add"], zeros),
            "op_type": names(["Add"], zeros),
            "input_shapes": names(["256,1024;1024,1024"], zeros),
        },
        "links": {
            "kind": names(["api_task"], zeros),
            "source_table": names(["api"], zeros),
            "source_row": index,
            "target_table": names(["kernels"], zeros),
            "target_row": index,
        },
        "steps": {
            "step": np.arange(3),
            "start_ns": START_NS + np.arange(3) * max(count * _EACH_NS // 3, 1),
            "duration_ns": np.full(3, max(count * _EACH_NS // 3, 1)),
        },
    }
    for key, values in changed.items():
        table, column = key.split("__")
        columns.setdefault(table, {})[column] = values
    return all_tables(**{name: tables.build(name, given) for name, given in columns.items()})


def _span(count: int) -> tuple[Int64, Int64]:
    index = np.arange(count, dtype=np.int64)
    return START_NS + index * _EACH_NS, np.full(count, _EACH_NS)


def _steps(count: int) -> dict[str, pd.DataFrame]:
    starts, durations = _span(count)
    return launches(count, steps__step=np.arange(count), steps__start_ns=starts, steps__duration_ns=durations)


def _loops(count: int) -> dict[str, pd.DataFrame]:
    """A cell whose loop calls a launching operator in each iteration."""
    starts, durations = _span(count)
    index = np.arange(count, dtype=np.int64)
    zeros = index * 0
    run = launches(count)
    run["iterations"] = tables.build(
        "iterations",
        {"start_ns": starts, "duration_ns": durations, "loop": zeros + 2, "iteration": index},
    )
    run["statements"] = tables.build(
        "statements",
        {
            "start_ns": np.repeat(starts, 2) + np.tile([0, 35_000], count),
            "duration_ns": np.tile([35_000, 5_000], count),
            "file": names(["<cell [1]>"], np.zeros(2 * count, np.int64)),
            "line": np.tile([3, 4], count),
            "last_line": np.tile([3, 4], count),
            "thread_id": np.full(2 * count, 100),
            "loop": np.full(2 * count, 2),
            "iteration": np.repeat(index, 2),
        },
    )
    return run


def _threads(count: int) -> dict[str, pd.DataFrame]:
    """Each operator on a thread of its own, at a line of its own."""
    threads = 100 + np.arange(count)
    stacks = names([f"model.py({number + 1}): work_{number}" for number in range(count)], threads - 100)
    return launches(count, operators__thread_id=threads, api__thread_id=threads, operators__stack=stacks)


def _streams(count: int) -> dict[str, pd.DataFrame]:
    return launches(count, kernels__stream_id=np.arange(count))


def _names(count: int) -> dict[str, pd.DataFrame]:
    index = np.arange(count)
    texts = {
        "operators__name": "aten::op_{}",
        "api__name": "call_{}",
        "kernels__name": "Kernel_{}",
        "kernels__op_name": "Op_{}",
        "kernels__op_type": "Type{}",
        "kernels__input_shapes": "{},16",
        "operators__stack": "model.py({0}): layer_{0}\ntrain.py(3): step",
    }
    return launches(
        count, **{key: names([text.format(number + 1) for number in index], index) for key, text in texts.items()}
    )


def _nested(count: int) -> pd.DataFrame:
    """Python calls within each other, `count` deep, all around the whole run."""
    index = np.arange(count, dtype=np.int64)
    whole = _EACH_NS * (count + 4)
    return tables.build(
        "python",
        {
            "start_ns": START_NS - count + index,
            "duration_ns": whole - 2 * index,
            "name": names([f"model.py({number + 1}): walk" for number in range(min(count, 50))], index % 50),
            "thread_id": index * 0 + 100,
            "id": index,
            "parent_id": pd.array([None, *range(count - 1)], dtype="Int64"),
            "depth": index,
        },
    )


def _depth(count: int) -> dict[str, pd.DataFrame]:
    """A recursion whose innermost call launches the kernels."""
    run = launches(_SMALL)
    run["python"] = _nested(count)
    return run


def _recursion(count: int) -> dict[str, pd.DataFrame]:
    """A recursion that launches a kernel at each level."""
    run = launches(count)
    nested = _nested(count)
    index = np.arange(count, dtype=np.int64)
    nested["start_ns"] = START_NS + index * _EACH_NS
    nested["duration_ns"] = _EACH_NS * (2 * count - index) - index
    run["python"] = nested
    return run


def _operator_depth(count: int) -> dict[str, pd.DataFrame]:
    """Operators within each other."""
    run = launches(count)
    index = np.arange(count, dtype=np.int64)
    run["operators"]["duration_ns"] = _EACH_NS * (2 * count - index) - index
    return run


def _unlaunched(count: int) -> dict[str, pd.DataFrame]:
    run = launches(count)
    few = launches(_SMALL)
    return {**run, "operators": few["operators"], "api": few["api"], "links": few["links"]}


def _without_kernels(count: int) -> dict[str, pd.DataFrame]:
    run = launches(count)
    few = launches(_SMALL)
    return {**run, "kernels": few["kernels"], "links": few["links"]}


def _marks(count: int) -> dict[str, pd.DataFrame]:
    run = launches(_SMALL)
    index = np.arange(count, dtype=np.int64)
    run["marks"] = tables.build(
        "marks",
        {
            "start_ns": START_NS + index * 1_000,
            "duration_ns": index % 2 * 500,
            "message": names([f"batch {number}" for number in range(count)], index),
            "domain": names(["default"], index * 0),
            "thread_id": index * 0 + 100,
            "id": index,
        },
    )
    return run


def _allocations(count: int) -> dict[str, pd.DataFrame]:
    run = launches(_SMALL)
    index = np.arange(count, dtype=np.int64)
    whole = _SMALL * _EACH_NS
    allocated = START_NS + index * whole // max(count, 1)
    run["allocations"] = tables.build(
        "allocations",
        {
            "name": names(["aten::add"], index * 0),
            "size_bytes": 512 + index % 7 * 1_024,
            "allocated_ns": allocated,
            "released_ns": pd.array(np.where(index % 3 > 0, allocated + 100_000, 0), "Int64").copy(),
            "device_id": index * 0,
        },
    )
    run["allocations"].loc[index % 3 == 0, "released_ns"] = pd.NA
    run["memory"] = tables.build(
        "memory",
        {
            "time_ns": allocated,
            "device_id": index * 0,
            "component": names(["PTA"], index * 0),
            "allocated_bytes": 512 * (index % 50 + 1),
            "reserved_bytes": index * 0 + 2**26,
        },
    )
    return run


def _samples(count: int) -> dict[str, pd.DataFrame]:
    """Sampled lines of the profiled cell."""
    run = launches(_SMALL)
    index = np.arange(count, dtype=np.int64)
    run["sampled_lines"] = tables.build(
        "sampled_lines",
        {
            "time_ns": START_NS + index * (_SMALL * _EACH_NS) // max(count, 1),
            "file": names(["train.py"], index * 0),
            "line": 1 + index % 1_000,
            "function": names(["step"], index * 0),
            "thread_id": index * 0 + 100,
        },
    )
    return run


def _collectives(count: int) -> dict[str, pd.DataFrame]:
    run = launches(_SMALL)
    index = np.arange(count, dtype=np.int64)
    run["communication"] = tables.build(
        "communication",
        {
            "start_ns": START_NS + index * 2_000,
            "duration_ns": index * 0 + 1_500,
            "device_id": index * 0,
            "name": names([f"hcom_allReduce__{number}" for number in range(count)], index),
            "op_type": names(["hcom_allReduce_"], index * 0),
            "group": names([f"group {number}" for number in range(count)], index),
        },
    )
    return run


def _counters(count: int) -> dict[str, pd.DataFrame]:
    run = launches(_SMALL)
    index = np.arange(count, dtype=np.int64)
    run["counters"] = tables.build(
        "counters",
        {
            "time_ns": START_NS + index * 1_000,
            "device_id": pd.array(index * 0, "Int64"),
            "counter": names(["HBM read"], index * 0),
            "instance": names([f"port {number}" for number in range(min(count, 16))], index % 16),
            "value": index.astype(np.float64),
            "unit": names(["MB/s"], index * 0),
        },
    )
    return run


def _devices(count: int) -> dict[str, pd.DataFrame]:
    return launches(count, kernels__device_id=np.arange(count) % 4_096)


QUANTITIES: Mapping[str, Callable[[int], dict[str, pd.DataFrame]]] = {
    "kernels": launches,
    "steps": _steps,
    "loops": _loops,
    "threads": _threads,
    "streams": _streams,
    "names": _names,
    "depth": _depth,
    "recursion": _recursion,
    "operator depth": _operator_depth,
    "kernels without launches": _unlaunched,
    "launches without kernels": _without_kernels,
    "marks": _marks,
    "allocations": _allocations,
    "samples": _samples,
    "collectives": _collectives,
    "counters": _counters,
}


def run_of(quantity: str, count: int) -> Profile:
    """Return a run with `count` of a quantity."""
    return Profile(Decoded(QUANTITIES[quantity](count), factories.info()))

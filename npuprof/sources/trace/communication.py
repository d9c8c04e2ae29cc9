"""Communication operators of a timeline, and the operator of each task on a plane.

Source: sources/RESULTS.md section 2.2.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from typing import Any

import numpy as np
import pandas as pd

from npuprof.arrays import Int32, Int64
from npuprof.sources.columns.builders import ABSENT, optional
from npuprof.sources.trace.nesting import innermost

_PLANE = re.compile(r"Plane (\d{1,9})")
_LEAST, _MOST = 3, 5  # numbers at the end of the name of an operator

Lane = tuple[Any, Any]


def operator_type(name: str) -> str:
    """Return the type within an operator's name: ``hcom_allReduce__586_0_1`` is a ``hcom_allReduce_``."""
    kind, _, number = name.rpartition("__")  # without a pattern: it is asked of each operator of each rank
    numbered = number[-1:].isdecimal() and number.replace("_", "").isdecimal()
    return f"{kind}_" if kind and numbered and _LEAST <= number.count("_") + 1 <= _MOST else name


def group_name(thread: str) -> str:
    """Return the group of a thread: its name, or ``Group 0`` if the name is a number."""
    group = thread.removesuffix(" Communication")
    name = group.removeprefix("Group ")
    return group if name.isdecimal() else name


def plane_ids(threads: list[str]) -> Any:
    """Return the plane number of each thread called ``Plane n``; <NA> for others."""
    matches = [_PLANE.fullmatch(thread) for thread in threads]
    return pd.array([int(match[1]) if match else pd.NA for match in matches], dtype="Int64")


def operators_of(operators: pd.DataFrame, operator_lanes: Int32, lanes: list[Lane], lane: Int32, at: Int64) -> Any:
    """Return the row in `operators` that runs in the group of each task when the task starts.

    `operator_lanes` are the lane codes of `operators`, `lanes` is ``(pid, tid)`` by lane code, `lane` and `at` are lane
    code and start of each task on a plane.
    """
    starts = operators["start_ns"].to_numpy()
    ends = starts + operators["duration_ns"].to_numpy()
    group = _group_of_lane(operator_lanes, lanes)[lane]
    row = innermost(operator_lanes.astype(np.int64), starts, ends, group, at)
    return optional(np.where((row >= 0) & (group >= 0), row, ABSENT))


def _group_of_lane(operator_lanes: Int32, lanes: list[Lane]) -> Int64:
    """Return the group's lane for each lane: a process numbers its threads as group, its planes, next group ..."""
    groups: defaultdict[Any, list[tuple[int, int]]] = defaultdict(list)
    for code in np.unique(operator_lanes).tolist():
        pid, tid = lanes[code]
        groups[pid].append((_order(tid), code))
    for lanes_of_groups in groups.values():
        lanes_of_groups.sort()
    group = np.full(len(lanes), -1, np.int64)
    for code, (pid, tid) in enumerate(lanes):
        before = bisect_right(groups[pid], (_order(tid), len(lanes))) if pid in groups else 0
        if before or len(groups[pid]) == 1:  # in old results the thread of the only group comes after its planes
            group[code] = groups[pid][max(before - 1, 0)][1]
    return group


def _order(tid: Any) -> int:
    return tid if isinstance(tid, int) else 0

"""The host calls that caused other calls and kernels: by nesting on a thread, and by the links of the recording."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from npuprof.analysis.nesting import Nesting
from npuprof.arrays import Bools, Int64, first_rows

LAYERS = ("python", "operators", "api")
"""The host layers, callers before callees."""

_MOST_STEPS = 16  # that rows climb one at a time
_ABSENT = np.iinfo(np.int64).min
_TASK_KEY = ["device_id", "stream_id", "task_id", "batch_id", "start_ns"]


@dataclass(frozen=True)
class Causes:
    """Causes of all host slices and kernels. Host rows are numbered consecutively from the first row of ``python``."""

    # Number of the first row of each host table; row i of `api` has the number i plus `first_row["api"]`.
    first_row: Mapping[str, int]
    callers: Int64  # for each host slice the row of its caller, -1 if it has none. There are no cycles.
    launchers: Int64  # for each kernel the host row that launched it, -1 if unknown
    operators: Int64  # for each kernel the row of the operator named by the links, -1 if they name none
    holders: Int64  # for each host slice the row of the innermost slice around it on its thread, -1 at the top
    self_ns: Int64  # for each host slice its self time: its duration without the slices directly nested in it


def causes(tables: Mapping[str, pd.DataFrame]) -> Causes:
    """Find the cause of every host slice and kernel.

    A slice is called by the innermost slice around it on its thread. A Python call with a recorded parent is below that
    parent even if it is nested elsewhere (coroutines take turns on a thread). Calls that a task queue runs on another
    thread are below the operator that enqueued them. A CANN call with nothing around it is below the operator that the
    links name, for the call or for the kernel that it launched.
    """
    first = dict(zip(LAYERS, np.cumsum([0, *(len(tables[name]) for name in LAYERS)]).tolist(), strict=False))
    duration = np.concatenate([tables[name]["duration_ns"].to_numpy(np.int64) for name in LAYERS])
    holders, python_holders = _holders(tables, duration)
    callers = _declared_parents(tables["python"], holders, python_holders)
    links = whole_links(tables)
    launchers, operators_of = _launchers(tables, links, first)
    callers = _with_links(links, first, callers, launchers, operators_of)
    operators_of = np.where(
        operators_of >= 0, operators_of, _lookup(_operators_of_calls(links, first, callers), launchers)
    )
    launchers = np.where(launchers >= 0, launchers, operators_of)
    return Causes(first, without_cycles(callers), launchers, operators_of, holders, own_ns(duration, holders))


def _holders(tables: Mapping[str, pd.DataFrame], duration: Int64) -> tuple[Int64, Int64]:
    """Return for each host row the innermost slice around it, and for each Python call the one around it."""
    start = np.concatenate([tables[name]["start_ns"].to_numpy(np.int64) for name in LAYERS])
    thread = np.concatenate([tables[name]["thread_id"].to_numpy(np.int64) for name in LAYERS])
    python = len(tables["python"])
    # Equal slices keep their order, so that callers come first: Python by depth, then operators, then the API.
    order = np.concatenate(
        [np.argsort(tables["python"]["depth"].to_numpy(), kind="stable"), np.arange(python, len(start))]
    )
    nesting = Nesting.build(start[order], (start + duration)[order], thread[order])
    row_of = order[nesting.order]
    holders = np.empty(len(start), np.int64)
    holders[row_of] = _lookup(row_of, nesting.parents)
    return holders, nearest(holders, holders[:python], np.arange(len(start)) < python)


def forward_operators(tables: Mapping[str, pd.DataFrame], first_row: Mapping[str, int], host_rows: int) -> Int64:
    """Return for each host row the host row of the forward operator that autograd derived it from, -1 for most rows."""
    links, first = tables["links"], first_row["operators"]
    count = first_row["api"] - first
    source, target = links["source_row"].to_numpy(np.int64), links["target_row"].to_numpy(np.int64)
    is_known = (source >= 0) & (source < count) & (target >= 0) & (target < count)
    derived = (links["kind"] == "forward_backward").to_numpy(bool) & is_known
    forward = np.full(host_rows, -1, np.int64)
    forward[target[derived] + first] = source[derived] + first
    return forward


def callers_without_python(tables: Mapping[str, pd.DataFrame], links: Causes) -> Int64:
    """Return the callers of operators and CANN calls among themselves.

    A sampled Python call may seem to begin and end within an operator, and so hide it from the calls that it made.
    """
    callers, first = links.callers, links.first_row["operators"]
    is_python = (callers >= 0) & (callers < first)
    if not is_python.any():
        return callers
    start, duration, thread = (
        np.concatenate([tables[name][column].to_numpy(np.int64) for name in ("operators", "api")])
        for column in ("start_ns", "duration_ns", "thread_id")
    )
    nesting = Nesting.build(start, start + duration, thread)
    holders = np.full(len(callers), -1, np.int64)
    holders[nesting.order + first] = np.append(nesting.order + first, -1)[nesting.parents]
    return without_cycles(np.where(is_python, holders, callers))


def nearest(callers: Int64, rows: Int64, is_wanted: Bools) -> Int64:
    """Return for each row itself or its nearest caller that is wanted; -1 without one, and for -1."""
    if not len(callers):
        return np.full(len(rows), -1, np.int64)
    reached = np.array(rows, np.int64)
    climbing = np.flatnonzero(reached >= 0)
    for _ in range(_MOST_STEPS):  # most calls are shallow: only the requested rows are traversed upwards
        climbing = climbing[~is_wanted[reached[climbing]]]
        if not len(climbing):
            return reached
        above = callers[reached[climbing]]
        reached[climbing] = above
        climbing = climbing[above >= 0]
    ancestor = np.where(is_wanted, np.arange(len(callers)), callers)
    # Every round doubles how far up each row has looked.
    while len(open_rows := np.flatnonzero((ancestor >= 0) & ~is_wanted[ancestor])):
        ancestor[open_rows] = ancestor[ancestor[open_rows]]
    return np.where(reached >= 0, ancestor[reached], -1)


def _lookup(values: Int64, positions: Int64) -> Int64:
    """Take values at positions; position -1 yields -1."""
    if not len(values):
        return np.full(len(positions), -1, np.int64)
    return np.where(positions >= 0, values[positions], -1)


def _declared_parents(python: pd.DataFrame, holders: Int64, python_holders: Int64) -> Int64:
    """Use a Python call's ``parent_id`` if it names another call than the Python call around it."""
    callers: Int64 = holders.copy()
    ids = pd.Index(python["id"].to_numpy())
    if not len(ids) or not ids.is_unique:
        return callers
    known_rows = np.flatnonzero(python["parent_id"].notna().to_numpy())
    declared = ids.get_indexer(pd.Index(python["parent_id"].iloc[known_rows].to_numpy(np.int64)))
    differs = (declared >= 0) & (declared != python_holders[known_rows]) & (declared != known_rows)
    callers[known_rows[differs]] = declared[differs]
    return callers


def whole_links(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Keep the links whose two ends are existing rows."""
    links = tables["links"]
    is_kept = np.ones(len(links), bool)
    for end in ("source", "target"):
        names = pd.Categorical(links[f"{end}_table"])
        lengths = [len(tables[name]) if name in tables else 0 for name in names.categories]
        rows = links[f"{end}_row"].to_numpy()
        is_kept &= (rows >= 0) & (rows < np.array([*lengths, 0], np.int64)[names.codes])
    return links if is_kept.all() else links[is_kept]


def _launchers(
    tables: Mapping[str, pd.DataFrame], links: pd.DataFrame, first: Mapping[str, int]
) -> tuple[Int64, Int64]:
    """Return for each kernel the API row and the operator row that the links name as its cause."""
    sources, rows_of = links["source_row"].to_numpy(), links["target_row"].to_numpy()
    targets = np.where((links["target_table"] == "kernels").to_numpy(bool), rows_of, -1)
    of_task = np.flatnonzero((links["target_table"] == "tasks").to_numpy(bool))
    if len(of_task):
        targets[of_task] = _kernels_of(tables, rows_of[of_task])
    launchers = []
    for table in ("api", "operators"):
        rows = np.full(len(tables["kernels"]), -1, np.int64)
        named = np.flatnonzero((links["source_table"] == table).to_numpy(bool) & (targets >= 0))[::-1]
        rows[targets[named]] = sources[named] + first[table]
        launchers.append(rows)
    return launchers[0], launchers[1]


def launch_moments(tables: Mapping[str, pd.DataFrame]) -> pd.Series[Any]:
    """Return for each kernel the start of the host call that the links name as its launch; absent without a link."""
    first = dict(zip(LAYERS, np.cumsum([0, *(len(tables[name]) for name in LAYERS)]).tolist(), strict=False))
    api, operators = _launchers(tables, whole_links(tables), first)
    rows = np.where(api >= 0, api, operators)
    starts = np.concatenate([*(tables[name]["start_ns"].to_numpy(np.int64) for name in LAYERS), [0]])
    return pd.Series(pd.arrays.IntegerArray(starts[rows], rows < 0))


def _kernels_of(tables: Mapping[str, pd.DataFrame], task_rows: Int64) -> Int64:
    """Return the row of ``kernels`` of each task; -1 if the task is not a kernel."""
    count = len(tables["kernels"])
    tasks, of = np.unique(task_rows, return_inverse=True)
    keys = _task_keys(tables, tasks)
    rows = first_rows(keys[:count], keys[count:])
    alike = np.bincount(keys[:count])[keys[:count]] > 1
    shared = np.bincount(rows + 1, minlength=count + 1)[1:] > 1
    if alike.any() or shared.any():  # some began together on their stream: times may be whole microseconds
        shared |= alike
        among = (rows >= 0) & shared[rows]
        rows = rows.copy()
        rows[among] = _kernels_of_equals(tables, tasks[among], np.flatnonzero(shared), rows[among])
    return rows[of]


def _task_keys(tables: Mapping[str, pd.DataFrame], tasks: Int64) -> Int64:
    """Return a number for the key of each kernel and then of each given task: equal keys have equal numbers."""
    keys = np.zeros(len(tables["kernels"]) + len(tasks), np.int64)
    for name in _TASK_KEY:
        of_kernels, of_tasks = (tables[table][name] for table in ("kernels", "tasks"))
        values = [
            column.to_numpy(np.int64, na_value=_ABSENT) if column.hasnans else column.to_numpy(np.int64)
            for column in (of_kernels, of_tasks.iloc[tasks])
        ]
        column = np.concatenate(values)
        if (column != column[0]).any():
            codes, distinct = pd.factorize(column)
            keys = pd.factorize(keys * len(distinct) + codes)[0]
    return keys


def _kernels_of_equals(tables: Mapping[str, pd.DataFrame], tasks: Int64, kernels: Int64, otherwise: Int64) -> Int64:
    """Return the kernels of tasks that began together on a stream: by their launch and name, equal ones in order."""
    rows = np.full(len(tasks), -1, np.int64)
    for more in (["connection_id"], ["connection_id", "duration_ns", "name"]):
        keys, sides = [*_TASK_KEY, *more], []
        for name, chosen in (("tasks", tasks), ("kernels", kernels)):
            side = tables[name][keys].iloc[chosen]
            side = side.assign(name=side["name"].astype(object)) if "name" in keys else side
            sides.append(side.assign(turn=side.groupby(keys, dropna=False, sort=False).cumcount(), row=chosen))
        found = sides[0].merge(sides[1], "left", [*keys, "turn"])["row_y"].fillna(-1).to_numpy(np.int64)
        rows = np.where(found >= 0, found, rows)
    return np.where((rows < 0) & ~np.isin(otherwise, rows), otherwise, rows)


def _with_links(
    links: pd.DataFrame, first: Mapping[str, int], callers: Int64, launchers: Int64, operators_of: Int64
) -> Int64:
    """Put dequeued operators below the operators that enqueued them, and API calls without a caller below operators."""
    callers = callers.copy()
    source, target = links["source_row"].to_numpy(), links["target_row"].to_numpy()
    from_operator = (links["source_table"] == "operators").to_numpy()
    enqueued = from_operator & ((links["kind"] == "enqueue") & (links["target_table"] == "operators")).to_numpy()
    callers[target[enqueued] + first["operators"]] = source[enqueued] + first["operators"]
    to_api = from_operator & (links["target_table"] == "api").to_numpy()
    both = np.flatnonzero((launchers >= 0) & (operators_of >= 0))
    called = np.concatenate([target[to_api] + first["api"], launchers[both]])
    operators = np.concatenate([source[to_api] + first["operators"], operators_of[both]])
    orphaned = callers[called] < 0
    callers[called[orphaned]] = operators[orphaned]
    return callers


def _operators_of_calls(links: pd.DataFrame, first: Mapping[str, int], callers: Int64) -> Int64:
    """Return for the host row of each CANN call the row of the operator that the links name, -1 elsewhere."""
    operators = np.full(len(callers), -1, np.int64)
    is_named = ((links["source_table"] == "operators") & (links["target_table"] == "api")).to_numpy(bool)
    rows = links["target_row"].to_numpy(np.int64)[is_named] + first["api"]
    operators[rows] = links["source_row"].to_numpy(np.int64)[is_named] + first["operators"]
    return operators


def without_cycles(callers: Int64) -> Int64:
    """Remove callers that form a cycle: in some recordings, a call is its own parent."""
    ancestors = callers
    for _ in range(max(1, len(callers)).bit_length()):
        if not (ancestors >= 0).any():
            return callers
        ancestors = _lookup(ancestors, ancestors)
    return np.where(ancestors >= 0, -1, callers)


def own_ns(duration: Int64, holders: Int64) -> Int64:
    """Return the self time of each host slice: its duration without the slices of which it is the innermost holder."""
    held = np.zeros(len(duration), np.int64)
    inner = np.flatnonzero(holders >= 0)
    np.add.at(held, holders[inner], duration[inner])
    # Two overlapping slices inside a third would subtract their common time twice.
    return np.maximum(duration - held, 0)

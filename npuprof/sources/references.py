"""Count the rows that refer to rows which a run lacks, in both directions, on the tables of any format.

A row that was lost is known by the rows that name it: the call that launched a task, the operator of a communication
task, the other side of the task queue, the caller of a Python function, the sample of an allocator at a block. In
healthy results none of these is missing, but for the tasks in :data:`UNLAUNCHED`: measured on all published results of
NPUs that were available, which `tests/sources/test_references.py` repeats.

Source: sources/RESULTS.md section 5.8.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd

from npuprof import tables as schema
from npuprof.arrays import Bools, Int64
from npuprof.sources.columns.builders import ABSENT
from npuprof.tables.notes import Notes
from npuprof.words.quantities import share

UNLAUNCHED = frozenset({"MsTx", "PROFILING_ENABLE", "PROFILING_DISABLE", "PLACE_HOLDER_SQE"})
"""Types of tasks that no recorded call launches."""

_ALLOCATORS = ("PTA", "GE")  # each by itself: the samples of their sum repeat those of both
_OF_GPU = ("kernel", "gpu_memcpy", "gpu_memset")  # types of tasks
_ON_GPU = re.compile(r"cu|hip|musa|mc|tops")  # calls of the runtimes of GPUs
_LAUNCH_ON_GPU = re.compile(rf"({_ON_GPU.pattern})\w*Launch(?!HostF)")
_MOST_OF_NO_BYTES = 0.05  # of copies and fills may have had nothing to do: 3 of 2,469 had, all of memset
_TASK = ["device_id", "stream_id", "task_id", "context_id"]  # not its start, which files round differently


class Dangling(NamedTuple):
    """Rows of a table that refer to missing rows, worded for one row, and what is wrong because of it."""

    table: str
    rows: Bools
    message: str
    column: str = "duration_ns"  # of the share that they have of the table


_Tables = Mapping[str, pd.DataFrame]


def note_dangling(frames: Mapping[str, pd.DataFrame], notes: Notes) -> None:
    """Warn of rows whose references lead nowhere, with the share of their table's time or bytes."""
    every = {name: frames[name] if name in frames else schema.empty(name) for name in schema.NAMES}
    for check in _CHECKS:
        for dangling in check(every):
            if count := int(np.count_nonzero(dangling.rows)):
                values = every[dangling.table][dangling.column]
                part, whole = int(values[dangling.rows].sum()), int(values.sum())
                of = f"{share(part, whole)} of the {'time' if dangling.column == 'duration_ns' else 'bytes'}"
                others = _launched_by(every, dangling) if dangling.table == "tasks" else ""
                notes.warning(dangling.table, f"{dangling.message} ({of} of {dangling.table}{others})", count)


def _launched_by(every: _Tables, dangling: Dangling) -> str:
    """Return the shares of kernel and communication time that have the connections of tasks, as text."""
    connections = _connections(every["tasks"][dangling.rows])
    connections = connections[connections != ABSENT]
    shares = []
    for name in ("kernels", "communication"):
        durations, is_of = every[name]["duration_ns"], np.isin(_connections(every[name]), connections)
        if is_of.any():
            shares.append(f", {share(int(durations[is_of].sum()), int(durations.sum()))} of that of {name}")
    return "".join(shares)


def _calls(every: _Tables) -> Iterator[Dangling]:
    """Yield tasks without the call that launched them, and launches without the task."""
    api, tasks = every["api"], every["tasks"]
    called, effects = _connections(api), [_connections(every[name]) for name in ("tasks", "communication")]
    has_task = np.isin(called, np.concatenate(effects)) & (called != ABSENT)
    is_called = np.isin(effects[0], called) & (effects[0] != ABSENT)
    # Calls before the first recorded one were made before the collection began.
    first = int(called[called != ABSENT].min(initial=np.iinfo(np.int64).max)) if len(api) else ABSENT
    of_gpu = tasks["task_type"].isin(_OF_GPU).to_numpy() & (len(api) == 0)
    is_due = (is_called.any() | of_gpu) & ~tasks["task_type"].isin(UNLAUNCHED).to_numpy()
    rows = ~is_called & (effects[0] > first) & is_due
    message = "a task names a call that is not in api: counts and times of calls are too low, and its link is missing"
    yield Dangling("tasks", rows, message)
    # The collection may have ended before the last tasks ran.
    last = int(api["start_ns"].to_numpy()[has_task].max(initial=0)) if len(tasks) else np.iinfo(np.int64).max
    lacking = ~has_task & (called != ABSENT) & (api["start_ns"].to_numpy() < last)
    launches = (api["level"] == "node").to_numpy(bool) & bool(is_called.any()) | _launches_on_gpu(api)
    message = "a launch has no task: tasks, kernels or collectives are missing, and their links; sums are too low"
    yield Dangling("api", launches & lacking, message)
    for kind in ("memcpy", "memset"):
        calls = schema.matching(api["name"], lambda name, kind=kind: bool(_ON_GPU.match(name)) and kind in name.lower())  # type: ignore[misc]
        rows = calls & lacking
        if rows.sum() > _MOST_OF_NO_BYTES * calls.sum():
            message = f"a call of {kind} has no task: copies are missing, and their links; sums are too low"
            yield Dangling("api", rows, message)


def _launches_on_gpu(api: pd.DataFrame) -> Bools:
    """Return the calls of a GPU's runtime that launch kernels or graphs; what is captured into a graph does not run."""
    launches = schema.matching(api["name"], lambda name: _LAUNCH_ON_GPU.match(name) is not None)
    starts = api["start_ns"].to_numpy(np.int64)
    begins, ends = (
        starts[schema.matching(api["name"], lambda name, word=word: word in name)]  # type: ignore[misc]
        for word in ("BeginCapture", "EndCapture")
    )
    if len(begins):
        launches &= (starts < begins.min()) | (starts > ends.max(initial=begins.max()))
    return launches


def _operators(every: _Tables) -> Iterator[Dangling]:
    """Yield calls and tasks on a GPU whose operator is missing; those of a smaller id began before the recording."""
    known = _ids(every["operators"], "external_id")
    first = int(known[known != ABSENT].min(initial=np.iinfo(np.int64).max)) if len(known) else 0
    known = np.concatenate([known, _ids(every["marks"], "id")])
    for name, what in (("api", "a call"), ("tasks", "a task")):
        named = _ids(every[name], "external_id")
        message = f"{what} names an operator that is missing: so are rows of operators, and causes of idle time"
        yield Dangling(name, (named > first) & ~np.isin(named, known), message)


def _collectives(every: _Tables) -> Iterator[Dangling]:
    """Yield communication tasks without an operator, operators without a task, and tasks that are of no collective."""
    steps, operators, tasks = every["communication_tasks"], every["communication"], every["tasks"]
    if not len(steps):
        return
    if len(operators):
        missing = steps["op_id"].isna().to_numpy(bool)
        message = (
            "a communication task belongs to no operator: collectives are missing, so that communication is too low"
        )
        yield Dangling("communication_tasks", missing, message)
        has_tasks = np.isin(np.arange(len(operators)), steps["op_id"].dropna().to_numpy(np.int64))
        message = "a collective has no communication_tasks: waiting and moving, sizes and links are incomplete"
        yield Dangling("communication", ~has_tasks, message)
    if not len(tasks) or not {*_TASK} <= {*steps}:
        return
    connection = _connections(tasks)
    of_collectives = np.isin(connection, _connections(operators)) & (connection != ABSENT)
    is_described = _keys(tasks).isin(_keys(steps))
    kinds = tasks["task_type"][of_collectives & is_described].unique()
    rows = of_collectives & ~is_described & tasks["task_type"].isin(kinds).to_numpy()
    message = "a task of a collective is not in communication_tasks: waiting and moving, sizes and links are incomplete"
    yield Dangling("tasks", rows, message)


def _queue(every: _Tables) -> Iterator[Dangling]:
    """Yield enqueues without their dequeue, and dequeues without their enqueue."""
    operators, links = every["operators"], every["links"]
    queued = links[(links["kind"] == "enqueue").to_numpy(bool)]
    if not len(queued):
        return
    numbers, kind = np.arange(len(operators)), operators["kind"]
    for side, other, column in (("enqueue", "dequeue", "source_row"), ("dequeue", "enqueue", "target_row")):
        rows = (kind == side).to_numpy(bool) & ~np.isin(numbers, queued[column].to_numpy())
        message = f"an {side} has no {other}" if side[0] == "e" else f"a {side} has no {other}"
        yield Dangling("operators", rows, f"{message}: rows of operators are missing, and their links")


def _python(every: _Tables) -> Iterator[Dangling]:
    """Yield Python calls without their caller."""
    python = every["python"]
    rows = (python["parent_id"].notna() & ~python["parent_id"].isin(python["id"])).to_numpy(bool)
    message = "a Python call names a caller that is missing: rows of python are, and idle time and lines of it"
    yield Dangling("python", rows, message)


def _memory(every: _Tables) -> Iterator[Dangling]:
    """Yield blocks at whose allocation no allocator was sampled, and growths of an allocator without a block."""
    blocks, memory = every["allocations"], every["memory"]
    begun = blocks["allocated_ns"].to_numpy(np.int64, na_value=ABSENT)
    sampled = memory[(memory["allocated_bytes"].notna()).to_numpy(bool)]
    has_totals = bool(blocks.filter(like="_total_allocated_bytes").notna().any(axis=None))
    if not len(blocks) or "allocated_sequence" in blocks or not has_totals:
        return
    rows = (begun != ABSENT) & ~np.isin(begun, sampled["time_ns"].to_numpy())
    message = (
        "a block has no sample of its allocator: the allocator's record (MEMORY_RECORD, memory_record.csv) is missing "
        "or incomplete; the memory peak is at least what blocks of operators and the totals at them show"
    )
    yield Dangling("allocations", rows, message, "size_bytes")
    grown = np.zeros(len(memory), bool)
    for component in _ALLOCATORS:
        of = memory[(memory["component"] == component).to_numpy(bool) & memory["allocated_bytes"].notna().to_numpy()]
        for _, samples in of.groupby("device_id", dropna=False):
            held = samples.sort_values("time_ns", kind="stable")["allocated_bytes"]
            grown[held.index.to_numpy()[1:]] = np.diff(held.to_numpy(np.int64)) > 0
    rows = grown & ~np.isin(memory["time_ns"].to_numpy(), begun)
    message = "an allocator has more than before, and no block was allocated: rows of allocations are missing"
    yield Dangling("memory", rows, f"{message}; owners of memory are incomplete", "allocated_bytes")


def _connections(frame: pd.DataFrame) -> Int64:
    return _ids(frame, "connection_id")


def _ids(frame: pd.DataFrame, column: str) -> Int64:
    """Return a column of ids, which are absent where a format lacks the column."""
    if column not in frame:
        return np.full(len(frame), ABSENT)
    ids: Int64 = frame[column].to_numpy(np.int64, na_value=ABSENT)
    return ids


def _keys(frame: pd.DataFrame) -> pd.MultiIndex:
    keys: pd.MultiIndex = pd.MultiIndex.from_frame(frame[_TASK].fillna(-1))
    return keys


_CHECKS: tuple[Callable[[_Tables], Iterator[Dangling]], ...] = (
    _calls,
    _operators,
    _collectives,
    _queue,
    _python,
    _memory,
)

"""The FRAMEWORK folder of MindSpore on an NPU: ``mindspore.op_range`` and the text files of a CPU run.

A range is a call of the framework, or of Python if stacks were recorded. Its timestamps are host counter values, as in
the raw directory.

Source: the writer and the parser of MindSpore 2.5 and later (54 bytes, then fields of text), read in source only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.analysis.nesting import Nesting
from npuprof.arrays import Bools, Int32, Int64
from npuprof.sources.base import Decoded
from npuprof.sources.columns.builders import ABSENT, optional, recoded
from npuprof.sources.columns.concatenation import stacked
from npuprof.sources.framework import mindspore
from npuprof.sources.framework.files import MINDSPORE_RANGES, read_content, read_texts
from npuprof.sources.framework.intervals import by_time, durations, reached, to_ns
from npuprof.sources.framework.tlv import Records, scan
from npuprof.sources.raw.metadata.clocks import CounterClock
from npuprof.tables.notes import Notes

COLLECTOR = mindspore.COLLECTOR

_KIND, _FIXED_BYTES = 0, 54
_NAME, _FULL_NAME, _MODULE_GRAPH, _EVENT_GRAPH = 13, 14, 15, 16
_MODULE, _EVENT, _STAGE, _IS_GRAPH, _IS_STAGE, _IS_STACK = 44, 46, 48, 51, 52, 53  # offsets
_MOST_STEP = 1 << 62
_FLOW = "flow"
_words = str.split


# Names by the numbers in a record, counted from 0.
_STAGES = _words("Default Python Capture RunGraph RunGrad RunOp Asnumpy CompileGradGraph WaitPipeline SyncStream")
_MODULES = _words("Default GraphExecutorPy RuntimeFramework PynativeFramework Kernel Python Capture Other")
_EVENTS = _words(
    "Default KernelInfer KernelResize KernelInferAndResize KernelLaunch KernelLaunckCallback KernelUpdate "
    "KernelPrepareData GraphLaunch InputProcess OutputProcess WaitTaskFinish PreLaunch PostLaunch SendOutput "
    "MemoryAlloc MemoryFree CopyData StreamSync ProcessMultiStream WaitKernelsInferFinish WaitKernelsResizeFinish "
    "WaitKernelsLaunchFinish KernelInferInner KernelInferDataSync KernelResizeInner KernelLaunchInner "
    "BackendGraphRunInner RunOp PyNativeFrontendTask PyNativeBackendTask PyNativeDeviceTask PyNativeLaunchTask "
    "PyNativeBpropTask Wait PyNativeGilAcquire PyNativeCast PyNativeInfer PyNativeOpCompile PyNativeGradExpander "
    "PyNativeGradUpdateSens PyNativeGradClearTopCell PyNativeGradClearAutoGradCell PyBoostInferOutput "
    "PyBoostInferByOpDef PyBoostCreateOutputTensor PyBoostDeviceTask PyBoostMallocInput PyBoostMallocOutput "
    "PyBoostLaunchAclnn PyBoostLaunchAtb PyNativeNewGraph PyNativeEndGraph PythonObserved CaptureRunGraph "
    "CaptureProcess CaptureCompile CaptureGuard AclnnHitCacheStage1 AclnnHitCacheStage2 AclnnMissCacheStage1 "
    "AclnnMissCacheStage2 AclnnUpdateAddress AclnnRunOp RunExpanderFunc EmitOp Execute ReleaseResource NativeFunc"
)

Names: TypeAlias = tuple[Int32, list["str | None"]]


@dataclass(frozen=True)
class Ranges:
    """Ranges in order of time, as parallel arrays."""

    start_ns: Int64
    duration_ns: Int64
    thread_id: Int64
    flow_id: Int64
    step: Int64
    is_stack: Bools
    name: pd.Categorical


def holds_data(folder: Path) -> bool:
    """Check whether a folder has ``mindspore.op_range``."""
    return (folder / MINDSPORE_RANGES).is_file()


def read(folder: Path, clock_of: Callable[[], CounterClock], decoded: Decoded) -> None:
    """Read the tables ``operators``, ``python`` and ``memory``; `clock_of` returns the clock of the host's counter.

    `operators` gets the column ``correlation_id``, shared by calls that pass work to each other.
    """
    mindspore.read(folder, clock_of, decoded)
    ranges = read_ranges(folder, clock_of(), decoded.notes)
    if ranges is None:
        return
    stacks = int(ranges.is_stack.sum())
    decoded.notes.ledger.keep(MINDSPORE_RANGES, "python", stacks)
    decoded.notes.ledger.keep(MINDSPORE_RANGES, "operators", len(ranges.is_stack) - stacks)
    parts = [decoded.tables["operators"], _operators(ranges)]
    joined_rows = stacked([part for part in parts if len(part)] or parts[1:])
    operators = tables.sort_by_time(joined_rows)
    decoded.tables["operators"] = operators.assign(id=np.arange(len(operators)))
    decoded.tables["python"] = _python(ranges)


def read_ranges(folder: Path, clock: CounterClock, notes: Notes) -> Ranges | None:
    """Read ``mindspore.op_range``; None if it cannot be read."""
    content = read_content(folder, MINDSPORE_RANGES, notes)
    if content is None:
        return None
    records = scan(content, _KIND, _FIXED_BYTES, notes, MINDSPORE_RANGES)
    start, end = records.column(24, "<i8"), records.column(32, "<i8")
    good = reached(clock, [start, end], notes, MINDSPORE_RANGES)
    start_ns, end_ns = to_ns(clock, start[good]), to_ns(clock, end[good])
    duration_ns = durations(start_ns, end_ns, notes, MINDSPORE_RANGES)
    name = _names(records, good, notes)
    order = by_time(start_ns, duration_ns)
    thread, flow, step = (records.column(offset, "<i8")[good].astype(np.int64)[order] for offset in (0, 8, 16))
    return Ranges(
        start_ns[order],
        duration_ns[order],
        thread,
        flow,
        np.where((step >= 0) & (step < _MOST_STEP), step, ABSENT),
        (records.column(_IS_STACK, "u1")[good] != 0)[order],
        name[order],
    )


def _names(records: Records, good: Bools, notes: Notes) -> pd.Categorical:
    """Name ranges as the vendor's timeline does, each distinct name once."""
    kinds = (_NAME, _FULL_NAME, _MODULE_GRAPH, _EVENT_GRAPH)
    fields = records.fields(kinds, notes, MINDSPORE_RANGES)
    texts: list[Names] = []
    for kind in kinds:
        at, length = fields[kind]
        texts.append(read_texts(records.content, at[good], length[good], notes, MINDSPORE_RANGES))
    flags = [records.column(offset, "u1")[good].astype(np.int64) for offset in (_IS_STACK, _IS_GRAPH, _IS_STAGE)]
    numbers = [records.column(offset, "<u2")[good].astype(np.int64) for offset in (_MODULE, _EVENT, _STAGE)]
    columns = [*(codes.astype(np.int64) for codes, _ in texts), *flags, *numbers]
    index = pd.MultiIndex.from_arrays(columns)
    # pandas 2.1 cannot factorize an empty index.
    codes, distinct = index.factorize() if len(index) else (np.empty(0, np.int64), index)
    return recoded(codes, [_name(texts, row) for row in distinct.tolist()])


def _name(texts: list[Names], row: tuple[int, ...]) -> str:
    name, full_name, module_graph, event_graph = (
        "" if code < 0 else names[code] or "" for (_, names), code in zip(texts, row[:4], strict=True)
    )
    is_stack, is_graph, is_stage, module, event, stage = row[4:]
    if is_stack:
        return name
    if is_graph:
        return f"{module_graph}::{event_graph}::{name}"
    if is_stage:
        return _of(_STAGES, stage)
    return full_name if name == _FLOW else f"{_of(_MODULES, module)}::{_of(_EVENTS, event)}::{full_name}"


def _of(names: list[str], number: int) -> str:
    return names[number] if number < len(names) else str(number)


def _operators(ranges: Ranges) -> pd.DataFrame:
    rows = np.flatnonzero(~ranges.is_stack)
    return tables.build(
        "operators",
        {
            "start_ns": ranges.start_ns[rows],
            "duration_ns": ranges.duration_ns[rows],
            "name": ranges.name[rows],
            "thread_id": ranges.thread_id[rows],
            "kind": tables.categorical(np.zeros(len(rows), np.int8), ["op"]),
            "id": np.arange(len(rows)),
            "step": optional(ranges.step[rows]),
            "correlation_id": optional(np.where(ranges.flow_id[rows] > 0, ranges.flow_id[rows], ABSENT)),
        },
    )


def _python(ranges: Ranges) -> pd.DataFrame:
    rows = np.flatnonzero(ranges.is_stack)
    start_ns, duration_ns, thread = (values[rows] for values in (ranges.start_ns, ranges.duration_ns, ranges.thread_id))
    parent, depth = _nest(start_ns, duration_ns, thread)
    return tables.build(
        "python",
        {
            "start_ns": start_ns,
            "duration_ns": duration_ns,
            "name": ranges.name[rows],
            "thread_id": thread,
            "id": np.arange(len(rows)),
            "parent_id": pd.arrays.IntegerArray(parent, parent < 0),
            "depth": depth,
        },
    )


def _nest(start_ns: Int64, duration_ns: Int64, thread: Int64) -> tuple[Int64, Int64]:
    """Return the caller of each call, -1 for none, and its depth."""
    nesting = Nesting.build(start_ns, start_ns + duration_ns, thread)
    parent, depth = np.empty(len(start_ns), np.int64), np.empty(len(start_ns), np.int64)
    parent[nesting.order] = np.where(nesting.parents >= 0, np.append(nesting.order, -1)[nesting.parents], -1)
    depth[nesting.order] = nesting.depths()
    return parent, depth

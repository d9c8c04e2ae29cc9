"""The writer of a timeline: an Ascend front end, or torch's own profiler (Kineto).

Both write a plain list or wrap it in an object with any keys, and merged, converted and truncated files differ.
Therefore the events decide: their processes, categories and arguments, and the form of their times.

Source: sources/RESULTS.md section 2, and files as torch 2.13 writes them.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal, TypeAlias

from npuprof.errors import SourceError
from npuprof.progress import watched
from npuprof.sources.files.gzip_file import read_head
from npuprof.sources.trace.event import Event
from npuprof.sources.trace.events import arguments_of, read_events
from npuprof.sources.trace.torch_categories import is_of_torch
from npuprof.tables.notes import Notes

Kind: TypeAlias = Literal["ascend", "kineto", ""]

_MAX_CHUNKS = 64  # stacks of a long run precede the names of processes
_HEAD_BYTES = 1 << 18
_DECODED_EVENTS = 50  # events inspected per category
_NPU = re.compile(r"NPU(?:\s+\d+)?")
_PROCESSES = frozenset(
    [
        *("CANN", "Ascend Hardware", "AI Core Freq", "HCCL", "Communication", "Overlap Analysis", "Python GC"),
        *("MsprofTx", "HBM", "LLC", "NPU MEM", "Stars Soc Info", "Acc PMU", "QoS", "HCCS", "SIO", "Step Trace"),
        *("Stars Chip Trans", "Biu Perf", "AI Core Utilization", "MindSpore", "CPU OP", "Scope Layer"),
        *("CPU Usage", "Memory Usage", "Disk Usage", "Network Usage", "OS Runtime API"),
    ]
)
_OF_ASCEND = frozenset(
    [
        *("enqueue", "dequeue", "async_npu", "async_task_queue", "HostToDevice", "MsTx", "async_mindspore"),
        *("GC", "Iteration Time", "FP_BP Time", "Iteration Refresh", "Data_aug Bound"),
    ]
)
_ARGUMENTS: dict[Kind, frozenset[str]] = {
    "ascend": frozenset(["Physic Stream Id", "Task Type", "connection_id", "alg_type", "notify_id", "event_type"]),
    "kineto": frozenset(["External id", "external id", "Ev Idx", "Record function id", "correlation", "Op count"]),
}
_HEADER = re.compile(rb'"(?:schemaVersion|baseTimeNanoseconds|deviceProperties)"\s*:')
_EVENTS = re.compile(rb'"traceEvents"\s*:')


_EXPORTED = re.compile(
    rb'\{"otherData": \{"producer": "npuprof", "base_ns": "(\d{1,18}|[1-3]\d{18})"'
    rb', "collector": "([\w .-]{0,40})", "simulated": (true|false)'
)


@dataclass(frozen=True)
class ExportedTrace:
    """Facts of a trace that npuprof wrote: its time origin in epoch nanoseconds, and those of its run."""

    base_ns: int
    collector: str
    simulated: bool


def exported_trace(path: Path) -> ExportedTrace | None:
    """Return the facts of a trace that npuprof wrote; None for any other trace."""
    head = _EXPORTED.match(read_head(path, _HEAD_BYTES))
    return head and ExportedTrace(int(head[1]), head[2].decode(), head[3] == b"true")


def kind_of_trace(path: Path) -> Kind:
    """Return the writer of a timeline; empty if it cannot be identified.

    A single sign of an Ascend front end decides, even in a file partly written by torch's profiler. Without any sign in
    its events, a file is attributed to Kineto by the keys before them.
    """
    try:
        with watched(None):  # reports no progress
            for batch in islice(read_events(path, Notes()), _MAX_CHUNKS):
                if kind := _kind_of_events(batch):
                    return kind
    except SourceError:
        return ""
    head = read_head(path, _HEAD_BYTES)
    events = _EVENTS.search(head)
    return "kineto" if _HEADER.search(head[: events.start()] if events else head) else ""


def _kind_of_events(events: list[Event]) -> Kind:
    categories = {event.cat or "" for event in events}
    if categories & _OF_ASCEND or any(_is_of_npu(event) for event in events if event.ph == "M"):
        return "ascend"
    arguments = _arguments(events)
    if arguments & _ARGUMENTS["ascend"]:
        return "ascend"
    if arguments & _ARGUMENTS["kineto"] or any(map(is_of_torch, categories)):
        return "kineto"
    # A time as text is the weakest sign: tools that convert traces also write times as text.
    return "ascend" if any(type(event.ts) is str for event in events) else ""


def _is_of_npu(event: Event) -> bool:
    args = arguments_of(event)
    if event.name == "process_name":
        name = args.get("name")
        return isinstance(name, str) and name in _PROCESSES
    return event.name == "process_labels" and _NPU.fullmatch(str(args.get("labels", ""))) is not None


def _arguments(events: list[Event]) -> set[str]:
    """Return the argument names of the first events of each phase and category."""
    counts: Counter[tuple[str, str | None]] = Counter()
    names: set[str] = set()
    for event in events:
        counts[event.ph, event.cat] += 1
        if counts[event.ph, event.cat] <= _DECODED_EVENTS:
            names.update(arguments_of(event))
    return names

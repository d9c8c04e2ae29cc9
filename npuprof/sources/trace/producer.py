"""Whose timeline a file of Chrome events is: an Ascend front end's, or torch's own profiler's (Kineto).

Both may be a plain list or wrapped in an object, with any keys beside the events: merged, converted and cut files
differ. So the events tell: their processes, categories and arguments, and how they write a time.

Source: sources/RESULTS.md section 2, and files as torch 2.13 writes them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from itertools import islice
from pathlib import Path
from typing import Literal, TypeAlias

from npuprof.errors import SourceError
from npuprof.notes import Notes
from npuprof.progress import watched
from npuprof.sources.files.gzip_file import read_head
from npuprof.sources.trace.event import Event
from npuprof.sources.trace.events import arguments_of, read_events

Kind: TypeAlias = Literal["ascend", "kineto", ""]

_MAX_CHUNKS = 64  # stacks of a long run come before the processes that tell whose it is
_HEAD_BYTES = 1 << 18
_LOOKED_AT = 50  # events of a category whose arguments are decoded
_NPU = re.compile(r"NPU(?:\s+\d+)?")
_PROCESSES = frozenset(
    [
        *("CANN", "Ascend Hardware", "AI Core Freq", "HCCL", "Communication", "Overlap Analysis", "Python GC"),
        *("MsprofTx", "HBM", "LLC", "NPU MEM", "Stars Soc Info", "Acc PMU", "QoS", "HCCS", "SIO", "Step Trace"),
        *("Stars Chip Trans", "Biu Perf", "AI Core Utilization", "MindSpore", "CPU OP", "Scope Layer"),
        *("CPU Usage", "Memory Usage", "Disk Usage", "Network Usage", "OS Runtime API"),
    ]
)
_CATEGORIES: dict[Kind, frozenset[str]] = {
    "ascend": frozenset(
        [
            *("enqueue", "dequeue", "async_npu", "async_task_queue", "HostToDevice", "MsTx", "async_mindspore"),
            *("GC", "Iteration Time", "FP_BP Time", "Iteration Refresh", "Data_aug Bound"),
        ]
    ),
    "kineto": frozenset(
        [
            *("kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime", "cuda_driver", "ac2g", "gpu_user_annotation"),
            *(
                "cpu_instant_event",
                "Trace",
                "overhead",
                "xpu_runtime",
                "hip_runtime",
                "cuda_sync",
                "cuda_profiler_range",
            ),
        ]
    ),
}
_ARGUMENTS: dict[Kind, frozenset[str]] = {
    "ascend": frozenset(["Physic Stream Id", "Task Type", "connection_id", "alg_type", "notify_id", "event_type"]),
    "kineto": frozenset(["External id", "Ev Idx", "Record function id", "correlation", "Op count"]),
}
_HEADER = re.compile(rb'"(?:schemaVersion|baseTimeNanoseconds|deviceProperties)"\s*:')
_EVENTS = re.compile(rb'"traceEvents"\s*:')


def kind_of_trace(path: Path) -> Kind:
    """Return whose timeline a file of events is; empty where nothing of it tells.

    One sign of an Ascend front end is enough, even in a file that torch's profiler wrote parts of. A file without any
    sign in its events is Kineto's if the keys before them are.
    """
    found: Kind = ""
    try:
        with watched(None):  # a look at the beginning is no part of the reading
            for batch in islice(read_events(path, Notes()), _MAX_CHUNKS):
                if found := _kind_of_events(batch):
                    return found
    except SourceError:
        return ""
    head = read_head(path, _HEAD_BYTES)
    events = _EVENTS.search(head)
    return "kineto" if _HEADER.search(head[: events.start()] if events else head) else ""


def _kind_of_events(events: list[Event]) -> Kind:
    categories = {event.cat or "" for event in events}
    if categories & _CATEGORIES["ascend"] or any(_is_of_npu(event) for event in events if event.ph == "M"):
        return "ascend"
    arguments = _arguments(events)
    kinds: tuple[Kind, ...] = ("ascend", "kineto")
    signs = (kind for kind in kinds if arguments & _ARGUMENTS[kind] or categories & _CATEGORIES[kind])
    # A time as text is the weakest sign: tools that convert traces write such too.
    return next(signs, "ascend" if any(type(event.ts) is str for event in events) else "")


def _is_of_npu(event: Event) -> bool:
    args = arguments_of(event)
    if event.name == "process_name":
        return args.get("name") in _PROCESSES
    return event.name == "process_labels" and _NPU.fullmatch(str(args.get("labels", ""))) is not None


def _arguments(events: list[Event]) -> set[str]:
    """Return the keys of the arguments of the first events of each phase and category."""
    looked_at: defaultdict[tuple[str, str | None], int] = defaultdict(int)
    found: set[str] = set()
    for event in events:
        looked_at[event.ph, event.cat] += 1
        if looked_at[event.ph, event.cat] <= _LOOKED_AT:
            found.update(arguments_of(event))
    return found

"""What a trace of torch's profiler says, computed with plain JSON and integers only."""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

Spans = list[tuple[int, int]]

_STEP = re.compile(r"ProfilerStep#\d+")
_COPIES = ("gpu_memcpy", "gpu_memset", "memcpy", "memset")


@dataclass(frozen=True)
class DeviceTime:
    """Nanoseconds of the steps of a trace, or of all of it without steps; and the number of collectives."""

    computing: int
    communication: int
    copy: int
    collectives: int


def device_time(path: Path) -> DeviceTime:
    """Return where the time of the device went, kernels first, then collectives, then copies."""
    with gzip.open(path) as file:
        events = json.load(file, parse_float=Decimal)["traceEvents"]
    slices = [event for event in events if event.get("ph") == "X"]
    steps = [event for event in slices if _STEP.fullmatch(event["name"]) and event["cat"] == "user_annotation"]
    window = _union(steps) or [(0, 1 << 62)]
    kernels = [event for event in slices if event["cat"].lower() == "kernel"]
    collectives = [event for event in kernels if event["name"].startswith("nccl")]
    computing = _union([event for event in kernels if event not in collectives])
    communication = _without(_union(collectives), computing)
    copies = _union([event for event in slices if event["cat"].lower() in _COPIES])
    copy = _without(_without(copies, computing), communication)
    parts = {"computing": computing, "communication": communication, "copy": copy}
    inside = {name: sum(_length(_cut(spans, edge)) for edge in window) for name, spans in parts.items()}
    return DeviceTime(collectives=len(collectives), **inside)


def _union(events: list[dict[str, Any]]) -> Spans:
    joined: Spans = []
    for start, end in sorted((_ns(event["ts"]), _ns(event["ts"]) + _ns(event["dur"])) for event in events):
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((start, end))
    return joined


def _without(spans: Spans, others: Spans) -> Spans:
    left: Spans = []
    for start, end in spans:
        for low, high in others:
            if start < high and low < end:
                left += [(start, low)] * (start < low)
                start = min(high, end)
        left += [(start, end)] * (start < end)
    return left


def _cut(spans: Spans, window: tuple[int, int]) -> Spans:
    return [
        (max(start, window[0]), min(end, window[1])) for start, end in spans if start < window[1] and end > window[0]
    ]


def _length(spans: Spans) -> int:
    return sum(end - start for start, end in spans)


def _ns(us: Decimal | int | str) -> int:
    return int(Decimal(us) * 1000)

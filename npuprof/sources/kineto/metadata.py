"""What a trace of torch's profiler tells of itself, before and behind its events."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from npuprof.sources.files.gzip_file import read_head, read_tail

_HEAD_BYTES = 1 << 18  # devices and ranks stand here, before the events
_TAIL_BYTES = 1 << 16  # older versions tell the moment behind the events
_LATEST_NS = 4 * 10**18  # 2096; a moment behind it is damage
_BASE = re.compile(rb'"baseTimeNanoseconds"\s*:\s*(\d{1,19})\b')
_EVENTS = re.compile(rb'"traceEvents"\s*:')
_HOST = re.compile(rb'"host_name"\s*:\s*"([^"]{1,255})"')
_GPU = re.compile(rb'"deviceProperties"\s*:\s*\[\s*\{[^{}]*?"name"\s*:\s*"([^"]{1,100})"')
_RANK = re.compile(rb'"distributedInfo"\s*:\s*\{[^{}]*?"rank"\s*:\s*(\d{1,9})\b')
_SWITCHES = {
    "stacks": rb"with_stack",
    "memory": rb"profile_memory",
    "shapes": rb"record_shapes",
    "modules": rb"with_modules",
    "flops": rb"with_flops",
}


@dataclass(frozen=True)
class Facts:
    """What the file tells.

    Attributes
    ----------
    base_ns
        The moment from which its times count, UTC epoch nanoseconds; 0 where they are times of day themselves.
    options
        Our names of the profiler's switches.
    rank
        The process's rank, in a distributed run.
    gpu, host
        The name of the first GPU and of the machine; empty where not told.
    """

    base_ns: int = 0
    options: dict[str, Any] = field(default_factory=dict)
    rank: int | None = None
    gpu: str = ""
    host: str = ""


def read_facts(path: Path) -> Facts:
    """Read both ends of a file.

    Raises
    ------
    OSError
        If it cannot be read.
    """
    head = read_head(path, _HEAD_BYTES)
    events = _EVENTS.search(head)
    before = head[: events.start()] if events else head
    base = _BASE.search(before) or _BASE.search(read_tail(path, _TAIL_BYTES))
    options = {
        ours: match[1] == b"1"
        for ours, theirs in _SWITCHES.items()
        if (match := re.search(rb'"' + theirs + rb'"\s*:\s*([01])\b', before))
    }
    rank = _RANK.search(before)
    return Facts(
        int(base[1]) if base and int(base[1]) < _LATEST_NS else 0,
        options,
        int(rank[1]) if rank else None,
        _text(_GPU.search(before)),
        _text(_HOST.search(before)),
    )


def _text(match: re.Match[bytes] | None) -> str:
    return match[1].decode("utf-8", "replace") if match else ""

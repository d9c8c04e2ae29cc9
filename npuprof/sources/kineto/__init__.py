"""Traces of torch's own profiler (Kineto): operators, Python calls and GPU activities; NPU activities are not included.

Times are microseconds with three decimals, relative to a base time in the file; they become exact nanoseconds.

Source: the file itself, as ``torch.profiler.profile.export_chrome_trace`` of torch 2.13 writes it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from npuprof.errors import SourceError
from npuprof.info import Info
from npuprof.sources.base import Decoded, Source
from npuprof.sources.files.gzip_file import read_head, read_tail
from npuprof.sources.kineto.conversion import build_tables
from npuprof.sources.kineto.layouts import KINETO
from npuprof.sources.kineto.links import build_links
from npuprof.sources.trace.columns import gather
from npuprof.sources.trace.events import is_trace, read_events
from npuprof.sources.trace.producer import kind_of_trace

COLLECTOR = "kineto"


def recognises(path: Path) -> bool:
    """Check by its events whether `path` is a file of torch's profiler."""
    try:
        return path.is_file() and is_trace(path) and kind_of_trace(path) == "kineto"
    except OSError:
        return False


def read(path: Path) -> Decoded:
    """Read one trace, plain or gzipped.

    Raises
    ------
    SourceError
        If the file cannot be read or is not such a trace.
    """
    decoded = Decoded()
    notes = decoded.notes
    try:
        facts = read_facts(path)
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror or error}; check the file and its rights") from error
    trace = gather(read_events(path, notes, exact=True), notes, path.name, KINETO, facts.base_ns)
    built = build_tables(trace, notes, path.name)
    built.tables["links"] = build_links(trace, built, notes, path.name)
    decoded.tables = built.tables
    decoded.info = _describe(path, facts, decoded)
    return decoded


def _describe(path: Path, facts: Facts, decoded: Decoded) -> Info:
    info = Info(name=path.name, collector=COLLECTOR, source="torch profiler trace", recording=path)
    info.options = facts.options
    info.rank = facts.rank
    info.chip = facts.gpu
    if facts.host:
        info.environment["hostname"] = facts.host
    devices = {int(device) for device in decoded.tables["tasks"]["device_id"]} if "tasks" in decoded.tables else set()
    info.devices = sorted(devices)
    frames = [frame for frame in decoded.tables.values() if "start_ns" in frame and len(frame)]
    if frames:
        info.started_ns = min(int(frame["start_ns"].min()) for frame in frames)
        info.stopped_ns = max(int((frame["start_ns"] + frame["duration_ns"]).max()) for frame in frames)
    return info


SOURCE = Source("kineto", (None, "parsed", "text"), recognises, read)


_HEAD_BYTES = 1 << 18  # devices and ranks precede the events
_TAIL_BYTES = 1 << 16  # older versions write the base time after the events
_LATEST_NS = 4 * 10**18  # 2096; a later time is damage
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
    """Facts before and after the events of a file.

    Attributes
    ----------
    base_ns
        The origin of the times, UTC epoch nanoseconds; 0 for absolute times.
    options
        The profiler's options, named as in npuprof.
    rank
        The rank of the process in a distributed run.
    gpu, host
        The name of the first GPU and of the machine, or empty.
    """

    base_ns: int = 0
    options: dict[str, Any] = field(default_factory=dict)
    rank: int | None = None
    gpu: str = ""
    host: str = ""


def read_facts(path: Path) -> Facts:
    """Read the facts at both ends of a file."""
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

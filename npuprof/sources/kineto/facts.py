"""Facts of a trace of torch's profiler that are beside its events, and those that its name states.

Source: sources/RESULTS.md sections 8 and 8.3.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from npuprof.sources.columns.decimals import MAX_TIME_NS, column_ns
from npuprof.sources.files.gzip_file import read_head, read_tail
from npuprof.sources.global_ranks import MAX_RANK, global_ranks_of
from npuprof.tables.info import Info

COLLECTOR, SOURCE_NAME = "kineto", "torch profiler trace"

_HEAD_BYTES = 1 << 18
_LONG_HEAD_BYTES = 16 << 20  # the process groups of a large job
_TAIL_BYTES = 1 << 16  # older versions write the base time and the rank after the events
_LATEST_NS = 4 * 10**18  # 2096; a later time is damage
_BASE = re.compile(rb'"baseTimeNanoseconds"\s*:\s*(\d{1,19})\b')
_EVENTS = re.compile(rb'"traceEvents"\s*:')
_HOST = re.compile(rb'"host_name"\s*:\s*"([^"]{1,255})"')
_GPU = re.compile(rb'"deviceProperties"\s*:\s*\[\s*\{[^{}]*?"name"\s*:\s*"([^"]{1,100})"')
_JOB = re.compile(rb'"distributedInfo"\s*:\s*(?=\{)')
_TIME = re.compile(rb'"ph"\s*:\s*"X"[^{}]*?"ts"\s*:\s*"?(\d{1,19}(?:\.\d{1,9})?)')
_SWITCHES = {
    "stacks": rb"with_stack",
    "memory": rb"profile_memory",
    "shapes": rb"record_shapes",
    "modules": rb"with_modules",
    "flops": rb"with_flops",
}
_VERSIONS = {
    "cuda": rb'"cuda_runtime_version"\s*:\s*(\d{1,6})',
    "nccl": rb'"nccl_version"\s*:\s*"([\w. -]{1,40})"',
    "hip": rb'"hip_runtime_version"\s*:\s*(\d{1,9})',
}
# What tensorboard_trace_handler writes: {host}_{process}, or the worker's name, then the time of the export.
_HANDLER = re.compile(r"(?P<worker>.+?)(?:\.(?P<time>\d{10,19}))?\.pt\.trace\.json(?:\.gz)?")
_DIGITS_OF_NS = 19
_HOST_AND_PROCESS = re.compile(r"(?P<host>.+)_(?P<process>\d{1,10})")
_RANK_OF_FILE = re.compile(r"(?<![a-z])rank[_-]?(\d{1,6})(?!\d)", re.IGNORECASE)
_KINDS_OF_GROUPS = (
    ("tp", re.compile(r"tensor|(?<![a-z])tp(?![a-z])", re.IGNORECASE)),
    ("pp", re.compile(r"pipeline|(?<![a-z])pp(?![a-z])", re.IGNORECASE)),
    ("ep", re.compile(r"expert|(?<![a-z])ep(?![a-z])", re.IGNORECASE)),
    ("cp", re.compile(r"context|(?<![a-z])cp(?![a-z])", re.IGNORECASE)),
    ("dp", re.compile(r"data|(?<![a-z])(dp|fsdp|ddp|hsdp)(?![a-z])", re.IGNORECASE)),
    ("default_group", re.compile(r"default_pg|world", re.IGNORECASE)),
)


@dataclass(frozen=True)
class TraceFacts:
    """Facts before and after the events of a file."""

    base_ns: int = 0  # the origin of the times, UTC epoch nanoseconds; 0 for absolute times
    options: dict[str, Any] = field(default_factory=dict)  # the profiler's options, named as in npuprof
    # rank, world_size, backend: the rank of the process in a distributed run, the number of ranks, and the library that
    # they communicate with.
    rank: int | None = None
    world_size: int | None = None
    backend: str = ""
    # Purpose and ranks of the process groups, by their names.
    groups: dict[str, dict[str, Any]] = field(default_factory=dict)
    # gpu, host: the name of the first GPU and of the machine, or empty.
    gpu: str = ""
    host: str = ""
    versions: dict[str, str] = field(default_factory=dict)  # of CUDA or HIP, and of NCCL
    # The start of the first slice in the file, which is near the first one in time; None without one.
    first_ns: int | None = None


def read_facts(path: Path) -> TraceFacts:
    """Return the facts at both ends of a file, and those of its name where the file has none."""
    head = read_head(path, _HEAD_BYTES)
    before, after = _around_events(head)
    if _JOB.search(before) and _job(before) is None:
        before, after = _around_events(read_head(path, _LONG_HEAD_BYTES))
    tail = b"" if _BASE.search(before) and _JOB.search(before) else read_tail(path, _TAIL_BYTES)
    base, job = _BASE.search(before) or _BASE.search(tail), _job(before) or _job(tail) or {}
    base_ns = int(base[1]) if base and int(base[1]) < _LATEST_NS else 0
    rank, world_size, backend = (job.get(name) for name in ("rank", "world_size", "backend"))
    return TraceFacts(
        base_ns,
        {
            ours: match[1] in (b"1", b"true")
            for ours, theirs in _SWITCHES.items()
            if (match := re.search(rb'"' + theirs + rb'"\s*:\s*([01]|true|false)\b', before))
        },
        rank if _is_rank(rank) else rank_of_name(path.name),
        world_size if _is_rank(world_size) and world_size else None,
        backend if isinstance(backend, str) else "",
        _groups(job),
        _text(_GPU.search(before)),
        _text(_HOST.search(before)) or _host_of_name(path.name),
        {name: _text(match) for name, pattern in _VERSIONS.items() if (match := re.search(pattern, before))},
        _first_ns(after, base_ns),
    )


def describe(path: Path) -> Info:
    """Return the facts of a trace without its events; the start is that of one of its first slices."""
    return info_of(path, read_facts(path))


def info_of(path: Path, facts: TraceFacts) -> Info:
    """Return the facts of a trace as the metadata of a run."""
    info = Info(name=path.name, collector=COLLECTOR, source=SOURCE_NAME, recording=path)
    info.options, info.rank, info.chip, info.versions = facts.options, facts.rank, facts.gpu, facts.versions
    info.started_ns = facts.first_ns
    if facts.host:
        info.environment["hostname"] = facts.host
    job = {"rank": facts.rank, "world_size": facts.world_size, "backend": facts.backend}
    if facts.world_size is not None:
        info.metadata["distributed_args"] = job
    if facts.groups:
        info.metadata["parallel_group_info"] = facts.groups
    return info


def rank_of_name(name: str) -> int | None:
    """Return the rank in the name of a file, as in ``rank-3.json`` or ``dp0_tp1_rank1.1700000000000.pt.trace.json``."""
    ranks = _RANK_OF_FILE.findall(name)
    return int(ranks[-1]) if ranks else None


@dataclass(frozen=True)
class Worker:
    """The worker that torch's trace handler names in a file: its name, and when it wrote the file, in epoch ns."""

    name: str
    written_ns: int


def worker_of_name(name: str) -> Worker | None:
    """Return the worker that wrote a file; None if torch's trace handler did not name it."""
    handler = _HANDLER.fullmatch(name)
    if handler is None or handler["time"] is None:
        return None
    # Nanoseconds, or milliseconds until 2023.
    return Worker(handler["worker"], int(handler["time"]) * 10 ** max(0, _DIGITS_OF_NS - len(handler["time"])))


def purpose_of(description: str) -> str:
    """Return the kind of a process group by its description, as in ``parallel_group_info``; empty if it tells none."""
    return next((kind for kind, pattern in _KINDS_OF_GROUPS if pattern.search(description)), "")


def _around_events(head: bytes) -> tuple[bytes, bytes]:
    events = _EVENTS.search(head)
    return (head[: events.start()], head[events.end() :]) if events else (head, b"")


def _job(text: bytes) -> dict[str, Any] | None:
    """Return the object ``distributedInfo``; None if it is not there, or cut."""
    match = _JOB.search(text)
    if match is None:
        return None
    try:
        job, _ = json.JSONDecoder().raw_decode(text[match.end() :].decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return job if isinstance(job, dict) else None


def _groups(job: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    listed = job.get("pg_config")
    groups = {}
    for group in listed if isinstance(listed, list) else ():
        name = group.get("pg_name") if isinstance(group, dict) else None
        if isinstance(name, str | int) and name != "":
            ranks = global_ranks_of(group.get("ranks"))
            groups[str(name)] = {"group_name": purpose_of(str(group.get("pg_desc", ""))), "global_ranks": ranks}
    return groups


def _is_rank(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MAX_RANK


def _host_of_name(name: str) -> str:
    """Return the host in a name of torch's trace handler."""
    worker = worker_of_name(name)
    parts = _HOST_AND_PROCESS.fullmatch(worker.name) if worker else None
    return parts["host"] if parts else ""


def _first_ns(events: bytes, base_ns: int) -> int | None:
    start_ns, is_valid = column_ns([match[1].decode() for match in _TIME.finditer(events)])
    known = start_ns[is_valid & (start_ns < MAX_TIME_NS)]
    return int(known.min()) + base_ns if len(known) else None


def _text(match: re.Match[bytes] | None) -> str:
    return match[1].decode("utf-8", "replace") if match else ""

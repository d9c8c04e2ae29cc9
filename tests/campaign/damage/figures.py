"""Every figure of a profile, with the tables that it is made of, and which notes concern a table."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from npuprof import tables as schema
from npuprof.analysis.by import KEYS
from npuprof.profiles import Profile

_DEVICE = ("kernels", "tasks", "communication")
_HOST = ("operators", "python", "api", "links")
_STEPS = ("steps", "step_times")
_PARTS = {
    "computing": ("kernels", *_STEPS),
    "waiting": ("communication", "communication_tasks", *_STEPS),
    "moving": ("communication", "communication_tasks", *_STEPS),
    "communication": ("communication", "communication_tasks", *_STEPS),
    "copy": ("tasks", *_STEPS),
}
_LAUNCHED = {"line": (*_HOST, "stack"), "module": (*_HOST, "stack"), "op": _HOST, "step": _STEPS}
_SUMS = ("duration_ns", "size_bytes", "copied_bytes", "device_duration_ns", "wait_ns")
_SAMPLES = {"memory": "component", "counters": "counter"}


@dataclass(frozen=True)
class Figure:
    """A figure: its parts by name, and the tables that a note must concern where it is wrong."""

    parts: Mapping[str, float]
    tables: tuple[str, ...]


def figures(run: Profile) -> dict[str, Figure]:
    """Return every figure of a run by name."""
    return {name: Figure(parts, tables) for name, parts, tables in _each(run)}


def _each(run: Profile) -> Iterator[tuple[str, dict[str, float], tuple[str, ...]]]:
    for name in [name for name in schema.NAMES if name not in _SAMPLES]:
        frame = run.tables[name]
        yield f"rows of {name}", {"": len(frame)}, (name,)
        for column in _SUMS:
            if column in frame:
                yield f"sum of {name}.{column}", {"": float(frame[column].sum())}, (name,)
    for name, column in _SAMPLES.items():  # a sample more or less changes no figure
        yield f"kinds of {name}", dict.fromkeys(map(str, run.tables[name][column].unique()), 1.0), (name,)
    yield "links by kind", _sizes(run.links, ["kind", "source_table", "target_table"]), ("links",)
    peaks = run.memory.groupby("component", observed=True)[["allocated_bytes", "reserved_bytes"]].max()
    for bytes_of in ("allocated_bytes", "reserved_bytes"):
        yield f"peak of {bytes_of}", _plain(peaks[bytes_of].dropna()), ("memory",)
    parts = run.breakdown()
    for kind, rows in parts.groupby("part", observed=True):
        part = str(kind)
        causes = rows.groupby("cause", observed=True, dropna=False)["duration_ns"].sum()
        of = _PARTS.get(part, (*_DEVICE, *_STEPS))
        yield f"breakdown: {part}", {"": float(rows["duration_ns"].sum())}, of
        yield f"breakdown: causes of {part}", _plain(causes), (*of, *_HOST)
    for key in KEYS:
        sums = run.by(key)
        yield f"by({key!r})", _plain(sums.set_index(key)["total_ns"]), ("kernels", *_LAUNCHED.get(key, ()))
    owners = run.memory_peak()
    yield "memory_peak()", _plain(owners.groupby("device_id")["size_bytes"].sum()), ("memory", "allocations")
    by_owner = owners.groupby(["category", "op"], observed=True, dropna=False)["size_bytes"].sum()
    yield "owners of memory_peak()", _plain(by_owner), ("memory", "allocations", "operators")
    yield from _of_report(run)


def _of_report(run: Profile) -> Iterator[tuple[str, dict[str, float], tuple[str, ...]]]:
    summary = run.summary
    every = tuple(schema.NAMES)
    yield "report: wall time", {"": float(summary.wall_ns or 0)}, every
    for device in summary.devices:
        for part, time_ns in device.parts.items():
            yield f"report: {device.label}, {part}", {"": float(time_ns)}, _PARTS.get(part, (*_DEVICE, *_STEPS))
    yield "report: steps", {"": float(len(summary.steps)), "time": float(summary.steps["duration_ns"].sum())}, _STEPS
    for name in ("top_ops", "top_api"):
        frame = getattr(summary, name)
        yield (
            f"report: {name}",
            _plain(frame.groupby("name", observed=True)["total_ns"].sum()),
            ("kernels",) if name == "top_ops" else ("api",),
        )
    peak = summary.memory_peaks["allocated_bytes"].max() if len(summary.memory_peaks) else 0
    yield "report: memory peak", {"": float(peak)}, ("memory", "allocations")
    yield "vendor's sums", {name: float(len(frame)) for name, frame in run.statistics.items()}, ("statistics",)


def _plain(values: pd.Series[Any]) -> dict[str, float]:
    return {str(name): float(value) for name, value in values.items()}


def _sizes(frame: pd.DataFrame, keys: list[str]) -> dict[str, float]:
    return {str(key): float(size) for key, size in frame.groupby(keys, observed=True).size().items()}


def difference(before: Figure, after: Figure | None) -> float:
    """Return by which share of it a figure changed: the sum of its parts' changes, over its sum."""
    now = {} if after is None else after.parts
    names = before.parts.keys() | now.keys()
    changed = sum(abs(before.parts.get(name, 0.0) - now.get(name, 0.0)) for name in names)
    whole = sum(map(abs, before.parts.values()))
    return changed / whole if whole else float(changed > 0)


_WORDS = {
    "kernels": r"kernel|COMPUTE_TASK_INFO|op_summary",
    "tasks": r"\btasks?\b|TASK\b",
    "communication": r"communication\b|collective|COMMUNICATION_OP|hccl",
    "communication_tasks": r"communication_tasks|COMMUNICATION_TASK_INFO|collective|communication",
    "operators": r"operators?\b|PYTORCH_API|op_range|operator_details",
    "python": r"python|PYTORCH_API",
    "api": r"\bcalls?\b|api\b|CANN_API",
    "links": r"links?\b|launch|flow|CONNECTION_IDS|connection",
    "steps": r"\bsteps?\b",
    "step_times": r"\bsteps?\b|step_trace_time",
    "overlap": r"overlap|kernel|communication|collective",
    "memory": r"memory|allocator|NPU_MEM|module_mem",
    "allocations": r"allocations?\b|blocks?\b|operator_memory|OP_MEMORY",
    "counters": r"counters?\b|sampled?s?\b|counted",
    "marks": r"marks?\b|markers?\b",
    "stack": r"stacks?\b|CALLCHAINS",
    "statistics": r"statistic|sums|missing",
}


def concerns(note: tuple[str, str], tables: tuple[str, ...], path: Path) -> bool:
    """Return whether a note (source and message) names one of the tables, or the damaged file."""
    text = " ".join(note)
    stem = re.split(r"\.data|\.slice_|\.json|\.csv|\.db", path.name)[0].rpartition(".")[2]
    return stem in text or any(re.search(_WORDS[name], text, re.IGNORECASE) for name in tables)


def warnings(run: Profile) -> Counter[tuple[str, str]]:
    """Return the number of each warning and error of a run by source and message."""
    told = run.notes[run.notes["severity"] != "info"]
    return Counter({(source, message): count for _, source, message, count in told.itertuples(index=False)})

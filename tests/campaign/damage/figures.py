"""Every figure of a profile, with the tables that it is made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from npuprof import tables as schema
from npuprof.analysis.by import KEYS
from npuprof.profiles.profile import Profile
from tests.campaign.damage.answers import breakdown, by, memory_peak
from tests.campaign.damage.concerns import COMMUNICATION, HOST, KERNELS, MEMORY, STEPS

_DEVICE = (*KERNELS, "communication")
_EXPOSED = (*COMMUNICATION, "kernels", *STEPS)  # what no kernel overlaps
_PARTS = {
    "computing": ("kernels", *STEPS),
    **dict.fromkeys(("waiting", "moving", "communication"), _EXPOSED),
    "copy": ("tasks", "kernels", "communication", *STEPS),
}
_LAUNCHED = {"line": (*HOST, "stack"), "module": (*HOST, "stack"), "op": HOST, "step": STEPS, "rank": ("rank",)}
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
                # The wait of a kernel is the time since what ran before it, collectives among it.
                of_others = COMMUNICATION if column == "wait_ns" else ()
                yield f"sum of {name}.{column}", {"": float(frame[column].sum())}, (name, *of_others)
    for name, column in _SAMPLES.items():  # a sample more or less changes no figure
        yield f"kinds of {name}", dict.fromkeys(map(str, run.tables[name][column].unique()), 1.0), (name,)
    yield "links by kind", _sizes(run.links, ["kind", "source_table", "target_table"]), ("links",)
    peaks = run.memory.groupby("component", observed=True)[["allocated_bytes", "reserved_bytes"]].max()
    for bytes_of in ("allocated_bytes", "reserved_bytes"):
        yield f"peak of {bytes_of}", _plain(peaks[bytes_of].dropna()), ("memory",)
    parts = breakdown(run)
    for kind, rows in parts.groupby("part", observed=True):
        part = str(kind)
        causes = rows.groupby("cause", observed=True, dropna=False)["duration_ns"].sum()
        of = _PARTS.get(part, (*_DEVICE, *STEPS))
        yield f"breakdown: {part}", {"": float(rows["duration_ns"].sum())}, of
        yield f"breakdown: causes of {part}", _plain(causes), (*of, *HOST)
    for key in KEYS:
        sums = by(run, key)
        yield f"by({key!r})", _plain(sums.set_index(key)["total_ns"]), ("kernels", *_LAUNCHED.get(key, ()))
    owners = memory_peak(run)
    yield "memory_peak()", _plain(owners.groupby("device_id")["size_bytes"].sum()), MEMORY
    by_owner = owners.groupby(["category", "op"], observed=True, dropna=False)["size_bytes"].sum()
    yield "owners of memory_peak()", _plain(by_owner), (*MEMORY, "operators")
    yield from _of_report(run)


def _of_report(run: Profile) -> Iterator[tuple[str, dict[str, float], tuple[str, ...]]]:
    summary = run.summary
    yield "report: wall time", {"": float(summary.wall_ns or 0)}, ("wall time", *schema.NAMES)
    for device in summary.devices:
        for part, time_ns in device.parts.items():
            yield f"report: {device.label}, {part}", {"": float(time_ns)}, _PARTS.get(part, (*_DEVICE, *STEPS))
    yield "report: steps", {"": float(summary.step_ns or 0)}, STEPS
    for name, table in (("top_ops", "kernels"), ("top_api", "api")):
        sums = getattr(summary, name).groupby("name", observed=True)["total_ns"].sum()
        yield f"report: {name}", _plain(sums), (table,)
    peak = summary.memory_peaks["allocated_bytes"].max() if len(summary.memory_peaks) else 0
    yield "report: memory peak", {"": float(peak)}, MEMORY
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

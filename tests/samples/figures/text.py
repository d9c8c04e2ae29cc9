"""Figures of published tables in CSV and of JSON about collectives, computed with the standard library alone."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeAlias

Figures: TypeAlias = Any
Row: TypeAlias = dict[str, str]

_NONE = ("", "N/A")
_STEP_COLUMNS = ("Device_id", "Step", "Type", "Index")


def _us(text: str | float) -> Decimal:
    return Decimal(str(text).strip())


def _rounded(value: Decimal | float, digits: int = 3) -> float:
    return round(float(value), digits)


def _rows(path: Path) -> list[Row]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _sums(pairs: Iterable[tuple[Any, Decimal]], most: int | None = 5) -> list[list[Any]]:
    """Return name, sum and count of the names with the largest sums; of equal ones, the first."""
    sums: dict[Any, Decimal] = defaultdict(Decimal)
    counts: Counter[Any] = Counter()
    for name, value in pairs:
        sums[name] += value
        counts[name] += 1
    ordered = sorted(sums, key=lambda name: -sums[name])[:most]
    return [[name, _rounded(sums[name]), counts[name]] for name in ordered]


def kernels(path: Path) -> Figures:
    """Return the figures of a table of kernels."""
    rows = _rows(path)
    header = list(rows[0])
    names = {
        "name": "Name" if "Name" in header else "Op Name",
        "type": "Type" if "Type" in header else "OP Type",
        "core": "Accelerator Core" if "Accelerator Core" in header else "Task Type",
    }
    start, duration, wait = (
        next(column for column in header if re.fullmatch(rf"(Task )?{word}\(us\)", column))
        for word in ("Start Time", "Duration", "Wait(?: Time)?")
    )
    starts = [_us(row[start]) for row in rows]
    durations = [_us(row[duration]) for row in rows]
    figures = {
        "rows": len(rows),
        "columns": len(header),
        "first_start_ns": int(min(starts) * 1000),
        "last_end_ns": int(max(a + b for a, b in zip(starts, durations, strict=True)) * 1000),
        "sum_duration_us": _rounded(sum(durations, Decimal())),
        "wait_sum_us": _rounded(sum((_us(row[wait]) for row in rows), Decimal())),
        "distinct_start": len(set(starts)),
        "distinct_start_as_float_us": len({float(value) for value in starts}),
        "sorted": starts == sorted(starts),
        "na_cells": sum(value == "N/A" for row in rows for value in row.values()),
        "tab_cells_in": [column for column in header if any("\t" in row[column] for row in rows)],
        "by_core": _sums(zip((row[names["core"]] for row in rows), durations, strict=True), None),
        "top5_by_name": _sums(zip((row[names["name"]] for row in rows), durations, strict=True)),
        "top5_by_type": _sums(zip((row[names["type"]] for row in rows), durations, strict=True)),
    }
    if "Step Id" in header:
        figures["steps"] = dict(Counter(row["Step Id"] for row in rows))
    if "Input Shapes" in header:
        shapes = [row["Input Shapes"] for row in rows]
        figures["distinct_input_shapes"] = len(set(shapes))
        figures["shape_example"] = next(shape for shape in shapes if shape not in _NONE and shape.strip('"'))
    return figures


def statistic(path: Path) -> Figures:
    """Return the figures of a table of calls or of operators, summed by name."""
    rows = _rows(path)
    keys = ("API Name", "Level") if "API Name" in rows[0] else ("OP Type", "Core Type")
    total = "Time(us)" if "Time(us)" in rows[0] else "Total Time(us)"
    distinct = {tuple(row[key] for key in keys if key in row) for row in rows}
    longest = sorted(rows, key=lambda row: -_us(row[total]))[:5]
    figures = {
        "rows": len(rows),
        "count": sum(int(row["Count"]) for row in rows),
        "sum_us": _rounded(sum((_us(row[total]) for row in rows), Decimal())),
        "duplicate_keys": len(rows) - len(distinct),
        "top5": [[*(row[key] for key in keys), float(row[total]), int(row["Count"])] for row in longest],
    }
    if "Ratio(%)" in rows[0]:
        figures["ratio_sum"] = _rounded(sum((_us(row["Ratio(%)"]) for row in rows), Decimal()))
    return figures


def _peaks(rows: Sequence[Row], column: str, digits: int = 6) -> dict[str, float | None]:
    peaks: dict[str, float | None] = {}
    for row in rows:
        value = row[column]
        before = peaks.setdefault(row["Component"], None)
        if value not in _NONE:
            peaks[row["Component"]] = max(before or 0.0, _rounded(_us(value), digits))
    return dict(sorted(peaks.items()))


def memory_record(path: Path) -> Figures:
    """Return the figures of the memory of allocators over time."""
    rows = _rows(path)
    reserved, allocated, active = (
        next(column for column in rows[0] if column.startswith(f"Total {word}"))
        for word in ("Reserved", "Allocated", "Active")
    )
    return {
        "rows": len(rows),
        "rows_by_component": dict(sorted(Counter(row["Component"] for row in rows).items())),
        "unit": reserved,
        "peak_reserved": _peaks(rows, reserved),
        "peak_allocated": _peaks(rows, allocated),
        "peak_active": _peaks(rows, active),
    }


def module_memory(path: Path) -> Figures:
    """Return the figures of the memory of modules over time."""
    rows = _rows(path)
    column = next(column for column in rows[0] if column.startswith("Total Reserved"))
    peaks = _peaks(rows, column)
    return {
        "rows": len(rows),
        "components": len(peaks),
        "unit": column,
        "nonzero_peak": {name: peak for name, peak in peaks.items() if peak},
    }


def operator_memory(path: Path) -> Figures:
    """Return the figures of a table of allocations."""
    rows = _rows(path)
    sizes = [_us(row["Size(KB)"]) for row in rows]
    prefixes = Counter(row["Name"].partition("::")[0] for row in rows)
    return {
        "rows": len(rows),
        "sum_size_kb": _rounded(sum(sizes, Decimal())),
        "max_size_kb": float(max(sizes)),
        "negative_sizes": sum(size < 0 for size in sizes),
        "never_released": sum(row["Release Time(us)"].strip() in _NONE for row in rows),
        "no_allocation_time": sum(row["Allocation Time(us)"].strip() in _NONE for row in rows),
        "by_prefix": dict(sorted(prefixes.items())),
        "top5_by_total_size_kb": _sums(zip((row["Name"] for row in rows), sizes, strict=True)),
    }


def operator_details(path: Path) -> Figures:
    """Return the figures of a table of operators."""
    rows = _rows(path)

    def column(name: str) -> list[Decimal]:
        return [_us(row[name]) for row in rows]

    names = [row["Name"] for row in rows]
    host, device = column("Host Self Duration(us)"), column("Device Self Duration(us)")
    stacks = [row["Call Stack"] for row in rows]
    return {
        "rows": len(rows),
        "columns": list(rows[0]),
        "rows_with_call_stack": sum(bool(stack.strip()) for stack in stacks),
        "max_call_stack_lines": max(len(stack.strip().splitlines()) for stack in stacks),
        "negative_host_self": sum(value < 0 for value in host),
        "sum_host_self_us": _rounded(sum(host, Decimal())),
        "sum_device_self_us": _rounded(sum(device, Decimal())),
        "sum_device_self_aicore_us": _rounded(sum(column("Device Self Duration With AICore(us)"), Decimal())),
        "top5_host_self": _sums(zip(names, host, strict=True)),
        "top5_device_self": _sums(zip(names, device, strict=True)),
    }


def cache(path: Path) -> Figures:
    """Return the figures of hits in the L2 cache."""
    rows = _rows(path)
    hits = [_us(row["Hit Rate"]) for row in rows if row["Hit Rate"] not in _NONE]
    victims = [_us(row["Victim Rate"]) for row in rows if row["Victim Rate"] not in _NONE]
    return {
        "rows": len(rows),
        "hit_NA": len(rows) - len(hits),
        "mean_hit": _rounded(sum(hits, Decimal()) / len(hits), 6) if hits else None,
        "mean_victim": _rounded(sum(victims, Decimal()) / len(victims), 6) if victims else None,
    }


def steps(path: Path) -> Figures:
    """Return the rows of a table of the parts of steps."""
    return [
        {name: value if name in _STEP_COLUMNS else _rounded(_us(value)) for name, value in row.items()}
        for row in _rows(path)
    ]


def communication(path: Path) -> Figures:
    """Return the figures of collectives, by step and kind."""
    figures = {}
    for step, kinds in json.loads(path.read_bytes()).items():
        for kind, operators in kinds.items():
            if not operators:
                continue
            names = sorted(name for name in operators if not name.startswith("Total Op Info"))
            total = next(each for name, each in operators.items() if name.startswith("Total Op Info"))
            times = [operators[name]["Communication Time Info"] for name in names]
            figures[f"{step}/{kind}"] = {
                "ops": len(names),
                "names": names[:3],
                "groups": len({name.rpartition("@")[2] for name in names}),
                "sum_elapse_ms": _rounded(sum(_us(each["Elapse Time(ms)"]) for each in times), 6),
                "total": {
                    key: round(value, 6)
                    for key, value in total["Communication Time Info"].items()
                    if "Timestamp" not in key
                },
            }
    return figures


def matrix(path: Path) -> Figures:
    """Return the figures of links between ranks, by step and kind."""
    figures = {}
    for step, kinds in json.loads(path.read_bytes()).items():
        for kind, operators in kinds.items():
            if operators:
                figures[f"{step}/{kind}"] = {
                    "keys": len(operators),
                    "first": sorted(operators)[:2],
                    "links": len({link for links in operators.values() for link in links}),
                }
    return figures

"""Figures of published timelines, computed with the standard library alone."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeAlias

Event: TypeAlias = dict[str, Any]

_DOUBLE = 1 << 53  # whole numbers above it are not all doubles
_OVERLAP = ("Communication", "Communication(Not Overlapped)", "Computing", "Free")


class _Number(str):
    """The text of a number with a fraction, which a double would change."""


@dataclass(frozen=True)
class _Slice:
    """A complete event, with its exact times in microseconds."""

    event: Event
    start: Decimal
    duration: Decimal

    @property
    def start_ns(self) -> int:
        return round(self.start * 1000)

    @property
    def end_ns(self) -> int:
        return self.start_ns + round(self.duration * 1000)


def timeline(path: Path) -> dict[str, Any]:
    """Return the figures of a timeline in the form of Chrome traces."""
    content = json.loads(path.read_bytes(), parse_float=_Number)
    events: list[Event] = content if isinstance(content, list) else content["traceEvents"]
    names = _metadata(events, "process_name", "name")
    slices = [_Slice(each, Decimal(each["ts"]), Decimal(each["dur"])) for each in events if each["ph"] == "X"]
    hardware = [each for each in slices if names.get(each.event["pid"]) == "Ascend Hardware"]
    first, last = min(each.start_ns for each in slices), max(each.end_ns for each in slices)
    return {
        "top": type(content).__name__,
        "events": len(events),
        "ph": _counts(each["ph"] for each in events),
        "ts_types": sorted({_kind(each["ts"]) for each in events if "ts" in each}),
        "processes": _processes(events, names),
        "first_ns": first,
        "last_ns": last,
        "span_us": _us(Decimal(last - first) / 1000),
        "distinct_x_ts": len({each.start for each in slices}),
        "distinct_x_ts_as_float64_us": len({float(each.event["ts"]) for each in slices}),
        "zero_dur_x": sum(each.duration == 0 for each in slices),
        "x_by_process": _counts(names[each.event["pid"]] for each in slices),
        "x_by_cat": _counts(str(each.event.get("cat")) for each in slices),
        "cpu_op_top5": _longest(each for each in slices if each.event.get("cat") == "cpu_op"),
        "hardware_top5": _longest(hardware),
        "hardware_streams": sorted({str(each.event["tid"]) for each in hardware}),
        "overlap_us": _overlap(slices, names),
        "counters": _counts(f"{names[each['pid']]}/{each['name']}" for each in events if each["ph"] == "C"),
        **_flows(events),
        **_nesting(slices, names),
        **_python(slices),
    }


def _us(value: Decimal) -> float:
    return round(float(value), 3)


def _kind(value: object) -> str:
    return "float" if isinstance(value, _Number) else type(value).__name__


def _counts(values: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(values).items()))


def _metadata(events: list[Event], kind: str, key: str) -> dict[int, str]:
    return {each["pid"]: each["args"][key] for each in events if each["ph"] == "M" and each["name"] == kind}


def _processes(events: list[Event], names: dict[int, str]) -> list[dict[str, Any]]:
    labels = _metadata(events, "process_labels", "labels")
    phases: dict[int, Counter[str]] = defaultdict(Counter)
    for event in events:
        phases[event["pid"]][event["ph"]] += 1
    return [
        {"pid": pid, "name": names.get(pid), "label": labels.get(pid), **phases[pid]} for pid in sorted(phases, key=str)
    ]


def _longest(slices: Iterable[_Slice]) -> list[list[Any]]:
    sums: dict[str, Decimal] = defaultdict(Decimal)
    counts: Counter[str] = Counter()
    for each in slices:
        sums[each.event["name"]] += each.duration
        counts[each.event["name"]] += 1
    ordered = sorted(sums, key=lambda name: -sums[name])[:5]
    return [[name, _us(sums[name]), counts[name]] for name in ordered]


def _overlap(slices: list[_Slice], names: dict[int, str]) -> dict[str, float]:
    ours = [each for each in slices if names[each.event["pid"]] == "Overlap Analysis"]
    return {
        name: _us(sum((each.duration for each in ours if each.event["name"] == name), Decimal())) for name in _OVERLAP
    }


def _flows(events: list[Event]) -> dict[str, Any]:
    ends: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: {"s": Counter(), "f": Counter()})
    large = []
    for event in events:
        if event["ph"] in ("s", "f"):
            ends[event["cat"]][event["ph"]][str(event["id"])] += 1
            if isinstance(event["id"], int) and event["id"] > _DOUBLE:
                large.append(event["id"])
    flows = {
        category: {
            "s": each["s"].total(),
            "f": each["f"].total(),
            "pairs": len(each["s"].keys() & each["f"].keys()),
            "s_without_f": len(each["s"].keys() - each["f"].keys()),
            "f_without_s": len(each["f"].keys() - each["s"].keys()),
        }
        for category, each in sorted(ends.items())
    }
    return {
        "flows": flows,
        "flow_ids_above_2^53": len(large),
        "flow_ids_above_2^53_distinct": len(set(large)),
        "same_as_double": len({float(each) for each in large}),
    }


def _nesting(slices: list[_Slice], names: dict[int, str]) -> dict[str, Any]:
    """Return how deep slices of a thread lie in each other, and how many end after one that they begin in."""
    deepest: Counter[str] = Counter()
    partly: Counter[str] = Counter()
    threads: dict[tuple[int, Any], list[_Slice]] = defaultdict(list)
    for each in slices:
        threads[each.event["pid"], each.event["tid"]].append(each)
    for (pid, _), ours in threads.items():
        open_ends: list[int] = []
        for each in sorted(ours, key=lambda each: (each.start_ns, -each.end_ns)):
            while open_ends and open_ends[-1] <= each.start_ns:
                open_ends.pop()
            partly[names[pid]] += bool(open_ends) and open_ends[-1] < each.end_ns
            open_ends.append(each.end_ns)
            deepest[names[pid]] = max(deepest[names[pid]], len(open_ends))
    return {
        "max_nesting_by_process": dict(sorted(deepest.items())),
        "partly_overlapping_x_by_process": {name: count for name, count in sorted(partly.items()) if count},
    }


def _python(slices: list[_Slice]) -> dict[str, Any]:
    calls = [each.event["args"] for each in slices if each.event.get("cat") == "python_function"]
    if not calls:
        return {}
    parents = {each["Python id"]: each["Python parent id"] for each in calls}
    chains = [list(_callers(each, parents)) for each in parents]
    return {
        "python_function_events": len(calls),
        "python_ids_distinct": len(parents),
        "python_roots": sum(parent not in parents for parent in parents.values()),
        "python_parent_cycles": sum(each == parent for each, parent in parents.items()),
        "python_parent_chain_depth": max(map(len, chains)),
    }


def _callers(call: int, parents: dict[int, int]) -> Iterator[int]:
    """Yield a call and its callers, each once."""
    seen: set[int] = set()
    while call in parents and call not in seen:
        seen.add(call)
        yield call
        call = parents[call]

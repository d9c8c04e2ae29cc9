"""Caveats of a comparison: different levels, stacks, ranks, shapes, chips or frequencies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import numpy as np

from npuprof.analysis.chip_limits import measured_cores, measured_mhz
from npuprof.analysis.examination import incomplete
from npuprof.difference.side import ComparedRun, Side

_CORES: Mapping[Literal["aic", "aiv"], str] = {"aic": "cube", "aiv": "vector"}
_FREQUENCY_SHARE = 0.03  # of the core frequency; a larger difference explains slower kernels


def doubts(side: Side) -> list[str]:
    """Return the missing and wrong data of a side."""
    return list(dict.fromkeys(doubt for run in side.runs for doubt in incomplete(run.info.examination)))


def guards(a: Side, b: Side, names: Sequence[str] = ("A", "B")) -> list[str]:
    """Return the caveats of comparing two sides, a sentence each."""
    sentences = [
        f"{name} is incomplete: {'; '.join(missing)}; only steps that are complete on both sides are compared"
        for name, side in zip(names, (a, b), strict=True)
        if (missing := doubts(side))
    ]
    sentences += [
        f"{subject} differs: {' and '.join(values[0])} against {' and '.join(values[1])}{hint}"
        for subject, read, hint in _FACTS
        if (values := [sorted(set(filter(None, map(read, side.runs)))) for side in (a, b)])[0] != values[1]
        and all(values)
    ]
    sentences += [
        f"{subject} were recorded on one side only, which makes its host slower"
        for subject, table in (("Python stacks", "python"), ("operators", "operators"))
        if len({any(len(run.tables[table]) for run in side.runs) for side in (a, b)}) > 1
    ]
    if a.has("shapes") and b.has("shapes") and _in_other_shapes(a, b):
        sentences.append("kernels have different shapes: also compare times per sample or token")
    speeds = clocks(a, b)
    if speeds[0] != speeds[1]:
        sentences.append(f"the cores ran at {speeds[0]:.0f} MHz against {speeds[1]:.0f} MHz")
    if _whole(a) != _whole(b):
        sentences.append("only one side has steps: one of them is compared with the whole run of the other side")
    return sentences + _other_cores(a, b)


def _whole(side: Side) -> bool:
    """Return whether no run of a side has steps."""
    return not any(run.accounting.has_steps for run in side.runs)


def clocks(a: Side, b: Side) -> tuple[float, float]:
    """Return the core clock of both sides in MHz; (0, 0) if they hardly differ, or one is unknown."""
    first, second = _mhz(a), _mhz(b)
    differ = first and second and abs(first - second) > _FREQUENCY_SHARE * max(first, second)
    return (first, second) if differ else (0.0, 0.0)


def _in_other_shapes(a: Side, b: Side) -> bool:
    """Return whether kernels of a type have no shape in common on both sides."""
    first, second = _shapes(a), _shapes(b)
    return any(first[kind].isdisjoint(second[kind]) for kind in first.keys() & second.keys())


def _shapes(side: Side) -> dict[str, set[str]]:
    """Return the shapes of kernels of each type."""
    shapes: dict[str, set[str]] = {}
    kinds = side.kinds[side.kinds["part"] == "computing"]
    for kind, shape in zip(kinds["type"], kinds["shapes"], strict=True):
        shapes.setdefault(kind, set()).add(shape)
    return shapes


def _mhz(side: Side) -> float:
    """Return the core clock from its samples, else from kernel counters; 0 if there are neither."""
    samples = []
    for run in side.runs:
        counters = run.tables["counters"]
        is_selected = (counters["counter"] == "AI Core Freq").to_numpy(dtype=bool, na_value=False)
        samples.append(counters["value"].to_numpy(np.float64)[is_selected])
    joined = np.concatenate(samples)
    return float(np.median(joined)) if len(joined) else _measured_mhz(side)


def _measured_mhz(side: Side) -> float:
    known = [mhz for run in side.runs if (mhz := measured_mhz(run.tables["kernels"]))]
    return float(np.median(known)) if known else 0.0


def _other_cores(a: Side, b: Side) -> list[str]:
    """Return a sentence for each kind of core whose number differs, according to kernel counters."""
    sentences = []
    for core, name in _CORES.items():
        counts = [_cores(side, core) for side in (a, b)]
        if all(least for least, _ in counts) and (counts[0][0] >= counts[1][1] or counts[1][0] >= counts[0][1]):
            sentences.append(f"kernels ran on {counts[0][0]} {name} cores against {counts[1][0]}")
    return sentences


def _cores(side: Side, core: Literal["aic", "aiv"]) -> tuple[int, float]:
    """Return bounds of the number of cores of a side: the least possible number, and the number that it is below."""
    mhz = _measured_mhz(side)
    bounds = [measured_cores(run.tables["kernels"], core, mhz) for run in side.runs] if mhz else []
    return max((least for least, _ in bounds), default=0), min((below for _, below in bounds), default=np.inf)


def _world_size(run: ComparedRun) -> str:
    return _text(run.info.environment.get("world_size", run.info.metadata.get("world_size")))


def _text(value: object) -> str:
    return "" if value is None else str(value)


_FACTS: tuple[tuple[str, Callable[[ComparedRun], str], str], ...] = (
    ("the kind of device", lambda run: "simulated" if run.info.simulated else "real", ""),
    ("the chip", lambda run: run.info.chip, ""),
    ("the level", lambda run: _text(run.info.options.get("level")), ": a higher one makes the host slower"),
    ("the number of ranks", _world_size, ""),
    ("the version of CANN", lambda run: run.info.versions.get("cann", ""), ""),
)

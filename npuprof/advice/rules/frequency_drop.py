"""AI cores that ran at less than their full clock for a while."""

from __future__ import annotations

import numpy as np
import pandas as pd

from npuprof.advice.facts import Facts
from npuprof.advice.finding import Finding, Rule
from npuprof.analysis.device_words import NPU
from npuprof.analysis.intervals import covering, within
from npuprof.arrays import Float64, Int64
from npuprof.words.quantities import duration, share

NAME = "frequency_drop"
_THRESHOLD = 0.01  # of the step
_LOW = 0.97  # of the best: lower is a drop
_SURE_NS = 50_000  # in shorter kernels, cycles are fewer than the duration shows, since starting takes time
_LEAST = 5  # samples, or alike kernels, that tell what is usual
_NEIGHBOURS = 9  # kernels around one that have to be slow, too
_BEST = 0.9  # the quantile of alike kernels that is the best
_COUNTER = "AI Core Freq"
_ALIKE = ["device_id", "op_type", "core", "input_shapes", "input_dtypes", "block_num"]


def check(facts: Facts) -> Finding:
    """Fire if kernels lose more than 1 % of the step by a clock below 0.97 of the run's best.

    The clock is the samples of AICORE_FREQ within kernels; without them, the cycles of kernels over the duration of
    their task, relative to alike kernels. Times of the PMU are cycles over an assumed clock, and tell nothing.
    """
    kernels = facts.tables["kernels"]
    clock, source = _sampled(facts), "samples of the clock"
    if clock is None:
        clock, source = _by_cycles(kernels), "cycles over the duration, beside those of alike kernels"
    if clock is None:
        return Finding(NAME, "cannot tell", collect=facts.needs_counters("cycles"))
    duration_ns = kernels["duration_ns"].to_numpy(np.int64)
    lost = np.where((clock < _LOW) & facts.in_steps, np.rint(duration_ns * (1 - clock)), 0).astype(np.int64)
    cost = facts.kernels_per_step(lost)
    if cost <= _THRESHOLD * facts.usual_ns:
        return Finding(NAME, "clean", cost_ns=cost)
    rows = kernels.assign(lost_ns=lost)[lost > 0]
    slow = duration_ns[lost > 0]
    mean = float((clock[lost > 0] * slow).sum() / slow.sum())
    return Finding(
        NAME,
        "fires",
        title=f"The AI cores run at {100 * mean:.0f} % of their clock for a while",
        cost_ns=cost,
        **facts.gain(cost, saved_ns=rows["lost_ns"]),
        detail=f"{share(int(slow.sum()), facts.kernels_ns)} of kernel time is at {100 * mean:.0f} % of the run's best "
        f"clock ({source}) and takes {duration(cost)} a step longer",
        action="Check temperature, power and cooling: `npu-smi info -t common -i DEVICE`.",
        table="kernels",
        rows=rows,
    )


def _sampled(facts: Facts) -> Float64 | None:
    """Return the clock of each kernel relative to the highest sample, by the last sample within a kernel; None without.

    Samples at the clock to which idle cores fall back say nothing, since a kernel may just have begun.
    """
    kernels, counters = facts.tables["kernels"], facts.tables["counters"]
    samples = counters[(counters["counter"] == _COUNTER).to_numpy(bool) & counters["device_id"].notna().to_numpy(bool)]
    if not len(samples) or not len(kernels):
        return None
    clock = np.ones(len(kernels))
    for device, of_device in samples.groupby("device_id"):
        rows = np.flatnonzero((kernels["device_id"] == device).to_numpy(bool))
        start, length = (kernels[name].to_numpy(np.int64)[rows] for name in ("start_ns", "duration_ns"))
        times, values = of_device["time_ns"].to_numpy(np.int64), of_device["value"].to_numpy(np.float64)
        order = np.argsort(times, kind="stable")
        times, values = times[order], values[order]
        is_busy = within(covering(start, length), times, times + 1) > 0
        idle = float(np.median(values[~is_busy])) if (~is_busy).any() else 0.0
        best = float(values[is_busy].max(initial=0.0))
        used = is_busy & ((values != idle) | (values >= _LOW * best))
        if used.sum() >= _LEAST and best > 0:
            last = np.searchsorted(times[used], start + length, side="right") - 1
            clock[rows] = np.where(last >= 0, values[used][last] / best, 1.0)
    return clock


def _by_cycles(kernels: pd.DataFrame) -> Float64 | None:
    """Return the clock of each kernel relative to the best of alike kernels, 1 where unknown; None without cycles."""
    names = [name for name in ("aic_total_cycles", "aiv_total_cycles") if name in kernels]
    duration_ns = kernels["duration_ns"].to_numpy(np.int64)
    cycles = np.zeros(len(kernels))
    for name in names:
        cycles = np.maximum(cycles, kernels[name].to_numpy(np.float64, na_value=0.0))
    if not (cycles > 0).any():
        return None
    rows = np.flatnonzero((cycles > 0) & (duration_ns >= _SURE_NS))
    clock = np.ones(len(kernels))
    rate = pd.Series(cycles[rows] / duration_ns[rows])
    alike = kernels[_ALIKE].iloc[rows].groupby(_ALIKE, observed=True, dropna=False, sort=False).ngroup()
    groups = rate.groupby(alike.to_numpy(np.int64))
    enough = (groups.transform("size") >= _LEAST).to_numpy(bool)
    relative = np.minimum((rate / groups.transform("quantile", _BEST)).to_numpy(np.float64), 1.0)[enough]
    clock[rows[enough]] = _of_neighbours(kernels, rows[enough], relative)
    return clock


def _of_neighbours(kernels: pd.DataFrame, rows: Int64, relative: Float64) -> Float64:
    """Return the median of each kernel and its neighbours in time, since a clock slows all of them down."""
    device, start = (kernels[name].to_numpy(np.int64)[rows] for name in ("device_id", "start_ns"))
    order = np.lexsort((start, device))
    medians = pd.Series(relative[order]).groupby(device[order]).rolling(_NEIGHBOURS, center=True, min_periods=_LEAST)
    smooth = np.ones(len(rows))
    smooth[order] = medians.median().to_numpy(np.float64)
    return np.where(np.isnan(smooth), 1.0, smooth)


RULE = Rule(NAME, "AI cores at less than their full clock", check, frozenset({NPU}))

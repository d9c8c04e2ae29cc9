"""What changed by itself, and what changed with everything else of its kind.

A lower frequency or a host that others use slows all rows of a kind alike, and differently in each step. The logarithm
of a row's time less that of the common factor of its step is free of both: a row that is 3 % slower is found among
steps that vary by 3 % together. The common factor is a median over rows, which a row that changed does not move.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from npuprof.arrays import Bools, Int64
from npuprof.noise.model import Estimate, Floats, difference

LEAST_ROWS = 5
"""Rows of a kind without which there is no common factor."""


@dataclass(frozen=True)
class Ratios:
    """Differences of logarithms between two sides."""

    # For each row the logarithm of its change relative to the common factor of its kind; NaN where there is none.
    rows: Estimate
    common: Estimate  # for each kind the logarithm of the common factor's change


def ratios(
    a: Floats, b: Floats, kinds: Int64, leaves: Bools | None = None, *, paired: bool, in_sequence: bool = True
) -> Ratios:
    """Return how rows, and the kinds that they are of, changed from `b` to `a` as ratios.

    Parameters
    ----------
    leaves
        The rows that the common factors are taken from, where others are sums of them; None for all.
    """
    count = int(kinds.max(initial=-1)) + 1
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = [np.log(side) for side in (a, b)]
    is_positive = np.isfinite(logs[0]).all(axis=(1, 2)) & np.isfinite(logs[1]).all(axis=(1, 2)) & (kinds >= 0)
    with np.errstate(invalid="ignore"):
        usual = (logs[0].mean(axis=(1, 2), keepdims=True) + logs[1].mean(axis=(1, 2), keepdims=True)) / 2
    factors = [np.full((count, *side.shape[1:]), np.nan) for side in (a, b)]
    has_factor = np.zeros(len(a), bool)
    for kind in range(count):
        rows = is_positive & (kinds == kind)
        summed = rows if leaves is None else rows & leaves
        if summed.sum() >= LEAST_ROWS:
            has_factor |= rows
            for factor, side in zip(factors, logs, strict=True):
                factor[kind] = np.median(side[summed] - usual[summed], axis=0)
    rest = [side[has_factor] - factor[kinds[has_factor]] for side, factor in zip(logs, factors, strict=True)]
    alone = difference(rest[0], rest[1], paired=paired, in_sequence=in_sequence)
    is_kind = np.isin(np.arange(count), kinds[has_factor])
    together = difference(factors[0][is_kind], factors[1][is_kind], paired=paired, in_sequence=in_sequence)
    return Ratios(_spread(alone, has_factor), _spread(together, is_kind))


def of_ranks(times: Floats, reference: Bools) -> Estimate:
    """Return the logarithm of the ratio of each rank's time to that of the reference ranks."""
    logs = np.log(times)
    ranks, steps = logs.shape
    value = (logs - np.median(logs[reference], axis=0)).mean(axis=1)
    freedom = (ranks - 1) * (steps - 1)
    if freedom < 1:
        return Estimate(value, np.full(ranks, np.nan), np.full(ranks, np.nan))
    rest = logs - logs.mean(axis=1, keepdims=True) - logs.mean(axis=0, keepdims=True) + logs.mean()
    variance = (rest**2).sum() / freedom / steps * (1 + np.pi / 2 / reference.sum())  # the last of a median
    return Estimate(value, np.full(ranks, np.sqrt(variance)), np.full(ranks, float(freedom)))


def _spread(estimate: Estimate, rows: Bools) -> Estimate:
    """Return an estimate of some rows as one of all, NaN for the others."""
    whole = [np.full(len(rows), np.nan) for _ in range(3)]
    for values, of_rows in zip(whole, (estimate.value, estimate.error, estimate.freedom), strict=True):
        values[rows] = of_rows
    return Estimate(whole[0], whole[1], whole[2])

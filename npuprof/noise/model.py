"""The noise of means of times, and of their differences.

The time of rank ``r`` in step ``s`` is its mean, plus an effect of the rank, plus one of the step that all ranks share,
plus the rest. From a balanced table of R ranks and S steps the variance of the mean is

    max(MS_rank + MS_step - MS_rest, MS_rank, MS_step, MS_rest) / (R S)

with the mean squares of the analysis of variance, and its degrees of freedom are Satterthwaite's. One rank leaves the
variance over its steps, so that a difference of two is Welch's t-test. Two sides with the same ranks are paired: what a
rank is by nature cancels, and MS_rank is that of the differences of each rank.

Steps that follow each other are not independent: their autocorrelation at lag 1 makes them count as fewer steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]

LEVEL = 0.05
"""The share of false alarms that is accepted: intervals are of 95 %."""

_LEAST_STEPS = 5  # fewer say nothing of their autocorrelation
_MOST_CORRELATION = 0.9
_LEAST_QUANTITIES = 5  # that tell what their correlations have in common
_LEAST_VARIANCE = 1e-24  # relative to the square of the times: less is the rounding of floats


@dataclass(frozen=True)
class Estimate:
    """Means, or differences of means, with their noise: a value for each quantity."""

    value: Floats  # the mean or the difference
    error: Floats  # its standard error: 0 where the times do not vary, NaN where the noise cannot be told
    freedom: Floats  # the degrees of freedom of the error

    def p_values(self, expected: float = 0.0) -> Floats:
        """Return the two-sided p-values of Student's t-test against a value; NaN where the noise cannot be told."""
        from scipy.special import stdtr

        distance = np.abs(self.value - expected)
        with np.errstate(divide="ignore", invalid="ignore"):
            t = np.where(distance > 0, distance / self.error, 0.0)
        return np.where(np.isnan(self.error), np.nan, 2 * stdtr(self.freedom, -t))

    def bounds(self, level: float | Floats = LEVEL) -> tuple[Floats, Floats]:
        """Return the bounds of the intervals that leave out the true value with probability `level`."""
        from scipy.special import stdtrit

        with np.errstate(invalid="ignore"):
            half = np.where(self.error > 0, -stdtrit(self.freedom, np.asarray(level) / 2) * self.error, self.error)
        return self.value - half, self.value + half


def mean(times: Floats, *, in_sequence: bool = True) -> Estimate:
    """Return the mean of the times of each quantity.

    Parameters
    ----------
    in_sequence
        Whether the steps followed each other, so that each may depend on the one before; runs apart do not.
    """
    stretch = _stretch([times], in_sequence=in_sequence)
    return Estimate(times.mean(axis=(1, 2)), *_noise([_Table(times, stretch)]))


def difference(a: Floats, b: Floats, *, paired: bool, in_sequence: bool = True) -> Estimate:
    """Return the difference of the means of two sides, `a` minus `b`.

    Parameters
    ----------
    a, b
        Quantities x ranks x steps; with the same ranks in the same order if they are paired.
    """
    stretch = _stretch([a, b], in_sequence=in_sequence)
    tables = [_Table(a, stretch), _Table(b, stretch)]
    if not in_sequence and min(table.steps for table in tables) < 2 <= max(table.steps for table in tables):
        several = max(tables, key=lambda table: table.steps)
        variance, freedom = several.step * (several.steps + 1), np.broadcast_to(several.step_freedom, len(a))
        is_noise = variance > several.tiny
        error = np.sqrt(np.where(is_noise, variance, 0.0))
        return Estimate(a.mean(axis=(1, 2)) - b.mean(axis=(1, 2)), error, np.where(is_noise, freedom, 1.0))
    by_rank = a.mean(axis=2) - b.mean(axis=2) if paired and a.shape[1] > 1 else None
    return Estimate(a.mean(axis=(1, 2)) - b.mean(axis=(1, 2)), *_noise(tables, by_rank))


class _Table:
    """The mean squares of a balanced table, each as the variance of the table's mean that it stands for."""

    def __init__(self, times: Floats, stretch: Floats) -> None:
        _, self.ranks, self.steps = times.shape
        whole = times.mean(axis=(1, 2), keepdims=True)
        of_ranks, of_steps = times.mean(axis=2, keepdims=True), times.mean(axis=1, keepdims=True)
        rest = times - of_ranks - of_steps + whole
        self.rank_freedom = self.ranks - 1
        self.rest_freedom = self.rank_freedom * (self.steps - 1)
        self.step_freedom = np.maximum(self.steps / stretch - 1, 1.0)
        self.rank = ((of_ranks - whole) ** 2).sum(axis=(1, 2)) / max(self.rank_freedom, 1) / self.ranks
        # The variance of steps that depend on each other is too small by itself, too.
        shrunk = np.maximum(1 - (stretch - 1) / max(self.steps - 1, 1), 0.2)
        of_step = ((of_steps - whole) ** 2).sum(axis=(1, 2)) / max(self.steps - 1, 1)
        self.step = of_step / self.steps * stretch / shrunk
        self.rest = (rest**2).sum(axis=(1, 2)) / max(self.rest_freedom, 1) / (self.ranks * self.steps)
        self.tiny = _LEAST_VARIANCE * (times**2).mean(axis=(1, 2))


def _noise(tables: list[_Table], by_rank: Floats | None = None) -> tuple[Floats, Floats]:
    """Return the standard errors and the degrees of freedom of means, or of differences of independent means."""
    count = len(tables[0].step)
    if any(table.steps < 2 for table in tables):
        return np.full(count, np.nan), np.full(count, np.nan)
    parts = [_of_pair(tables, by_rank)] if by_rank is not None else [_of_one(table) for table in tables]
    variance = np.sum([part for part, _ in parts], axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        freedom = variance**2 / np.sum([part**2 / of_part for part, of_part in parts], axis=0)
    is_noise = variance > np.sum([table.tiny for table in tables], axis=0)
    return np.sqrt(np.where(is_noise, variance, 0.0)), np.where(is_noise, freedom, 1.0)


def _of_one(table: _Table) -> tuple[Floats, Floats]:
    """Return the variance of the mean of a table, and its degrees of freedom."""
    if table.ranks == 1:
        return table.step, table.step_freedom
    return _largest(
        (table.rank, table.rank_freedom), (table.step, table.step_freedom), (table.rest, table.rest_freedom)
    )


def _of_pair(tables: list[_Table], by_rank: Floats) -> tuple[Floats, Floats]:
    """Return the variance of the difference of two tables of the same ranks, and its degrees of freedom."""
    ranks = by_rank.shape[1]
    step, rest = (
        _sum([(getattr(table, name), getattr(table, f"{name}_freedom")) for table in tables])
        for name in ("step", "rest")
    )
    return _largest((by_rank.var(axis=1, ddof=1) / ranks, ranks - 1), step, rest)


def _sum(parts: list[tuple[Floats, Floats | int]]) -> tuple[Floats, Floats]:
    """Return the sum of independent variances, and its degrees of freedom after Satterthwaite."""
    total = np.sum([part for part, _ in parts], axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        freedom = total**2 / np.sum([part**2 / of_part for part, of_part in parts], axis=0)
    return total, np.where(total > 0, freedom, 1.0)


def _largest(
    rank: tuple[Floats, Floats | int], step: tuple[Floats, Floats | int], rest: tuple[Floats, Floats | int]
) -> tuple[Floats, Floats]:
    """Return the largest of rank + step - rest, rank, step and rest, and its degrees of freedom."""
    together = rank[0] + step[0] - rest[0]
    with np.errstate(divide="ignore", invalid="ignore"):
        freedom = together**2 / np.sum([part**2 / of_part for part, of_part in (rank, step, rest)], axis=0)
    freedom = np.where(together > 0, freedom, 1.0)  # a row of zeros, beside one that varies on the other side
    choices = np.stack([together, rank[0], step[0], rest[0]])
    most = choices.argmax(axis=0)
    freedoms = np.stack([np.broadcast_to(value, most.shape) for value in (freedom, rank[1], step[1], rest[1])])
    rows = np.arange(len(most))
    return choices[most, rows], freedoms[most, rows]


def _stretch(sides: list[Floats], *, in_sequence: bool) -> Floats:
    """Return how many steps count as one, for each quantity: (1 + c) / (1 - c) of the autocorrelation c at lag 1.

    That of a few steps is estimated too low, by 1 / steps where there is none (Kendall, 1954), which is added. The full
    correction, (1 + 3 c) / steps, would take most of the power of five to ten steps that are independent. What a few
    steps tell of one quantity is uncertain by 1 / sqrt(steps), so that it is drawn to what all quantities have in
    common as far as they do not differ by more than that. Below 0 the correlation counts as 0.
    """
    count, steps = len(sides[0]), sum(side.shape[2] for side in sides)
    each = steps / len(sides)
    if not in_sequence or each < _LEAST_STEPS:
        return np.ones(count)
    products, squares = np.zeros(count), np.zeros(count)
    for side in sides:
        around = side.mean(axis=1)
        around = around - around.mean(axis=1, keepdims=True)
        products += (around[:, 1:] * around[:, :-1]).sum(axis=1)
        squares += (around**2).sum(axis=1)
    varies = squares > 0
    lag = np.divide(products, squares, out=np.zeros(count), where=varies)
    if varies.sum() >= _LEAST_QUANTITIES:
        common, spread = float(lag[varies].mean()), float(lag[varies].var(ddof=1))
        weight = max(0.0, 1 - 1 / steps / spread) if spread > 0 else 0.0
        lag = common + weight * (lag - common)
    correlation = np.clip(lag + 1 / each, 0.0, _MOST_CORRELATION)
    return (1 + correlation) / (1 - correlation)

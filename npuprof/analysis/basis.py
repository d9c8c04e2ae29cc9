"""One set of steps for every figure: the steps that count, the outliers among them, and the time of a step."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from npuprof.analysis.balanced_steps import numbered
from npuprof.arrays import Bools, Int64

_LEAST = 4  # steps, fewer have no outliers
_SPREADS = Fraction(5 * 14_826, 10_000)  # times the MAD: five standard deviations of a normal distribution
_OVER = Fraction(1, 5)  # of the median


@dataclass(frozen=True)
class Basis:
    """The steps that figures per step rest on."""

    # Their rows in `steps`: of each rank and device the complete, closed steps except the first; if none remains, the
    # first, then open ones.
    rows: Int64
    number: Int64  # the step of the job that each of them is part of
    duration_ns: Int64  # their durations
    # Which of them belong to an outlier: a step of the job whose longest rank takes longer than the median `m` by max(5
    # x 1.4826 MAD, 0.2 m), if such steps are fewer than half of at least four.
    outlier: Bools
    limit: Fraction | None  # that limit over `m`; None if there are fewer than four steps
    why: str  # what the choice rests on, in words; empty where it is the usual one

    @property
    def usual_rows(self) -> Int64:
        """The rows that are no outliers."""
        return self.rows[~self.outlier]

    @property
    def outlier_rows(self) -> Int64:
        return self.rows[self.outlier]

    @cached_property
    def count(self) -> int:
        """The number of steps of the job."""
        return len(np.unique(self.number))

    @cached_property
    def outliers(self) -> int:
        """The number of steps of the job that are outliers."""
        return len(np.unique(self.number[self.outlier]))

    @cached_property
    def mean_ns(self) -> int:
        """The time of a step: the mean of all, rounded down."""
        return _mean(self.duration_ns)

    @cached_property
    def usual_ns(self) -> int:
        """The mean of the steps that are no outliers, rounded down."""
        return _mean(self.duration_ns[~self.outlier])

    @property
    def excess_ns(self) -> int:
        """What outliers add to the time of a step: the mean is the usual step and this, exactly."""
        return self.mean_ns - self.usual_ns

    @property
    def extra_ns(self) -> Int64:
        """What each of :attr:`outlier_rows` takes longer than the usual step."""
        return self.duration_ns[self.outlier] - self.usual_ns

    def with_limit(self, limit: Fraction | None) -> Basis:
        """Return the same steps with the outliers beyond another limit."""
        return replace(self, limit=limit, outlier=_outliers(self.number, self.duration_ns, limit))


def basis_of(steps: pd.DataFrame, outlier: Bools | None = None) -> Basis:
    """Return the basis of a run or a job.

    Parameters
    ----------
    steps
        ``rank``, ``device_id``, ``step``, ``duration_ns``, ``closed`` and ``complete`` of each step of each rank and
        device, those of a device in order of time.
    outlier
        Which of all steps are outliers, where the ranks of a job tell; by default these steps alone tell.
    """
    # A step that others cover has no time of its own.
    lasting = (steps["duration_ns"] > 0).to_numpy(bool)
    rows = np.flatnonzero(lasting if lasting.any() else ~lasting)
    every = steps.iloc[rows]
    owner = every.groupby(["rank", "device_id"], dropna=False, sort=False).ngroup().to_numpy(np.int64)
    choice = _choices(owner, *(every[name].to_numpy(bool) for name in ("closed", "complete")))
    first = [np.flatnonzero(owner == each)[0] for each in np.unique(owner)]
    counts = choice.chosen
    rows, chosen = rows[counts], every.iloc[counts]
    number = pd.factorize(numbered(chosen), sort=True)[0].astype(np.int64)
    times = chosen["duration_ns"].to_numpy(np.int64)
    limit = _limit(_longest(number, times))
    found = _outliers(number, times, limit) if outlier is None else outlier[rows]
    several = any((owner == owner[place]).sum() > 1 for place in first)
    return Basis(rows, number, times, found, limit, _why(choice.rank, several=several))


def basis_among(number: Int64, duration_ns: Int64) -> Basis:
    """Return the basis of steps that have been chosen, given the step of the job of each and its duration."""
    limit = _limit(_longest(number, duration_ns))
    return Basis(np.arange(len(number)), number, duration_ns, _outliers(number, duration_ns, limit), limit, "")


@dataclass(frozen=True)
class _Choice:
    """Which steps count, and how far down the list of choices the device is for which least remains."""

    chosen: Bools
    rank: int


def _choices(owner: Int64, closed: Bools, complete: Bools) -> _Choice:
    later = pd.Series(owner).duplicated().to_numpy(bool)
    every = np.ones(len(owner), bool)
    choices = [complete & closed & later, complete & closed, complete & later, complete, closed & later, later, every]
    has = [np.isin(owner, owner[choice]) for choice in choices]
    mask: Any = np.select(has, choices, default=np.False_)
    rank = np.select(has, range(len(choices)), default=0)
    return _Choice(mask, int(rank.max(initial=0)))


def _why(rank: int, *, several: bool) -> str:
    if not several and rank < 4:
        return "the only one"
    return (
        "",
        "the first one: no other is complete and followed by the next one",
        "none of them followed by the next one",
        "the first one, not followed by the next one",
        *("with lost records",) * 3,
    )[rank]


def _mean(times: Int64) -> int:
    return int(times.sum()) // max(len(times), 1)


def _longest(number: Int64, times: Int64) -> Int64:
    longest = np.zeros(int(number.max(initial=-1)) + 1, np.int64)
    np.maximum.at(longest, number, times)
    return longest


def _median(ordered: Int64) -> Fraction:
    count = len(ordered)
    return Fraction(int(ordered[(count - 1) // 2]) + int(ordered[count // 2]), 2)


def _limit(times: Int64) -> Fraction | None:
    """Return the time from which a step is an outlier, relative to the median."""
    if len(times) < _LEAST:
        return None
    middle = _median(np.sort(times))
    twice = np.sort(np.abs(2 * times - int(2 * middle)))
    return 1 + max(_SPREADS * _median(twice) / 2 / middle, _OVER) if middle else None


def _outliers(number: Int64, times: Int64, limit: Fraction | None) -> Bools:
    longest = _longest(number, times)
    none = np.zeros(len(number), bool)
    if limit is None or len(longest) < _LEAST:
        return none
    is_long = longest > int(limit * _median(np.sort(longest)))
    return is_long[number] if 2 * int(is_long.sum()) < len(longest) else none

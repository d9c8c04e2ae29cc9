"""The selected part of a run: some of its steps, or an interval of time.

A row belongs to an interval from `start` (included) to `end` (excluded) if it overlaps it. A step is the interval
between its marks; device work belongs to the step that launched it. :mod:`.slicing` keeps those rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from npuprof.analysis.intervals import union
from npuprof.arrays import Bools, Int64
from npuprof.errors import OptionsError, SourceError
from npuprof.tables.info import Selected

Moment: TypeAlias = int | np.integer[Any] | datetime | np.datetime64 | timedelta | np.timedelta64
"""Nanoseconds of the UTC epoch, a time stamp (UTC where it names no zone), or the time since the run's beginning."""

_LIMITS = np.iinfo(np.int64)
_MOST_STEPS = 1_000_000
_MOST_RANGES = 20


@dataclass(frozen=True)
class Windows:
    """Half-open intervals: sorted, disjoint, in UTC epoch nanoseconds."""

    starts: Int64
    ends: Int64

    @classmethod
    def between(cls, start_ns: int | None, end_ns: int | None) -> Windows:
        """Return the interval between two times; None is unbounded."""
        start = _LIMITS.min if start_ns is None else start_ns
        return cls(np.array([start], np.int64), np.array([_LIMITS.max if end_ns is None else end_ns], np.int64))

    def touch(self, starts: Int64, ends: Int64) -> Bools:
        """Return a mask of the intervals that overlap any window; an interval of length 0 must be inside one."""
        if not len(self.starts):
            return np.zeros(len(starts), bool)
        at = np.searchsorted(self.ends, starts, side="right")
        begin = self.starts[np.minimum(at, len(self.starts) - 1)]
        return (at < len(self.starts)) & ((begin < ends) | (begin <= starts))

    def joined(self, starts: Int64, ends: Int64) -> Windows:
        """Return the union with other intervals."""
        return Windows(*union(np.concatenate((self.starts, starts)), np.concatenate((self.ends, ends))))

    @classmethod
    def none(cls) -> Windows:
        """Return an empty set of intervals."""
        return cls(np.empty(0, np.int64), np.empty(0, np.int64))


@dataclass(frozen=True)
class SelectedWindows:
    """The selected intervals of a run, and the intervals in which the host launched their device work."""

    windows: Windows
    launches: Windows = field(default_factory=Windows.none)


@dataclass(frozen=True)
class _Bound:
    """A time as passed by the caller: epoch nanoseconds, or nanoseconds since the start of the run."""

    ns: int
    is_relative: bool

    def absolute(self, beginning_ns: int) -> int:
        return min(max(self.ns + beginning_ns, _LIMITS.min), _LIMITS.max) if self.is_relative else self.ns


@dataclass(frozen=True)
class Selection:
    """The selected part of a run; :func:`choose` makes one from arguments."""

    steps: tuple[int, ...] | None = None  # numbers of steps, or None for an interval
    # start, end: the interval; None is unbounded.
    start: _Bound | None = None
    end: _Bound | None = None

    @property
    def is_relative(self) -> bool:
        """Whether the interval is relative to the start of the run."""
        return any(bound is not None and bound.is_relative for bound in (self.start, self.end))

    def windows(self, steps: pd.DataFrame, beginning_ns: int) -> Windows:
        """Return the selected intervals of a run."""
        if self.steps is not None:
            return self._step_windows(steps)
        start, end = (None if bound is None else bound.absolute(beginning_ns) for bound in (self.start, self.end))
        if start is not None and end is not None and end <= start:
            raise OptionsError(f"the selection ends at {end} ns, not after its start at {start} ns: exchange them?")
        return Windows.between(start, end)

    def selected(self, windows: Windows) -> Selected:
        """Return a description of the selection: the steps, or the bounds in epoch nanoseconds."""
        if self.steps is not None:
            return {"steps": list(self.steps)}
        selected: Selected = {}
        if self.start is not None:
            selected["start_ns"] = int(windows.starts[0])
        if self.end is not None:
            selected["end_ns"] = int(windows.ends[0])
        return selected

    def _step_windows(self, steps: pd.DataFrame) -> Windows:
        wanted = self.steps or ()
        numbers = steps["step"].to_numpy(np.int64, na_value=_LIMITS.min)
        unknown = sorted(set(wanted) - set(numbers.tolist()))
        if unknown:
            there = sorted(set(numbers[numbers != _LIMITS.min].tolist()))
            if not there:
                raise SourceError("the run has no numbered steps: select an interval with start= and end=")
            raise SourceError(f"the run has no step {_listed(unknown)}; its steps are {_listed(there)}")
        is_selected = np.isin(numbers, wanted)
        starts = steps["start_ns"].to_numpy(np.int64)[is_selected]
        return Windows(*union(starts, starts + steps["duration_ns"].to_numpy(np.int64)[is_selected]))


SelectedPart: TypeAlias = Selection | SelectedWindows | None
"""What is read of a run: as asked for, or as found in its steps; None for all."""


def choose(steps: int | Iterable[int] | None, start: Moment | None, end: Moment | None) -> Selection | None:
    """Check the arguments of a selection; return None if everything is selected."""
    if steps is None and start is None and end is None:
        return None
    if steps is None:
        return Selection(start=_bound("start", start), end=_bound("end", end))
    if start is not None or end is not None:
        raise OptionsError("pass either steps or start and end, not both: a step is an interval already")
    return Selection(steps=_numbers(steps))


def _numbers(steps: Any) -> tuple[int, ...]:
    given = [steps] if isinstance(steps, int | np.integer) else steps
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise OptionsError(f"steps is {steps!r}, but must be a number or a list of them, such as [3, 4]")
    numbers = list(islice(given, _MOST_STEPS + 1))
    if not 0 < len(numbers) <= _MOST_STEPS:
        raise OptionsError(f"steps must name between 1 and {_MOST_STEPS} steps, such as [3, 4]")
    for number in numbers:
        if isinstance(number, bool) or not isinstance(number, int | np.integer):
            raise OptionsError(f"steps holds {number!r}, but must hold whole numbers, such as [3, 4]")
    return tuple(sorted({int(number) for number in numbers}))


def _bound(name: str, given: Any) -> _Bound | None:
    if given is None:
        return None
    try:
        bound = _read_bound(given)
    except (ValueError, OverflowError) as error:  # pandas' out-of-bounds errors are subclasses of these
        raise OptionsError(f"{name} is {given!r}, which int64 nanoseconds cannot hold: {error}") from error
    if bound is None or not _LIMITS.min <= bound.ns <= _LIMITS.max:
        raise OptionsError(
            f"{name} is {given!r}, but must be nanoseconds of the epoch as a whole number (run.kernels.start_ns has "
            "such), a time stamp, or pd.Timedelta(seconds=1.5) for the time since the run's beginning; a float of "
            "nanoseconds has lost some of them already"
        )
    return bound


def _read_bound(given: Any) -> _Bound | None:
    if isinstance(given, bool | np.bool_) or given is pd.NaT:
        return None
    if isinstance(given, timedelta | np.timedelta64):  # before integers: NumPy counts timedelta64 among them
        length = pd.Timedelta(given)
        return None if length is pd.NaT else _Bound(length.as_unit("ns").value, True)
    if isinstance(given, int | np.integer):
        return _Bound(int(given), False)
    if isinstance(given, datetime | np.datetime64):
        stamp = pd.Timestamp(given)
        return None if stamp is pd.NaT else _Bound(stamp.as_unit("ns").value, False)
    return None


def _listed(numbers: list[int]) -> str:
    """List numbers, with ranges for consecutive ones."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    ranges = [str(low) if low == high else f"{low}-{high}" for low, high in runs[:_MOST_RANGES]]
    return ", ".join(ranges) + (" ..." if len(runs) > _MOST_RANGES else "")

"""Gates: ``step < 160ms and idle < 30%``, conditions on the parts of a step (:mod:`npuprof.conditions`).

Each side of a comparison is a mean over steps, and so is their difference, whose noise says how sure the comparison is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from npuprof.advice.findings import PARTS_OF_NAMES, Advice
from npuprof.analysis.accounting import IDLE
from npuprof.analysis.host_accounting import ACTIVITY_LABELS, HOST
from npuprof.conditions import SIGNS, TIMES, Comparison, Quantity, comparisons, refusal
from npuprof.errors import NpuprofError, OptionsError
from npuprof.noise.model import Estimate, Floats, difference, mean
from npuprof.words.quantities import duration

_LONGEST_NS = 1 << 63
_EXAMPLE = "step < 160ms and idle < 30%"


class GateError(NpuprofError, AssertionError):
    """A gate does not hold; the message has the figures."""


@dataclass(frozen=True)
class Figure:
    """A name of a gate: its mean over the steps of a run, and its times."""

    ns: int  # the mean in nanoseconds
    times: Floats  # the times in steps that all ranks have, ranks x steps; empty if they are unknown
    run: str = "last"  # the run. What is of one run is compared step by step.


@dataclass(frozen=True)
class _Value:
    """One side of a comparison: nanoseconds, or a plain number as a multiple of `figure`."""

    nanoseconds: Fraction | None
    factor: Fraction = Fraction(1)
    figure: Figure | None = None

    @property
    def times(self) -> Floats | None:
        """Its times, ranks x steps; None for a constant."""
        return None if self.figure is None else self.figure.times * float(self.factor)


@dataclass(frozen=True)
class CheckedComparison:
    """A comparison of a gate, with the figures of a run."""

    text: str  # the comparison as written
    # left_ns, right_ns: its sides in nanoseconds.
    left_ns: Fraction
    right_ns: Fraction
    holds: bool  # whether the comparison of the means is true
    # The 95 % interval of the left side; None if it is no time of a run, or has one step.
    left_between_ns: tuple[int, int] | None = None
    # Whether the comparison is false everywhere in the 95 % interval of the difference of its sides; None if one step
    # does not tell.
    surely_fails: bool | None = None

    def __str__(self) -> str:
        """Return the comparison with its figures: ``step < 160ms: 150 ms (148-152 ms) against 160 ms``."""
        between = ""
        if self.left_between_ns is not None:
            low, high = map(duration, self.left_between_ns)
            between = f" (95 % interval {low} to {high})"
        return f"{self.text}: {duration(round(self.left_ns))}{between} against {duration(round(self.right_ns))}"


def figures(advice: Advice, run: str = "last") -> dict[str, Figure]:
    """Return the names that a gate may use for a run, per step: ``step`` and the parts of a step.

    A single outlier is no part of them.
    """
    facts = advice.facts
    names = {**PARTS_OF_NAMES, **{name: (name,) for name in IDLE}}
    rows = advice.judged_rows
    lengths = facts.accounting.steps["duration_ns"].to_numpy(np.int64)[rows]
    times = {"step": lengths, **{name: facts.times(rows, parts) for name, parts in names.items()}}
    if facts.accounting.of_host:
        times |= {name: facts.times(rows, [HOST], name) for name in ACTIVITY_LABELS}
    mean, balanced = facts.means(rows), facts.balanced(rows)
    means = {"step": sum(time for _, _, time in mean)}
    for name, parts in names.items():
        means[name] = sum(time for part, _, time in mean if part in parts)
    if facts.accounting.of_host:
        means |= dict.fromkeys(ACTIVITY_LABELS, 0)
        for part, cause, time in mean:
            if part == HOST:
                means[cause] += time
    return {name: Figure(ns, times[name][balanced].astype(np.float64), run) for name, ns in means.items()}


def check(text: str, names: Mapping[str, Figure]) -> list[CheckedComparison]:
    """Evaluate a gate.

    Parameters
    ----------
    text
        Comparisons joined by ``and``: names, times such as ``160ms``, percentages of the step such as ``30%``, and
        products with a plain number, such as ``best * 1.05``.
    """
    return [_checked(part, names) for part in comparisons(text, "gate", _EXAMPLE)]


def require(
    text: str, names: Mapping[str, Figure], *, confident: bool = False, doubts: Collection[str] = ()
) -> list[CheckedComparison]:
    """Evaluate a gate as :func:`check` does, and raise if it does not hold.

    Parameters
    ----------
    confident
        Whether a comparison fails only if it is false everywhere in the 95 % interval of the difference of its sides.
        One that a single step cannot tell fails, too.
    doubts
        What is missing in a run, so that the gate cannot tell; see :attr:`npuprof.advice.findings.Advice.doubts`.
    """
    compared = check(text, names)
    if doubts:
        raise GateError(f"the gate cannot tell, since the run is incomplete: {'; '.join(doubts)}")
    unknown = [limit for limit in compared if confident and limit.surely_fails is None]
    failed = [limit for limit in compared if (limit.surely_fails if confident else not limit.holds)]
    problems = [f"the gate does not hold: {'; '.join(map(str, failed))}"] if failed else []
    if unknown:
        what = "; ".join(map(str, unknown))
        problems.append(f"the gate cannot tell, since one step says nothing of noise, so record several: {what}")
    if problems:
        raise GateError(", and ".join(problems))
    return compared


def _checked(part: Comparison, names: Mapping[str, Figure]) -> CheckedComparison:
    if part.sign not in SIGNS:
        raise _wrong(part, f"compares times, which {part.sign} does not")
    left, right = (_side(side, part, names) for side in (part.left, part.right))
    if left.nanoseconds is None or right.nanoseconds is None:
        raise _wrong(part, "needs times on both sides: a plain number needs a unit (ns, us, ms, s, or % of the step)")
    return CheckedComparison(
        str(part),
        left.nanoseconds,
        right.nanoseconds,
        SIGNS[part.sign](left.nanoseconds, right.nanoseconds),
        _interval(left),
        _surely_fails(part.sign, left, right),
    )


def _interval(side: _Value) -> tuple[int, int] | None:
    """Return the 95 % interval of a side in nanoseconds; None if it is a constant, or of one step."""
    if side.times is None or not side.times.size:
        return None
    noise = mean(side.times[None])
    low, high = Estimate(np.array([float(side.nanoseconds or 0)]), noise.error, noise.freedom).bounds()
    return None if np.isnan(low[0]) else (max(round(float(low[0])), 0), round(float(high[0])))


def _surely_fails(sign: str, left: _Value, right: _Value) -> bool | None:
    """Return whether a comparison is false everywhere in the 95 % interval of the difference; None if that is unknown.

    Sides of one run are compared step by step, so that what lengthens both is no noise.
    """
    mean_ns = float((left.nanoseconds or 0) - (right.nanoseconds or 0))
    noise = _noise(left, right)
    if noise is None:  # two constants
        return not SIGNS[sign](Fraction(left.nanoseconds or 0), Fraction(right.nanoseconds or 0))
    low, high = (float(bound[0]) for bound in Estimate(np.array([mean_ns]), noise.error, noise.freedom).bounds())
    if np.isnan(low):
        return None
    return {
        "<": low >= 0,
        "<=": low > 0,
        ">": high <= 0,
        ">=": high < 0,
        "==": low > 0 or high < 0,
        "!=": low == high == 0,
    }[sign]


def _noise(left: _Value, right: _Value) -> Estimate | None:
    """Return the difference of two sides with its noise; None if both are constants."""
    sides = [side for side in (left, right) if side.figure is not None]
    times = [side.times[None] for side in sides if side.times is not None]
    if not sides:
        return None
    if any(not of_side.size for of_side in times):
        return Estimate(*(np.full(1, np.nan) for _ in range(3)))
    if len(sides) == 1:
        return mean(times[0])
    if left.figure is not None and right.figure is not None and left.figure.run == right.figure.run:
        return mean(times[0] - times[1])
    return difference(times[0], times[1], paired=times[0].shape[1] == times[1].shape[1])


def _side(side: str, part: Comparison, names: Mapping[str, Figure]) -> _Value:
    time: _Value | None = None
    factor = Fraction(1)
    for value in (_value(text.strip(), part, names) for text in side.split("*")):
        factor *= value.factor
        if value.nanoseconds is not None and time is not None:
            raise _wrong(part, "may multiply a time with plain numbers only")
        time = value if value.nanoseconds is not None else time
    if time is None or time.nanoseconds is None:
        return _Value(None, factor)
    nanoseconds = time.nanoseconds * factor / time.factor if time.factor else Fraction(0)
    if abs(nanoseconds) >= _LONGEST_NS:
        raise _wrong(part, "has a longer time than any run")
    return _Value(nanoseconds, factor, time.figure)


def _value(text: str, part: Comparison, names: Mapping[str, Figure]) -> _Value:
    quantity = Quantity.of(text)
    if quantity is None:
        if not text.isidentifier():
            raise _wrong(part, "needs a name, a time, or a product with a number on each side")
        if text not in names:
            raise OptionsError(f"a gate knows no {text!r}; its names are {', '.join(names)}")
        return _Value(Fraction(names[text].ns), Fraction(1), names[text])
    number = Fraction(quantity.number)
    if quantity.unit == "%":
        return _Value(number / 100 * names["step"].ns, number / 100, names["step"])
    if quantity.unit and quantity.unit not in TIMES:
        raise _wrong(part, f"has no unit of time, such as ms, but {quantity.unit}")
    return _Value(number * TIMES[quantity.unit] if quantity.unit else None, Fraction(1) if quantity.unit else number)


def _wrong(part: Comparison, reason: str) -> OptionsError:
    return refusal(str(part), "gate", reason, _EXAMPLE)

"""The gain of a step without a problem, and how certain it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias, TypedDict

import pandas as pd

Confidence: TypeAlias = Literal["measured", "bounded"]
"""``measured`` if a replay predicts the gain from complete records, ``bounded`` if only its limits are known."""


@dataclass(frozen=True)
class Saves:
    """The time that a run would not take without a problem."""

    kernels_ns: pd.Series[int] | None = None  # time of each kernel, by row
    # Which of these kernels are needless for sure, which makes the lower limit; None for all.
    surely: pd.Series[bool] | None = None
    # cause, part: causes of host time, and parts of a step, that would take no time at all.
    cause: Sequence[str] = ()
    part: Sequence[str] = ()

    def least(self) -> Saves:
        """Return the certain gain."""
        if self.kernels_ns is None or self.surely is None:
            return self
        return Saves(self.kernels_ns[self.surely], None, self.cause, self.part)


class Gain(TypedDict):
    """Limits of the reduction of a step, and how they are known: fields of a finding."""

    gain_lo_ns: int
    gain_hi_ns: int
    confidence: Confidence
    saves: Saves | None
    gains_ns: tuple[int, ...]


class Replayed(NamedTuple):
    """The gain that a replay predicts: of a mean step, and of each step."""

    gain_ns: int
    gains_ns: tuple[int, ...] = ()


def gain_of(
    low_ns: int,
    high_ns: int,
    *,
    predicted: bool = False,
    checked: bool = True,
    sound: bool = True,
    saves: Saves | None = None,
    gains_ns: tuple[int, ...] = (),
) -> Gain:
    """Return a gain with its confidence: nothing else decides it, for any rule.

    Parameters
    ----------
    checked
        Whether the replay is known to be right: its order of work was recorded, or it was tried where it was not
        fitted.
    sound
        Whether the examination found complete what it rests on; if not, nothing is sure to be gained.
    """
    measured = predicted and checked and sound and low_ns == high_ns
    return Gain(
        gain_lo_ns=low_ns if sound else 0,
        gain_hi_ns=high_ns,
        confidence="measured" if measured else "bounded",
        saves=saves,
        gains_ns=gains_ns if measured else (),
    )

"""What a step would gain without a problem, and how that is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias, TypedDict

import pandas as pd

Confidence: TypeAlias = Literal["measured", "bounded", "guess"]
"""``measured`` if a replay predicts the gain, ``bounded`` if only its limits are known."""


@dataclass(frozen=True)
class Saves:
    """The time that a run would not take without a problem.

    Attributes
    ----------
    kernels_ns
        Time of each kernel, by row.
    surely
        Which of these kernels are needless for sure, which makes the lower limit; None for all.
    cause, part
        Causes of host time, and parts of a step, that would take no time at all.
    """

    kernels_ns: pd.Series[int] | None = None
    surely: pd.Series[bool] | None = None
    cause: Sequence[str] = ()
    part: Sequence[str] = ()

    def least(self) -> Saves:
        """Return what is saved for sure."""
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

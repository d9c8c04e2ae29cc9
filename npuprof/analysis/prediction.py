"""The prediction of a replay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from math import inf
from typing import Any

import pandas as pd

from npuprof.errors import OptionsError
from npuprof.quantities import duration, share

TOLERANCE = 0.01
"""The largest error of a replay without changes, as a share of the recorded time."""


@dataclass(frozen=True)
class Prediction:
    """The predicted time of a step, or a job, after a change. Times are nanoseconds.

    Attributes
    ----------
    recorded_ns
        As recorded: the mean over the steps, without the first one if there are others; of a job, from the first start
        of a collective to the last end.
    replayed_ns
        In the replay of what was recorded, as a check.
    predicted_ns
        In the replay with the change.
    changes
        The changes, in words.
    steps
        Of a run, a row for each step: ``step``, ``recorded_ns``, ``replayed_ns``, ``predicted_ns`` and ``gain_ns``.
    """

    recorded_ns: int
    replayed_ns: int
    predicted_ns: int
    changes: tuple[str, ...] = ()
    steps: pd.DataFrame = field(default_factory=pd.DataFrame, repr=False, compare=False)

    @property
    def gain_ns(self) -> int:
        """The gain against the replay without the change."""
        return self.replayed_ns - self.predicted_ns

    def __repr__(self) -> str:
        gain = self.gain_ns
        much = f"{duration(abs(gain))} ({share(abs(gain), self.replayed_ns)}) {'less' if gain >= 0 else 'more'}"
        lines = [
            f"{duration(self.predicted_ns)} instead of {duration(self.replayed_ns)}: {much}",
            *(f"  {change}" for change in self.changes),
            f"  check: unchanged {duration(self.replayed_ns)}, recorded {duration(self.recorded_ns)}",
        ]
        if len(self.steps) > 1:
            lines.append(f"  {len(self.steps):,} steps, see .steps; the mean is without the first one")
        return "\n".join(lines)


def checked_factors(what: str, factors: Mapping[Any, float], known: Mapping[Any, object]) -> None:
    """Raise an error if a word is not known, or a factor is no number from 0 on.

    Raises
    ------
    OptionsError
        With the nearest of the known words.
    """
    for word, factor in factors.items():
        checked_factor(f"{what} {word!r}", factor)
        if word not in known:
            near = get_close_matches(str(word), [str(name) for name in known], 5, 0.4) or sorted(map(str, known))[:10]
            raise OptionsError(f"there is no {what} {word!r}; near it: {', '.join(near) or 'none'}")


def checked_factor(what: str, factor: object) -> None:
    """Raise an error if a factor is no number from 0 on.

    Raises
    ------
    OptionsError
        If so.
    """
    if not isinstance(factor, (int, float)) or not 0 <= factor < inf:
        raise OptionsError(f"the factor of {what} is {factor!r}: it is a number from 0 (no time) on, 1 for as it is")

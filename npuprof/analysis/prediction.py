"""The prediction of a replay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from math import inf
from typing import Any

import pandas as pd

from npuprof.errors import OptionsError
from npuprof.words.quantities import duration, share
from npuprof.words.texts import LongText

TOLERANCE = 0.01
"""The largest allowed error of a replay without changes, as a fraction of the recorded time."""


@dataclass(frozen=True, repr=False)
class Prediction(LongText):
    """The predicted time of a step, or of a job, after a change, in nanoseconds."""

    # The recorded time: the mean over the steps that figures rest on; for a job, the time from the first start of a
    # collective to the last end.
    recorded_ns: int
    replayed_ns: int  # the time in a replay without changes, as a check
    predicted_ns: int  # the time in a replay with the changes
    changes: tuple[str, ...] = ()  # the changes, in words
    # For a run, a row per step: `step`, `recorded_ns`, `replayed_ns`, `predicted_ns` and `gain_ns`.
    steps: pd.DataFrame = field(default_factory=pd.DataFrame, repr=False, compare=False)
    # For a run, the gain of each step that the mean is over.
    gains_ns: tuple[int, ...] = field(default=(), repr=False, compare=False)
    of_job: bool = False  # whether this predicts a job, whose time begins with its first collective

    @property
    def gain_ns(self) -> int:
        """The replayed time without the changes minus the predicted time."""
        return self.replayed_ns - self.predicted_ns

    def _one_line(self) -> str:
        """Return the predicted time beside that without the changes."""
        gain = self.gain_ns
        much = f"{duration(abs(gain))} ({share(abs(gain), self.replayed_ns)}) {'less' if gain >= 0 else 'more'}"
        return f"{duration(self.predicted_ns)} instead of {duration(self.replayed_ns)}: {much}"

    def __str__(self) -> str:
        lines = [
            self._one_line(),
            *(f"  {change}" for change in self.changes),
            f"  check: unchanged {duration(self.replayed_ns)}, recorded {duration(self.recorded_ns)}",
        ]
        if self.of_job:
            lines.append(
                "  times are from the first start of a collective to the last end: a step also has what ranks do"
            )
            lines.append("  before and after, and a job all of its steps")
        if len(self.steps) > 1:
            lines.append(f"  {len(self.steps):,} steps, see .steps; the mean is of {len(self.gains_ns):,}")
        return "\n".join(lines)


def checked_factors(subject: str, factors: Mapping[Any, float], known: Mapping[Any, object]) -> None:
    """Raise an error if a name is unknown, or a factor is not a number of at least 0."""
    for word, factor in factors.items():
        checked_factor(f"{subject} {word!r}", factor)
        if word not in known:
            near = get_close_matches(str(word), [str(name) for name in known], 5, 0.4) or sorted(map(str, known))[:10]
            raise OptionsError(f"there is no {subject} {word!r}; similar names: {', '.join(near) or 'none'}")


def checked_factor(subject: str, factor: object) -> None:
    """Raise an error if a factor is not a number of at least 0."""
    if not isinstance(factor, (int, float)) or not 0 <= factor < inf:
        raise OptionsError(
            f"the factor of {subject} is {factor!r}: it must be a number of at least 0; 1 changes nothing"
        )

"""The smallest set of changes that together win back what a job has lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from npuprof.analysis.rank_replay import Floats, Job
from npuprof.analysis.rank_suspects import WORTH, Suspect
from npuprof.analysis.rank_variants import step_times

MOST = 16
"""Suspects that are replayed together."""


@dataclass(frozen=True)
class Part:
    """A suspect's part in what the named ones gain together, in nanoseconds per step."""

    suspect: Suspect
    share_ns: int  # what is lost if it alone is left as it is, scaled so that all shares add up to the gain
    alone_ns: int  # what is gained if it alone is changed


@dataclass(frozen=True)
class Joint:
    """What explains the loss of a job."""

    parts: tuple[Part, ...]  # the suspects that are named, the greatest share first
    hidden: tuple[Suspect, ...]  # those without which the job would not be shorter
    gains_ns: Floats  # what each step would gain without the named ones, by step
    recorded_ns: Floats  # how long each step takes in a replay of the unchanged job

    @property
    def gain_ns(self) -> int:
        """The mean gain of a step."""
        return max(0, round(float(self.gains_ns.mean()))) if len(self.gains_ns) else 0


def joint(played: Job, own_ns: Floats, moving_ns: Floats, suspects: Sequence[Suspect]) -> Joint:
    """Find the smallest set of suspects without which a job is as short as without all of them.

    All are changed together; then the one whose change gains least is left as it is, as long as that loses less than
    1 % of the step, and less than steps differ by.
    """
    count = len(suspects)
    faults = [suspect.less for suspect in suspects]
    single = np.eye(count, dtype=bool)
    first = step_times(played, own_ns, moving_ns, faults, np.vstack([np.zeros((1, count), bool), single]))
    recorded, alone = first[0], first[0].mean() - first[1:].mean(axis=1)
    kept = np.ones(count, bool)
    while True:
        chosen = np.flatnonzero(kept)
        times = step_times(played, own_ns, moving_ns, faults, np.vstack([kept, kept & ~single[chosen]]))
        losses = times[1:].mean(axis=1) - times[0].mean()
        if not len(chosen) or losses.min() >= _least(times[0], recorded):
            break
        kept[chosen[int(np.argmin(losses))]] = False
    gains = recorded - times[0]
    scale = max(float(gains.mean()), 0.0) / max(float(np.maximum(losses, 0).sum()), 1.0)
    shares = np.rint(np.maximum(losses, 0) * scale).astype(np.int64)
    parts = [
        Part(suspects[place], int(share), max(0, round(float(alone[place]))))
        for place, share in zip(chosen.tolist(), shares, strict=True)
    ]
    hidden = [suspect for suspect, is_kept in zip(suspects, kept, strict=True) if not is_kept]
    return Joint(tuple(sorted(parts, key=lambda part: -part.share_ns)), tuple(hidden), gains, recorded)


def _least(without_ns: Floats, recorded_ns: Floats) -> float:
    """Return the least loss that names a suspect."""
    worth = WORTH * float(recorded_ns.mean())
    return min(worth, float(without_ns.std(ddof=1))) if len(without_ns) > 1 else worth

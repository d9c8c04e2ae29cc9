"""Pipeline stages with more work than others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from npuprof.analysis.rank_replay import Floats, Job
from npuprof.analysis.rank_roles import connected
from npuprof.analysis.rank_suspects import Suspect
from npuprof.analysis.rank_variants import Less

_UNEVEN = 0.05  # over the mean of the stages


def of_stages(played: Job, own_ns: Floats, stages: Sequence[Sequence[int]]) -> list[int]:
    """Return the time outside collectives of a step of each stage, the median of its ranks: one may be slow."""
    sums = pd.Series(own_ns).groupby(played.rows["rank"].to_numpy(np.int64)).sum() / len(played.steps)
    return [round(float(sums[list(stage)].median())) for stage in stages]


def uneven(played: Job, own_ns: Floats, stages: Sequence[Sequence[int]]) -> Suspect | None:
    """Return the stage with the most work if that is 5 % over the mean; None where nothing connects all stages.

    Without it the same work is spread evenly over all ranks.

    Parameters
    ----------
    played
        The job.
    own_ns
        The time of each row's rank before it arrives, as if no rank were slow.
    stages
        The ranks of each stage.
    """
    times = of_stages(played, own_ns, stages)
    if len(stages) < 2 or max(times) <= (1 + _UNEVEN) * float(np.mean(times)) or not connected(played):
        return None
    rank = played.rows["rank"].to_numpy(np.int64)
    sums = pd.Series(own_ns).groupby(rank).sum()
    less = own_ns * (1 - float(sums.mean()) / np.maximum(sums.reindex(rank).to_numpy(np.float64), 1))
    heaviest = int(np.argmax(times))
    return Suspect(
        "stage",
        tuple(sorted(stages[heaviest])),
        times[heaviest] - round(float(np.mean(times))),
        Less(np.arange(len(rank)), less),
    )

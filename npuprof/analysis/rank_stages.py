"""Pipeline stages with more work than others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from npuprof.analysis.rank_replay import Floats, Job
from npuprof.analysis.rank_roles import connected, lower_median
from npuprof.analysis.rank_suspects import Suspect
from npuprof.analysis.rank_variants import Less

_UNEVEN = 0.05  # over the mean of the stages


def of_stages(played: Job, own_ns: Floats, stages: Sequence[Sequence[int]]) -> list[int]:
    """Return the time outside collectives of a step of each stage, the lower median of its ranks: half may be slow."""
    sums = pd.Series(own_ns).groupby(played.rows["rank"].to_numpy(np.int64)).sum() / len(played.steps)
    return [round(float(lower_median(sums[list(stage)].to_numpy(np.float64), axis=0))) for stage in stages]


def uneven(played: Job, own_ns: Floats, stages: Sequence[Sequence[int]], *, joined: bool = False) -> Suspect | None:
    """Return the stage with the most work if that is 5 % over the mean; None where nothing connects all stages.

    Without it the same work is spread evenly over all ranks.
    """
    times = of_stages(played, own_ns, stages)
    if len(stages) < 2 or max(times) <= (1 + _UNEVEN) * float(np.mean(times)) or not (joined or connected(played)):
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


def or_hosts(
    played: Job,
    own_ns: Floats,
    stages: Sequence[Sequence[int]],
    hosts: Mapping[int, int | str],
    slow: Sequence[Suspect],
) -> list[Suspect]:
    """Return the stages of which times cannot tell whether they have more work, or all of their hosts are slow.

    Such a stage takes 5 % longer than the others, has its hosts for itself, and all of these but the fastest are slow:
    two slow hosts explain as much as one of them and an uneven stage.
    """
    times = of_stages(played, own_ns, stages)
    named = {name for suspect in slow if suspect.kind == "slow" for name in suspect.names}
    either = []
    for place, ranks in enumerate(stages):
        here = sorted({str(hosts[rank]) for rank in ranks if rank in hosts})
        shared = any(str(host) in here for rank, host in hosts.items() if rank not in ranks)
        usual = float(np.median([time for other, time in enumerate(times) if other != place] or [0]))
        fast = [host for host in here if f"host {host}" not in named]
        if len(here) < 2 or shared or len(fast) != 1 or not 0 < usual * (1 + _UNEVEN) < times[place]:
            continue
        rows = np.flatnonzero(np.isin(played.rows["rank"].to_numpy(np.int64), ranks))
        less = Less(rows, own_ns[rows] * (1 - usual / times[place]))
        names = tuple(f"host {host}" for host in here)
        either.append(Suspect("stage", tuple(sorted(ranks)), times[place] - round(usual), less, names, surely=False))
    return either

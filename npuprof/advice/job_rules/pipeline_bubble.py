"""Stages of a pipeline that have nothing to do while it fills and drains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from npuprof.advice.finding import Finding
from npuprof.advice.job import JobFacts, JobRule, Times
from npuprof.analysis.pipeline_model import Pipeline, StageTimes, pipeline_of
from npuprof.analysis.prediction import TOLERANCE
from npuprof.analysis.rank_pairs import POINT_TO_POINT
from npuprof.analysis.rank_waits import costliest
from npuprof.arrays import Bools, Int64
from npuprof.words.quantities import counted, duration, share

NAME = "pipeline_bubble"
_THRESHOLD = 0.05  # of the step
_MOST = 16  # pipelines that are modelled
_MORE = 2  # times as many micro-batches, and model chunks of a stage


def check(facts: JobFacts) -> Finding:
    """Fire if ranks wait at the borders between stages for more than 5 % of the step.

    What more micro-batches gain is modelled from the recorded times of each stage, if the model gives the recorded
    step within 1 %, and is an upper limit: smaller micro-batches compute less efficiently.
    """
    stages = [[rank for rank in stage if rank in facts.members] for stage in facts.stages()]
    if facts.job is None:
        return Finding(NAME, "cannot tell", collect="load the profiles of all ranks, with collectives")
    if facts.unmatched:
        return Finding(NAME, "cannot tell", collect=facts.unmatched)
    rows = facts.job.rows
    sends = rows["op_type"].str.contains(POINT_TO_POINT, case=False, regex=True).to_numpy(bool)
    if len(stages) < 2 or not sends.any():
        return Finding(NAME, "clean")
    ranks = rows["rank"][sends].nunique()
    waited = int(rows["wait_ns"][sends].sum()) // max(1, ranks * facts.steps)
    if waited <= _THRESHOLD * facts.usual_ns:
        return Finding(NAME, "clean", cost_ns=waited)
    modelled = _models(stages, rows, sends)
    if not modelled:
        return Finding(
            NAME,
            "cannot tell",
            cost_ns=waited,
            collect="these sends are not those of GPipe or 1F1B, or no pipeline has all of its ranks here",
        )
    return _finding(facts, waited, modelled, rows[sends])


@dataclass(frozen=True)
class _Model:
    """A pipeline in a step, and how long the step took on its ranks."""

    pipeline: Pipeline
    recorded_ns: float


def _finding(facts: JobFacts, waited: int, modelled: Sequence[_Model], rows: pd.DataFrame) -> Finding:
    first = max((each.pipeline for each in modelled), key=lambda each: each.step_ns())  # the others wait for it
    recorded = max(each.recorded_ns for each in modelled)
    unchanged, split = first.step_ns(), max(each.pipeline.step_ns(_MORE) for each in modelled)
    bubble = max(0.0, unchanged - first.busiest_ns)
    error = abs(unchanged / recorded - 1)
    count = counted(first.microbatches, "micro-batch", "micro-batches")
    theory = (
        f"Ranks wait {duration(waited)} a step for other stages; with {first.stages} equal stages and {count} "
        f"({first.schedule}), the bubble is {100 * first.theory():.1f} %: (p - 1) / (m + p - 1)"
    )
    if error > TOLERANCE:
        gain = min(waited, round(first.theory() * facts.usual_ns))
        sure = f"; a model of the schedule misses the recorded step by {100 * error:.1f} %"
    else:
        smaller, interleaved = round(max(0.0, unchanged - split)), round(bubble * (1 - 1 / _MORE))
        gain = max(smaller, interleaved)
        sure = (
            f"; {_MORE * first.microbatches} micro-batches of half the size gain at most {duration(smaller)}, "
            f"{_MORE} chunks of layers on each stage ({100 * first.theory(_MORE):.1f} %) {duration(interleaved)}; "
            f"the model is within {100 * error:.1f} % of the recorded step"
        )
    return Finding(
        NAME,
        "fires",
        title=f"The pipeline fills and drains: stages wait {share(waited, facts.usual_ns)} of a step",
        cost_ns=waited,
        gain_hi_ns=min(gain, facts.usual_ns),
        detail=theory + sure,
        action="Use more micro-batches, or interleave stages (`num_layers_per_virtual_pipeline_stage`).",
        table="waits",
        rows=costliest(rows, "wait_ns").drop(columns="moving_ns"),
    )


def _models(stages: Sequence[Sequence[int]], rows: pd.DataFrame, sends: Bools) -> list[_Model]:
    """Return the pipelines whose schedule is known, each in the last step that all its ranks have."""
    of_group = rows[sends].groupby("group", observed=True)["rank"].agg(lambda ranks: tuple(sorted(set(ranks))))
    pairs = {str(group): ranks for group, ranks in of_group.items() if len(ranks) == 2}
    rank_of_row = rows["rank"].to_numpy(np.int64)  # in order
    modelled = []
    for chain in _chains(list(pairs.values()), stages)[:_MOST]:
        bounds = [np.searchsorted(rank_of_row, (rank, rank + 1)).tolist() for rank in chain]
        of_ranks = [_with_pairs(rows.iloc[slice(*bound)], sends[slice(*bound)], pairs) for bound in bounds]
        steps = set.intersection(*(set(of_rank["step"].tolist()) for of_rank in of_ranks))
        if not steps:
            continue
        times = [
            _stage_times(of_rank[(of_rank["step"] == max(steps)).to_numpy(bool)], rank)
            for rank, of_rank in zip(chain, of_ranks, strict=True)
        ]
        pipeline = pipeline_of([each for each, _ in times])
        if pipeline is not None:
            begins, ends = zip(*(span for _, span in times), strict=True)
            modelled.append(_Model(pipeline, float(max(ends) - min(begins))))
    return modelled


def _with_pairs(rows: pd.DataFrame, sends: Bools, pairs: Mapping[str, tuple[int, int]]) -> pd.DataFrame:
    """Return rows of a rank with both ranks of each send, and with -1 for a step that is unknown."""
    pair = [pairs.get(str(group), ()) if is_send else () for group, is_send in zip(rows["group"], sends, strict=True)]
    return rows.assign(pair=pd.Series(pair, rows.index, dtype=object), step=rows["step"].fillna(-1).astype("int64"))


def _chains(pairs: Sequence[tuple[int, int]], stages: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return the ranks of each whole pipeline, one of each stage in the order of their sends."""
    stage_of = {rank: number for number, stage in enumerate(stages) for rank in stage}
    after = {first: second for first, second in pairs if stage_of.get(first) != stage_of.get(second)}
    chains = []
    for rank in sorted(set(after) - set(after.values())):
        chain = [rank]
        while chain[-1] in after:
            chain.append(after[chain[-1]])
        chains.append(chain)
    return [chain for chain in chains if len(chain) == len(stages)]


def _stage_times(of_step: pd.DataFrame, rank: int) -> tuple[StageTimes, tuple[int, int]]:
    """Return the times of a rank between its sends in the rows of a step, and when the step began and ended on it."""
    start, wait, moving, own_ns = (
        of_step[name].to_numpy(np.int64) for name in ("start_ns", "wait_ns", "moving_ns", "own_ns")
    )
    end = start + wait + moving
    begin = int(start[0] - own_ns[0])  # the end of the operator before, or the first start on any rank
    at = np.flatnonzero([len(pair) == 2 for pair in of_step["pair"]])
    reached: Int64 = np.append(begin, end[at])
    later = wait[at[-1] + 1 :] if len(at) else wait
    borders = tuple("next" if pair[0] == rank else "prev" for pair in of_step["pair"].iloc[at])
    times = StageTimes(
        borders,
        (start[at] - reached[:-1]).astype(np.float64),
        float(end[-1] - reached[-1] - later.sum()),
        moving[at].astype(np.float64),
    )
    return times, (begin, int(end[-1]))


def without(_: JobFacts, times: Times) -> Times:
    """Return the times as they are: more micro-batches are another program, which the replay of this one is not."""
    return times


RULE = JobRule(NAME, "stages that wait while the pipeline fills and drains", check, without)

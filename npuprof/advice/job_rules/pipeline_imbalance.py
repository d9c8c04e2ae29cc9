"""Pipeline stages that wait for each other because one stage has more work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pandas as pd

from npuprof.advice.finding import Finding
from npuprof.advice.job import JobFacts, JobRule, Times
from npuprof.advice.wording import ranks_called
from npuprof.analysis.kernel_flops import shapes
from npuprof.analysis.rank_blame import blamed
from npuprof.arrays import Bools, Int64
from npuprof.quantities import duration

NAME = "pipeline_imbalance"
_CAUSED = 0.2  # of all waits: the least part caused by a stage
_UNEVEN = 0.05  # over the mean of the stages
_MOST_KINDS = 4
_VECTOR = ("AI_VECTOR_CORE", "AIVECTOR", "AIV")


def check(facts: JobFacts) -> Finding:
    """Fire if waits for other stages are over a fifth of all waits, and one stage has 5 % more work than the mean."""
    stages = facts.stages()
    if facts.job is None or facts.absent:
        return Finding(NAME, "cannot tell", collect="load the profiles of all ranks, with collectives")
    if len(stages) < 2:
        return Finding(NAME, "clean")
    stage_of = {rank: number for number, stage in enumerate(stages) for rank in stage}
    whole = int(facts.job.rows["wait_ns"].sum())
    roots = blamed(facts.job, stage_of)[:, :-1]  # by stage that waited, and rank
    stage = np.array([stage_of[rank] for rank in facts.job.ranks])
    caused = np.array(
        [roots[np.arange(len(stages)) != number][:, stage == number].sum() for number in range(len(stages))]
    )
    own_ns = facts.own_ns()
    of_stage = [
        round(float(own_ns[stage].median())) for stage in stages
    ]  # a single slow card does not make a stage slow
    if not (caused > _CAUSED * whole).any() or max(of_stage) <= (1 + _UNEVEN) * float(np.mean(of_stage)):
        return Finding(NAME, "clean")
    return _imbalance(facts, stages, of_stage)


def _imbalance(facts: JobFacts, stages: Sequence[Sequence[int]], of_stage: Sequence[int]) -> Finding:
    heaviest = int(np.argmax(of_stage))
    punctual = Times(facts.punctual_ns, facts.recorded.moving_ns)
    gain = facts.gain_ns(without(facts, punctual).own_ns, than_ns=punctual.own_ns)
    bound = of_stage[heaviest] - round(float(np.mean(of_stage)))
    evidence, reason, of_rank = _difference(facts, stages, heaviest)
    stage_times = [f"{ranks_called(stage)} {duration(time)}" for stage, time in zip(stages, of_stage, strict=True)]
    hosts = facts.stacks or gain is None
    return Finding(
        NAME,
        "fires",
        title="Pipeline imbalance, not a slow card",
        cost_ns=facts.waiting_ns(),
        gain_lo_ns=0 if hosts else gain or 0,
        gain_hi_ns=bound if gain is None else gain,
        confidence="bounded" if gain is None else "measured",
        detail=f"the stages wait for each other; outside collectives, a step takes {', '.join(stage_times)}{reason}",
        action=f"move layers away from the stage of {ranks_called(stages[heaviest])}: the LM head and the loss count "
        "as layers; a fused or chunked bfloat16 cross entropy",
        place=ranks_called(stages[heaviest]),
        table="kernels",
        rows=evidence,
        rank=of_rank,
    )


def _difference(facts: JobFacts, stages: Sequence[Sequence[int]], limit: int) -> tuple[pd.DataFrame, str, int | None]:
    """Return the kernels of the longest stage with the dimension that causes the imbalance, and a sentence about it."""
    with_kernels = [[rank for rank in stage if len(facts.members[rank].tables["kernels"])] for stage in stages]
    others = [stage[0] for number, stage in enumerate(with_kernels) if stage and number != limit]
    if not with_kernels[limit] or not others:
        return pd.DataFrame(), "", None
    rank = with_kernels[limit][0]
    kernels, other = (facts.members[each].tables["kernels"] for each in (rank, others[0]))
    mine, theirs = _times_by_dimension(kernels), _times_by_dimension(other)
    dimension = max(mine, key=lambda size: mine[size] - 2 * theirs[size], default=0)
    if mine[dimension] <= 2 * theirs[dimension]:
        return pd.DataFrame(), "", None
    rows = kernels[_with_dimension(kernels, dimension)]
    times = rows.groupby("op_type", observed=True)["duration_ns"].sum().sort_values(ascending=False)
    vector = int(rows["duration_ns"][rows["core"].isin(_VECTOR).to_numpy(bool)].sum()) // facts.steps
    whole = int(kernels["duration_ns"].sum()) // facts.steps
    kinds = ", ".join(map(str, times.index[:_MOST_KINDS]))
    reason = (
        f"; {duration(int(rows['duration_ns'].sum()) // facts.steps)} of {duration(whole)} of kernels on rank {rank} "
        f"have a dimension of {dimension:,} ({kinds} ...), {duration(vector)} of it on vector cores"
    )
    return rows, reason, rank


def _dimensions(kernels: pd.DataFrame) -> tuple[Int64, list[set[int]]]:
    """Return a number for the operands of each kernel, equal for equal operands, and the dimensions by number."""
    columns = ["input_shapes", "output_shapes"]
    kinds = kernels[columns].astype(object).fillna("").groupby(columns, sort=False)
    texts = [f"{read};{written}" for read, written in kinds.indices]
    sizes = [{size for shape in shapes(text.replace('"', "")) for size in shape if size > 1} for text in texts]
    number = np.zeros(len(kernels), np.int64)
    for kind, rows in enumerate(kinds.indices.values()):
        number[rows] = kind
    return number, sizes


def _times_by_dimension(kernels: pd.DataFrame) -> Counter[int]:
    times: Counter[int] = Counter()
    number, sizes_of = _dimensions(kernels)
    sums = np.zeros(len(sizes_of), np.int64)
    np.add.at(sums, number, kernels["duration_ns"].to_numpy(np.int64))
    for sizes, time in zip(sizes_of, sums.tolist(), strict=True):
        times.update(dict.fromkeys(sizes, time))
    return times


def _with_dimension(kernels: pd.DataFrame, dimension: int) -> Bools:
    number, sizes_of = _dimensions(kernels)
    is_selected: Bools = np.array([dimension in sizes for sizes in sizes_of], bool)[number]
    return is_selected


def without(facts: JobFacts, times: Times) -> Times:
    """Return times with the same work, spread evenly over the ranks."""
    if facts.job is None:
        return times
    rank = facts.job.rows["rank"].to_numpy(np.int64)
    sums = pd.Series(times.own_ns).groupby(rank).sum()
    even = times.own_ns * float(sums.mean()) / np.maximum(sums.reindex(rank).to_numpy(np.float64), 1)
    return Times(even, times.moving_ns)


RULE = JobRule(NAME, "pipeline stages that wait for each other", check, without)

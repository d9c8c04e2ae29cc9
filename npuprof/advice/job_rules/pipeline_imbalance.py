"""Pipeline stages that wait for each other because one stage has more work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pandas as pd

from npuprof.advice.finding import Finding
from npuprof.advice.gains import gain_of
from npuprof.advice.job import JobFacts, JobRule, Times
from npuprof.advice.wording import named_parts, ranks_called
from npuprof.analysis.kernel_flops import shapes
from npuprof.analysis.rank_joint import Part
from npuprof.analysis.rank_pairs import POINT_TO_POINT
from npuprof.analysis.rank_replay import Job
from npuprof.analysis.rank_roles import connected
from npuprof.analysis.rank_stages import of_stages
from npuprof.analysis.rank_suspects import Suspect
from npuprof.arrays import Bools, Int64
from npuprof.words.quantities import duration

NAME = "pipeline_imbalance"
_MOST_KINDS = 4
_VECTOR = ("AI_VECTOR_CORE", "AIVECTOR", "AIV")


def check(facts: JobFacts) -> Finding:
    """Fire if waits for other stages are over a fifth of all waits, and one stage has 5 % more work than the mean."""
    if facts.played is None:
        return Finding(NAME, "cannot tell", collect="load the profiles of ranks of several stages, with collectives")
    parts = facts.parts("stage")
    if parts:
        return _imbalance(facts, facts.played, parts)
    of_others = "load the profiles of ranks of all stages, with the sends or collectives that join them"
    if len(facts.stages()) < 2:
        sends = facts.played.rows["op_type"].astype(str).str.contains(POINT_TO_POINT, case=False, regex=True).any()
        return Finding(NAME, "cannot tell", collect=of_others) if sends and facts.absent else Finding(NAME, "clean")
    joined = facts.unmatched or connected(facts.played)
    return Finding(NAME, "clean") if joined else Finding(NAME, "cannot tell", collect=of_others)


def _imbalance(facts: JobFacts, played: Job, parts: Sequence[Part]) -> Finding:
    stages = facts.stages()
    of_stage = of_stages(played, facts.punctual.own_ns, stages)
    heavy = [sorted(stage) for stage in stages]
    heaviest = heavy.index(list(next((part for part in parts if not part.suspect.names), parts[0]).suspect.ranks))
    either = [part.suspect for part in parts if part.suspect.names]
    one_host = {facts.hosts.get(rank) for rank in stages[heaviest]}
    same = "" if len(one_host) > 1 or None in one_host else _same_host(facts, heaviest, *one_host)
    evidence, reason, of_rank = _difference(facts, stages, heaviest)
    together = named_parts(parts)
    gain = facts.gain_of(parts, of_host=True)
    alone = None if reason or either else _alone(facts, stages[heaviest])
    if alone is not None:
        title = f"The stages are uneven, or rank {alone} is slow"
        less_ns = _as_fast(facts, played, alone, [time for place, time in enumerate(of_stage) if place != heaviest])
        gain = gain_of(0, max(gain["gain_hi_ns"], less_ns))
        same += f"; rank {alone} is alone in its stage, so it may have more work or a slow card"
    else:
        more_ns = of_stage[heaviest] - int(np.mean([time for at, time in enumerate(of_stage) if at != heaviest]))
        title = _title(either, stages[heaviest], more_ns, all_of_them=len(either) == len(parts))
    stage_times = [f"{duration(time)} on {ranks_called(stage)}" for stage, time in zip(stages, of_stage, strict=True)]
    return Finding(
        NAME,
        "fires",
        title=title,
        cost_ns=0 if facts.job is None else facts.job.waiting_ns(),
        **gain,
        detail=f"Outside collectives, a step takes {'; '.join(stage_times)}{_of_which(stages)}{reason}"
        f"{same}{together and f'; {together}'}",
        action=f"Move layers away from stage {heaviest}; its LM head and loss count as layers."
        if alone is None
        else _compared(facts, alone, heaviest),
        place=ranks_called(sorted(rank for part in parts for rank in part.suspect.ranks)),
        table="kernels",
        rows=evidence,
        rank=of_rank,
    )


def _of_which(stages: Sequence[Sequence[int]]) -> str:
    """Return which rank's time counts for a stage; empty if each stage has one rank."""
    sizes = {len(stage) for stage in stages}
    if sizes == {1}:
        return ""
    return " (of the faster rank of each stage)" if max(sizes) == 2 else " (of the middle rank of each stage)"


def _alone(facts: JobFacts, stage: Sequence[int]) -> int | None:
    """Return the rank of a stage that is known alone, so that no equal rank shows whether it is slow."""
    seen = [rank for rank in stage if rank not in facts.unseen]
    return seen[0] if len(seen) == 1 else None


def _compared(facts: JobFacts, rank: int, stage: int) -> str:
    """Return how to see whether the card of a rank is slow, beside one of another stage."""
    others = [other for other in facts.members if other != rank]
    if not others:
        return f"Move layers away from stage {stage}, or check the card of rank {rank}."
    return f"See whether the same kernels take longer: `runs.side_by_side([{rank:d}, {others[0]:d}])`."


def _as_fast(facts: JobFacts, played: Job, rank: int, others_ns: Sequence[int]) -> int:
    """Return the most that a step gains if a rank is as fast as the other stages."""
    usual, rows = facts.usual.own_ns, (played.rows["rank"] == rank).to_numpy(bool)
    taken = float(usual[rows].sum()) / len(played.steps)
    factor = min(1.0, float(np.median(others_ns)) / max(taken, 1.0))
    gain = facts.gain_ns(np.where(rows, usual * factor, usual), than_ns=usual)
    return round(taken * (1 - factor)) if gain is None else gain


def _title(either: Sequence[Suspect], stage: Sequence[int], more_ns: int, *, all_of_them: bool) -> str:
    """Return the title; hosts that may be slow instead are named beside their stage."""
    hosts = " and ".join(
        f"{' and '.join(suspect.names)} are slow ({ranks_called(suspect.ranks)})" for suspect in either
    )
    if not hosts:
        return f"The stages are uneven: {ranks_called(stage)} compute {duration(more_ns)} longer"
    return f"The stages are uneven, or {hosts}" if all_of_them else f"Several stages are uneven, or {hosts}"


def _same_host(facts: JobFacts, stage: int, host: int | str | None) -> str:
    """Return that a stage cannot be told from its host, if the host has no rank of another stage."""
    ranks = [rank for number, members in enumerate(facts.stages()) if number != stage for rank in members]
    if any(facts.hosts.get(rank) == host for rank in ranks):
        return ""
    return f"; host {host} has no other stage and may be slow instead: times alone do not tell"


def _difference(facts: JobFacts, stages: Sequence[Sequence[int]], limit: int) -> tuple[pd.DataFrame, str, int | None]:
    """Return the kernels of the longest stage with the dimension that causes the imbalance, and a sentence about it."""
    with_kernels = [
        [rank for rank in stage if rank in facts.members and len(facts.members[rank].tables["kernels"])]
        for stage in stages
    ]
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
        f"; on rank {rank}, {duration(int(rows['duration_ns'].sum()) // facts.steps)} of {duration(whole)} of kernels "
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
    return np.array([dimension in sizes for sizes in sizes_of], bool)[number]


def without(facts: JobFacts, times: Times) -> Times:
    """Return times with the same work, spread evenly over the ranks."""
    return times.without([part.suspect for part in facts.parts("stage")])


RULE = JobRule(NAME, "pipeline stages that wait for each other", check, without)

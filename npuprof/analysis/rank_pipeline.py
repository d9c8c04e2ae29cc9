"""The work of pipeline stages between their sends and receives, with its microbatches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from npuprof.analysis.rank_pairs import POINT_TO_POINT
from npuprof.arrays import Int64

_MOST_MICROBATCHES = 2048
_COLUMNS = ["stage", "rank", "kind", "microbatch", "start_ns", "duration_ns"]


def pipeline_work(
    rows: pd.DataFrame, ranks: Sequence[int], inside: Sequence[str], window: tuple[int, int]
) -> pd.DataFrame:
    """Return the work of pipeline stages in a step between their sends and receives.

    Microbatches follow from the order of sends and receives in the one forward, one backward schedule (1F1B), which
    Megatron, MindSpeed and DeepSpeed run without interleaving. If the number of operators fits no such schedule, pieces
    are ``work`` without a microbatch.

    Returns
    -------
    pandas.DataFrame
        ``stage``, ``rank``, ``kind`` (``forward``, ``backward``, ``forward and backward``, ``work``, ``waiting`` or
        ``moving``), ``microbatch`` (from 0; <NA> if unknown; for ``forward and backward`` that of the forward pass),
        ``start_ns`` and ``duration_ns``.
    """
    stages = [_rank_work(rows, rank, inside, window) for rank in ranks]
    counts = [len(starts) for starts, _, _, _ in stages]
    plans = _plans(counts)
    work: list[tuple[int, int, str, object, int, int]] = []
    for stage, (rank, (starts, arrived, ends, edges)) in enumerate(zip(ranks, stages, strict=True)):
        begins, stops = np.append(edges[0], ends), np.append(starts, edges[1])
        for gap, (begin, stop) in enumerate(zip(begins.tolist(), stops.tolist(), strict=True)):
            kind, microbatch = ("work", pd.NA) if plans is None else plans[stage][gap]
            if stop > begin and kind:
                work.append((stage, rank, kind, microbatch, begin, stop - begin))
        for name, low, high in (("waiting", starts, arrived), ("moving", arrived, ends)):
            columns = zip(low.tolist(), high.tolist(), strict=True)
            work += [(stage, rank, name, pd.NA, begin, end - begin) for begin, end in columns if end > begin]
    frame: pd.DataFrame = pd.DataFrame(work, columns=_COLUMNS)
    typed: pd.DataFrame = frame.astype({"microbatch": "Int64", "start_ns": "int64", "duration_ns": "int64"})
    return typed.sort_values(["stage", "start_ns"], ignore_index=True)


def _rank_work(
    rows: pd.DataFrame, rank: int, inside: Sequence[str], window: tuple[int, int]
) -> tuple[Int64, Int64, Int64, tuple[int, int]]:
    """Return starts, ends of waits and ends of a rank's sends and receives, and the start and end of its work."""
    of_rank = rows[(rows["rank"] == rank).to_numpy(bool)].sort_values("start_ns", kind="stable")
    sends = of_rank["op_type"].astype(str).str.contains(POINT_TO_POINT, case=False, regex=True).to_numpy(bool)
    start = of_rank["start_ns"].to_numpy(np.int64)
    wait, moving = of_rank["wait_ns"].to_numpy(np.int64), of_rank["moving_ns"].to_numpy(np.int64)
    outer = ~sends & ~of_rank["group"].astype(str).isin(inside).to_numpy(bool)
    if not sends.any():
        return start[:0], start[:0], start[:0], (0, 0)
    first, last = start[sends][0], (start + wait + moving)[sends][-1]
    before = (start + wait + moving)[outer & (start < first)]
    after = start[outer & (start >= last)]
    begin = int(before.max()) if len(before) else min(window[0], int(first))
    end = int(after.min()) if len(after) else max(window[1], int(last))
    return start[sends], (start + wait)[sends], (start + wait + moving)[sends], (begin, end)


def _plans(counts: Sequence[int]) -> list[list[tuple[str, object]]] | None:
    """Return the kind and microbatch of each piece of each stage; None if no schedule fits the operators."""
    stages = len(counts)
    longest = min(max(counts, default=0), _MOST_MICROBATCHES)
    for microbatches in range(1, longest + 1):
        plans = [_plan(stage, stages, microbatches) for stage in range(stages)] if stages > 1 else []
        if plans and [len(plan) - 1 for plan in plans] == list(counts):
            return [[_label(piece) for piece in plan] for plan in plans]
        if plans and len(plans[0]) - 1 > counts[0]:
            break
    return None


def _plan(stage: int, stages: int, microbatches: int) -> list[list[tuple[str, int]]]:
    """Return the passes between the operators of a stage in a 1F1B schedule."""
    first, last = stage == 0, stage == stages - 1
    gaps: list[list[tuple[str, int]]] = [[]]
    warm = min(stages - 1 - stage, microbatches)

    def meet(*, there: bool) -> None:
        if there:
            gaps.append([])

    for number in range(warm):
        meet(there=not first)
        gaps[-1].append(("forward", number))
        meet(there=not last)
    meet(there=not first and warm < microbatches)
    for number in range(microbatches - warm):
        gaps[-1].append(("forward", warm + number))
        meet(there=not last)
        gaps[-1].append(("backward", number))
        meet(there=not first)
    for number in range(warm):
        meet(there=not last)
        gaps[-1].append(("backward", microbatches - warm + number))
        meet(there=not first)
    return gaps


def _label(passes: Sequence[tuple[str, int]]) -> tuple[str, object]:
    if not passes:
        return "", pd.NA
    kinds = {kind for kind, _ in passes}
    number = next((number for kind, number in passes if kind == "forward"), passes[0][1])
    return ("forward and backward" if len(kinds) > 1 else passes[0][0]), number

"""The work of a few ranks of a job in one step, on one clock."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import pandas as pd

from npuprof.advice.job import JobFacts
from npuprof.analysis.intervals import covering, subtract
from npuprof.arrays import Int64
from npuprof.errors import NpuprofError
from npuprof.ranks.job import step_window
from npuprof.ranks.rank_tables import RankTables

MOST_RANKS = 8
_MOST_MARKED = 4  # of the ranks that are shown, so that ranks to compare them with remain
_COLUMNS = {"rank": "int64", "part": "object", "start_ns": "int64", "end_ns": "int64"}


def lanes(ranks: RankTables, facts: JobFacts, marked: Sequence[int]) -> pd.DataFrame:
    """Return what at most eight ranks did in a usual step; empty where no two ranks have collectives in common.

    Returns
    -------
    pandas.DataFrame
        ``rank``, ``part``, ``start_ns`` and ``end_ns`` since the start of the window, in order. A part is
        ``computing``, ``waiting``, ``moving`` (``communication`` where ranks are absent, since waiting for them looks
        alike), ``idle``, or ``rest``: between collectives, on a rank without kernels.
        ``attrs["length_ns"]`` is the length of the window, ``attrs["step"]`` the number of the step, if known.
    """
    nothing: pd.DataFrame = pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in _COLUMNS.items()})
    rows = ranks.waits()
    if facts.job is None or not len(rows):
        return nothing
    of_step, (begin, end), step = _window(rows, facts)
    kernels = ranks.kernel_spans()
    later = int((rows["start_ns"] + rows["wait_ns"] + rows["moving_ns"]).max()) > end
    earlier = int(rows["start_ns"].min()) < begin
    if kernels and not earlier:  # the first step begins with the first kernel that is known, not the first collective
        begin = min(begin, *(int(starts.min()) for starts, _ in kernels.values()))
    if kernels and not later:
        end = max(end, *(int(ends.max()) for _, ends in kernels.values()))
    members = sorted(set(of_step["rank"].tolist()))
    frames = [
        _lane(of_step[(of_step["rank"] == rank).to_numpy(bool)], kernels.get(rank), begin, end).assign(rank=rank)
        for rank in chosen(members, marked, facts.stages())
    ]
    table: pd.DataFrame = pd.concat([nothing, *frames], ignore_index=True).astype(_COLUMNS)
    if facts.missing:  # waiting for a rank that is not here looks like moving data
        table["part"] = table["part"].replace("moving", "communication")
    table.attrs = {"length_ns": end - begin, "step": step}
    return table


def _window(rows: pd.DataFrame, facts: JobFacts) -> tuple[pd.DataFrame, tuple[int, int], int | None]:
    """Return the collectives of the usual step closest to the usual mean, and its window."""
    basis, steps = facts.basis, facts.accounting.steps["step"]
    longest = pd.Series(basis.duration_ns).groupby(basis.number).max()
    usual = longest[sorted(set(basis.number[~basis.outlier].tolist()))]
    usual = usual if len(usual) else longest
    if len(usual):
        typical = int((usual - facts.usual_ns).abs().idxmin())
        number = steps.iloc[basis.rows[basis.number == typical][0]]
        if not pd.isna(number):
            try:
                of_step, window, _ = step_window(rows, int(number))
            except NpuprofError:  # the collectives of no rank are of this step
                pass
            else:
                return of_step, window, int(number)
    of_step, window, _ = step_window(rows, None)
    return of_step, window, None


def chosen(ranks: Sequence[int], marked: Sequence[int], stages: Sequence[Collection[int]]) -> list[int]:
    """Return the ranks to show of many: some that stand out, one of each stage beside them, and some others."""
    if len(ranks) <= MOST_RANKS:
        return list(ranks)
    kept = [rank for rank in marked if rank in ranks][:_MOST_MARKED]
    others = [rank for rank in ranks if rank not in marked] or [rank for rank in ranks if rank not in kept]
    first = [next((rank for rank in others if rank in stage), None) for stage in stages]
    kept += [rank for rank in dict.fromkeys(first) if rank is not None and rank not in kept][: MOST_RANKS - len(kept)]
    left = [rank for rank in others if rank not in kept]
    places = np.linspace(0, len(left) - 1, MOST_RANKS - len(kept)).astype(np.int64).tolist() if left else []
    return sorted({*kept, *(left[place] for place in places)})


def _lane(rows: pd.DataFrame, kernels: tuple[Int64, Int64] | None, begin: int, end: int) -> pd.DataFrame:
    """Return the intervals of a rank in a window: moving data first, then waiting, then kernels."""
    start, wait, moving = (rows[name].to_numpy(np.int64) for name in ("start_ns", "wait_ns", "moving_ns"))
    none = start[:0], start[:0]
    spans = {"moving": covering(start + wait, moving)}
    spans["waiting"] = subtract(covering(start, wait), spans["moving"])
    busy = none if kernels is None else kernels
    spans["computing"] = subtract(subtract(busy, spans["moving"]), spans["waiting"])
    whole = np.array([begin]), np.array([end])
    if kernels is None:  # before its first collective and after its last one nothing is known
        whole = np.array([start.min(initial=end)]), np.array([int((start + wait + moving).max(initial=begin))])
    for part in ("moving", "waiting", "computing"):
        whole = subtract(whole, spans[part])
    spans["rest" if kernels is None else "idle"] = whole
    frame = pd.concat(
        [
            pd.DataFrame(
                {"part": part, "start_ns": np.maximum(starts, begin) - begin, "end_ns": np.minimum(ends, end) - begin}
            )
            for part, (starts, ends) in spans.items()
        ]
    )
    return frame[(frame["end_ns"] > frame["start_ns"]).to_numpy(bool)].sort_values("start_ns", kind="stable")

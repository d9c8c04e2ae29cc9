"""Steps that ranks number otherwise: which step of others each is, by the moments at which its collectives end.

The members of a collective end it together. So the ends of a rank's step are those of a step of another rank plus what
its clock is ahead, which is the same for all of them; those of any other step vary with the times of steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pandas as pd

from npuprof.arrays import Float64, Int64

_CLEARLY = 4  # times the deviation: what another shift has at least
_LEAST_NS = 1_000  # of a deviation: ends are not more exact
_MOSTLY = 0.5  # of the steps of a rank
_NEAR = 0.25  # of a step: how far apart clocks of which a time is taken as it is may be
_MOST_OF_A_STEP = 8  # collectives of a group
_MOST_STEPS = 1_000


def renumbered(rows: pd.DataFrame) -> Int64:
    """Return steps with the numbers that most ranks use.

    Parameters
    ----------
    rows
        Operators ordered by rank and start: ``rank``, ``step`` (-1 if unknown), ``group``, ``kind``, ``end_ns`` on the
        clock of the rank, and ``is_send``, of sends and receives, whose two sides need not end together.
    """
    rank, step = rows["rank"].to_numpy(np.int64), rows["step"].to_numpy(np.int64)
    numbers = _numbers(rank, step)
    counts = Counter(numbers.values())
    if len(counts) < 2:
        return step
    usual = counts.most_common(1)[0][0]
    unlike = [member for member, steps in numbers.items() if steps != usual]
    together = rows[(step >= 0) & ~rows["is_send"].to_numpy(bool)]
    together = together.assign(k=together.groupby(["rank", "step", "group"]).cumcount())
    together = together[(together["k"] < _MOST_OF_A_STEP).to_numpy(bool)]
    of_rank = dict(iter(together.groupby("rank")))
    members = together[["group", "rank"]].drop_duplicates().groupby("group")["rank"].agg(list)
    numbered: Int64 = step.copy()
    for member in unlike:
        groups = set(of_rank[member]["group"]) if member in of_rank else set()
        beside = Counter(other for group in groups for other in members[group] if numbers[other] == usual)
        if not beside or max(len(usual), len(numbers[member])) > _MOST_STEPS:
            continue
        here = slice(*np.searchsorted(rank, (member, member + 1)))
        has_known = numbers[member] <= usual  # it lacks some steps of the others
        shift = _shift(of_rank[member], of_rank[beside.most_common(1)[0][0]], has_known=has_known)
        numbered[here] = np.where(step[here] >= 0, step[here] + shift, step[here])
    return numbered


def _numbers(rank: Int64, step: Int64) -> dict[int, frozenset[int]]:
    """Return the numbers of the steps of each rank that has some."""
    begins = np.flatnonzero(np.append(True, (rank[1:] != rank[:-1]) | (step[1:] != step[:-1]))[: len(rank)])
    numbers: dict[int, set[int]] = {}
    for member, number in zip(rank[begins].tolist(), step[begins].tolist(), strict=True):
        if number >= 0:
            numbers.setdefault(member, set()).add(number)
    return {member: frozenset(steps) for member, steps in numbers.items()}


def _shift(mine: pd.DataFrame, other: pd.DataFrame, *, has_known: bool) -> int:
    """Return the difference of two ranks' step numbers; 0 if their ends do not tell.

    Where steps take so alike that several numbers fit, `has_known` numbers stay, and others are told by the clocks.
    """
    shifts = sorted(_of_shifts(mine, other), key=lambda each: each[1])
    if not shifts:
        return 0
    alike = [each for each in shifts if each[1] <= _CLEARLY * max(shifts[0][1], _LEAST_NS)]
    if len(alike) == 1:
        return alike[0][0]
    if has_known and any(shift == 0 for shift, *_ in alike):
        return 0
    ends = np.sort(other.groupby("step")["end_ns"].max().to_numpy(np.int64))
    near = _NEAR * float(np.median(np.diff(ends))) if len(ends) > 1 else 0.0
    close = [shift for shift, _, ahead in alike if ahead < near]
    return close[0] if len(close) == 1 else 0


def _of_shifts(mine: pd.DataFrame, other: pd.DataFrame) -> Iterator[tuple[int, float, float]]:
    """Yield each shift with most steps in common: the deviation of how far ends are apart, and how far they are."""
    first = int(mine["end_ns"].iloc[0])
    ends, kinds = ([_by_step(side, name, first) for side in (mine, other)] for name in ("end_ns", "kind"))
    steps = [side.index.to_numpy(np.int64) for side in ends]
    columns = ends[0].columns.intersection(ends[1].columns)
    values, types = ([side[columns].to_numpy(np.float64) for side in sides] for sides in (ends, kinds))
    shifts, counts = np.unique(steps[1][:, None] - steps[0], return_counts=True)
    for shift in shifts[counts >= _MOSTLY * min(map(len, steps))].tolist():
        _, left, right = np.intersect1d(steps[0] + shift, steps[1], assume_unique=True, return_indices=True)
        apart: Float64 = (values[0][left] - values[1][right]).ravel()
        is_known = np.isfinite(apart)
        same = types[0][left].ravel()[is_known] == types[1][right].ravel()[is_known]
        if not len(same) or not same.all():
            continue
        middle = float(np.median(apart[is_known]))
        yield shift, float(np.median(np.abs(apart[is_known] - middle))), abs(middle)


def _by_step(rows: pd.DataFrame, name: str, first: int) -> pd.DataFrame:
    """Return values of the collectives of a rank as a table of steps x collectives; times since `first`."""
    values = rows[name] - first if name == "end_ns" else rows[name]
    return rows.assign(value=values.astype("float64")).pivot(index="step", columns=["group", "k"], values="value")

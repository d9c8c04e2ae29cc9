"""Steps that take longer than the usual one: the place of their extra time, and its share of the mean step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pandas as pd

from npuprof.advice.causes import LAUNCHES, OTHER
from npuprof.advice.facts import Facts
from npuprof.advice.finding import Finding
from npuprof.advice.gains import gain_of
from npuprof.advice.host_causes import LABELS, HostTimes
from npuprof.advice.wording import code
from npuprof.analysis.accounting import BETWEEN_STEPS, IDLE
from npuprof.analysis.code_lines import has_lines
from npuprof.analysis.host_accounting import ACTIVITY_LABELS, HOST
from npuprof.analysis.idle_causes import UNEXPLAINED, UNKNOWN
from npuprof.analysis.intervals import Spans, pieces
from npuprof.analysis.step_windows import of_counted_kind
from npuprof.arrays import Int64, rows_by_key
from npuprof.lines.frames import cell_text, line_text
from npuprof.words.quantities import duration

NAME = "outliers"
_LEAST = 0.01  # of the mean step: what adds less is no finding
_OF_EXTRA = 0.5  # of the extra time of a step: what lies on a line
_LEAST_REGULAR = 3
_MOST = 5
_PARTS = {"waiting": "waiting for other ranks", "moving": "moving data", "copy": "copies"}
_NOT_KNOWN = "cause not recorded"
_LESS_OFTEN = "Do it less often, or in a thread."
_Line: TypeAlias = tuple[str, int] | None


@dataclass(frozen=True)
class Outlier:
    position: int  # its position among the steps of the basis
    step: int  # its number
    extra_ns: int  # how much longer than the usual step it takes
    cost_ns: int  # what it adds to the mean step, times the number of rows of the basis
    place: str  # the line or the cause that takes most of the extra time, as title and detail name it
    rank: int | None = None  # the rank that takes it, in a job
    line: tuple[str, int] | None = None  # file and number, where the place is a line


def outliers(facts: Facts) -> list[Outlier]:
    """Return the outliers of a run, in order of time."""
    basis = facts.basis
    rows_of = rows_by_key(basis.number)
    taking = [(position, *facts.taking(row)) for position, row in longest_rows(facts)]
    places: dict[int, tuple[str, _Line]] = {}
    for rank in dict.fromkeys(rank for _, rank, _, _ in taking):
        of_rank = [(position, of, row) for position, taken, of, row in taking if taken == rank]
        told = extra_places(of_rank[0][1], np.array([row for _, _, row in of_rank], np.int64))
        places |= dict(zip((position for position, _, _ in of_rank), told, strict=True))
    numbers = facts.accounting.steps["step"].to_numpy(object)[basis.rows]
    found = []
    for position, rank, _, _ in taking:
        rows = rows_of[position]
        number = numbers[rows[0]]
        extra = basis.duration_ns[rows] - basis.usual_ns  # of each rank and device
        step = position if pd.isna(number) else int(number)
        place, line = places[position]
        found.append(Outlier(position, step, int(extra.max()), int(extra.sum()), place, rank, line))
    return found


def longest_rows(facts: Facts) -> list[tuple[int, int]]:
    """Return the position of each outlier, and its row of the rank and device that take longest."""
    basis = facts.basis
    at = np.flatnonzero(basis.outlier)
    at = at[np.lexsort((-basis.duration_ns[at], basis.number[at]))]
    first = np.unique(basis.number[at], return_index=True)[1]
    return list(zip(basis.number[at[first]].tolist(), basis.rows[at[first]].tolist(), strict=True))


def findings(facts: Facts, found: Sequence[Outlier], table: str = "steps") -> list[Finding]:
    """Return a finding for each place of at least two outliers, the costliest first, and one for all the others."""
    several, single = grouped(found)
    made = [_of_group(facts, group, table) for group in several]
    made += [_of_single(facts, single, table)] if single else []
    worth = [each for each in made if each.cost_ns >= _LEAST * facts.step_ns]
    return sorted(worth, key=lambda each: -each.cost_ns) or [Finding(NAME, "clean")]


def grouped(found: Sequence[Outlier]) -> tuple[list[list[Outlier]], list[Outlier]]:
    """Return the outliers with a place in common, by place, and the single ones, the longest first."""
    groups: dict[tuple[str, int | None], list[Outlier]] = {}
    for outlier in found:
        groups.setdefault((outlier.place, outlier.rank), []).append(outlier)
    single = sorted((group[0] for group in groups.values() if len(group) == 1), key=lambda each: -each.extra_ns)
    return [group for group in groups.values() if len(group) > 1], single


def judged_rows(facts: Facts) -> Int64:
    """Return the rows of the basis that gates judge: without single outliers."""
    positions = [outlier.position for outlier in grouped(outliers(facts))[1]]
    return facts.basis.rows[~np.isin(facts.basis.number, positions)]


def _cost_ns(facts: Facts, group: Sequence[Outlier]) -> int:
    return max(0, sum(outlier.cost_ns for outlier in group)) // max(1, len(facts.basis.rows))


def _of_group(facts: Facts, group: Sequence[Outlier], table: str) -> Finding:
    mean_ns = sum(outlier.extra_ns for outlier in group) // len(group)
    positions = [outlier.position for outlier in group]
    period = _period(positions, facts.basis.count)
    which = f"Every {_ordinal(period)} step takes" if period else f"{len(group):,} of {facts.basis.count:,} steps take"
    numbers = ", ".join(f"{outlier.step:,}" for outlier in group[:_MOST])
    more = f" and {len(group) - _MOST:,} more" if len(group) > _MOST else ""
    cost = _cost_ns(facts, group)
    cause, action = _cause(facts, group[0])
    return Finding(
        NAME,
        "fires",
        title=f"{which} {duration(mean_ns)} longer: {_where(facts, group[0])}",
        cost_ns=cost,
        **gain_of(cost, cost, predicted=True, sound=facts.sound),
        detail=f"steps {numbers}{more}; the usual step takes {duration(facts.usual_ns)}",
        action=action,
        cause=cause,
        place=_place(group[0]),
        table=table,
        rows=_evidence(facts, group, table),
        rank=group[0].rank,
        lines=_marked(group[0]),
        of_outliers=True,
    )


def _of_single(facts: Facts, single: Sequence[Outlier], table: str) -> Finding:
    texts = [
        f"step {each.step:,} takes {duration(each.extra_ns)} longer: {_where(facts, each)}" for each in single[:_MOST]
    ]
    more = [f"{len(single) - _MOST:,} more"] if len(single) > _MOST else []
    cost = _cost_ns(facts, single)
    return Finding(
        NAME,
        "fires",
        title=texts[0][0].upper() + texts[0][1:],
        cost_ns=cost,
        detail="; ".join([*texts[1:], *more, f"{duration(cost)} of the mean step"]),
        action="Look at what else ran then: a checkpoint, garbage collection, another process.",
        place=_place(single[0]),
        table=table,
        rows=_evidence(facts, single, table),
        rank=single[0].rank,
        lines=_marked(single[0]),
        of_outliers=True,
    )


def _place(outlier: Outlier) -> str:
    return outlier.place if outlier.rank is None else f"rank {outlier.rank}, {outlier.place}"


def _cause(facts: Facts, outlier: Outlier) -> tuple[str, str]:
    """Return the cause of extra time on a line of a single run, and what to do about it."""
    if outlier.line is None or outlier.rank is not None:
        return "", _LESS_OFTEN
    cause, call = HostTimes(facts, IDLE).cause_at(outlier.line)
    if cause.name in (OTHER, LAUNCHES):
        return "", _LESS_OFTEN
    action = cause.action_for(facts.device, facts.info)
    return cause.name, action.replace("{call}", code(call) if call else "it")


def _marked(outlier: Outlier) -> tuple[tuple[str, int], ...]:
    return () if outlier.line is None else (outlier.line,)


def _where(facts: Facts, outlier: Outlier) -> str:
    cell = cell_text(next(iter(facts.info.code), ""))
    return _place(outlier).replace(f"{cell}, line ", "line ", 1) if cell else _place(outlier)


def _evidence(facts: Facts, group: Sequence[Outlier], table: str) -> pd.DataFrame:
    rows = facts.tables[table]
    numbers = [outlier.step for outlier in group]
    return rows[of_counted_kind(rows) & rows["step"].isin(numbers).to_numpy(bool)]


def _period(positions: Sequence[int], count: int) -> int:
    """Return how many steps apart outliers are, from the first step of the basis to the last; 0 if that varies.

    Fewer than three have no period.
    """
    if len(positions) < _LEAST_REGULAR:
        return 0
    apart = set(np.diff(positions).tolist())
    period = apart.pop()
    is_regular = not apart and positions[0] < period and count - 1 - positions[-1] < period
    return period if is_regular else 0


def _ordinal(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{ending}"


def extra_places(facts: Facts, rows: Int64) -> list[tuple[str, _Line]]:
    """Return for some outlier rows the line with most of the extra time, or the cause where no line has half of it."""
    places = zip(_lines(facts, rows), _causes(facts, rows), strict=True)
    return [(line_text(*line) if line else cause, line) for line, cause in places]


def _causes(facts: Facts, rows: Int64) -> list[str]:
    usual = facts.sums[facts.basis.usual_rows].sum(axis=0) / max(1, len(facts.basis.usual_rows))
    causes = ["", *facts.accounting.intervals["cause"].cat.categories]
    parts = facts.accounting.intervals["part"].cat.categories
    names: dict[str, list[tuple[int, int]]] = {}
    for part, of_part in enumerate(parts):
        for cause, of_cause in enumerate(causes):
            names.setdefault(_word(of_part, of_cause), []).append((part, cause))
    extra = facts.sums[rows] - usual
    by_name = np.zeros((len(rows), len(names)))
    for column, places in enumerate(names.values()):
        for part, cause in places:
            by_name[:, column] += extra[:, part, cause]
    longest = list(names)
    return [longest[column] for column in np.argmax(by_name, axis=1).tolist()]


def _word(part: str, cause: str) -> str:
    if part not in (*IDLE, BETWEEN_STEPS, HOST):
        return _PARTS.get(part, part)
    if cause in ("", UNKNOWN, UNEXPLAINED):
        return _NOT_KNOWN
    return (ACTIVITY_LABELS if part == HOST else LABELS).get(cause, cause)


def _main_thread(facts: Facts) -> tuple[Spans, Int64]:
    """Return the lines over time of the cell's thread, or else of most launches; statements include calls."""
    code = facts.code_lines
    if code.cell_thread is not None:
        starts, durations = (
            facts.tables["statements"][name].to_numpy(np.int64) for name in ("start_ns", "duration_ns")
        )
        ends, line = starts + durations, code.of_statements
    else:
        edges = code.edges(code.main_thread)
        starts, ends = edges[:-1], edges[1:]
        line = np.where(code.is_busy(code.main_thread, starts), code.lines_at(code.main_thread, starts), -1)
    is_known = (line >= 0) & (ends > starts)
    return (starts[is_known], ends[is_known]), line[is_known]


def _lines(facts: Facts, rows: Int64) -> list[_Line]:
    """Return the line with most of the extra time of each row; None where no line has half of it."""
    found: list[_Line] = [None] * len(rows)
    if not len(rows) or not facts.joined or not has_lines(facts.tables):
        return found
    (starts, ends), line = _main_thread(facts)
    if not len(starts):
        return found
    steps = facts.accounting.steps
    owner = steps.groupby(["rank", "device_id"], dropna=False, sort=False).ngroup().to_numpy(np.int64)
    for device in np.unique(owner[rows]).tolist():
        usual = facts.basis.usual_rows[owner[facts.basis.usual_rows] == device]
        here = np.flatnonzero(owner[rows] == device)
        windows, row = facts.accounting.windows(np.concatenate((usual, rows[here])))
        begins, stops, window = pieces((starts, ends), windows)
        lines = line[np.searchsorted(starts, begins, side="right") - 1]
        times = pd.DataFrame({"row": row[window], "line": lines, "time": stops - begins})
        times = times.groupby(["row", "line"], as_index=False)["time"].sum()
        is_usual = times["row"].isin(usual)
        of_usual = times[is_usual].groupby("line")["time"].sum() / max(1, len(usual))
        extra = times[~is_usual].copy()
        extra["time"] -= extra["line"].map(of_usual).fillna(0)
        most = extra.loc[extra.groupby("row")["time"].idxmax()].set_index("row")
        longer = steps["duration_ns"].to_numpy(np.int64)[rows[here]] - facts.usual_ns
        for at, least in zip(here.tolist(), (_OF_EXTRA * longer).tolist(), strict=True):
            if rows[at] in most.index and most.at[rows[at], "time"] >= least:
                found[at] = facts.code_lines.place(int(most.at[rows[at], "line"]))
    return found

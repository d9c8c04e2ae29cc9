"""The summary of a time range: slices by name and by lane, and device activity."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from npuprof.analysis.accounting import Accounting
from npuprof.arrays import Int64
from npuprof.timeline.layers import Group
from npuprof.timeline.slices import NAME_COLUMNS

_MOST_NAMES = 200
_ORDER = ("kernels", "communication", "tasks", "communication_tasks", "marks", "operators", "api", "python")
_P95 = 95


@dataclass(frozen=True)
class SlicesInRange:
    """Slices of one name or lane in a range; only the time within the range counts."""

    where: str  # the table, or the group of the lane
    name: str  # the name, or the title of the lane; not escaped
    count: int  # number of slices that touch the range
    # sum_ns, p95_ns, max_ns: sum, 95th percentile (nearest rank) and maximum of their times.
    sum_ns: int
    p95_ns: int
    max_ns: int

    @property
    def mean_ns(self) -> int:
        """The mean, rounded down."""
        return self.sum_ns // self.count


@dataclass(frozen=True)
class TimeOfPart:
    """Device time in a range by part and cause (:data:`npuprof.analysis.accounting.PARTS`)."""

    part: str
    cause: str
    duration_ns: int


@dataclass(frozen=True)
class RangeSummary:
    start_ns: int
    end_ns: int
    by_name: tuple[SlicesInRange, ...]  # one row per name, device tables first, and greatest sum first within a table
    by_lane: tuple[SlicesInRange, ...]  # one row per lane with slices in the range, from top to bottom
    parts: tuple[TimeOfPart, ...]  # what the devices did, and why they were idle; only in the time that steps cover
    names_left: int  # number of names that `by_name` leaves out
    code: str  # python code that computes the rows of `by_name` of one table from a run


def summary(
    tables: Mapping[str, pd.DataFrame], groups: Sequence[Group], start_ns: int, end_ns: int, parts: Accounting
) -> RangeSummary:
    """Return the summary of a range."""
    names = sorted(_by_name(tables, start_ns, end_ns), key=lambda row: (_ORDER.index(row.where), -row.sum_ns))
    return RangeSummary(
        start_ns,
        end_ns,
        tuple(names[:_MOST_NAMES]),
        tuple(_by_lane(groups, start_ns, end_ns)),
        tuple(_parts(parts)),
        max(len(names) - _MOST_NAMES, 0),
        frame_code(start_ns, end_ns, next((table for table in _ORDER if len(tables[table])), "kernels")),
    )


def frame_code(start_ns: int, end_ns: int, table: str) -> str:
    """Return Python code that sums up a table by name within a range."""
    return (
        f"start, end = {start_ns}, {end_ns}  # ns since the epoch\n"
        f"rows = run.{table}\n"
        "inside = (rows.start_ns + rows.duration_ns).clip(upper=end) - rows.start_ns.clip(lower=start)\n"
        "touching = (rows.start_ns < end) & (rows.start_ns + rows.duration_ns > start)\n"
        f'by_name = inside[touching].groupby(rows["{NAME_COLUMNS[table]}"], observed=True)\n'
        'by_name.agg(["count", "sum", "mean", "max"]).assign('
        'p95=by_name.quantile(0.95, interpolation="higher")).sort_values("sum", ascending=False)'
    )


def _by_name(tables: Mapping[str, pd.DataFrame], start_ns: int, end_ns: int) -> Iterator[SlicesInRange]:
    tasks_are_kernels = len(tables["kernels"]) > 0
    for table in _ORDER:
        if table == "tasks" and tasks_are_kernels:
            continue
        frame = tables[table]
        rows, inside = _clip(frame, start_ns, end_ns)
        names = frame[NAME_COLUMNS[table]]
        categories = names.cat.categories
        for code, sums in _group(names.cat.codes.to_numpy()[rows].astype(np.int64), inside):
            yield SlicesInRange(table, str(categories[code]) if code >= 0 else "", *sums)


def _by_lane(groups: Sequence[Group], start_ns: int, end_ns: int) -> Iterator[SlicesInRange]:
    for group in groups:
        for layer in group.layers:
            some = layer.within(start_ns, end_ns)
            if not len(some.slices):
                continue
            codes, keys = some.tracks()
            start, duration = some.column("start_ns"), some.column("duration_ns")
            inside = np.minimum(start + duration, end_ns) - np.maximum(start, start_ns)
            is_kept = (start < end_ns) & (start + duration > start_ns)
            _, whole_keys = layer.tracks()
            for code, sums in _group(codes[is_kept], inside[is_kept]):
                yield SlicesInRange(group.title, some.track_title(keys[code], whole_keys) or layer.title, *sums)


def _parts(accounting: Accounting) -> list[TimeOfPart]:
    rows = accounting.intervals
    rows = rows[rows["start_ns"].notna().to_numpy(bool)]
    sums = rows.groupby(["part", "cause"], observed=True, sort=True)["duration_ns"].sum()
    return [TimeOfPart(str(part), str(cause), int(time)) for (part, cause), time in sums.items() if time]


def _clip(frame: pd.DataFrame, start_ns: int, end_ns: int) -> tuple[Int64, Int64]:
    """Return the rows that overlap the range, and the overlap of each in nanoseconds."""
    start, duration = frame["start_ns"].to_numpy(np.int64), frame["duration_ns"].to_numpy(np.int64)
    rows = np.flatnonzero((start < end_ns) & (start + duration > start_ns))
    return rows, np.minimum(start[rows] + duration[rows], end_ns) - np.maximum(start[rows], start_ns)


def _group(codes: Int64, times: Int64) -> Iterator[tuple[int, tuple[int, int, int, int]]]:
    """Yield each code with the count, sum, 95th percentile and maximum of its times."""
    if not len(codes):
        return
    order = np.lexsort((times, codes))
    codes, times = codes[order], times[order]
    begins = np.flatnonzero(np.diff(codes, prepend=codes[:1] - 1))
    ends = np.append(begins[1:], len(codes))
    for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
        count = end - begin
        p95 = begin + -(-_P95 * (count - 1) // 100)
        yield int(codes[begin]), (count, int(times[begin:end].sum()), int(times[p95]), int(times[end - 1]))

"""The host rows behind idle time of a device, and their lines of code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias, cast

import numpy as np
import pandas as pd

from npuprof.analysis.accounting import BETWEEN_STEPS, IDLE
from npuprof.analysis.idle_causes import CAUSES
from npuprof.analysis.intervals import union, within
from npuprof.analysis.nesting import Nesting
from npuprof.analysis.places import lines
from npuprof.arrays import Int64
from npuprof.difference.side import ComparedRun, counted_steps

_MOST_GAPS = 10_000  # the longest gaps, for which source lines are looked up

_HostTable: TypeAlias = Literal["python", "operators", "api"]
_OF_NAME = {cause.name: cause for cause in CAUSES}


def host_rows(run: ComparedRun, cause: str, limit: int | None = None) -> Mapping[str, tuple[Int64, Int64]]:
    """Return the host rows to which idle time of a cause is attributed.

    Returns
    -------
    By table: the rows, and the idle nanoseconds that each covers, without those that rows nested in it cover.
    """
    if cause not in _OF_NAME:
        return {}
    gaps = _gaps(run, cause)
    if limit is not None and len(gaps) > limit:
        gaps = gaps.nlargest(limit, "duration_ns")
    starts = gaps["start_ns"].to_numpy(np.int64)
    spans = union(starts, starts + gaps["duration_ns"].to_numpy(np.int64))
    by_table = {}
    for name, is_selected in _OF_NAME[cause].rows(run.tables).items():
        table = run.tables[name]
        begins, lengths = (table[column].to_numpy(np.int64) for column in ("start_ns", "duration_ns"))
        rows = np.flatnonzero(is_selected)
        covered = within(spans, begins[rows], begins[rows] + lengths[rows])
        rows, covered = rows[covered > 0], covered[covered > 0]
        threads = table["thread_id"].to_numpy(np.int64)[rows] if "thread_id" in table else None
        nesting = Nesting.build(begins[rows], begins[rows] + lengths[rows], threads)
        held_rows = np.flatnonzero(nesting.parents >= 0)
        own_ns = covered[nesting.order]
        np.subtract.at(own_ns, nesting.parents[held_rows], covered[nesting.order][held_rows])
        by_table[name] = rows[nesting.order], np.maximum(own_ns, 0)
    return by_table


def line_times(run: ComparedRun, cause: str) -> Mapping[str, int]:
    """Return the idle time that a cause attributes to each line of the user's code, in nanoseconds."""
    times: dict[str, int] = {}
    for name, (rows, own_ns) in host_rows(run, cause, _MOST_GAPS).items():
        if name not in run.places.causes.first_row or not len(rows):
            continue
        sums = pd.Series(own_ns).groupby(lines(run.places.of(cast("_HostTable", name), rows)), observed=True).sum()
        for line, time in sums.items():
            times[str(line)] = times.get(str(line), 0) + int(time)
    return times


def _gaps(run: ComparedRun, cause: str) -> pd.DataFrame:
    intervals, counted = run.accounting.intervals, counted_steps(run).index
    of_cause = intervals[(intervals["cause"] == cause).to_numpy(bool)]
    is_selected = (
        of_cause["part"].isin([*IDLE, BETWEEN_STEPS]) & of_cause["row"].isin(counted) & of_cause["start_ns"].notna()
    )
    return of_cause[is_selected.to_numpy(bool)]

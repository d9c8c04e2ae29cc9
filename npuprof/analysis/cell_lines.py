"""What each line of the profiled cell costs, with everything that is called from it, over the steps of figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from npuprof import tables as schema
from npuprof.analysis.accounting import BETWEEN_STEPS, IDLE, Accounting
from npuprof.analysis.code_lines import CodeLines
from npuprof.analysis.host_accounting import is_of_host
from npuprof.analysis.intervals import Spans, covering, total, within
from npuprof.analysis.places import Places
from npuprof.arrays import Bools, Int64

COSTS = ("device_ns", "idle_ns", "host_ns", "launches")
_WITHOUT_WORK = (*IDLE, BETWEEN_STEPS)
_NO_LINE = -1
_NOTHING = np.array([_NO_LINE])


@dataclass(frozen=True)
class CellLines:
    """The costs of the lines of the profiled cell, inclusive of what they call."""

    # A row for each line of the cell and each line that it calls: `caller_file` and `caller_line` (in the cell; absent
    # for costs of no line), `file`, `line`, `function` (the innermost line of the user's code; the cell's own line for
    # its own part) and the costs: `device_ns` (its kernels run), `idle_ns` (the device has no work while the line
    # runs), `host_ns` (time of the cell's thread) and `launches` (kernels). Unrecorded costs are absent. All are sums
    # over the steps and devices.
    parts: pd.DataFrame
    steps: int  # the number of steps, those of each device counted
    # Whether costs include calls. Without statements, as in results of other profilers, each line has its own costs.
    is_inclusive: bool

    def lines(self, parts: pd.DataFrame | None = None) -> pd.DataFrame:
        """Return ``file``, ``line`` and the costs of each line of the cell, in order, and last what belongs to none."""
        parts = self.parts if parts is None else parts
        sums = parts.groupby(["caller_file", "caller_line"], dropna=False, sort=False, observed=True)[list(COSTS)]
        frame: pd.DataFrame = sums.sum(min_count=1).reset_index()
        frame = frame.rename(columns={"caller_file": "file", "caller_line": "line"})
        return frame.sort_values(["file", "line"], na_position="last", kind="stable", ignore_index=True)

    def callees(self, parts: pd.DataFrame | None = None) -> pd.DataFrame:
        """Return the rows of :attr:`parts` that are of lines which a line of the cell calls."""
        parts = self.parts if parts is None else parts
        is_own = (parts["file"] == parts["caller_file"]) & (parts["line"] == parts["caller_line"])
        return parts[~is_own.fillna(False).to_numpy(bool) & parts["file"].notna()].reset_index(drop=True)

    def per_step(self) -> pd.DataFrame:
        """Return :attr:`parts` per step: whole numbers whose sum is the sum of all, rounded down."""
        means = self.parts.copy()
        for name in COSTS:
            if means[name].notna().all():
                whole = np.cumsum(means[name].to_numpy(np.int64)) // max(self.steps, 1)
                means[name] = pd.array(np.diff(whole, prepend=0), "Int64")
        return means


def cell_lines(
    tables: Mapping[str, pd.DataFrame], accounting: Accounting, places: Places, lines: CodeLines, steps: Int64
) -> CellLines:
    """Return the costs of the lines of the profiled cell over some steps.

    Of idle time, the line is that of the statement which the cell's thread runs; a kernel belongs to the statement
    that launched it (:mod:`npuprof.analysis.statements`). Below a statement, the line is that of
    :class:`npuprof.analysis.code_lines.CodeLines`.
    """
    is_inclusive = bool(len(tables["statements"]))
    windows, is_of_step = _windows(accounting, steps)
    first, last = (np.append(tables["statements"][name].to_numpy(np.int64), 0) for name in ("line", "last_line"))
    callers, names = np.append(lines.of_statements, _NO_LINE), lines.names
    line_of, file_of = (np.append(values, -1) for values in (names["line"], pd.factorize(names["file"])[0]))
    taken: list[pd.DataFrame] = []

    def add(column: str, amounts: Int64, statement: Int64, line: Int64) -> None:
        caller = callers[statement] if is_inclusive else line
        is_own = (file_of[line] == file_of[caller]) & (first[statement] <= line_of[line])
        is_own &= (line_of[line] <= last[statement]) | (line < 0)
        line = np.where(is_own & is_inclusive | (line < 0), caller, line)
        taken.append(pd.DataFrame({"caller": caller, "line": line, "column": column, "amount": amounts}))

    # The device works: each moment belongs to the kernel that began first.
    kernels = tables["kernels"]
    starts, durations, devices = (
        kernels[name].to_numpy(np.int64, na_value=-1) for name in ("start_ns", "duration_ns", "device_id")
    )
    of_kernels = lines.of_rows("kernels", np.arange(len(kernels)))
    statement = places.statements(places.causes.launchers)[0]
    for device in np.unique(devices).tolist():
        rows = np.flatnonzero(devices == device)
        rows = rows[np.argsort(starts[rows], kind="stable")]
        ends = starts[rows] + durations[rows]
        begins = np.minimum(np.maximum(starts[rows], np.append(0, np.maximum.accumulate(ends)[:-1])), ends)
        times, launches = ends - begins, np.ones(len(rows), np.int64)
        if device in windows:
            times = within(windows[device], begins, ends)
            launches = within(windows[device], starts[rows], starts[rows] + 1)
        add("device_ns", times, statement[rows], of_kernels[rows])
        add("launches", launches, statement[rows], of_kernels[rows])

    # It does not.
    is_idle = is_of_step & schema.matching(accounting.intervals["part"], lambda part: part in _WITHOUT_WORK)
    begins, ends, line, _ = lines.idle_pieces(accounting, is_idle)
    thread = lines.main_thread
    add("idle_ns", ends - begins, lines.statement_at(thread, begins), line)
    idle_ns = int(accounting.intervals["duration_ns"].to_numpy(np.int64)[is_idle].sum())
    add("idle_ns", np.array([idle_ns - int((ends - begins).sum())]), _NOTHING, _NOTHING)

    # The host.
    edges = lines.edges(thread)
    begins, ends = edges[:-1], edges[1:]
    line, statement = lines.lines_at(thread, begins), lines.statement_at(thread, begins)
    line = np.where(lines.is_busy(thread, begins), line, _NO_LINE)
    for spans in windows.values():
        times = within(spans, begins, ends)
        add("host_ns", times, statement, line)
        add("host_ns", np.array([total(spans) - int(times.sum())]), _NOTHING, _NOTHING)

    return CellLines(_summed(pd.concat(taken), names, is_of_host(tables)), len(steps), is_inclusive)


def _windows(accounting: Accounting, steps: Int64) -> tuple[dict[int, Spans], Bools]:
    """Return the time of steps by device (-1 for none), and which intervals of the accounting are of them."""
    is_chosen = np.zeros(len(accounting.steps), np.bool_)
    is_chosen[steps] = True
    rows = accounting.intervals
    is_of_step: Bools = is_chosen[rows["row"].to_numpy()]
    placed = rows[is_of_step & rows["start_ns"].notna().to_numpy(bool)]
    owners = accounting.steps["device_id"].to_numpy(np.int64, na_value=-1)[placed["row"].to_numpy()]
    starts, durations = (placed[name].to_numpy(np.int64) for name in ("start_ns", "duration_ns"))
    devices = np.unique(owners).tolist()
    return {device: covering(starts[owners == device], durations[owners == device]) for device in devices}, is_of_step


def _summed(taken: pd.DataFrame, names: pd.DataFrame, of_host: bool) -> pd.DataFrame:
    sums = taken.pivot_table(index=["caller", "line"], columns="column", values="amount", aggfunc="sum", fill_value=0)
    sums = sums.reindex(columns=list(COSTS), fill_value=0)
    sums = sums[(sums != 0).any(axis=1)].astype("Int64").reset_index()
    if of_host:
        sums[["device_ns", "idle_ns", "launches"]] = pd.NA
    at, caller = sums["line"].to_numpy(np.int64), sums["caller"].to_numpy(np.int64)
    named = names.reindex([*range(len(names)), -1])
    table: pd.DataFrame = pd.DataFrame(
        {
            "caller_file": named["file"].to_numpy()[caller],
            "caller_line": pd.array(named["line"].to_numpy()[caller], "Int64"),
            "file": named["file"].to_numpy()[at],
            "line": pd.array(named["line"].to_numpy()[at], "Int64"),
            "function": named["function"].to_numpy()[at],
            **{name: sums[name].to_numpy() for name in COSTS},
        }
    )
    is_none = table["caller_file"].isna()
    return pd.concat([table[~is_none], table[is_none]], ignore_index=True)

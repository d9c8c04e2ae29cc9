"""What each line of the user's code costs: device time, idle time of the device, host time, launches and memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from npuprof import tables as schema
from npuprof.analysis.accounting import IDLE, Accounting
from npuprof.analysis.correlation import LAYERS
from npuprof.analysis.host_accounting import is_of_host
from npuprof.analysis.idle_causes import UNKNOWN
from npuprof.analysis.intervals import Spans, total, within
from npuprof.analysis.memory_peak import blocks_at_peak
from npuprof.analysis.nesting import Nesting
from npuprof.analysis.places import BETWEEN, GUESSED, Places, has_user_frames
from npuprof.analysis.sampled_gaps import NO_PIECES, Pieces, seen_in
from npuprof.arrays import Bools, Int64, distinct, search_in_groups
from npuprof.lines.frames import Frame, in_full, is_whole

Thread: TypeAlias = int | Int64
"""A thread, or one for each moment."""

_CELL = "<cell>"
_NO_CELLS: Spans = (np.zeros(0, np.int64),) * 2


class CodeLines:
    """The costs of the lines of a run.

    A moment of a host thread belongs to the line of the innermost operator or call that runs; between them to the line
    that a sample saw there (see :mod:`npuprof.analysis.sampled_gaps`), or else to the line of the next one, as long as
    that is in the same statement of the profiled cell, or without statements in the same function: the code before a
    call is part of what it takes to make it. Else it belongs to the statement that runs, or to the sampled function.
    Idle time of the device belongs to the line of the thread that launches the next kernel, in which an operator or a
    call runs or which a sample saw, or else to the line of the cell's thread at that moment.

    Parameters
    ----------
    recorded
        The files whose text was recorded, by their whole paths. A name that only one of them ends with, such as
        torch's, which begins below a folder of ``sys.path``, is that file.
    cells
        When cells were executed, in a run that was started by hand: the host's time outside of them is no line's.
    """

    def __init__(
        self,
        tables: Mapping[str, pd.DataFrame],
        accounting: Accounting,
        places: Places,
        recorded: Collection[str] = (),
        cells: Spans = _NO_CELLS,
    ) -> None:
        self._tables = tables
        self._accounting = accounting
        self._places = places
        self._recorded = recorded
        self._executed = cells
        self._first = places.causes.first_row["operators"]
        self._start, self._duration, self._thread = (
            np.concatenate([tables[name][column].to_numpy(np.int64) for name in LAYERS])
            for column in ("start_ns", "duration_ns", "thread_id")
        )

    @cached_property
    def _peak(self) -> pd.DataFrame:
        return blocks_at_peak(self._tables, self._places.causes)

    @cached_property
    def _located(self) -> tuple[pd.DataFrame, list[Int64], Int64]:
        """The lines; for each host row, statement, block at the peak and sample the number of its line; functions.

        The number is -1 where there is none.

        The functions are numbers for each host row.
        """
        statements = self._tables["statements"][["file", "line"]].assign(function="<module>")
        places = self._places.at(np.arange(len(self._start)))
        # Where a whole cell or file was entered is not the line that ran.
        is_line = ~places["entered"].to_numpy(bool) | ~schema.matching(places["function"], is_whole)
        places["line"] = places["line"].where(is_line)
        parts = [places, statements, self._peak, self._tables["sampled_lines"]]
        files, functions = (_united([part[name] for part in parts]) for name in ("file", "function"))
        files = _in_full(*files, self._recorded)
        line = np.concatenate([part["line"].to_numpy(np.int64, na_value=0) for part in parts])
        most = int(line.max(initial=0)) + 1
        keys = np.where((files[0] >= 0) & (line > 0), files[0] * most + line, -1)
        number, first = pd.factorize(keys)[0], np.sort(np.unique(keys, return_index=True)[1])
        rows = zip(files[0][first].tolist(), line[first].tolist(), functions[0][first].tolist(), strict=True)
        named = [[*names, ""] for _, names in (files, functions)]  # -1 is no name
        frames = [Frame(named[0][file], at, named[1][function]) for file, at, function in rows]
        # Sampled stacks do not number cells: the lines of several would be one.
        unnumbered = {_CELL} if any(name.startswith(f"{_CELL[:-1]} [") for name in files[1]) else set()
        is_kept = np.array([keys[row] >= 0 for row in first.tolist()], bool)
        is_kept &= np.array([frame.is_users and frame.file not in unnumbered for frame in frames], bool)
        renumbered = np.where(is_kept, np.cumsum(is_kept) - 1, -1)
        lines = [frame for frame, kept in zip(frames, is_kept.tolist(), strict=True) if kept]
        table: pd.DataFrame = pd.DataFrame(lines, columns=["file", "line", "function"])
        ends = np.cumsum([len(part) for part in parts])
        codes = np.split(renumbered[number].astype(np.int64), ends[:-1])
        return table, codes, functions[0][: len(self._start)]

    @property
    def _numbers(self) -> Int64:
        return self._located[1][0]

    def table(self) -> pd.DataFrame:
        """Return the costs of each line.

        Returns
        -------
        pandas.DataFrame
            ``file`` and ``line``; ``device_ns`` (time of the kernels that the line launched, in the forward or the
            backward pass), ``idle_ns`` (idle time of the devices meanwhile), ``host_ns`` (over all threads; of a
            recording without a device that of the main thread, which adds up to the wall time), ``launches`` (kernels),
            ``operators`` (of the framework) and ``peak_bytes`` (memory that it holds at the peak of each device, or of
            the host without a device). What the run does not have is absent. The last row has no line, and what belongs
            to none: device time, idle time and launches add up to those of the run.
        """
        return self._table

    @cached_property
    def _table(self) -> pd.DataFrame:
        lines, count = self._located[0], len(self._located[0])
        launchers = self._places.causes.launchers
        of_kernel = np.where(launchers >= 0, np.append(self._numbers, -1)[launchers], -1)
        kernels, operators = self._tables["kernels"], self._tables["operators"]
        is_called = (operators["kind"] == "op").to_numpy(bool)
        of_operator = self._numbers[self._first :][: len(operators)][is_called]
        idle, alone = self._idle(), is_of_host(self._tables)
        has_host = bool(len(self._start) or len(self._tables["statements"]))
        ones = np.ones(max(len(kernels), len(operators)), np.int64)
        peak = _sums(count, self._located[1][2], self._peak["size_bytes"].to_numpy(np.int64))
        columns = {
            "device_ns": (_sums(count, of_kernel, kernels["duration_ns"].to_numpy(np.int64)), not alone),
            "idle_ns": (idle, not alone),
            "host_ns": (self._host_ns(), has_host),
            "launches": (_sums(count, of_kernel, ones[: len(kernels)]), not alone),
            "operators": (_sums(count, of_operator, ones[: len(of_operator)]), bool(len(operators))),
            "peak_bytes": (peak, bool(len(self._peak))),
        }
        return pd.DataFrame(
            {
                "file": pd.array([*lines["file"], None], dtype=object),
                "line": pd.array([*lines["line"], pd.NA], "Int64"),
                **{
                    name: pd.arrays.IntegerArray(np.asarray(sums, np.int64), np.full(count + 1, not is_known))
                    for name, (sums, is_known) in columns.items()
                },
            }
        )

    def _host_ns(self) -> Int64:
        """Return the time of all threads by line; without a device, of the main thread in all the wall time."""
        threads, lines, times = self._host()
        is_alone = is_of_host(self._tables) and bool(len(self._executed[0]))
        is_counted = (threads == self.main_thread) | (not is_alone)
        sums = _sums(len(self._located[0]), lines[is_counted], times[is_counted])
        if is_alone:
            sums[-1] += max(0, total(self._executed) - int(sums.sum()))
        return sums

    def of_rows(self, table: str, rows: Int64) -> Int64:
        """Return for rows of a host table, or of ``kernels``, the rows of :meth:`table`, -1 for none."""
        causes = self._places.causes
        at = causes.launchers[rows] if table == "kernels" else rows + causes.first_row[table]
        return np.where(at >= 0, np.append(self._numbers, -1)[at], -1)

    @property
    def names(self) -> pd.DataFrame:
        """The ``file``, ``line`` and ``function`` of each row of :meth:`table` but the last."""
        return self._located[0]

    @property
    def of_samples(self) -> Int64:
        """The row of :meth:`table` for each row of ``sampled_lines``, -1 for none."""
        return self._located[1][3]

    @property
    def of_statements(self) -> Int64:
        """The row of :meth:`table` for each row of ``statements``, -1 for none."""
        return self._located[1][1]

    @property
    def guessed_ns(self) -> int:
        """The device time of kernels whose lines are not certain, in nanoseconds."""
        kernels = self._tables["kernels"]
        known = self._places.at(self._places.causes.launchers)["known"]
        is_guessed = (known.isin(GUESSED) & (known != BETWEEN)).to_numpy(bool)
        return int(kernels["duration_ns"].to_numpy(np.int64)[is_guessed].sum())

    def place(self, row: int) -> tuple[str, int]:
        """Return file and line of a row of :meth:`table`."""
        return self._line_places[row]

    @cached_property
    def _line_places(self) -> list[tuple[str, int]]:
        lines = self._located[0]
        return list(zip(map(str, lines["file"]), map(int, lines["line"]), strict=True))

    def host_of_threads(self) -> pd.DataFrame:
        """Return ``thread_id``, ``row`` of :meth:`table` and ``host_ns``: the time of each thread adds up.

        The time of a thread is that in which an operator, a call or a Python function runs on it; of the thread of a
        cell, in which an operator, a call or a statement does.
        """
        thread, line, time = self._host()
        frame: pd.DataFrame = pd.DataFrame({"thread_id": thread, "row": line, "host_ns": time})
        frame["row"] = frame["row"].where(frame["row"] >= 0, len(self._located[0]))
        return frame.groupby(["thread_id", "row"], as_index=False).sum()

    # -- the host --------------------------------------------------------------------------------------------------

    def _host(self) -> tuple[Int64, Int64, Int64]:
        """Return thread, line (-1 for none) and length of each piece of time in which a thread works."""
        threads, moments = self._all_edges
        of_host = distinct(self._thread)
        of_host = of_host if self.cell_thread is None else np.append(of_host, self.cell_thread)
        at = np.flatnonzero((threads[1:] == threads[:-1]) & np.isin(threads[:-1], of_host))
        threads, starts, ends = threads[at], moments[at], moments[at + 1]
        times = within(self._executed, starts, ends) if len(self._executed[0]) else ends - starts
        is_busy = self.is_busy(threads, starts)
        return threads[is_busy], self.lines_at(threads, starts)[is_busy], times[is_busy]

    def is_busy(self, thread: Thread, moments: Int64) -> Bools:
        """Return whether an operator, a call, a Python function or a statement runs on a thread at each moment."""
        is_busy: Bools = self._row_at(self._calls, thread, moments) >= 0
        return is_busy | (self._python_at(thread, moments) >= 0) | (self.statement_at(thread, moments) >= 0)

    @cached_property
    def cell_thread(self) -> int | None:
        """The thread of the profiled cell; None without its statements."""
        statements = self._tables["statements"]
        return int(statements["thread_id"].iloc[0]) if len(statements) else None

    @cached_property
    def _calls(self) -> tuple[Nesting, Int64]:
        """The operators and calls of the runtime, and the line of each in the order of the nesting."""
        return self._nested(slice(self._first, None))

    @cached_property
    def _python(self) -> tuple[Nesting, Int64]:
        """The calls of Python functions, likewise."""
        return self._nested(slice(0, self._first))

    def _nested(self, rows: slice) -> tuple[Nesting, Int64]:
        start, thread = self._start[rows], self._thread[rows]
        nesting = Nesting.build(start, start + self._duration[rows], thread)
        return nesting, nesting.order + (rows.start or 0)

    def edges(self, thread: int) -> Int64:
        """Return the moments at which something begins or ends on a thread, in order."""
        threads, moments = self._all_edges
        return moments[np.searchsorted(threads, thread, "left") : np.searchsorted(threads, thread, "right")]

    @cached_property
    def _all_edges(self) -> tuple[Int64, Int64]:
        """Thread and moment at which something begins or ends, by thread in order."""
        every, sampled = slice(None), self._sampled
        return self._edges(every, np.tile(sampled.threads, 2), np.concatenate((sampled.starts, sampled.ends)))

    def _edges(self, rows: slice, more_threads: Int64, more: Int64) -> tuple[Int64, Int64]:
        start = self._start[rows]
        threads = [*[self._thread[rows]] * 2, more_threads]
        moments = [start, start + self._duration[rows], more]
        if self.cell_thread is not None:
            moments += list(self._statements)
            threads += [np.full(len(side), self.cell_thread) for side in self._statements]
        return _distinct(np.concatenate(threads), np.concatenate(moments))

    @cached_property
    def _sampled(self) -> Pieces:
        """The lines that samples saw between the calls of threads."""
        samples = self._tables["sampled_lines"]
        chosen = np.flatnonzero(self._located[1][3] >= 0)
        if not len(chosen):
            return NO_PIECES
        threads = samples["thread_id"].to_numpy(np.int64)[chosen]
        order = np.argsort(threads, kind="stable")
        threads, chosen = threads[order], chosen[order]
        moments, lines = samples["time_ns"].to_numpy(np.int64)[chosen], self._located[1][3][chosen]
        return seen_in(*self._gaps(threads, moments), threads, moments, lines)

    def _gaps(self, threads: Int64, moments: Int64) -> tuple[Int64, Spans, Int64]:
        """Return when sampled threads ran no call, and between which lines."""
        sampled, first = np.unique(threads, return_index=True)
        last = np.append(first[1:], len(threads)) - 1
        edge_threads, edges = self._edges(slice(self._first, None), threads[:0], moments[:0])
        low, high = (np.searchsorted(edge_threads, sampled, side) for side in ("left", "right"))
        bounds = np.append(edges, 0)
        is_before = (low == high) | (moments[first] < bounds[low])
        is_after = (low == high) | (moments[last] >= bounds[high - 1])
        edge_threads, edges = _distinct(
            np.concatenate((edge_threads[np.isin(edge_threads, sampled)], sampled[is_before], sampled[is_after])),
            np.concatenate(
                (edges[np.isin(edge_threads, sampled)], moments[first][is_before], moments[last][is_after] + 1)
            ),
        )
        at = np.flatnonzero(edge_threads[1:] == edge_threads[:-1])
        thread, begins, ends = edge_threads[at], edges[at], edges[at + 1]
        statement = self.statement_at(thread, begins)
        of_cell = thread == self.cell_thread if self.cell_thread is not None else np.zeros(len(thread), np.bool_)
        is_gap = (self._row_at(self._calls, thread, begins) < 0) & (~of_cell | (statement >= 0))
        thread, begins, ends, statement = thread[is_gap], begins[is_gap], ends[is_gap], statement[is_gap]
        before, after = self._row_at(self._calls, thread, begins - 1), self._following(thread, ends)
        numbers, of_statement = np.append(self._numbers, -1), np.append(self._located[1][1], -1)
        kinds = np.stack((thread, of_statement[statement], numbers[before], numbers[after]))
        return thread, (begins, ends), np.unique(kinds, axis=1, return_inverse=True)[1].reshape(-1).astype(np.int64)

    @cached_property
    def _statements(self) -> Spans:
        """When the statements of the cell began and ended."""
        begins, durations = (
            self._tables["statements"][name].to_numpy(np.int64) for name in ("start_ns", "duration_ns")
        )
        return begins, begins + durations

    def statement_at(self, thread: Thread, moments: Int64) -> Int64:
        """Return the statement that runs on a thread at each moment, -1 for none."""
        begins, ends = self._statements
        if self.cell_thread is None or not len(begins):
            return np.full(len(moments), -1, np.int64)
        at = np.searchsorted(begins, moments, side="right") - 1
        return np.where((thread == self.cell_thread) & (at >= 0) & (moments < ends[at]), at, -1)

    def _row_at(self, nested: tuple[Nesting, Int64], thread: Thread, moments: Int64) -> Int64:
        """Return the innermost host row at each moment on a thread, -1 for none."""
        place = nested[0].innermost(moments + 1, _each(thread, moments))
        return np.append(nested[1], -1)[place]

    def _python_at(self, thread: Thread, moments: Int64) -> Int64:
        """Return the innermost Python call at each moment, -1 for none.

        On the thread of the cell that is none before the first statement: a sampled call seems to begin early.
        """
        python = self._row_at(self._python, thread, moments)
        of_cell = _each(thread, moments) == (-1 if self.cell_thread is None else self.cell_thread)
        return np.where(of_cell & (self.statement_at(thread, moments) < 0), -1, python)

    def lines_at(self, thread: Thread, moments: Int64) -> Int64:
        """Return the line that runs on a thread from each moment to the next edge, -1 for none."""
        numbers, functions = np.append(self._numbers, -1), np.append(self._located[2], -1)
        call, python = self._row_at(self._calls, thread, moments), self._python_at(thread, moments)
        statement = self.statement_at(thread, moments)
        following = self._following(thread, moments)
        in_statement = self.statement_at(thread, np.append(self._start, 0)[following]) == statement
        in_function = (python < 0) | (functions[following] == functions[python])
        is_next = (call < 0) & (following >= 0) & in_statement & ((statement >= 0) | in_function)
        lines = np.where(is_next, numbers[following], numbers[call])
        lines = np.where(lines < 0, np.append(self._located[1][1], -1)[statement], lines)
        lines = np.where(lines < 0, numbers[python], lines)
        sampled = self._sampled.number_at(_each(thread, moments), moments)
        return np.where(sampled >= 0, sampled, lines)

    def _following(self, thread: Thread, moments: Int64) -> Int64:
        """Return the next operator or call with a line that begins on a thread at each moment or later, -1 for none."""
        rows, threads, starts = self._lined
        thread = _each(thread, moments)
        at = search_in_groups(threads, starts, thread, moments, "left")
        return np.where(np.append(threads, -1)[at] == thread, np.append(rows, -1)[at], -1)

    @cached_property
    def _lined(self) -> tuple[Int64, Int64, Int64]:
        """Operators and calls with a line, their threads and starts, by thread in order."""
        rows = self._first + np.flatnonzero(self._numbers[self._first :] >= 0)
        rows = rows[np.lexsort((self._start[rows], self._thread[rows]))]
        return rows, self._thread[rows], self._start[rows]

    # -- the device ------------------------------------------------------------------------------------------------

    def _idle(self) -> Int64:
        """Return the idle time of the devices by line; what has no line is the last."""
        rows, count = self._accounting.intervals, len(self._located[0])
        is_idle = schema.matching(rows["part"], lambda part: part in IDLE)
        starts, ends, lines, _ = self.idle_pieces(self._accounting, is_idle)
        sums = _sums(count, lines, ends - starts)
        sums[-1] += int(rows["duration_ns"].to_numpy(np.int64)[is_idle].sum()) - int(sums.sum())
        return sums

    def idle_pieces(self, accounting: Accounting, is_chosen: Bools) -> tuple[Int64, Int64, Int64, Int64]:
        """Return starts, ends, lines (-1 for none) and rows of the pieces of chosen idle intervals with a position."""
        rows = accounting.intervals
        is_placed = is_chosen & rows["start_ns"].notna().to_numpy(bool)
        is_unknown = is_placed & schema.matching(rows["cause"], lambda cause: cause == UNKNOWN)
        owners = accounting.steps["device_id"].to_numpy(np.int64, na_value=-1)[rows["row"].to_numpy()]
        is_head = schema.matching(rows["part"], lambda part: part == IDLE[0])
        # Before the first task of a profiled cell only the device's work of earlier cells is not known; but no moment
        # of a device is known whose clock cannot be joined with that of the host.
        apart = np.isin(owners, owners[is_unknown & ~is_head])
        is_placed &= ~is_unknown | (is_head & ~apart & bool(len(self._tables["statements"])))
        parts = [(np.zeros(0, np.int64),) * 4]
        if len(self._located[0]):
            begins, durations = (rows[name].to_numpy(np.int64, na_value=0) for name in ("start_ns", "duration_ns"))
            for device in np.unique(owners[is_placed]).tolist():
                chosen = np.flatnonzero(is_placed & (owners == device))
                chosen = chosen[np.argsort(begins[chosen], kind="stable")]
                idle = begins[chosen], begins[chosen] + durations[chosen]
                starts, ends, lines = self._idle_of(device, idle)
                at = np.searchsorted(idle[0], starts, side="right") - 1
                parts.append((starts, ends, lines, chosen[at]))
        starts, ends, lines, of_interval = (np.concatenate(column) for column in zip(*parts, strict=True))
        return starts, ends, lines, of_interval

    def _idle_of(self, device: int, idle: Spans) -> tuple[Int64, Int64, Int64]:
        """Return the pieces of the idle time of a device with their lines."""
        kernels = self._tables["kernels"]
        rows = np.flatnonzero((kernels["device_id"] == device).to_numpy(bool))
        rows = rows[np.argsort(kernels["start_ns"].to_numpy(np.int64)[rows], kind="stable")]
        following = np.searchsorted(kernels["start_ns"].to_numpy(np.int64)[rows], idle[1], side="left")
        launcher = np.append(self._places.causes.launchers[rows], -1)[following]
        threads = np.where(launcher >= 0, np.append(self._thread, 0)[launcher], self.main_thread)
        order = np.argsort(threads, kind="stable")
        threads, spans = threads[order], (idle[0][order], idle[1][order])
        main = _each(self.main_thread, threads)
        owners, moments = zip(
            (np.arange(len(threads)), spans[0]),
            *(self._edges_within(each, spans) for each in (threads, main)),
            strict=True,
        )
        owner, starts = _distinct(np.concatenate(owners), np.concatenate(moments))
        is_last = np.append(owner[1:] != owner[:-1], True)[: len(owner)]
        ends = np.where(is_last, spans[1][owner], np.append(starts[1:], 0)[: len(starts)])
        owner, starts, ends = (column[ends > starts] for column in (owner, starts, ends))
        thread, main = threads[owner], main[owner]
        running = np.append(self._numbers, -1)[self._row_at(self._calls, thread, starts)]
        running = np.where(running >= 0, running, self._sampled.number_at(thread, starts))
        of_main, of_thread = (self.lines_at(each, starts) for each in (main, thread))
        return starts, ends, np.where(running >= 0, running, np.where(of_main >= 0, of_main, of_thread))

    def _edges_within(self, threads: Int64, spans: Spans) -> tuple[Int64, Int64]:
        """Return the edges of a thread that lie within each interval: the number of the interval, and the moment."""
        first = search_in_groups(*self._all_edges, threads, spans[0], "right")
        counts = np.maximum(search_in_groups(*self._all_edges, threads, spans[1], "left") - first, 0)
        owner = np.repeat(np.arange(len(counts)), counts)
        rows = np.arange(len(owner)) + np.repeat(first - (np.cumsum(counts) - counts), counts)
        return owner, self._all_edges[1][rows]

    @cached_property
    def main_thread(self) -> int:
        """The thread of the cell, or else of the most launches or, without any, of the most host rows."""
        if self.cell_thread is not None:
            return self.cell_thread
        launchers = self._places.causes.launchers
        threads = self._thread[launchers[launchers >= 0]]
        threads = threads if len(threads) else self._thread
        distinct, counts = np.unique(threads, return_counts=True)
        return int(distinct[np.argmax(counts)]) if len(distinct) else 0


def _united(columns: list[pd.Series[Any]]) -> tuple[Int64, list[str]]:
    """Return the codes of several columns of names, -1 for absent ones, and the names."""
    names: dict[str, int] = {}
    codes = []
    for column in columns:
        values = column.astype("category")
        of_name = [names.setdefault(str(name), len(names)) for name in values.cat.categories]
        codes.append(np.array([*of_name, -1], np.int64)[values.cat.codes.to_numpy(np.int64)])
    return np.concatenate(codes), list(names)


def _in_full(codes: Int64, names: list[str], recorded: Collection[str]) -> tuple[Int64, list[str]]:
    """Return codes and names of files with the end of one recorded path replaced by that path."""
    named = [in_full(name, recorded) or name for name in names]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(named))}
    return np.array([*(numbers[name] for name in named), -1], np.int64)[codes], list(numbers)


def _each(thread: Thread, moments: Int64) -> Int64:
    return np.broadcast_to(np.asarray(thread, np.int64), moments.shape)


def _distinct(groups: Int64, moments: Int64) -> tuple[Int64, Int64]:
    """Return the distinct pairs in order."""
    order = np.lexsort((moments, groups))
    groups, moments = groups[order], moments[order]
    is_new = np.append(True, (groups[1:] != groups[:-1]) | (moments[1:] != moments[:-1]))[: len(groups)]
    return groups[is_new], moments[is_new]


def _sums(count: int, lines: Int64, values: Int64) -> Int64:
    """Return the sum of values by line; the last sum belongs to -1."""
    sums = np.zeros(count + 1, np.int64)
    np.add.at(sums, lines, values)
    return sums


def has_lines(tables: Mapping[str, pd.DataFrame]) -> bool:
    """Return whether a run names code of the user, which is quick to tell."""
    columns = (("operators", "stack"), ("api", "stack"), ("python", "name"), ("allocations", "stack"))
    return bool(len(tables["statements"])) or any(
        has_user_frames(tables[table][column]) for table, column in columns if column in tables[table]
    )

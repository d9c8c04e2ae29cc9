"""What each line of the user's code costs: device time, idle time of the device, host time, launches and memory."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from npuprof import tables as schema
from npuprof.analysis.accounting import IDLE, Accounting
from npuprof.analysis.correlation import LAYERS
from npuprof.analysis.host_accounting import is_of_host
from npuprof.analysis.idle_causes import UNKNOWN
from npuprof.analysis.intervals import Spans, pieces, within
from npuprof.analysis.memory_peak import blocks_at_peak
from npuprof.analysis.nesting import Nesting
from npuprof.analysis.places import BETWEEN, GUESSED, Places, has_user_frames
from npuprof.analysis.sampled_gaps import NO_PIECES, Pieces, number_at, seen_in
from npuprof.arrays import Bools, Int64
from npuprof.lines.frames import Frame, in_full, is_whole

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
    tables
        Every table of the schema by name, on one clock.
    accounting
        The parts of each step.
    places
        The locations of host rows, whose causes name the launch of each kernel.
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
        self._pieces: dict[int, Pieces] = {}

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
            backward pass), ``idle_ns`` (idle time of the devices meanwhile), ``host_ns`` (over all threads),
            ``launches`` (kernels), ``operators`` (of the framework) and ``peak_bytes`` (memory that it holds at the
            peak of each device, or of the host without a device). What the run does not have is absent. The last row
            has no line, and what belongs to none: device time, idle time and launches add up to those of the run.
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
            "host_ns": (sum((sums for _, sums in self._host()), np.zeros(count + 1, np.int64)), has_host),
            "launches": (_sums(count, of_kernel, ones[: len(kernels)]), not alone),
            "operators": (_sums(count, of_operator, ones[: len(of_operator)]), bool(len(operators))),
            "peak_bytes": (peak, bool(len(self._peak))),
        }
        table: pd.DataFrame = pd.DataFrame(
            {
                "file": pd.array([*lines["file"], None], dtype=object),
                "line": pd.array([*lines["line"], pd.NA], "Int64"),
                **{
                    name: pd.arrays.IntegerArray(np.asarray(sums, np.int64), np.full(count + 1, not is_known))
                    for name, (sums, is_known) in columns.items()
                },
            }
        )
        return table

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
        lines = self._located[0]
        return str(lines["file"].iloc[row]), int(lines["line"].iloc[row])

    def host_of_threads(self) -> pd.DataFrame:
        """Return ``thread_id``, ``row`` of :meth:`table` and ``host_ns``: the time of each thread adds up.

        The time of a thread is that in which an operator, a call or a Python function runs on it; of the thread of a
        cell, in which an operator, a call or a statement does.
        """
        parts = [
            pd.DataFrame({"thread_id": thread, "row": np.arange(len(sums)), "host_ns": sums})
            for thread, sums in self._host()
        ]
        table: pd.DataFrame = (
            pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=["thread_id", "row", "host_ns"])
        )
        return table

    # -- the host --------------------------------------------------------------------------------------------------

    def _host(self) -> Iterator[tuple[int, Int64]]:
        """Yield each thread with its time by line."""
        threads: set[int] = set(np.unique(self._thread).tolist())
        for thread in sorted(threads if self.cell_thread is None else threads | {self.cell_thread}):
            edges = self.edges(thread)
            moments = edges[:-1]
            is_busy = self.is_busy(thread, moments)
            lines, times = self.lines_at(thread, moments), np.diff(edges)
            if len(self._executed[0]):
                times = within(self._executed, moments, edges[1:])
            yield thread, _sums(len(self._located[0]), lines[is_busy], times[is_busy])

    def is_busy(self, thread: int, moments: Int64) -> Bools:
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
        on_thread = self._thread == thread
        start, duration = self._start[on_thread], self._duration[on_thread]
        edges = [start, start + duration, *self._sampled(thread)[:2]]
        if thread == self.cell_thread:
            edges += list(self._statements)
        return _distinct(np.concatenate(edges))

    def _sampled(self, thread: int) -> Pieces:
        """Return the lines that samples saw between the calls of a thread."""
        if thread not in self._pieces:
            samples = self._tables["sampled_lines"]
            chosen = np.flatnonzero((samples["thread_id"] == thread).to_numpy(bool) & (self._located[1][3] >= 0))
            moments, lines = samples["time_ns"].to_numpy(np.int64)[chosen], self._located[1][3][chosen]
            self._pieces[thread] = NO_PIECES
            if len(chosen):
                self._pieces[thread] = seen_in(*self._gaps(thread, moments), moments, lines)
        return self._pieces[thread]

    def _gaps(self, thread: int, moments: Int64) -> tuple[Spans, Int64]:
        """Return when a sampled thread ran no call, and between which lines."""
        is_call = np.flatnonzero(self._thread == thread)
        is_call = is_call[is_call >= self._first]
        starts = self._start[is_call]
        edges = [starts, starts + self._duration[is_call]]
        if thread == self.cell_thread:
            edges += list(self._statements)
        edge = _distinct(np.concatenate(edges))
        if not len(edge) or moments[0] < edge[0]:
            edge = np.append(moments[0], edge)
        if moments[-1] >= edge[-1]:
            edge = np.append(edge, moments[-1] + 1)
        begins, ends = edge[:-1], edge[1:]
        statement = self.statement_at(thread, begins)
        is_gap = (self._row_at(self._calls, thread, begins) < 0) & ((thread != self.cell_thread) | (statement >= 0))
        begins, ends, statement = begins[is_gap], ends[is_gap], statement[is_gap]
        before, after = self._row_at(self._calls, thread, begins - 1), self._following(thread, ends)
        numbers, of_statement = np.append(self._numbers, -1), np.append(self._located[1][1], -1)
        kinds = np.stack((of_statement[statement], numbers[before], numbers[after]))
        return (begins, ends), np.unique(kinds, axis=1, return_inverse=True)[1].reshape(-1).astype(np.int64)

    @cached_property
    def _statements(self) -> Spans:
        """When the statements of the cell began and ended."""
        begins, durations = (
            self._tables["statements"][name].to_numpy(np.int64) for name in ("start_ns", "duration_ns")
        )
        return begins, begins + durations

    def statement_at(self, thread: int, moments: Int64) -> Int64:
        """Return the statement that runs on a thread at each moment, -1 for none."""
        begins, ends = self._statements
        if thread != self.cell_thread or not len(begins):
            return np.full(len(moments), -1, np.int64)
        at = np.searchsorted(begins, moments, side="right") - 1
        return np.where((at >= 0) & (moments < ends[at]), at, -1)

    def _row_at(self, nested: tuple[Nesting, Int64], thread: int, moments: Int64) -> Int64:
        """Return the innermost host row at each moment on a thread, -1 for none."""
        place = nested[0].innermost(moments + 1, np.full(len(moments), thread))
        return np.append(nested[1], -1)[place]

    def _python_at(self, thread: int, moments: Int64) -> Int64:
        """Return the innermost Python call at each moment, -1 for none.

        On the thread of the cell that is none before the first statement: a sampled call seems to begin early.
        """
        python = self._row_at(self._python, thread, moments)
        return np.where((thread == self.cell_thread) & (self.statement_at(thread, moments) < 0), -1, python)

    def lines_at(self, thread: int, moments: Int64) -> Int64:
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
        sampled = number_at(self._sampled(thread), moments)
        return np.where(sampled >= 0, sampled, lines)

    def _following(self, thread: int, moments: Int64) -> Int64:
        """Return the next operator or call with a line that begins on a thread at each moment or later, -1 for none."""
        rows = np.flatnonzero((self._thread == thread) & (self._numbers >= 0))
        rows = rows[rows >= self._first]
        rows = rows[np.argsort(self._start[rows], kind="stable")]
        return np.append(rows, -1)[np.searchsorted(self._start[rows], moments, side="left")]

    # -- the device ------------------------------------------------------------------------------------------------

    def _idle(self) -> Int64:
        """Return the idle time of the devices by line; what has no line is the last."""
        rows, count = self._accounting.intervals, len(self._located[0])
        is_idle = schema.matching(rows["part"], lambda part: part in IDLE)
        starts, ends, lines = self.idle_pieces(self._accounting, is_idle)
        sums = _sums(count, lines, ends - starts)
        sums[-1] += int(rows["duration_ns"].to_numpy(np.int64)[is_idle].sum()) - int(sums.sum())
        return sums

    def idle_pieces(self, accounting: Accounting, is_chosen: Bools) -> tuple[Int64, Int64, Int64]:
        """Return starts, ends and lines (-1 for none) of the pieces of chosen idle intervals that have a position.

        Parameters
        ----------
        accounting
            The steps that the intervals are of.
        is_chosen
            Which of its intervals are meant.
        """
        rows = accounting.intervals
        is_placed = is_chosen & rows["start_ns"].notna().to_numpy(bool)
        is_unknown = is_placed & schema.matching(rows["cause"], lambda cause: cause == UNKNOWN)
        owners = accounting.steps["device_id"].to_numpy(np.int64, na_value=-1)[rows["row"].to_numpy()]
        is_head = schema.matching(rows["part"], lambda part: part == IDLE[0])
        # Before the first task of a profiled cell only the device's work of earlier cells is not known; but no moment
        # of a device is known whose clock cannot be joined with that of the host.
        apart = np.isin(owners, owners[is_unknown & ~is_head])
        is_placed &= ~is_unknown | (is_head & ~apart & bool(len(self._tables["statements"])))
        parts = [(np.zeros(0, np.int64),) * 3]
        if len(self._located[0]):
            placed, owners = rows[is_placed], owners[is_placed]
            starts, durations = (placed[name].to_numpy(np.int64) for name in ("start_ns", "duration_ns"))
            for device in np.unique(owners).tolist():
                chosen = np.flatnonzero(owners == device)
                chosen = chosen[np.argsort(starts[chosen], kind="stable")]
                parts += self._idle_of(device, (starts[chosen], starts[chosen] + durations[chosen]))
        starts, ends, lines = (np.concatenate(column) for column in zip(*parts, strict=True))
        return starts, ends, lines

    def _idle_of(self, device: int, idle: Spans) -> Iterator[tuple[Int64, Int64, Int64]]:
        """Yield the pieces of the idle time of a device with their lines."""
        kernels = self._tables["kernels"]
        rows = np.flatnonzero((kernels["device_id"] == device).to_numpy(bool))
        rows = rows[np.argsort(kernels["start_ns"].to_numpy(np.int64)[rows], kind="stable")]
        following = np.searchsorted(kernels["start_ns"].to_numpy(np.int64)[rows], idle[1], side="left")
        launcher = np.append(self._places.causes.launchers[rows], -1)[following]
        threads = np.where(launcher >= 0, np.append(self._thread, 0)[launcher], self.main_thread)
        for thread in np.unique(threads).tolist():
            spans = idle[0][threads == thread], idle[1][threads == thread]
            edges = self.edges(thread)
            if thread != self.main_thread:
                edges = _distinct(np.concatenate((edges, self.edges(self.main_thread))))
            low, high = (np.append(edges, side) for side in (spans[0][0], spans[1][-1]))
            windows = np.append(low.min(), edges), np.append(edges, high.max())
            starts, ends, _ = pieces(spans, windows)
            running = np.append(self._numbers, -1)[self._row_at(self._calls, thread, starts)]
            running = np.where(running >= 0, running, number_at(self._sampled(thread), starts))
            of_main, of_thread = (self.lines_at(each, starts) for each in (self.main_thread, thread))
            yield starts, ends, np.where(running >= 0, running, np.where(of_main >= 0, of_main, of_thread))

    @cached_property
    def main_thread(self) -> int:
        """The thread of the cell, or else that of the most launches or, without any, of the most host rows."""
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


def _distinct(moments: Int64) -> Int64:
    """Return the distinct moments in order; for so many of them, NumPy's own takes several times as long."""
    ordered = np.sort(moments)
    distinct: Int64 = ordered[np.append(True, ordered[1:] > ordered[:-1])[: len(ordered)]]
    return distinct


def _sums(count: int, lines: Int64, values: Int64) -> Int64:
    """Return the sum of values by line, that of -1 as the last."""
    sums = np.zeros(count + 1, np.int64)
    np.add.at(sums, lines, values)
    return sums


def has_lines(tables: Mapping[str, pd.DataFrame]) -> bool:
    """Return whether a run names code of the user, which is quick to tell."""
    columns = (("operators", "stack"), ("api", "stack"), ("python", "name"), ("allocations", "stack"))
    return bool(len(tables["statements"])) or any(
        has_user_frames(tables[table][column]) for table, column in columns if column in tables[table]
    )

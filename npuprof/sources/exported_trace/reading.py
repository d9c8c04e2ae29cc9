"""Gather the events of a Chrome trace of npuprof as rows of the tables of its runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import numpy as np

from npuprof.sources.base import Decoded
from npuprof.sources.columns.decimals import column_ns
from npuprof.sources.exported_trace.growing_table import GrowingTable
from npuprof.sources.exported_trace.head import Head, Shape
from npuprof.sources.exported_trace.layout import (
    ARGUMENTS,
    CATEGORIES,
    KERNEL,
    KERNEL_CATEGORY,
    NAMES,
    OF_RUN,
    ROW,
    ROWS,
    SAMPLES,
    SERIES,
    argument_of,
)
from npuprof.sources.exported_trace.whole_tables import Gathered, decoded_run
from npuprof.sources.trace.event import Event
from npuprof.sources.trace.events import UNREADABLE, arguments_of
from npuprof.tables.notes import ANY, Notes
from npuprof.tables.schema import SCHEMA

_Row: TypeAlias = dict[str, Any]

_TABLES = {**{category: table for table, category in CATEGORIES.items()}, KERNEL_CATEGORY: "tasks"}
_LATEST_NS = 1 << 62


class ExportedTraceReading:
    """Gathers the events of a trace.

    Attributes
    ----------
    notes
        What was found in the file; each run gets them too.
    """

    def __init__(self, path: Path, heads: Sequence[Head]) -> None:
        self.notes = Notes()
        self._path, self._source = path, path.name
        self._heads = {head.run: head for head in heads}
        self._runs = {head.run: Gathered() for head in heads}
        self._series: dict[tuple[Any, Any], _Row] = {}
        for head in heads:
            gathered = self._runs[head.run]
            for name, shape in head.tables.items():
                if name in SCHEMA:
                    gathered.rows[name] = self._growing(name, shape)
                if name in SAMPLES:
                    gathered.drawn[name] = self._growing(name, shape)
            for name, shape in head.statistics.items():
                gathered.statistics[name] = GrowingTable(shape.columns, self._note_lost)

    def _growing(self, name: str, shape: Shape) -> GrowingTable:
        dtypes = {column.name: column.dtype for column in SCHEMA[name].columns}
        dtypes |= {column: dtype for column, dtype in shape.columns.items() if column not in dtypes}
        return GrowingTable(dtypes, self._note_lost, ARGUMENTS.get(name))

    def _note_lost(self, count: int) -> None:
        self.notes.warning(self._source, "a value is not of the type of its column; taken as absent", count)

    def add(self, events: Sequence[Event]) -> None:
        """Add a batch of events."""
        self.notes.ledger.read(self._source, len(events))
        rows: defaultdict[GrowingTable, list[_Row]] = defaultdict(list)
        lost = others = 0
        for event, arguments, start_ns, duration_ns in self._with_times(events):
            if event.ph == "X" and (table := _TABLES.get(event.cat or "")) is not None:
                arguments["start_ns"], arguments["duration_ns"] = self._at(arguments, start_ns), duration_ns
                rows_of_event = _rows_of_slice(table, event, arguments)
            elif event.ph == "s":
                rows_of_event = [("links", arguments)]
            elif event.ph == "C":
                rows_of_event = self._sample(event, arguments, start_ns)
            elif event.ph == "M" and event.name == SERIES and isinstance(arguments.get("columns"), dict):
                self._series[event.pid, event.tid] = arguments
                continue
            elif event.ph == "M" and event.name == ROWS:
                lost += not self._add_part(arguments)
                continue
            else:  # ends of arrows, names of processes and threads
                others += event.ph == "X"
                continue
            tables_of_rows = [
                self._table(row.get(OF_RUN, 0), name, is_drawn=event.ph == "C") for name, row in rows_of_event
            ]
            is_known = bool(tables_of_rows) and None not in tables_of_rows
            lost += not is_known
            for table_of_row, (_, row) in zip(tables_of_rows, rows_of_event, strict=True):
                if is_known and table_of_row is not None:
                    rows[table_of_row].append(row)
        for growing, some in rows.items():
            growing.add(some)
        self.notes.leave_out(self._source, "an event names no row of the trace's runs", lost, affects=ANY)
        self.notes.leave_out(self._source, "a slice was not written by npuprof", others)
        self.notes.ledger.use(self._source, len(events) - lost - others)

    def _with_times(self, events: Sequence[Event]) -> Iterator[tuple[Event, _Row, int | None, int | None]]:
        """Yield each event with its arguments, and its time and duration in nanoseconds, None for none."""
        try:
            joined = b"[" + b",".join([event.args for event in events]) + b"]"
            arguments: list[_Row] = msgspec.json.decode(joined, type=list[dict[str, Any]])
        except UNREADABLE:
            arguments = [arguments_of(event) for event in events]
        times = []
        for values in ([event.ts for event in events], [event.dur for event in events]):
            times_ns, valid = column_ns(values, exponents=True)
            valid &= np.abs(times_ns) < _LATEST_NS
            times.append([time if good else None for time, good in zip(times_ns.tolist(), valid.tolist(), strict=True)])
        return zip(events, arguments, *times, strict=True)

    def _table(self, run: Any, name: str, *, is_drawn: bool = False) -> GrowingTable | None:
        gathered = self._runs.get(run) if isinstance(run, int) else None
        return None if gathered is None else (gathered.drawn if is_drawn else gathered.rows).get(name)

    def _at(self, arguments: _Row, start_ns: int | None) -> int | None:
        """Return a time in epoch nanoseconds."""
        number = arguments.get(OF_RUN, 0)
        head = self._heads.get(number) if isinstance(number, int) else None
        return None if head is None or start_ns is None else start_ns + int(head.base_ns)

    def _sample(self, event: Event, arguments: _Row, start_ns: int | None) -> list[tuple[str, _Row]]:
        """Return the row of a sample; none if its series is unknown."""
        series = self._series.get((event.pid, event.tid), {})
        table = str(series.get("table"))
        if table not in SAMPLES:
            return []
        names = SAMPLES[table]
        values = arguments if len(names) > 1 else dict.fromkeys(names, next(iter(arguments.values()), None))
        row = {**series["columns"], **values, OF_RUN: series.get("run", 0)}
        return [(table, {**row, "time_ns": self._at(row, start_ns)})]

    def _add_part(self, part: _Row) -> bool:
        """Add rows that are stored as columns; return whether they could be added."""
        run, table, statistic, numbers, columns = (
            part.get(name) for name in ("run", "table", "statistic", "rows", "columns")
        )
        growing = self._table(run, str(table))
        if statistic is not None and isinstance(run, int) and run in self._runs:
            growing = self._runs[run].statistics.get(str(statistic))
        if growing is None or not isinstance(numbers, list) or not isinstance(columns, dict):
            return False
        if any(not isinstance(values, list) or len(values) != len(numbers) for values in columns.values()):
            return False
        name = str(table)
        keys = [ROW, *(argument_of(name, str(column)) for column in columns)]
        growing.add([dict(zip(keys, values, strict=True)) for values in zip(numbers, *columns.values(), strict=True)])
        return True

    def finish(self) -> list[Decoded]:
        """Return the runs, each with what was found in the file among its notes."""
        return [decoded_run(head, self._path, self._runs[run], self.notes) for run, head in self._heads.items()]


def _rows_of_slice(table: str, event: Event, arguments: _Row) -> list[tuple[str, _Row]]:
    """Return the rows that a slice shows: one of its table, and for a task that of its kernel."""
    if (named := NAMES.get(table)) is not None:
        arguments.setdefault(argument_of(table, named), event.name or None)
    rows_of_event = [(table, arguments)] if ROW in arguments else []
    kernel = arguments.get(KERNEL) if table == "tasks" else None
    # What a kernel does not have itself is that of its task.
    return [*rows_of_event, ("kernels", {**arguments, **kernel})] if isinstance(kernel, dict) else rows_of_event

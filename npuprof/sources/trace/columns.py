"""Collect the events of a timeline in columns: slices by layout, flows, counters, names of processes and threads.

Only text is converted: times become exact nanoseconds, names become codes.

Source: sources/RESULTS.md section 2.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from npuprof.arrays import Bools, Int32, Int64, Records
from npuprof.sources.columns.builders import MAX_NAME, Codebook, GatheredColumns, floats, whole_numbers
from npuprof.sources.columns.decimals import MAX_DURATION_US, MAX_TIME_NS, US_TO_NS, column_ns, scaled, scaled_one
from npuprof.sources.columns.repetitions import REPEATED, repetitions
from npuprof.sources.trace.event import Event
from npuprof.sources.trace.events import UNREADABLE
from npuprof.sources.trace.layouts import VENDOR, Layouts, SliceLayout, lost_arguments
from npuprof.sources.trace.mending import decoded_mended
from npuprof.tables.notes import ANY, Notes

LAST_THREAD = 1 << 62
"""Thread numbers from here on are replaced."""

_EXACT_FLOAT_US = 4e12  # below it, a float64 of microseconds is exact to a nanosecond
_RELATIVE_BEFORE_NS = 10**17  # 1973; a lower time is not relative to the epoch
_MAX_EVENTS = 100_000_000  # twenty times what a front end writes in one batch


_TABLES_OF = {
    "annotation": ("marks", "steps"),
    "api": ("api",),
    "call": ("api",),
    "communication": ("communication",),
    "iteration": ("steps",),
    "mark": ("marks",),
    "memory": ("allocations", "memory"),
    "operator": ("operators",),
    "python": ("python",),
    "queue": ("operators",),
    "task": ("kernels", "tasks"),
}
"""The tables that lack rows without slices of a layout; of other layouts, any."""


class Trace:
    """A timeline in columns.

    Attributes
    ----------
    slices
        By layout: ``start_ns``, ``duration_ns``, ``name``, ``lane``, ``category`` (codes) and the layout's columns.
    flows
        ``start_ns``, ``lane``, ``phase`` (1 begin, 0 step, -1 end), ``category``, ``id`` (codes).
    counters
        A row per number of an event: ``start_ns``, ``pid``, ``name``, ``key`` (codes), ``value``, ``event``.
    lane_book, pid_book
        ``(pid, tid)`` by lane code, process number by its code.
    processes, labels, sort_indexes, threads
        Name, label and sort index by pid; thread name by ``(pid, tid)``.
    events
        The number of events.
    """

    def __init__(self) -> None:
        shared = {"name": Codebook(), "category": Codebook()}
        self.slices: defaultdict[str, GatheredColumns] = defaultdict(lambda: GatheredColumns(shared))
        self.flows = GatheredColumns(shared)
        self.counters = GatheredColumns(shared)
        self.lane_book = Codebook()
        self.pid_book = Codebook()
        self.processes: dict[Any, str] = {}
        self.labels: dict[Any, str] = {}
        self.sort_indexes: dict[Any, int] = {}
        self.threads: dict[tuple[Any, Any], str] = {}
        self.events = 0

    @property
    def lanes(self) -> list[tuple[Any, Any]]:
        """``(pid, tid)`` by lane code."""
        return self.lane_book.values


def gather(
    batches: Iterable[list[Event]], notes: Notes, source: str, layouts: Layouts = VENDOR, base_ns: int = 0
) -> Trace:
    """Collect batches of events."""
    trace = Trace()
    gatherer = _Gatherer(trace, notes, source, layouts, base_ns)
    for batch in batches:
        if trace.events + len(batch) > _MAX_EVENTS:
            notes.error(source, f"it holds more than {_MAX_EVENTS} events; the rest is not read")
            break
        trace.events += len(batch)
        if batch:
            gatherer.add(batch)
    gatherer.finish()
    notes.ledger.read(source, trace.events)
    return trace


@dataclass
class _Batch:
    """Events, with the columns that every kind of event has."""

    events: list[Event]
    kind: Int32
    name: Int32
    start_ns: Int64
    timed: Bools

    def chosen(self, rows: npt.NDArray[np.intp]) -> list[Event]:
        """Return the events at the given rows."""
        return list(map(self.events.__getitem__, rows.tolist()))


@dataclass
class _Kinds:
    """Properties of each kind (phase, category, process, thread), looked up once; lists are indexed by kind.

    `groups` are sets of kinds that are collected together.
    """

    layouts: Layouts
    book: Codebook = field(default_factory=Codebook)
    groups: Codebook = field(default_factory=Codebook)
    group: list[int] = field(default_factory=list)
    category: list[int] = field(default_factory=list)
    phase: list[int] = field(default_factory=list)
    lane: list[int] = field(default_factory=list)
    pid: list[int] = field(default_factory=list)
    _arrays: dict[str, Int32] = field(default_factory=dict)

    def add(self, trace: Trace, phase: str, category: str | None, pid: Any, tid: Any) -> None:
        """Add a new kind."""
        on_lane = phase in _SLICE_PHASES or phase in _FLOW_PHASES
        self.group.append(self.groups.code(_group_of(self.layouts, phase, category, pid)))
        self.category.append(trace.flows.books["category"].code(category if phase in _SLICE_PHASES else category or ""))
        self.phase.append(_FLOW_PHASES.get(phase, 0))
        self.lane.append(trace.lane_book.code((pid, tid)) if on_lane else -1)
        self.pid.append(trace.pid_book.code(pid) if phase == "C" else -1)

    def of(self, name: str, kinds: Int32) -> Int32:
        """Return a property of each of these kinds."""
        values: list[int] = getattr(self, name)
        known = self._arrays.get(name)
        if known is None or len(known) < len(values):
            known = self._arrays[name] = np.array(values, np.int32)
        return known[kinds]


def _group_of(layouts: Layouts, phase: str, category: str | None, pid: Any) -> Hashable:
    """Return the phase, and for slices the layout, or category and process if only arguments determine it."""
    if phase not in _SLICE_PHASES:
        return ("flow" if phase in _FLOW_PHASES else phase,)
    layout = layouts.known(category)
    return (phase, category, pid) if layout is None else (phase, layout.name)


def _is_no_thread(tid: Any) -> bool:
    return isinstance(tid, float) or (isinstance(tid, int) and abs(tid) >= LAST_THREAD)


class _Gatherer:
    """Appends batches of events to a trace."""

    def __init__(self, trace: Trace, notes: Notes, source: str, layouts: Layouts, base_ns: int) -> None:
        self._trace, self._notes, self._source = trace, notes, source
        self._layouts, self._base_ns = layouts, base_ns
        self._kinds = _Kinds(layouts)
        self._float_times = 0
        self._relative = False
        self._events = 0

    def add(self, events: list[Event]) -> None:
        """Append events of any kinds."""
        count = len(events)
        kind = self._kinds.book.codes(map(_KIND, events), count)
        self._look_up(kind)
        name = self._trace.flows.books["name"].codes(map(_NAME, events), count)
        batch = _Batch(events, kind, name, *self._times(list(map(_TIME, events))))
        group = self._kinds.of("group", kind)
        order = np.argsort(group, kind="stable")
        starts = np.flatnonzero(np.diff(group[order], prepend=-1))
        keys = self._kinds.groups.values
        for rows in np.split(order, starts[1:]):
            phase = keys[group[rows[0]]][0]
            if phase == "M":
                self._add_metadata(batch.chosen(rows))
            elif phase in _SLICE_PHASES:
                self._add_slices(phase, batch, self._timed_rows(batch, rows))
            elif phase == "flow":
                self._add_flows(batch, self._timed_rows(batch, rows))
            elif phase == "C":
                self._add_counters(batch, self._timed_rows(batch, rows))
            else:
                self._notes.leave_out(self._source, f"an event of phase {phase[:8]!r} is of an unknown kind", len(rows))

    def _look_up(self, kind: Int32) -> None:
        """Register new kinds."""
        known, book = len(self._kinds.group), self._kinds.book
        if int(kind.max()) >= known:
            for key in book.values[known:]:
                self._kinds.add(self._trace, *key)

    def finish(self) -> None:
        """Leave out repeated slices and those without a time, and add notes on the times and lanes that were read."""
        self._leave_out_untimed()
        for name, slices in self._trace.slices.items():
            if len(slices) and name not in _MAY_REPEAT:
                repeated = repetitions(slices["start_ns"], slices.at, slices["duration_ns"] > 0)
                if repeated.any():
                    slices.keep(~repeated)
                    self._notes.leave_out(self._source, REPEATED, int(np.count_nonzero(repeated)))
        if self._float_times:
            self._notes.warning(self._source, "times are floats: they are exact only to 250 ns", self._float_times)
        if self._relative:
            self._notes.warning(self._source, "times do not count from 1970 (an uptime or relative clock)")
        lanes = self._trace.lanes
        unplaced = [lane for lane, (pid, tid) in enumerate(lanes) if pid is None or tid is None]
        misnumbered = [lane for lane, (_, tid) in enumerate(lanes) if _is_no_thread(tid)]
        unnamed = [code for code, name in enumerate(self._trace.flows.books["name"].values) if name == ""]
        for message, column, codes in (
            ("a slice has no process or no thread", "lane", unplaced),
            ("a slice has a thread number that is too large, or no number; numbered here", "lane", misnumbered),
            ("a slice has no name", "name", unnamed),
        ):
            if codes:
                counts = (np.isin(slices[column], codes).sum() for slices in self._trace.slices.values() if len(slices))
                self._warn(message, int(sum(counts)))

    def _leave_out_untimed(self) -> None:
        """Leave out slices whose time was not recorded: they begin at the origin of the times.

        Those with a duration may be the first of all, and so may one without, unless all others are far from there.
        """
        origin, untimed, others = self._base_ns, {}, [1 << 62]
        for name, slices in self._trace.slices.items():
            if len(slices):
                begins = slices["start_ns"]
                untimed[name] = begins == origin
                others.append(int(begins[~untimed[name]].min(initial=1 << 62)))
        is_far = _FAR_NS <= min(others) - origin < 1 << 61
        if not is_far:
            for name in untimed:
                untimed[name] &= self._trace.slices[name]["duration_ns"] == 0
        count = sum(int(rows.sum()) for rows in untimed.values())
        if not count or (count == 1 and not is_far):
            return
        lasts = any(self._trace.slices[name]["duration_ns"][rows].any() for name, rows in untimed.items())
        message = f"the time of an event was not recorded ({'ts is' if lasts else 'ts and dur are'} 0)"
        affected: set[str] = set()
        for name, rows in untimed.items():
            if rows.any():
                self._trace.slices[name].keep(~rows)
                affected.update(_TABLES_OF.get(name, ANY))
        affects = ANY if affected >= {*ANY} else tuple(sorted(affected))
        self._notes.leave_out(self._source, message, count, affects=affects)
        if len(self._trace.flows):
            bound = self._trace.flows["start_ns"] == origin
            self._trace.flows.keep(~bound)
            self._notes.ledger.use(self._source, int(bound.sum()))

    def _add_slices(self, phase: str, batch: _Batch, rows: npt.NDArray[np.intp]) -> None:
        if not len(rows):
            return
        events = batch.chosen(rows)
        layout = self._layouts.of(events[0].cat, events)
        columns = self._trace.slices[layout.name]
        columns.add(
            {
                "start_ns": batch.start_ns[rows],
                "duration_ns": self._durations(list(map(_DURATION, events)) if phase == "X" else [0] * len(events)),
                "name": batch.name[rows],
                "lane": self._kinds.of("lane", batch.kind[rows]),
                "category": self._kinds.of("category", batch.kind[rows]),
                **self._arguments(layout, columns, events),
            }
        )

    def _arguments(self, layout: SliceLayout, columns: GatheredColumns, events: list[Event]) -> dict[str, Records]:
        if not layout.fields:
            return {}
        args = self._decode(events, layout.args)
        decoded: dict[str, Records] = {}
        for name in layout.fields:
            values = list(map(attrgetter(name), args))
            if name in layout.raw:
                decoded[name] = columns.books[name].codes(map(layout.raw[name], map(bytes, values)), len(values))
            elif name in layout.names:
                decoded[name] = columns.books[name].codes(values, len(values))
            else:
                decoded[name] = (floats if name in layout.floats else whole_numbers)(values, self._note_lost_number)
        renamed, without = lost_arguments(layout, events, decoded)
        self._warn("an argument of an event has an unknown name; taken as absent", renamed)
        self._warn("an event has no arguments, unlike others of its kind", without)
        return decoded

    def _note_lost_number(self, count: int) -> None:
        self._warn("an argument of an event is no number, or too large a number; taken as absent", count)

    def _warn(self, message: str, count: int) -> None:
        if count:
            self._notes.warning(self._source, message, count)

    def _decode(self, events: list[Event], kind: Any) -> list[Any]:
        """Decode arguments in one call, or event by event if some cannot be decoded."""
        try:
            joined = b",".join(map(_ARGS, events))  # Raw has the buffer protocol
            return list(msgspec.json.decode(b"[" + joined + b"]", type=list[kind]))
        except UNREADABLE:
            pass  # counted below
        decoder, decoded, lost_count = msgspec.json.Decoder(kind), [], 0
        for raw in map(_ARGS, events):
            try:
                decoded.append(decoded_mended(bytes(raw), decoder.decode))
            except UNREADABLE:
                decoded.append(decoder.decode(b"{}"))
                lost_count += 1
        if lost_count:
            self._notes.warning(self._source, "the arguments of an event cannot be read", lost_count)
        return decoded

    def _add_flows(self, batch: _Batch, rows: npt.NDArray[np.intp]) -> None:
        flows, kinds = self._trace.flows, self._kinds
        flows.add(
            {
                "start_ns": batch.start_ns[rows],
                "lane": kinds.of("lane", batch.kind[rows]),
                "phase": kinds.of("phase", batch.kind[rows]),
                "category": kinds.of("category", batch.kind[rows]),
                "id": flows.books["id"].codes(map(str, map(_ID, batch.chosen(rows))), len(rows)),
            }
        )

    def _add_counters(self, batch: _Batch, rows: npt.NDArray[np.intp]) -> None:
        counters = self._trace.counters
        args = self._decode(batch.chosen(rows), dict[str, float | str | bool | None])
        sizes = np.fromiter(map(len, args), np.int64, len(args))
        self._notes.leave_out(
            self._source, "a counter event holds no value", int(np.count_nonzero(sizes == 0)), affects=("counters",)
        )
        number = np.arange(self._events, self._events + len(rows))
        self._events += len(rows)
        repeated = np.repeat(rows, sizes)
        values = floats(list(chain.from_iterable(map(dict.values, args))))
        if absent := int(np.count_nonzero(np.isnan(values))):
            self._notes.warning(self._source, "the value of a counter is no number", absent)
        counters.add(
            {
                "start_ns": batch.start_ns[repeated],
                "pid": self._kinds.of("pid", batch.kind[repeated]),
                "name": batch.name[repeated],
                "key": counters.books["key"].codes(chain.from_iterable(args), len(repeated)),
                "value": values,
                "event": np.repeat(number, sizes),
            }
        )

    def _add_metadata(self, events: list[Event]) -> None:
        trace = self._trace
        self._notes.ledger.use(self._source, len(events))
        for event, args in zip(events, self._decode(events, dict[str, Any]), strict=True):
            value = args.get(_METADATA.get(event.name, ""))
            is_number = event.name.endswith("sort_index")
            if not isinstance(value, int if is_number else (str, int, float)) or isinstance(value, bool):
                problem = "is unknown or has no value" if value is None else "has a value of another type"
                self._notes.warning(self._source, f"metadata {event.name[:32]!r} {problem}")
            elif event.name == "process_name":
                trace.processes[event.pid] = str(value)[:MAX_NAME]
            elif event.name == "process_labels":
                trace.labels[event.pid] = str(value)[:MAX_NAME]
            elif event.name == "process_sort_index":
                trace.sort_indexes[event.pid] = int(value)
            elif event.name == "thread_name":
                trace.threads[event.pid, event.tid] = str(value)[:MAX_NAME]

    def _times(self, values: list[Any]) -> tuple[Int64, Bools]:
        """Return exact starts, and a mask of the valid ones."""
        kinds = set(map(type, values))
        start_ns, valid = scaled(values, US_TO_NS, exponents=False) if kinds == {str} else column_ns(values)
        if not valid.all():
            self._read_exponents(values, start_ns, valid)
        valid &= np.abs(start_ns) < MAX_TIME_NS
        start_ns += self._base_ns
        if float in kinds:
            self._float_times += sum(type(value) is float and abs(value) > _EXACT_FLOAT_US for value in values)
        return start_ns, valid

    def _read_exponents(self, values: list[Any], start_ns: Int64, valid: Bools) -> None:
        """Read times such as ``1.700000000123456e+15`` in place; those that have lost milliseconds stay unknown."""
        coarse = 0
        for row in np.flatnonzero(~valid).tolist():
            match = _EXPONENT.fullmatch(text) if isinstance(text := values[row], str) else None
            lost_digits = int(match[2]) - len(match[1] or "") if match else _MOST_LOST_DIGITS + 1
            if lost_digits <= _MOST_LOST_DIGITS and (exact := scaled_one(text, US_TO_NS)) is not None:
                start_ns[row], valid[row] = exact, True
                coarse += lost_digits > 0
        self._warn("a time is written with an exponent and has lost its last digits: it is exact only to 1 ms", coarse)

    def _timed_rows(self, batch: _Batch, rows: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
        """Return the rows with a time; events without a time are left out."""
        timed = batch.timed[rows]
        if not timed.all():
            self._notes.leave_out(self._source, "an event has no readable time", int((~timed).sum()))
            rows = rows[timed]
        self._relative |= bool((batch.start_ns[rows] < _RELATIVE_BEFORE_NS).any())
        return rows

    def _durations(self, values: list[Any]) -> Int64:
        if str in set(map(type, values)):
            duration_ns, valid = column_ns(values, exponents=True)
            valid &= duration_ns < MAX_DURATION_US * 1000
        else:
            # Durations below 104 days are exact in a float64 of microseconds; times are not.
            duration_us = floats(values)
            valid = np.abs(duration_us) < MAX_DURATION_US  # false for NaN too
            duration_ns = np.rint(np.where(valid, duration_us, 0.0) * 1000.0).astype(np.int64)
        bad = ~valid | (duration_ns < 0)
        if bad.any():
            self._notes.warning(self._source, "an event has no valid duration; taken as 0", int(bad.sum()))
        duration_ns[bad] = 0
        return duration_ns


_EXPONENT = re.compile(r"-?\d+(?:\.(\d*))?[eE]([-+]?\d{1,2})")
_MOST_LOST_DIGITS = 3  # of microseconds
_FAR_NS = 3_600_000_000_000  # no run begins so long after the origin of its times
_MAY_REPEAT = ("mark", "iteration")  # the files of a model's iterations repeat them
_SLICE_PHASES = ("X", "i")  # an instant of MindSpore is an operator of duration 0
_FLOW_PHASES = {"s": 1, "t": 0, "f": -1}
_METADATA = {
    "process_name": "name",
    "process_labels": "labels",
    "process_sort_index": "sort_index",
    "thread_name": "name",
    "thread_sort_index": "sort_index",
}  # the argument of each event
# Read a field of a million events without a bytecode loop.
_KIND = attrgetter("ph", "cat", "pid", "tid")
_NAME, _TIME, _DURATION, _ID, _ARGS = map(attrgetter, ("name", "ts", "dur", "id", "args"))

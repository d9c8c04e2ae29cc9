"""Gather the events of a timeline in columns: slices by layout, flows, counters, and the names of processes.

Nothing is interpreted here beyond the text: times become exact nanoseconds, names become codes.

Source: formats/results.md section 2.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from npuprof.notes import Notes
from npuprof.sources.columns import ABSENT, Array, Codes
from npuprof.sources.decimals import Ints, column_ns
from npuprof.sources.trace_json import Event
from npuprof.sources.trace_layouts import Layout, layout_of

_MAX_NAME = 64 << 10  # the longest text kept of a name, a stack or shapes
_MAX_DURATION_US = 1e15  # 30 years; beyond it a duration is damage
_MAX_TIME_NS = 4 * 10**18  # 2096; beyond it a time is damage
_EXACT_FLOAT_US = 4e12  # up to here a float64 of microseconds steps by less than a nanosecond
_RELATIVE_BEFORE_NS = 10**17  # 1973: a clock below it does not count from the epoch


class Codebook:
    """Distinct values and their numbers, in the order first seen."""

    def __init__(self) -> None:
        self._numbers: defaultdict[Any, int] = defaultdict(count().__next__, {None: -1})

    def codes(self, values: Iterable[Hashable]) -> Codes:
        """Give each value its number; None is -1."""
        return np.fromiter(map(self._numbers.__getitem__, values), np.int32)

    @property
    def values(self) -> list[Any]:
        """Distinct values by number."""
        return list(self._numbers)[1:]

    def texts(self) -> list[str]:
        """Give the distinct values as text, cut where they are longer than any name is; still distinct."""
        return [
            text if len(text) <= _MAX_NAME else f"{text[:_MAX_NAME]}... (cut, #{number})"
            for number, text in enumerate(map(str, self.values))
        ]


class Columns:
    """Columns of unlike rows gathered batch by batch, each in one array at the end."""

    def __init__(self) -> None:
        self._parts: defaultdict[str, list[Array]] = defaultdict(list)
        self.books: defaultdict[str, Codebook] = defaultdict(Codebook)

    def add(self, columns: dict[str, Array]) -> None:
        """Append a batch: arrays of one length by column name, the same names every time."""
        for name, values in columns.items():
            self._parts[name].append(values)

    def __getitem__(self, name: str) -> Array:
        parts = self._parts[name]
        if len(parts) > 1:
            parts[:] = [np.concatenate(parts)]
        return parts[0]

    def __len__(self) -> int:
        return sum(map(len, self._parts["start_ns"])) if self._parts else 0

    def names(self, column: str) -> list[str]:
        """Give the distinct texts that a column of codes refers to."""
        return self.books[column].texts()


@dataclass
class Trace:
    """A timeline in columns.

    Attributes
    ----------
    slices
        By layout name: ``start_ns``, ``duration_ns``, ``name``, ``lane``, ``category`` (codes) and the
        columns of the layout.
    flows
        ``start_ns``, ``lane``, ``phase`` (1 begin, 0 step, -1 end), ``category``, ``id`` (codes).
    counters
        A row for each number of a counter event: ``start_ns``, ``pid``, ``name``, ``key`` (codes), ``value``,
        ``event`` (its number).
    lanes
        ``(pid, tid)`` by lane code.
    processes, labels, sort_indexes
        Name, label and sort index of a process by pid.
    threads
        Name of a thread by ``(pid, tid)``.
    """

    slices: defaultdict[str, Columns] = field(default_factory=lambda: defaultdict(Columns))
    flows: Columns = field(default_factory=Columns)
    counters: Columns = field(default_factory=Columns)
    lane_book: Codebook = field(default_factory=Codebook)
    pid_book: Codebook = field(default_factory=Codebook)
    processes: dict[Any, str] = field(default_factory=dict)
    labels: dict[Any, str] = field(default_factory=dict)
    sort_indexes: dict[Any, int] = field(default_factory=dict)
    threads: dict[tuple[Any, Any], str] = field(default_factory=dict)
    events: int = 0

    @property
    def lanes(self) -> list[tuple[Any, Any]]:
        """``(pid, tid)`` by lane code."""
        return self.lane_book.values


def gather(batches: Iterable[list[Event]], notes: Notes, source: str) -> Trace:
    """Gather batches of events.

    Parameters
    ----------
    batches
        What :func:`npuprof.sources.trace_json.read_events` gives.
    notes, source
        Where events without a time or of unknown kind are counted, and the file's name.
    """
    trace = Trace()
    gatherer = _Gatherer(trace, notes, source)
    for batch in batches:
        trace.events += len(batch)
        groups: defaultdict[tuple[str, str | None, Any], list[Event]] = defaultdict(list)
        for key, event in zip(map(_GROUP, batch), batch, strict=True):
            groups[key].append(event)
        for (phase, category, pid), events in groups.items():
            gatherer.add(phase, category, pid, events)
    gatherer.finish()
    return trace


class _Gatherer:
    """Puts groups of events of one phase, category and process into a trace."""

    def __init__(self, trace: Trace, notes: Notes, source: str) -> None:
        self._trace, self._notes, self._source = trace, notes, source
        self._float_times = 0
        self._relative = False
        self._events = 0

    def add(self, phase: str, category: str | None, pid: Any, events: list[Event]) -> None:
        """Take in events of one phase, category and process."""
        if phase == "X":
            self._add_slices(category, events)
        elif phase in _FLOW_PHASES:
            self._add_flows(phase, category, events)
        elif phase == "C":
            self._add_counters(pid, events)
        elif phase == "M":
            self._add_metadata(events)
        else:
            self._notes.info(self._source, f"events of phase {phase[:8]!r} are not read", len(events))

    def finish(self) -> None:
        if self._float_times:
            self._notes.warning(self._source, "times are floats: they are exact only to 250 ns", self._float_times)
        if self._relative:
            self._notes.warning(self._source, "times do not count from 1970 (an uptime or relative clock)")

    def _add_slices(self, category: str | None, events: list[Event]) -> None:
        layout = layout_of(category, events)
        columns = self._trace.slices[layout.name]
        start_ns, events = self._times(events)
        data: dict[str, Array] = {
            "start_ns": start_ns,
            "duration_ns": self._durations(list(map(_DURATION, events))),
            "name": columns.books["name"].codes(map(_NAME, events)),
            "lane": self._lanes(events),
            "category": np.repeat(columns.books["category"].codes([category]), len(events)),
        }
        data.update(self._arguments(layout, columns, events))
        columns.add(data)

    def _arguments(self, layout: Layout, columns: Columns, events: list[Event]) -> dict[str, Array]:
        if not layout.fields:
            return {}
        args = self._decode(events, layout.args)
        found: dict[str, Array] = {}
        for name in layout.fields:
            values = list(map(attrgetter(name), args))
            if name in layout.names:
                found[name] = columns.books[name].codes(values)
            else:
                found[name] = floats(values) if name in layout.floats else whole_numbers(values)
        return found

    def _decode(self, events: list[Event], kind: Any) -> list[Any]:
        """Decode arguments in one call; one by one where some do not fit."""
        try:
            joined = b",".join(map(_ARGS, events))  # Raw has the buffer protocol
            return list(msgspec.json.decode(b"[" + joined + b"]", type=list[kind]))
        except (msgspec.DecodeError, RecursionError):
            pass  # the bad ones are found, and counted, below
        decoder, decoded, lost = msgspec.json.Decoder(kind), [], 0
        for raw in map(_ARGS, events):
            try:
                decoded.append(decoder.decode(raw))
            except (msgspec.DecodeError, RecursionError):
                decoded.append(decoder.decode(b"{}"))
                lost += 1
        self._notes.warning(self._source, "the arguments of an event cannot be read", lost)
        return decoded

    def _add_flows(self, phase: str, category: str | None, events: list[Event]) -> None:
        flows = self._trace.flows
        start_ns, events = self._times(events)
        flows.add(
            {
                "start_ns": start_ns,
                "lane": self._lanes(events),
                "phase": np.full(len(events), _FLOW_PHASES[phase], np.int8),
                "category": np.repeat(flows.books["category"].codes([category or ""]), len(events)),
                "id": flows.books["id"].codes(map(str, map(_ID, events))),
            }
        )

    def _add_counters(self, pid: Any, events: list[Event]) -> None:
        counters = self._trace.counters
        start_ns, events = self._times(events)
        args = self._decode(events, dict[str, float | str | bool | None])
        sizes = np.fromiter(map(len, args), np.int64, len(args))
        number = np.arange(self._events, self._events + len(events))
        self._events += len(events)
        counters.add(
            {
                "start_ns": np.repeat(start_ns, sizes),
                "pid": np.repeat(self._trace.pid_book.codes([pid]), sizes.sum()),
                "name": np.repeat(counters.books["name"].codes(map(_NAME, events)), sizes),
                "key": counters.books["key"].codes(chain.from_iterable(args)),
                "value": floats(list(chain.from_iterable(map(dict.values, args)))),
                "event": np.repeat(number, sizes),
            }
        )

    def _add_metadata(self, events: list[Event]) -> None:
        trace = self._trace
        for event, args in zip(events, self._decode(events, dict[str, Any]), strict=True):
            if event.name == "process_name":
                trace.processes[event.pid] = str(args.get("name", ""))[:_MAX_NAME]
            elif event.name == "process_labels":
                trace.labels[event.pid] = str(args.get("labels", ""))[:_MAX_NAME]
            elif event.name == "process_sort_index" and isinstance(args.get("sort_index"), int):
                trace.sort_indexes[event.pid] = args["sort_index"]
            elif event.name == "thread_name":
                trace.threads[event.pid, event.tid] = str(args.get("name", ""))[:_MAX_NAME]

    def _lanes(self, events: list[Event]) -> Codes:
        return self._trace.lane_book.codes(map(_LANE, events))

    def _times(self, events: list[Event]) -> tuple[Ints, list[Event]]:
        """Give exact starts, and the events that have one."""
        values = list(map(_TIME, events))
        start_ns, valid = column_ns(values)
        valid &= np.abs(start_ns) < _MAX_TIME_NS
        kinds = set(map(type, values))
        if float in kinds:
            self._float_times += sum(type(value) is float and abs(value) > _EXACT_FLOAT_US for value in values)
        if not valid.all():
            self._notes.warning(self._source, "an event has no readable time and is left out", int((~valid).sum()))
            events = [event for event, good in zip(events, valid.tolist(), strict=True) if good]
            start_ns = start_ns[valid]
        self._relative |= bool(len(start_ns)) and bool((start_ns < _RELATIVE_BEFORE_NS).any())
        return start_ns, events

    def _durations(self, values: list[Any]) -> Ints:
        if str in set(map(type, values)):
            duration_ns, valid = column_ns(values, exponents=True)
            valid &= duration_ns < _MAX_DURATION_US * 1000
        else:
            # A duration of less than 104 days is exact in a float64 of microseconds; only times are not.
            duration_us = floats(values)
            valid = np.abs(duration_us) < _MAX_DURATION_US  # false for NaN too
            duration_ns = np.rint(np.where(valid, duration_us, 0.0) * 1000.0).astype(np.int64)
        bad = ~valid | (duration_ns < 0)
        if bad.any():
            self._notes.warning(self._source, "an event has no valid duration; taken as 0", int(bad.sum()))
        duration_ns[bad] = 0
        return duration_ns


_FLOW_PHASES = {"s": 1, "t": 0, "f": -1}
# Read a field of a million events without a bytecode loop.
_GROUP = attrgetter("ph", "cat", "pid")
_LANE = attrgetter("pid", "tid")
_NAME, _TIME, _DURATION, _ID, _ARGS = map(attrgetter, ("name", "ts", "dur", "id", "args"))


def whole_numbers(values: Sequence[Any]) -> Ints:
    """Give an int64 array of numbers or digits; :data:`ABSENT` where there is none or it does not fit."""
    kinds = set(map(type, values))
    if kinds == {type(None)}:
        return np.full(len(values), ABSENT, np.int64)
    if kinds <= {int, type(None)}:
        try:
            return np.array(values if len(kinds) < 2 else [ABSENT if v is None else v for v in values], dtype=np.int64)
        except OverflowError:
            pass  # one does not fit: read one by one
    return np.array([_whole(value) for value in values], dtype=np.int64)


def _whole(value: Any) -> int:
    if isinstance(value, str):
        try:
            value = int(value) if len(value) <= 20 else None
        except ValueError:
            return ABSENT
    if isinstance(value, float):
        value = int(value) if value.is_integer() else None
    return value if isinstance(value, int) and ABSENT < value <= -(ABSENT + 1) else ABSENT


def floats(values: Sequence[Any]) -> npt.NDArray[np.float64]:
    """Give a float64 array of numbers or their texts; NaN where there is none."""
    if str in set(map(type, values)):
        values = [_float(value) for value in values]
    return np.array(values, dtype=np.float64)


def _float(value: Any) -> float | None:
    try:
        return None if value is None else float(value)
    except ValueError:
        return None

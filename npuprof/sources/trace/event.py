"""Events of a timeline, and files with several JSON documents: an export appended to an earlier export.

An event that a later document repeats is counted once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, islice, pairwise

import msgspec
import numpy as np

from npuprof.arrays import Bools, Int64, first_rows
from npuprof.tables.notes import Notes


class Event(msgspec.Struct, gc=False):
    """An event of the file; `args` are undecoded bytes."""

    ph: str
    name: str = ""
    pid: int | str | float | None = None
    tid: int | str | float | None = None
    ts: str | int | float | None = None
    dur: int | float | str | None = None
    cat: str | None = None
    id: int | str | float | None = None
    args: msgspec.Raw = msgspec.Raw(b"{}")


class Documents:
    """Iterator that yields each event of a file once.

    A file with one document, the usual case, needs no memory; at the start of a second document, `again` rereads the
    earlier events. Repeated events are counted in `notes` under the file name `source`.
    """

    def __init__(self, again: Callable[[], Iterator[list[Event]]], notes: Notes, source: str) -> None:
        self._again, self._notes, self._source = again, notes, source
        self._events_before = 0
        self._documents = 1
        # sorted keys of earlier documents; each array is less than half as long as its predecessor
        self._earlier: list[Int64] = []
        self._current: list[Int64] = []  # keys of the current document
        self._repeated = 0

    def once(self, events: list[Event], begins: list[int]) -> list[Event]:
        """Return the events of a batch that no earlier document holds; `begins` are the starts of documents in it."""
        if not begins and self._documents == 1:
            self._events_before += len(events)
            return events
        kept_events: list[Event] = []
        bounds = [0, *begins, len(events)]
        for number, (start, end) in enumerate(pairwise(bounds)):
            if number:
                self._begin(start)
            part = events[start:end]
            keys = _keys(part)
            if self._documents > 1:
                fresh = ~self._are_earlier(keys)
                self._repeated += len(part) - int(fresh.sum())
                self._current.append(keys[fresh])
                kept_events.extend(part[place] for place in np.flatnonzero(fresh).tolist())
            else:
                kept_events.extend(part)
        return kept_events

    def note(self) -> None:
        """Note the number of documents and of repeated events."""
        if self._documents > 1:
            self._notes.warning(
                self._source, f"the file holds {self._documents} documents one after another, which are read as one"
            )
            self._notes.ledger.read(self._source, self._repeated)
            self._notes.leave_out(
                self._source,
                "an event of a later document repeats an earlier one",
                self._repeated,
                severity="info",
            )

    def _begin(self, place: int) -> None:
        if self._documents == 1:
            before = islice(chain.from_iterable(self._again()), self._events_before + place)
            while batch := list(islice(before, 100_000)):
                self._current.append(_keys(batch))
        self._documents += 1
        self._earlier.append(np.unique(np.concatenate([np.empty(0, np.int64), *self._current])))
        self._current = []
        while len(self._earlier) > 1 and 2 * len(self._earlier[-1]) >= len(self._earlier[-2]):
            self._earlier[-2:] = [np.union1d(*self._earlier[-2:])]

    def _are_earlier(self, keys: Int64) -> Bools:
        result = np.zeros(len(keys), np.bool_)
        for earlier in self._earlier:
            result |= first_rows(earlier, keys) >= 0
        return result


def _keys(events: list[Event]) -> Int64:
    """Return a hash of each event."""
    fields = (
        (event.ph, event.name, event.pid, event.tid, str(event.ts), event.dur, event.cat, event.id, bytes(event.args))
        for event in events
    )
    return np.fromiter(map(hash, fields), np.int64, len(events))

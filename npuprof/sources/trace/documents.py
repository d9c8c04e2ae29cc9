"""A file that holds several JSON documents, one after another: an export that was appended to an earlier one.

What a later document repeats of an earlier one is the same event, and counts once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, islice, pairwise
from typing import TYPE_CHECKING

import numpy as np

from npuprof.arrays import Bools, Int64
from npuprof.notes import Notes

if TYPE_CHECKING:
    from npuprof.sources.trace.event import Event


class Documents:
    """The events of a file, each once.

    Nothing is remembered of a file that holds one document, as nearly every file does: at the beginning of a second
    one, the events before it are read again.

    Parameters
    ----------
    again
        Reads the events of the file anew.
    notes, source
        Where repeated events are counted, and the name of the file.
    """

    def __init__(self, again: Callable[[], Iterator[list[Event]]], notes: Notes, source: str) -> None:
        self._again, self._notes, self._source = again, notes, source
        self._given = 0
        self._documents = 1
        self._earlier: list[Int64] = []  # keys of earlier documents, sorted, each less than half of the one before
        self._current: list[Int64] = []  # of the document that is being read
        self._repeated = 0

    def once(self, events: list[Event], begins: list[int]) -> list[Event]:
        """Return the events of a batch that no earlier document holds.

        Parameters
        ----------
        events
            The batch.
        begins
            Places in it at which another document begins.
        """
        if not begins and self._documents == 1:
            self._given += len(events)
            return events
        kept: list[Event] = []
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
                kept.extend(part[place] for place in np.flatnonzero(fresh).tolist())
            else:
                kept.extend(part)
        return kept

    def note(self) -> None:
        """Note how many documents there were, and the events that were in several."""
        if self._documents > 1:
            self._notes.warning(
                self._source, f"the file holds {self._documents} documents one after another, which are read as one"
            )
            self._notes.ledger.read(self._source, self._repeated)
            self._notes.leave_out(
                self._source, "an event of a later document is in an earlier one too", self._repeated, severity="info"
            )

    def _begin(self, place: int) -> None:
        if self._documents == 1:
            before = islice(chain.from_iterable(self._again()), self._given + place)
            while batch := list(islice(before, 100_000)):
                self._current.append(_keys(batch))
        self._documents += 1
        self._earlier.append(np.unique(np.concatenate([np.empty(0, np.int64), *self._current])))
        self._current = []
        while len(self._earlier) > 1 and 2 * len(self._earlier[-1]) >= len(self._earlier[-2]):
            self._earlier[-2:] = [np.union1d(*self._earlier[-2:])]

    def _are_earlier(self, keys: Int64) -> Bools:
        found = np.zeros(len(keys), np.bool_)
        for earlier in self._earlier:
            place = np.minimum(np.searchsorted(earlier, keys), max(len(earlier) - 1, 0))
            found |= earlier[place] == keys if len(earlier) else False
        return found


def _keys(events: list[Event]) -> Int64:
    """Return a number for each event that only equal events share."""
    fields = (
        (event.ph, event.name, event.pid, event.tid, str(event.ts), event.dur, event.cat, event.id, bytes(event.args))
        for event in events
    )
    return np.fromiter(map(hash, fields), np.int64, len(events))

"""Valid records of the host within the time of the collection.

Source: raw/FORMAT.md section 4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from npuprof.arrays import Records, taken
from npuprof.sources.raw.metadata.clocks import CounterClock
from npuprof.sources.raw.metadata.dictionaries import Dictionaries
from npuprof.sources.raw.records.repeated_records import REPEATED, repeated_records
from npuprof.sources.raw.records.slices import Streams
from npuprof.sources.selection import Windows
from npuprof.tables.notes import Notes

JOINED = frozenset(
    {
        *(f"compact.{name}" for name in ("node_basic_info", "node_attr_info", "memcpy_info", "hccl_op_info")),
        *(f"additional.{name}" for name in ("tensor_info", "context_id_info", "hccl_info")),
    }
)
"""Streams whose records describe only the call around them."""


@dataclass(frozen=True)
class RawHost:
    """Context for decoding host records."""

    streams: Streams  # the host's `data` folder
    names: Dictionaries  # its dictionaries
    clock: CounterClock  # the host counter's clock
    # Start of the collection in UTC epoch nanoseconds; earlier records are dropped, like the vendor does.
    started_ns: int
    notes: Notes  # receives damage
    within: Windows | None = None  # time intervals of the wanted records of `JOINED`; None for all

    def read(
        self, stream: str, record: np.dtype[Any], stamp: str = "stamp", *, used: bool = True
    ) -> tuple[Records, npt.NDArray[np.bool_]]:
        """Read the aging and unaging parts of a stream: their valid records.

        Parameters
        ----------
        used
            Whether the records complete rows of other records; otherwise the caller registers them in the ledger.
        """
        parts = [self.streams.read(f"{age}.{stream}", record) for age in ("unaging", "aging")]
        aging = np.repeat([False, True], [len(part) for part in parts])
        whole = [part.view(f"V{record.itemsize}") for part in parts]  # with the bytes between their fields
        records = np.concatenate(whole).view(record) if len(parts[0]) else parts[1]
        sound = self.are_sound(stream, records, stamp)
        repeated = sound & repeated_records(records, stamp)
        self._note(stream, REPEATED, repeated)
        sound &= ~repeated
        if used and len(records):
            self.notes.ledger.use(self.streams.account(stream), int(np.count_nonzero(sound)))
        if self.within is not None and stream in JOINED:
            times = self.clock.to_ns(np.where(sound, records[stamp], 0))
            sound &= self.within.touch(times, times)
        return (records, aging) if bool(sound.all()) else (taken(records, sound), aging[sound])

    def are_sound(self, stream: str, records: Records, stamp: str = "stamp") -> npt.NDArray[np.bool_]:
        """Return a mask of records with a plausible timestamp; a note counts the rest."""
        stamps = records[stamp]
        reached = self.clock.reaches(stamps)
        self._note(stream, "records with an impossible time stamp skipped", ~reached)
        early = reached & (self.clock.to_ns(np.where(reached, stamps, 0)) < self.started_ns)
        self._note(stream, "records from before the collection began skipped", early)
        return reached & ~early

    def _note(self, stream: str, subject: str, rows: npt.NDArray[np.bool_]) -> None:
        self.skip(stream, subject, int(np.count_nonzero(rows)))

    def skip(self, stream: str, subject: str, count: int, *, label: str = "", info: bool = False) -> None:
        """Note records that become no row under the name `label`, and register them in the ledger."""
        if count:
            (self.notes.info if info else self.notes.warning)(label or stream, subject, count)
            self.notes.ledger.leave_out(self.streams.account(stream), count)

    def keep(self, stream: str, table: str, count: int, made: int | None = None) -> None:
        """Register records that become rows of a table; see :meth:`npuprof.tables.ledger.Ledger.keep`."""
        if count or made:
            self.notes.ledger.keep(self.streams.account(stream), table, count, made)

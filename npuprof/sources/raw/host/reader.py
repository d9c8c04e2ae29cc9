"""Reading the records of the host: which of them are sound, and in the time of the collection.

Source: raw/FORMAT.md section 4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from npuprof.arrays import Records
from npuprof.notes import Notes
from npuprof.sources.raw.metadata.clocks import Clock
from npuprof.sources.raw.metadata.dictionaries import Dictionaries
from npuprof.sources.raw.records.slices import Streams
from npuprof.sources.selection import Windows

JOINED = frozenset(
    {
        *(f"compact.{name}" for name in ("node_basic_info", "node_attr_info", "memcpy_info", "hccl_op_info")),
        *(f"additional.{name}" for name in ("tensor_info", "context_id_info", "hccl_info")),
    }
)
"""Streams whose records tell of the call that holds them, and of nothing else."""


@dataclass(frozen=True)
class Host:
    """What decoding host records needs.

    Attributes
    ----------
    streams
        The host's ``data`` folder.
    names
        Its dictionaries.
    clock
        The host counter's clock.
    started_ns
        UTC epoch nanoseconds at which collection began: earlier records are dropped, as the vendor does.
    notes
        Where damage is noted.
    within
        When the records of :data:`JOINED` were written that are wanted; None for all of them.
    """

    streams: Streams
    names: Dictionaries
    clock: Clock
    started_ns: int
    notes: Notes
    within: Windows | None = None

    def read(
        self, stream: str, record: np.dtype[Any], stamp: str = "stamp", *, used: bool = True
    ) -> tuple[Records, npt.NDArray[np.bool_]]:
        """Read the aging and unaging parts of a stream, as far as they are sound.

        Parameters
        ----------
        stream
            Its name without the first word, such as ``compact.task_track``.
        record
            The layout of a record; `stamp` is the field with its host counter.
        used
            Whether the records tell of the rows of others; if not, the caller accounts for what they are.

        Returns
        -------
        The sound records in file order, and which of them come from the aging part.
        """
        parts = [self.streams.read(f"{age}.{stream}", record) for age in ("unaging", "aging")]
        aging = np.repeat([False, True], [len(part) for part in parts])
        records = np.concatenate(parts) if len(parts[0]) else parts[1]
        sound = self.are_sound(stream, records, stamp)
        if used and len(records):
            self.notes.ledger.use(self.streams.account(stream), int(np.count_nonzero(sound)))
        if self.within is not None and stream in JOINED:
            times = self.clock.to_ns(np.where(sound, records[stamp], 0))
            sound &= self.within.touch(times, times)
        return (records, aging) if bool(sound.all()) else (records[sound], aging[sound])

    def are_sound(self, stream: str, records: Records, stamp: str = "stamp") -> npt.NDArray[np.bool_]:
        """Return which records have a possible stamp; how many have not is noted."""
        stamps = records[stamp]
        reached = self.clock.reaches(stamps)
        self._note(stream, "records with an impossible time stamp skipped", ~reached)
        early = reached & (self.clock.to_ns(np.where(reached, stamps, 0)) < self.started_ns)
        self._note(stream, "records from before the collection began skipped", early)
        return reached & ~early

    def _note(self, stream: str, what: str, rows: npt.NDArray[np.bool_]) -> None:
        self.skip(stream, what, int(np.count_nonzero(rows)))

    def skip(self, stream: str, what: str, count: int, *, told: str = "", info: bool = False) -> None:
        """Note records of a stream, called as `told`, that are in no table, and account for them."""
        if count:
            (self.notes.info if info else self.notes.warning)(told or stream, what, count)
            self.notes.ledger.leave_out(self.streams.account(stream), count)

    def keep(self, stream: str, table: str, count: int, made: int | None = None) -> None:
        """Account for records of a stream that are rows of a table; see :meth:`npuprof.ledger.Ledger.keep`."""
        if count or made:
            self.notes.ledger.keep(self.streams.account(stream), table, count, made)

"""Valid records of a device within the time of the collection.

Source: raw/FORMAT.md section 5.
"""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from npuprof.arrays import Records, taken
from npuprof.sources.raw.metadata.chip_families import Family, family_of
from npuprof.sources.raw.metadata.clocks import DeviceCounters
from npuprof.sources.raw.metadata.control_files import RecordedSide
from npuprof.sources.raw.records.repeated_records import REPEATED, repeated_records
from npuprof.sources.raw.records.slices import Streams
from npuprof.tables.notes import Notes

_Rows = TypeVar("_Rows", bound=Sized)
STREAM_BITS = 11
"""The number of bits of a stream's id that is not expanded."""

_EXPANDED_BITS = 15


@dataclass(frozen=True)
class RawDevice:
    """Context for decoding the records of a device."""

    id: int  # the device
    side: RecordedSide  # its control files
    streams: Streams  # its `data` folder
    clock: DeviceCounters
    # Start of the collection in UTC epoch nanoseconds; earlier records are dropped, like the vendor does.
    started_ns: int
    expanded: bool  # whether stream ids have up to 15 bits (stream_expand_spec)
    notes: Notes  # receives damage

    def read(self, stream: str, record: np.dtype[Any], stamp: str = "counter") -> Records:
        """Read a stream of this device (``name.data.N``) up to valid stamps."""
        return self.keep_sound(self.streams.read(f"{stream}.data.{self.id}", record), stream, stamp)

    @property
    def family(self) -> Family:
        """Return the chip family."""
        return family_of(self.side.info.get("platform_version"), self.streams.names())

    @property
    def stream_mask(self) -> int:
        """Return the bit mask of a stream id in fields that hold only the id."""
        return (1 << (_EXPANDED_BITS if self.expanded else STREAM_BITS)) - 1

    def keep_sound(self, records: Records, stream: str, stamp: str = "counter") -> Records:
        """Return the records with a plausible timestamp, each once; notes count the rest."""
        sound = self.clock.counter.reaches(records[stamp])
        records = self._keep(records, sound, stream, "records with an impossible time stamp skipped")
        late = self.clock.counter.to_ns(records[stamp]) >= self.started_ns
        records = self._keep(records, late, stream, "records from before the collection began skipped")
        return self._keep(records, ~repeated_records(records, stamp), stream, REPEATED)

    def _keep(self, records: Records, is_kept: npt.NDArray[np.bool_], stream: str, subject: str) -> Records:
        count = len(records) - int(np.count_nonzero(is_kept))
        if not count:
            return records
        self.skip(stream, subject, count)
        return taken(records, is_kept)

    def skip(self, stream: str, subject: str, count: int, *, info: bool = False) -> None:
        """Note records that become no row, and register them in the ledger."""
        if count:
            note = self.notes.info if info else self.notes.warning
            note(f"device {self.id}", f"{stream}: {subject}", count)
            self.notes.ledger.leave_out(self._account(stream), count)

    def keep(self, stream: str, table: str, count: int, made: int | None = None) -> None:
        """Register records that become rows of a table; see :meth:`npuprof.tables.ledger.Ledger.keep`."""
        if count or made:
            self.notes.ledger.keep(self._account(stream), table, count, made)

    def keep_counters(self, stream: str, count: int, parts: list[_Rows]) -> list[_Rows]:
        """Register records that become rows of `counters`, and return them."""
        self.keep(stream, "counters", count, sum(map(len, parts)))
        return parts

    def use(self, stream: str, count: int) -> None:
        """Register records that complete rows of other records."""
        if count:
            self.notes.ledger.use(self._account(stream), count)

    def _account(self, stream: str) -> str:
        return self.streams.account(stream)

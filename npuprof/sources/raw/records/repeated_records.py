"""Records that repeat an earlier one of their stream in every byte: a tool wrote them twice.

Each record has a time stamp of nanoseconds, so that none of the raw directories that were available has equal ones.
A full record of tensors may be followed by an equal one lawfully: an operator of many equal operands has several.

Source: raw/FORMAT.md section 2.1.
"""

from __future__ import annotations

import numpy as np

from npuprof.arrays import Bools, Int64, Records, taken
from npuprof.sources.columns.repetitions import repetitions

REPEATED = "records that repeat another in every byte skipped"
"""The subject of the note that counts them."""


def repeated_records(records: Records, stamp: str) -> Bools:
    """Return a mask of the records that equal an earlier one; `stamp` is the field with their time."""
    fields = records.dtype.names or ()
    lasting = records["count"] < records["tensors"].shape[1] if "tensors" in fields else None

    def words(rows: Int64) -> dict[str, np.ndarray[tuple[int], np.dtype[np.uint64]]]:
        size = -(-records.dtype.itemsize // 8)
        padded = np.zeros((len(rows), 8 * size), np.uint8)
        padded[:, : records.dtype.itemsize] = taken(records, rows).view(np.uint8).reshape(len(rows), -1)
        return {str(number): column for number, column in enumerate(padded.view(np.uint64).T)}

    return repetitions(records[stamp].astype(np.int64), words, lasting)

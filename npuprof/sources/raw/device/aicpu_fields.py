"""Fields of AI CPU records that only their device can read: moments, and ids of streams.

Source: raw/FORMAT.md section 5.6.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from npuprof.arrays import Int64, Records
from npuprof.sources.columns.nullable import ABSENT
from npuprof.sources.raw.device.reader import Device


def stream_ids(device: Device, records: Records, field: str = "stream") -> Int64:
    """Return ids of streams without the bits that do not belong to them."""
    stream: Int64 = records[field].astype(np.int64)
    return stream if device.expanded else stream & device.stream_mask


def moments(device: Device, counters: npt.NDArray[Any]) -> Int64:
    """Turn device counter values into UTC nanoseconds; ABSENT where none was written."""
    good = device.clock.counter.reaches(counters) & (counters > 0)
    base = np.uint64(max(device.clock.counter.anchor_counter, 0))
    return np.where(good, device.clock.counter.to_ns(np.where(good, counters, base)), ABSENT)

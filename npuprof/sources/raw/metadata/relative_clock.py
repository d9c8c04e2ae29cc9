"""The clock of an old recording that came without control files: times count from its first record.

Source: raw/FORMAT.md sections 3 and 7.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from npuprof.notes import Notes
from npuprof.sources.raw.metadata.clocks import Clock, DeviceClock
from npuprof.sources.raw.metadata.control_files import Side
from npuprof.sources.raw.records import chip_layouts
from npuprof.sources.raw.records.slices import Streams

_MHZ = Fraction(100)  # of the 910A, the only chip whose recordings came so


def relative_clock(side: Side, streams: Streams, notes: Notes) -> DeviceClock:
    """Return a clock that is zero at the first task record of a device, and note that it is."""
    counters = streams.read(f"hwts.data.{side.device_id}", chip_layouts.HWTS)["counter"]
    notes.warning(
        side.label,
        f"host_start.log or dev_start.log is missing: times count from the first task record, at {_MHZ} MHz (910A)",
    )
    middle = int(np.partition(counters, len(counters) // 2)[len(counters) // 2]) if len(counters) else 0
    around = Clock(min(middle, 1 << 62), 0, 1000 / _MHZ)
    sound = counters[around.reaches(counters)]  # a damaged stamp must not be the first
    return DeviceClock(Clock(int(sound.min()) if len(sound) else 0, 0, 1000 / _MHZ), 0)

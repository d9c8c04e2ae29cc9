"""Record layouts of chips outside the 910B family; see :mod:`.layouts`.

Source: raw/FORMAT.md sections 5.4, 5.7, 6 and 7. The magic word of a hwts record is where real recordings have it.
"""

from __future__ import annotations

from npuprof.sources.raw.records.layouts import record

HWTS = record(64, "tag u8@0, type u8@1, magic u16@2, task u16@6, counter u64@8, stream u32@16")
CORE_PMU = record(128, "tag u8@0, task u16@6, cycles u64@16, counters u64[8]@32, stream u32@96")
TASK_STATE = record(40, "function u8@1, counter u64@8, stream u16@16, task u16@18, type u16@20, state u8@22")
TRACE_2020 = record(20, "tag u64@0, task u16@8, stream u16@10, counter u64@12")
STARS_V6 = record(
    32,
    "head u16@0, magic u16@2, task u32@4, counter u64@8, fusion u16@16, core_type u8@20, core u8@21, block u16@26",
)
PMU_V6 = record(
    128,
    "head u16@0, task u32@4, cycles u64@8, flags u8@17, core_type u8@20, core u8@21, sub_block u16@24, "
    "block u16@26, counters u64[10]@32, start u64@112, end u64@120",
)
TS_TRACK_V6 = record(40, "function u8@1, counter u64@8, index u64@16, model u64@24, tag u16@32, stream u16@34")
NANO = record(
    64,
    "type u8@0, model u8@1, task u16@6, low u32@8, duration u32@12, cycles u32@16, middle u16@20, high u8@22, "
    "cycles_high u8@23, counters u32[10]@24",
)
CORE_SAMPLE_V6 = record(112, "counters u64[10]@8, cycles u64@88, stamp u64@96, core u8@105")

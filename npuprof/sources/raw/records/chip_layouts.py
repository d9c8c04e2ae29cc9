"""Record layouts of chips outside the 910B family; see :mod:`.layouts`.

Source: raw/FORMAT.md sections 5.4, 5.7, 6 and 7. The magic word of a hwts record is where real recordings have it.
"""

from __future__ import annotations

from npuprof.sources.raw.records.layouts import layout

HWTS = layout(
    64,
    tag=("u1", 0),
    type=("u1", 1),
    magic=("<u2", 2),
    task=("<u2", 6),
    counter=("<u8", 8),
    stream=("<u4", 16),
)
CORE_PMU = layout(
    128, tag=("u1", 0), task=("<u2", 6), cycles=("<u8", 16), counters=(("<u8", (8,)), 32), stream=("<u4", 96)
)
TASK_STATE = layout(
    40, function=("u1", 1), counter=("<u8", 8), stream=("<u2", 16), task=("<u2", 18), type=("<u2", 20), state=("u1", 22)
)
TRACE_2020 = layout(20, tag=("<u8", 0), task=("<u2", 8), stream=("<u2", 10), counter=("<u8", 12))
STARS_V6 = layout(
    32,
    head=("<u2", 0),
    magic=("<u2", 2),
    task=("<u4", 4),
    counter=("<u8", 8),
    fusion=("<u2", 16),
    core_type=("u1", 20),
    core=("u1", 21),
    block=("<u2", 26),
)
PMU_V6 = layout(
    128,
    head=("<u2", 0),
    task=("<u4", 4),
    cycles=("<u8", 8),
    flags=("u1", 17),
    core_type=("u1", 20),
    core=("u1", 21),
    sub_block=("<u2", 24),
    block=("<u2", 26),
    counters=(("<u8", (10,)), 32),
    start=("<u8", 112),
    end=("<u8", 120),
)
TS_TRACK_V6 = layout(
    40,
    function=("u1", 1),
    counter=("<u8", 8),
    index=("<u8", 16),
    model=("<u8", 24),
    tag=("<u2", 32),
    stream=("<u2", 34),
)
NANO = layout(
    64,
    type=("u1", 0),
    model=("u1", 1),
    task=("<u2", 6),
    low=("<u4", 8),
    duration=("<u4", 12),
    cycles=("<u4", 16),
    middle=("<u2", 20),
    high=("u1", 22),
    cycles_high=("u1", 23),
    counters=(("<u4", (10,)), 24),
)
CORE_SAMPLE_V6 = layout(112, counters=(("<u8", (10,)), 8), cycles=("<u8", 88), stamp=("<u8", 96), core=("u1", 105))

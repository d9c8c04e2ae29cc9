"""Layouts of raw records as NumPy structured dtypes: little-endian, fields at the byte offsets of the specification.

A new record type is one more constant here and one function that reads it.
Source: formats/raw.md sections 4 to 6.
"""

from __future__ import annotations

from typing import Any

import numpy as np

MAGIC = 0x5A5A
"""First word of every host record."""
DEVICE_MAGIC = 0x6BD3
"""Second word of every stars and PMU record."""
POINT = (1 << 64) - 1
"""The end stamp of a point event."""


def layout(size: int, /, **fields: tuple[Any, int]) -> np.dtype[Any]:
    """Make a dtype of `size` bytes from ``name=(format, byte offset)``."""
    return np.dtype(
        {
            "names": list(fields),
            "formats": [form for form, _ in fields.values()],
            "offsets": [offset for _, offset in fields.values()],
            "itemsize": size,
        }
    )


_HEADER = {"magic": ("<u2", 0), "level": ("<u2", 2), "type": ("<u4", 4), "thread": ("<u4", 8)}
_STAMPED = {**_HEADER, "data_length": ("<u4", 12), "stamp": ("<u8", 16)}

API = layout(40, **_HEADER, request=("<u4", 12), begin=("<u8", 16), end=("<u8", 24), item=("<u8", 32))
NODE_BASIC = layout(
    64,
    **_STAMPED,
    op_name=("<u8", 24),
    task_type=("<u4", 32),
    op_type=("<u8", 36),
    blocks=("<u2", 44),
    ratio=("<u2", 46),
    flags=("<u4", 48),
)
TASK_TRACK = layout(
    64,
    **_STAMPED,
    device=("<u2", 24),
    stream=("<u2", 26),
    task=("<u2", 28),
    batch=("<u2", 30),
    task_type=("<u8", 32),
    kernel_name=("<u8", 40),
    blocks=("<u2", 48),
    ratio=("u1", 52),
)
MEMCPY_INFO = layout(64, **_STAMPED, size=("<u8", 24), max_size=("<u8", 32), direction=("<u2", 40))
TENSORS_A_RECORD = 5
TENSOR = layout(44, kind=("<u4", 0), format=("<u4", 4), dtype=("<u4", 8), shape=(("<u4", (8,)), 12))
TENSOR_INFO = layout(
    256, **_STAMPED, op_name=("<u8", 24), count=("<u4", 32), body=("V224", 32), tensors=((TENSOR, (5,)), 36)
)
CONTEXT_ID = layout(256, **_STAMPED, op_name=("<u8", 24), count=("<u4", 32), ids=(("<u4", (55,)), 36))
MSPROFTX = layout(
    256,
    **_STAMPED,
    info_type=("<u2", 24),
    segment=("<u2", 26),
    process=("<u4", 36),
    caller=("<u4", 40),
    category=("<u4", 44),
    event_type=("<u4", 48),
    start=("<u8", 64),
    end=("<u8", 72),
    mark_id=("<u8", 80),
    domain=("<u8", 88),
    message=("S156", 100),
)

STARS = layout(
    64,
    head=("<u2", 0),
    magic=("<u2", 2),
    stream=("<u2", 4),
    task=("<u2", 6),
    counter=("<u8", 8),
    sub_type=("u1", 16),
    sub_task=("<u2", 18),
    ffts=("<u2", 20),
)
PMU = layout(
    128,
    head=("<u2", 0),
    magic=("<u2", 2),
    stream=("<u2", 4),
    task=("<u2", 6),
    sub_type=("u1", 16),
    sub_task=("<u2", 18),
    ffts=("<u2", 20),
    cycles=("<u8", 32),
    counters=(("<u8", (8,)), 48),
    start=("<u8", 112),
    end=("<u8", 120),
)
FREQUENCIES_A_RECORD = 55
FREQUENCY = layout(16, counter=("<u8", 0), mhz=("<u4", 8))
FREQUENCIES = layout(888, count=("<u4", 0), values=((FREQUENCY, (55,)), 8))
TS_TRACK = layout(
    40,
    function=("u1", 1),
    counter=("<u8", 8),
    flip_stream=("<u2", 16),
    flip_number=("<u2", 18),
    index=("<u8", 16),
    model=("<u8", 24),
    stream=("<u2", 32),
    task=("<u2", 34),
    tag=("<u2", 36),
)
HBM = layout(24, stamp_us=("<u8", 0), count=("<u8", 8), event=("<u4", 16), instance=("<u4", 20))
NPU_MEMORY = layout(32, stamp_us=("<u4", 0), event=("<u4", 4), ddr=("<u8", 16), hbm=("<u8", 24))

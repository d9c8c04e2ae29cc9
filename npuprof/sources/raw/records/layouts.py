"""Layouts of raw records as NumPy structured dtypes: little-endian, fields at the byte offsets of the specification.

A new record type is a constant here and a function that reads it.
Source: raw/FORMAT.md sections 4 to 6.
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
    """Return a dtype of `size` bytes with the fields ``name=(format, byte offset)``."""
    return np.dtype(
        {
            "names": list(fields),
            "formats": [form for form, _ in fields.values()],
            "offsets": [offset for _, offset in fields.values()],
            "itemsize": size,
        }
    )


def magic_word(record: np.dtype[Any]) -> tuple[int, int] | None:
    """Return the offset of the magic word in a layout, and the word; None for records without one."""
    if record.fields is None or "magic" not in record.fields:
        return None
    offset = record.fields["magic"][1]
    return offset, DEVICE_MAGIC if offset else MAGIC


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
TASK_TRACK_WIDE = layout(  # not the vendor's: the fields that both forms of task_track have
    64,
    **_STAMPED,
    device=("<u2", 24),
    batch=("<u2", 26),
    stream=("<u4", 28),
    task=("<u4", 32),
    task_type=("<u8", 40),
    kernel_name=("<u8", 48),
    blocks=("<u2", 56),
    ratio=("u1", 58),
)
TASK_TRACK_V2 = layout(
    64,
    **_STAMPED,
    device=("<u2", 24),
    stream=("<u4", 28),
    task=("<u4", 32),
    task_type=("<u4", 36),
    kernel_name=("<u8", 40),
    blocks=("<u2", 48),
    ratio=("u1", 52),
)
MEMCPY_INFO = layout(64, **_STAMPED, size=("<u8", 24), max_size=("<u8", 32), direction=("<u2", 40))
TENSORS_A_RECORD = 5
TENSOR = layout(44, kind=("<u4", 0), format=("<u4", 4), dtype=("<u4", 8), shape=(("<u4", (8,)), 12))
TENSOR_INFO = layout(
    256, **_STAMPED, op_name=("<u8", 24), count=("<u4", 32), words=(("<u8", (28,)), 32), tensors=((TENSOR, (5,)), 36)
)
CONTEXT_ID = layout(256, **_STAMPED, op_name=("<u8", 24), count=("<u4", 32), ids=(("<u4", (55,)), 36))
_CAPTURE_OP: dict[str, tuple[Any, int]] = {
    **_STAMPED,
    "model": ("<u4", 24),
    "device": ("<u4", 28),
    "stream": ("<u4", 32),
    "task": ("<u4", 36),
    "task_type": ("<u4", 40),
    "blocks": ("<u2", 44),
    "ratio": ("<u2", 46),
    "op_name": ("<u8", 48),
    "op_type": ("<u8", 56),
    "attributes": ("<u8", 64),
    "flags": ("<u4", 80),
    "count": ("<u4", 84),
}
CAPTURE_OP = layout(88, **_CAPTURE_OP)
CAPTURE_OP_RECORD = layout(256, **_CAPTURE_OP, fixed=(CAPTURE_OP, 0), tensors=((TENSOR, (3,)), 88))
CAPTURE_STREAM = layout(
    64,
    **_STAMPED,
    status=("<u2", 24),
    model_stream=("<u2", 26),
    original_stream=("<u2", 28),
    model=("<u2", 30),
    device=("<u2", 32),
)
CAPTURE_STREAM_V2 = layout(
    64,
    **_STAMPED,
    device=("<u2", 24),
    status=("u1", 26),
    model_stream=("<u4", 28),
    original_stream=("<u4", 32),
    model=("<u4", 36),
)
STREAM_SQ = layout(
    64, **_STAMPED, status=("<u2", 24), stream=("<u4", 28), queue=("<u2", 32), device=("<u2", 34), scheduler=("<u2", 36)
)
EXPANSION = layout(64, **_STAMPED, status=("u1", 24))
MEMCPY_EXT = layout(64, **_STAMPED, size=("<u8", 24), kind=("<u2", 32), device=("<u2", 34), stream=("<u4", 36))
MEMSET = layout(64, **_STAMPED, size=("<u8", 24), value=("<i4", 32), stream=("<u4", 36), device=("<u2", 40))
MEMORY_MANAGEMENT = layout(
    64,
    **_STAMPED,
    address=("<u8", 24),
    size=("<u8", 32),
    memory=("<u4", 40),
    kind=("<u2", 44),
    device=("<u2", 46),
    stream=("<u4", 48),
)
DPU_TRACK = layout(
    64,
    **_STAMPED,
    device=("<u2", 24),
    stream=("<u2", 26),
    task=("<u4", 28),
    task_type=("<u4", 32),
    start=("<u8", 40),
)
MULTI_THREAD = layout(256, **_STAMPED, count=("<u4", 24), threads=(("<u4", (25,)), 28))
MC2_COMM = layout(
    256,
    **_STAMPED,
    group=("<u8", 24),
    rank_size=("<u4", 32),
    rank=("<u4", 36),
    user_rank=("<u4", 40),
    kfc_stream=("<u4", 44),
    count=("<u4", 48),
    streams=(("<u4", (8,)), 52),
)
HCCL_INFO = layout(
    256,
    **_STAMPED,
    item=("<u8", 24),
    group=("<u8", 40),
    local_rank=("<u4", 48),
    remote_rank=("<u4", 52),
    rank_size=("<u4", 56),
    plane=("<u4", 64),
    context=("<u4", 68),
    notify=("<u8", 72),
    estimated_us=("<f8", 88),
    size=("<u8", 112),
    data_type=("<u4", 124),
    link=("<u4", 128),
    transport=("<u4", 132),
    rdma=("<u4", 136),
)
HCCL_OP_INFO = layout(
    64,
    **_STAMPED,
    flags=("u1", 24),
    data_type=("u1", 25),
    algorithm=("<u8", 26),
    count=("<u8", 34),
    group=("<u8", 42),
)
TASK_MEMORY = layout(
    256,
    **_STAMPED,
    address=("<u8", 24),
    size=("<i8", 32),
    name=("<u8", 40),
    allocated=("<u8", 48),
    reserved=("<u8", 56),
    device=("<u4", 64),
)
STATIC_MEMORY = layout(
    256,
    **_STAMPED,
    size=("<i8", 24),
    op_name=("<u8", 32),
    first_node=("<u8", 40),
    last_node=("<u8", 48),
    model=("<u8", 64),
    graph=("<u4", 72),
)
FUSION_OP = layout(
    256,
    **_STAMPED,
    op_name=("<u8", 24),
    count=("<u4", 32),
    memory=(("<u8", (5,)), 36),
    parts=(("<u8", (8,)), 76),
)
GRAPH_ID = layout(256, **_STAMPED, name=("<u8", 24), graph=("<u4", 32), model=("<u4", 36))
NODE_ATTR = layout(64, **_STAMPED, op_name=("<u8", 24), attributes=("<u8", 36))
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
FREQUENCY_CHANGE = layout(16, counter=("<u8", 0), mhz=("<u8", 8))  # including zero bytes after the frequency
FREQUENCIES = layout(888, count=("<u4", 0), values=((FREQUENCY, (55,)), 8))
TS_TRACK = layout(
    40,
    body=("V40", 0),
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
TRACK_OF_TASK = layout(
    40,
    function=("u1", 1),
    counter=("<u8", 8),
    stream=("<u2", 16),
    task=("<u2", 18),
    copy_state=("u1", 20),
    type=("<u2", 20),
    type_state=("u1", 22),
    blocks=("<u4", 20),
)
HBM = layout(24, stamp=("<u8", 0), count=("<u8", 8), event=("<u4", 16), instance=("<u4", 20))
NPU_MEMORY = layout(32, stamp=("<u4", 0), event=("<u4", 4), ddr=("<u8", 16), hbm=("<u8", 24))
HBM_V2 = layout(32, event=("<u4", 8), instance=("<u4", 12), count=("<u8", 16), stamp=("<u8", 24))
LLC = layout(24, stamp=("<u8", 0), count=("<u8", 8), event=("<u4", 16), instance=("<u4", 20))
LLC_V2 = layout(24, count=("<u4", 4), event=("<u4", 8), instance=("<u4", 12), stamp=("<u8", 16))
DDR = layout(20, stamp=("<u4", 0), count=("<u4", 4), event=("<u4", 8), instance=("<u4", 12), master=("<u4", 16))
NPU_MEMORY_V2 = layout(32, event=("<u4", 4), stamp=("<u8", 8), ddr=("<u8", 16), hbm=("<u8", 24))
MODULE_MEMORY = layout(24, module=("<u4", 0), stamp=("<u8", 8), size=("<u8", 16))
PCIE = layout(96, stamp=("<u8", 0), values=(("<u4", (21,)), 12))
QOS = layout(64, counter=("<u8", 16), values=(("<u4", (10,)), 24))
SOC_PROFILE = layout(
    64,
    head=("<u2", 0),
    magic=("<u2", 2),
    counter=("<u8", 8),
    id=("<u2", 18),
    narrow_v6=(("<u4", (10,)), 24),
    wide_v6=(("<u8", (2,)), 16),
    power=(("<u2", (20,)), 24),
    qos=(("<u4", (10,)), 24),
    wide=(("<u8", (4,)), 32),
    narrow=(("<u4", (8,)), 32),
)
POWER_INFO = layout(16, counter=("<u8", 0), value=("<u4", 8), kind=("<u4", 12))
POWER_INFOS = layout(888, count=("<u4", 0), values=((POWER_INFO, (55,)), 8))
CORE_SAMPLE = layout(96, counters=(("<u8", (8,)), 8), cycles=("<u8", 72), stamp=("<u8", 80), core=("u1", 89))
L2_CACHE = layout(72, stream=("<u2", 2), task=("<u2", 4), counters=(("<u8", (8,)), 8))
SOC_PMU = layout(80, stream=("<u2", 10), task=("<u2", 12), kind=("<u2", 14), counters=(("<u8", (8,)), 16))
AICPU = layout(256, magic=("<u2", 0), type=("<u4", 4), stamp=("<u8", 16), body=("V256", 0))
AICPU_NODE = layout(
    256,
    stream=("<u2", 24),
    task=("<u2", 26),
    run_start=("<u8", 40),
    compute_start_us=("<u8", 48),
    copy_start_us=("<u8", 56),
    copy_end_us=("<u8", 64),
    run_end=("<u8", 80),
    submit=("<u8", 96),
    after_run=("<u8", 120),
    dispatch_us=("<u4", 132),
)
AICPU_DATA = layout(256, stamp=("<u8", 16), action=("S16", 24), source=("S64", 40), size=("<u8", 112))
AICPU_MODEL = layout(256, stamp=("<u8", 16), index=("<u8", 24), model=("<u4", 32), tag=("<u2", 36), event=("<u8", 40))
AICPU_QUEUE = layout(256, node=("<u4", 24), size=("<u8", 32), start_us=("<u8", 40), end_us=("<u8", 48))
KFC_COMMUNICATION = layout(
    256, stamps=(("<u8", (7,)), 24), stream=("<u2", 92), task=("<u2", 94), turns=("u1", 97), turn=("u1", 98)
)
KFC_COMPUTE = layout(
    256, stamps=(("<u8", (3,)), 24), stream=("<u2", 60), task=("<u2", 62), turns=("u1", 65), turn=("u1", 66)
)
AICPU_HCCL_OP = layout(
    256,
    stamp=("<u8", 16),
    flags=("u1", 24),
    data_type=("u1", 25),
    algorithm=("<u8", 26),
    count=("<u8", 34),
    group=("<u8", 42),
    rank_size=("<u4", 50),
    stream=("<u2", 54),
    task=("<u4", 56),
)
AICPU_MASTER_STREAM = layout(
    256,
    stamp=("<u8", 16),
    stream=("<u2", 24),
    task=("<u2", 26),
    main_stream=("<u2", 28),
    main_task=("<u2", 30),
    kind=("<u2", 32),
)
KFC_HCCL = layout(
    116,
    item=("<u8", 0),
    group=("<u8", 16),
    local_rank=("<u4", 24),
    remote_rank=("<u4", 28),
    rank_size=("<u4", 32),
    stage=("<u4", 36),
    notify=("<u8", 40),
    stamp=("<u8", 48),
    estimated_us=("<f8", 56),
    size=("<u8", 80),
    task=("<u4", 88),
    stream=("<u2", 96),
    plane=("<u2", 98),
    op_type=("u1", 100),
    data_type=("u1", 101),
    link=("u1", 102),
    transport=("u1", 103),
    rdma=("u1", 104),
)
AICPU_KFC_HCCL = layout(256, stamp=("<u8", 16), halves=((KFC_HCCL, (2,)), 24))
AICPU_FLIP = layout(256, stamp=("<u8", 16), stream=("<u2", 24), task=("<u2", 26), flips=("<u4", 28))

"""Layouts of raw records as NumPy structured dtypes, written as the specification writes them.

A field is its name, type and byte offset: ``op_name u64@24``; ``counters u64[8]@48`` is an array, ``S156`` a text and
``V40`` the bytes themselves. All numbers are little-endian. A new record type is a constant here and a function that
reads it.
Source: raw/FORMAT.md sections 4 to 6.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

MAGIC = 0x5A5A
"""First word of every host record."""
DEVICE_MAGIC = 0x6BD3
"""Second word of every stars and PMU record."""
POINT = (1 << 64) - 1
"""The end stamp of a point event."""


_FIELD = re.compile(r"(\w+) (\w+?)(?:\[(\d+)\])?@(\d+)")
_NUMBER = re.compile(r"([uif])(\d+)")


def record(size: int, fields: str, /, **parts: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of a record of `size` bytes from the text of its fields; `parts` are the records inside it."""
    names, formats, offsets = [], [], []
    for field in fields.split(", "):
        match = _FIELD.fullmatch(field)
        if match is None:
            raise ValueError(f"{field!r} is not `name type@offset`")
        name, kind, count, offset = match.groups()
        number = _NUMBER.fullmatch(kind)
        item = parts[kind] if kind in parts else np.dtype(f"<{number[1]}{int(number[2]) // 8}" if number else kind)
        names.append(name)
        formats.append((item, (int(count),)) if count else item)
        offsets.append(int(offset))
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": size})


def magic_word(record: np.dtype[Any]) -> tuple[int, int] | None:
    """Return the offset of the magic word in a layout, and the word; None for records without one."""
    if record.fields is None or "magic" not in record.fields:
        return None
    offset = record.fields["magic"][1]
    return offset, DEVICE_MAGIC if offset else MAGIC


_HEADER = "magic u16@0, level u16@2, type u32@4, thread u32@8"
_STAMPED = f"{_HEADER}, data_length u32@12, stamp u64@16"

API = record(40, f"{_HEADER}, request u32@12, begin u64@16, end u64@24, item u64@32")
NODE_BASIC = record(
    64,
    f"{_STAMPED}, op_name u64@24, task_type u32@32, op_type u64@36, blocks u16@44, ratio u16@46, flags u32@48",
)
TASK_TRACK = record(
    64,
    f"{_STAMPED}, device u16@24, stream u16@26, task u16@28, batch u16@30, task_type u64@32, kernel_name u64@40, "
    "blocks u16@48, ratio u8@52",
)
TASK_TRACK_WIDE = record(  # not the vendor's: the fields that both forms of task_track have
    64,
    f"{_STAMPED}, device u16@24, batch u16@26, stream u32@28, task u32@32, task_type u64@40, kernel_name u64@48, "
    "blocks u16@56, ratio u8@58",
)
TASK_TRACK_V2 = record(
    64,
    f"{_STAMPED}, device u16@24, stream u32@28, task u32@32, task_type u32@36, kernel_name u64@40, blocks u16@48, "
    "ratio u8@52",
)
MEMCPY_INFO = record(64, f"{_STAMPED}, size u64@24, max_size u64@32, direction u16@40")
TENSORS_A_RECORD = 5
TENSOR = record(44, "kind u32@0, format u32@4, dtype u32@8, shape u32[8]@12")
TENSOR_INFO = record(
    256,
    f"{_STAMPED}, op_name u64@24, count u32@32, words u64[28]@32, tensors TENSOR[5]@36",
    TENSOR=TENSOR,
)
CONTEXT_ID = record(256, f"{_STAMPED}, op_name u64@24, count u32@32, ids u32[55]@36")
_CAPTURE_OP = (
    f"{_STAMPED}, "
    "model u32@24, device u32@28, stream u32@32, task u32@36, task_type u32@40, blocks u16@44, ratio u16@46, "
    "op_name u64@48, op_type u64@56, attributes u64@64, flags u32@80, count u32@84"
)
CAPTURE_OP = record(88, f"{_CAPTURE_OP}")
CAPTURE_OP_RECORD = record(
    256,
    f"{_CAPTURE_OP}, fixed CAPTURE_OP@0, tensors TENSOR[3]@88",
    CAPTURE_OP=CAPTURE_OP,
    TENSOR=TENSOR,
)
CAPTURE_STREAM = record(
    64,
    f"{_STAMPED}, status u16@24, model_stream u16@26, original_stream u16@28, model u16@30, device u16@32",
)
CAPTURE_STREAM_V2 = record(
    64,
    f"{_STAMPED}, device u16@24, status u8@26, model_stream u32@28, original_stream u32@32, model u32@36",
)
STREAM_SQ = record(64, f"{_STAMPED}, status u16@24, stream u32@28, queue u16@32, device u16@34, scheduler u16@36")
EXPANSION = record(64, f"{_STAMPED}, status u8@24")
MEMCPY_EXT = record(64, f"{_STAMPED}, size u64@24, kind u16@32, device u16@34, stream u32@36")
MEMSET = record(64, f"{_STAMPED}, size u64@24, value i32@32, stream u32@36, device u16@40")
MEMORY_MANAGEMENT = record(
    64,
    f"{_STAMPED}, address u64@24, size u64@32, memory u32@40, kind u16@44, device u16@46, stream u32@48",
)
DPU_TRACK = record(64, f"{_STAMPED}, device u16@24, stream u16@26, task u32@28, task_type u32@32, start u64@40")
MULTI_THREAD = record(256, f"{_STAMPED}, count u32@24, threads u32[25]@28")
MC2_COMM = record(
    256,
    f"{_STAMPED}, group u64@24, rank_size u32@32, rank u32@36, user_rank u32@40, kfc_stream u32@44, count u32@48, "
    "streams u32[8]@52",
)
HCCL_INFO = record(
    256,
    f"{_STAMPED}, item u64@24, group u64@40, local_rank u32@48, remote_rank u32@52, rank_size u32@56, plane u32@64, "
    "context u32@68, notify u64@72, estimated_us f64@88, size u64@112, data_type u32@124, link u32@128, "
    "transport u32@132, rdma u32@136",
)
HCCL_OP_INFO = record(64, f"{_STAMPED}, flags u8@24, data_type u8@25, algorithm u64@26, count u64@34, group u64@42")
TASK_MEMORY = record(
    256,
    f"{_STAMPED}, address u64@24, size i64@32, name u64@40, allocated u64@48, reserved u64@56, device u32@64",
)
STATIC_MEMORY = record(
    256,
    f"{_STAMPED}, size i64@24, op_name u64@32, first_node u64@40, last_node u64@48, model u64@64, graph u32@72",
)
FUSION_OP = record(256, f"{_STAMPED}, op_name u64@24, count u32@32, memory u64[5]@36, parts u64[8]@76")
GRAPH_ID = record(256, f"{_STAMPED}, name u64@24, graph u32@32, model u32@36")
NODE_ATTR = record(64, f"{_STAMPED}, op_name u64@24, attributes u64@36")
MSPROFTX = record(
    256,
    f"{_STAMPED}, info_type u16@24, segment u16@26, process u32@36, caller u32@40, category u32@44, "
    "event_type u32@48, start u64@64, end u64@72, mark_id u64@80, domain u64@88, message S156@100",
)

STARS = record(
    64,
    "head u16@0, magic u16@2, stream u16@4, task u16@6, counter u64@8, sub_type u8@16, sub_task u16@18, ffts u16@20",
)
PMU = record(
    128,
    "head u16@0, magic u16@2, stream u16@4, task u16@6, sub_type u8@16, sub_task u16@18, ffts u16@20, "
    "cycles u64@32, counters u64[8]@48, start u64@112, end u64@120",
)
FREQUENCIES_A_RECORD = 55
FREQUENCY = record(16, "counter u64@0, mhz u32@8")
FREQUENCY_CHANGE = record(16, "counter u64@0, mhz u64@8")
FREQUENCIES = record(888, "count u32@0, values FREQUENCY[55]@8", FREQUENCY=FREQUENCY)
TS_TRACK = record(
    40,
    "body V40@0, function u8@1, counter u64@8, flip_stream u16@16, flip_number u16@18, index u64@16, model u64@24, "
    "stream u16@32, task u16@34, tag u16@36",
)
TRACK_OF_TASK = record(
    40,
    "function u8@1, counter u64@8, stream u16@16, task u16@18, copy_state u8@20, type u16@20, type_state u8@22, "
    "blocks u32@20",
)
HBM = record(24, "stamp u64@0, count u64@8, event u32@16, instance u32@20")
NPU_MEMORY = record(32, "stamp u32@0, event u32@4, ddr u64@16, hbm u64@24")
HBM_V2 = record(32, "event u32@8, instance u32@12, count u64@16, stamp u64@24")
LLC = record(24, "stamp u64@0, count u64@8, event u32@16, instance u32@20")
LLC_V2 = record(24, "count u32@4, event u32@8, instance u32@12, stamp u64@16")
DDR = record(20, "stamp u32@0, count u32@4, event u32@8, instance u32@12, master u32@16")
NPU_MEMORY_V2 = record(32, "event u32@4, stamp u64@8, ddr u64@16, hbm u64@24")
MODULE_MEMORY = record(24, "module u32@0, stamp u64@8, size u64@16")
PCIE = record(96, "stamp u64@0, values u32[21]@12")
QOS = record(64, "counter u64@16, values u32[10]@24")
SOC_PROFILE = record(
    64,
    "head u16@0, magic u16@2, counter u64@8, id u16@18, narrow_v6 u32[10]@24, wide_v6 u64[2]@16, power u16[20]@24, "
    "qos u32[10]@24, wide u64[4]@32, narrow u32[8]@32",
)
POWER_INFO = record(16, "counter u64@0, value u32@8, kind u32@12")
POWER_INFOS = record(888, "count u32@0, values POWER_INFO[55]@8", POWER_INFO=POWER_INFO)
CORE_SAMPLE = record(96, "counters u64[8]@8, cycles u64@72, stamp u64@80, core u8@89")
L2_CACHE = record(72, "stream u16@2, task u16@4, counters u64[8]@8")
SOC_PMU = record(80, "stream u16@10, task u16@12, kind u16@14, counters u64[8]@16")
AICPU = record(256, "magic u16@0, type u32@4, stamp u64@16, body V256@0")
AICPU_NODE = record(
    256,
    "stream u16@24, task u16@26, run_start u64@40, compute_start_us u64@48, copy_start_us u64@56, "
    "copy_end_us u64@64, run_end u64@80, submit u64@96, after_run u64@120, dispatch_us u32@132",
)
AICPU_DATA = record(256, "stamp u64@16, action S16@24, source S64@40, size u64@112")
AICPU_MODEL = record(256, "stamp u64@16, index u64@24, model u32@32, tag u16@36, event u64@40")
AICPU_QUEUE = record(256, "node u32@24, size u64@32, start_us u64@40, end_us u64@48")
KFC_COMMUNICATION = record(256, "stamps u64[7]@24, stream u16@92, task u16@94, turns u8@97, turn u8@98")
KFC_COMPUTE = record(256, "stamps u64[3]@24, stream u16@60, task u16@62, turns u8@65, turn u8@66")
AICPU_HCCL_OP = record(
    256,
    "stamp u64@16, flags u8@24, data_type u8@25, algorithm u64@26, count u64@34, group u64@42, rank_size u32@50, "
    "stream u16@54, task u32@56",
)
AICPU_MASTER_STREAM = record(
    256,
    "stamp u64@16, stream u16@24, task u16@26, main_stream u16@28, main_task u16@30, kind u16@32",
)
KFC_HCCL = record(
    116,
    "item u64@0, group u64@16, local_rank u32@24, remote_rank u32@28, rank_size u32@32, stage u32@36, "
    "notify u64@40, stamp u64@48, estimated_us f64@56, size u64@80, task u32@88, stream u16@96, plane u16@98, "
    "op_type u8@100, data_type u8@101, link u8@102, transport u8@103, rdma u8@104",
)
AICPU_KFC_HCCL = record(256, "stamp u64@16, halves KFC_HCCL[2]@24", KFC_HCCL=KFC_HCCL)
AICPU_FLIP = record(256, "stamp u64@16, stream u16@24, task u16@26, flips u32@28")

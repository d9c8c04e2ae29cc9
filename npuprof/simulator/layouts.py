"""Record layouts of the raw format for `struct` and NumPy, little-endian and packed.

Source: raw/FORMAT.md sections 4 to 6.
"""

from __future__ import annotations

import re
import struct
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

_FIELD = re.compile(r"(?:@(\d+)\s+)?(\w+):(\d*)([a-zA-Z])")
_BYTES = {"B": 1, "b": 1, "H": 2, "h": 2, "I": 4, "i": 4, "Q": 8, "q": 8, "d": 8, "s": 1}


class Layout:
    """A record of fixed size.

    Parameters
    ----------
    fields
        ``name:code`` words in order of offset, with the codes of `struct` and a count before the code of an array;
        ``@n`` before a word sets its offset.

    Attributes
    ----------
    pack
        Packs the values of the fields, arrays flattened, into one record.
    """

    def __init__(self, size: int, fields: str) -> None:
        self.size = size
        parts: list[str] = []
        names: list[str] = []
        formats: list[Any] = []
        offsets: list[int] = []
        end = 0
        for at, name, count, code in _FIELD.findall(fields):
            offset = int(at) if at else end
            parts.append(f"{offset - end}x{count}{code}")
            names.append(name)
            formats.append(_numpy_format(count, code))
            offsets.append(offset)
            end = offset + int(count or 1) * _BYTES[code]
        compiled = struct.Struct(f"<{''.join(parts)}{size - end}x")
        if compiled.size != size:
            raise ValueError(f"the fields take {compiled.size} bytes, not {size}")
        self.pack = compiled.pack
        self._columns = {"names": names, "formats": formats, "offsets": offsets, "itemsize": size}

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype of an array of these records."""
        import numpy as np  # not at the top: most writing does not need NumPy, which is slow to import

        return np.dtype(self._columns)  # type: ignore[call-overload]  # words, not literals


def _numpy_format(count: str, code: str) -> Any:
    if code == "s":
        return f"S{count}"
    scalar = f"<{'f' if code == 'd' else 'u' if code.isupper() else 'i'}{_BYTES[code]}"
    return (scalar, (int(count),)) if count else scalar


HOST_MAGIC = 0x5A5A
DEVICE_MAGIC = 0x6BD3

_HEADER = "magic:H level:H type:I thread_id:I data_length:I time:Q "

# Host. Section 4.
API = Layout(40, "magic:H level:H type:I thread_id:I request_id:I begin:Q end:Q item_id:Q")
NODE_BASIC_INFO = Layout(64, _HEADER + "op_name:Q task_type:I op_type:Q block_num:I op_flag:I")
TASK_TRACK = Layout(
    64,
    _HEADER + "device_id:H stream_id:H task_id:H flip:H task_type:Q kernel_name:Q block_num:H args_size:H mix_ratio:B",
)
MEMCPY_INFO = Layout(64, _HEADER + "size_bytes:Q max_bytes:Q direction:H")
TENSORS_PER_RECORD = 5
TENSOR_INFO = Layout(256, _HEADER + "op_name:Q count:I tensors:55I")  # 5 x (kind, format, dtype, 8 lengths)
CONTEXT_ID_INFO = Layout(256, _HEADER + "op_name:Q count:I ids:55I")
TASK_MEMORY_INFO = Layout(
    256,
    _HEADER + "address:Q size_bytes:q name:Q allocated_bytes:Q reserved_bytes:Q device_id:I device_type:I",
)
HCCL_INFO = Layout(
    256,
    _HEADER + "item:Q tag:Q group:Q local_rank:I remote_rank:I rank_size:I workflow:I plane:I context:I notify:Q "
    "stage:I role:I estimated_us:d source:Q target:Q size_bytes:Q op_type:I data_type:I link:I transport:I rdma:I",
)
HCCL_OP_INFO = Layout(64, _HEADER + "flags:B data_type:B algorithm:Q count:Q group:Q")
MARK_MAGIC = 0x5A5A
MARK_TAG = 120
MARK_MESSAGE_BYTES = 156
MARK = Layout(
    256,
    _HEADER + "info_type:H segment:H @32 inner_magic:H tag:H pid:I mark_thread_id:I category:I event_type:I "
    "@64 start:Q end:Q mark_id:Q domain:Q message_type:i message:156s",
)

# Device. Section 5; HEAD_* are the function types in the first word.
HEAD_TASK_START = 0
HEAD_TASK_END = 1
HEAD_CONTEXT_START = 0b100010
HEAD_CONTEXT_END = 0b100011
HEAD_CONTEXT_PMU = 0b101000
HEAD_BLOCK_PMU = 0b101001
STARS_SOC = Layout(
    64, "head:H magic:H stream_id:H task_id:H tick:Q subtask_type:H context_id:H fftsplus:H thread_index:H"
)
FFTS_PROFILE = Layout(
    128,
    "head:H magic:H stream_id:H task_id:H @16 subtask_type:H context_id:H core:B fftsplus:B @28 sub_block:H block:H "
    "@32 cycles:Q @48 counters:8Q start_tick:Q end_tick:Q",
)
FREQUENCY_ENTRIES = 55
FREQUENCY = Layout(888, "count:I reserved:I entries:220I")  # 55 x (tick low, tick high, MHz, 0)
TS_STEP = 0x0A
TS_FLIP = 0x0E
TS_TRACK_STEP = Layout(40, "mode:B function:B size:H reserved:I tick:Q index:Q model_id:Q stream_id:H task_id:H tag:H")
TS_TRACK_FLIP = Layout(40, "mode:B function:B size:H reserved:I tick:Q stream_id:H flip:H @22 task_id:H")
L2_CACHE = Layout(72, "task_type:H stream_id:H task_id:H reserved:H counters:8Q")

# Samples. Section 6, version 1.0.
NPU_MEM = Layout(32, "time_us:I event:I reserved:Q ddr_bytes:Q hbm_bytes:Q")
HBM = Layout(24, "time_us:Q count:Q event:I hbm_id:I")


def head(function: int, counter: int, sqe_type: int) -> int:
    """Return the first word of a device record: function, loss counter (modulo 16), queue entry type."""
    return function | (counter & 15) << 6 | sqe_type << 10

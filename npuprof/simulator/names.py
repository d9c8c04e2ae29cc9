"""The dictionaries of a recording: names by 64-bit hash, api and task types by number.

Source: raw/FORMAT.md sections 2.6 and 4.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

LEVEL_MARK = 20500
LEVEL_ACL = 20000
LEVEL_NODE = 10000
LEVEL_COMMUNICATION = 5500
LEVEL_RUNTIME = 5000

# Classes of acl calls: the upper half of their type.
CLASS_RUNTIME = 3
CLASS_OPERATOR = 5
CLASS_COMMUNICATION = 7
# Classes of node calls: communication operators.
CLASS_COLLECTIVE = 2

NODE_BASIC_INFO = 0
NODE_TENSOR_INFO = 1
NODE_CONTEXT_ID_INFO = 4
NODE_LAUNCH = 5
NODE_TASK_MEMORY = 6
NODE_HCCL_OP_INFO = 10
COMMUNICATION_HCCL_INFO = 1
COMMUNICATION_MASTER = 0x010001
COMMUNICATION_SLAVE = 0x010002
RUNTIME_TASK_TRACK = 802
RUNTIME_MEMCPY_INFO = 801

TASK_KERNEL_AICORE = 0
TASK_EVENT_RECORD = 2
TASK_STREAM_WAIT_EVENT = 3
TASK_MEMCPY_ASYNC = 5
TASK_NOTIFY_WAIT = 14
TASK_NOTIFY_RECORD = 15
TASK_RDMA_SEND = 16
TASK_KERNEL_AIVEC = 66
TASK_REDUCE_ASYNC_V2 = 92
TASK_FLIP = 98
TASK_KERNEL_MIX_AIC = 108
TASK_KERNEL_MIX_AIV = 109

_FIXED_TYPES = {
    (LEVEL_NODE, NODE_BASIC_INFO): "node_basic_info",
    (LEVEL_NODE, NODE_TENSOR_INFO): "tensor_info",
    (LEVEL_NODE, NODE_CONTEXT_ID_INFO): "context_id_info",
    (LEVEL_NODE, NODE_LAUNCH): "launch",
    (LEVEL_NODE, NODE_TASK_MEMORY): "task_memory_info",
    (LEVEL_RUNTIME, TASK_KERNEL_AICORE): "KERNEL_AICORE",
    (LEVEL_RUNTIME, TASK_EVENT_RECORD): "EVENT_RECORD",
    (LEVEL_RUNTIME, TASK_STREAM_WAIT_EVENT): "EVENT_WAIT",
    (LEVEL_RUNTIME, TASK_MEMCPY_ASYNC): "MEMCPY_ASYNC",
    (LEVEL_RUNTIME, TASK_KERNEL_AIVEC): "KERNEL_AIVEC",
    # Parsers look for this name.
    (LEVEL_RUNTIME, TASK_FLIP): "FLIP_TASK",
    (LEVEL_RUNTIME, TASK_KERNEL_MIX_AIC): "KERNEL_MIX_AIC",
    (LEVEL_RUNTIME, TASK_KERNEL_MIX_AIV): "KERNEL_MIX_AIV",
    (LEVEL_RUNTIME, RUNTIME_TASK_TRACK): "task_track",
    (LEVEL_RUNTIME, RUNTIME_MEMCPY_INFO): "memcpy_info",
    (LEVEL_MARK, 0): "msproftx",
}
# Registered by the communication library, which is loaded on first use.
_COMMUNICATION_TYPES = {
    (LEVEL_NODE, NODE_HCCL_OP_INFO): "hccl_op_info",
    (LEVEL_COMMUNICATION, COMMUNICATION_HCCL_INFO): "hccl_info",
    (LEVEL_COMMUNICATION, COMMUNICATION_MASTER): "master",
    (LEVEL_COMMUNICATION, COMMUNICATION_SLAVE): "slave",
    (LEVEL_RUNTIME, TASK_NOTIFY_WAIT): "NOTIFY_WAIT",
    (LEVEL_RUNTIME, TASK_NOTIFY_RECORD): "NOTIFY_RECORD",
    (LEVEL_RUNTIME, TASK_RDMA_SEND): "RDMA_SEND",
    (LEVEL_RUNTIME, TASK_REDUCE_ASYNC_V2): "REDUCE_ASYNC_V2",
}
_FIRST_RUNTIME_API = 1001


@lru_cache(maxsize=65536)
def name_hash(name: str) -> int:
    """Return the collector's hash of a name: two polynomials over signed bytes, one in each half."""
    high = low = 0
    for byte in _encode(name):
        signed = byte - 256 if byte > 127 else byte
        high = (high * 29 + signed) & 0xFFFFFFFF
        low = (low * 131 + signed) & 0xFFFFFFFF
    return high << 32 | low


def _encode(name: str) -> bytes:
    """Encode a name as UTF-8; a lone surrogate becomes a question mark."""
    return name.encode(errors="replace")


class Names:
    """The names of a recording, and dictionary lines that are not yet on disk."""

    def __init__(self) -> None:
        self._hashes: dict[str, int] = {}
        self._types: dict[tuple[int, int, str], int] = {}
        self._hash_lines: list[str] = []
        self._type_lines = _lines(_FIXED_TYPES)
        self._communicates = False

    def hash(self, name: str) -> int:
        """Return the hash of a name, which is added to the dictionary."""
        known = self._hashes.get(name)
        if known is None:
            known = self._hashes[name] = name_hash(name)
            # Lines separate the records of this dictionary, so a name cannot contain a line end.
            self._hash_lines.append(f"{known}:{' '.join(name.splitlines())}\n")
        return known

    def api_type(self, level: int, name: str, api_class: int = 0) -> int:
        """Return the number of an API call; new calls are numbered at first use."""
        known = self._types.get((level, api_class, name))
        if known is None:
            serial = len(self._types) + 1
            known = _FIRST_RUNTIME_API + serial if level == LEVEL_RUNTIME else api_class << 16 | serial
            self._types[level, api_class, name] = known
            self._type_lines.append(f"{level}_{known}:{name}\n")
        return known

    def communicate(self) -> None:
        """Register the types of communication, once."""
        if not self._communicates:
            self._communicates = True
            self._type_lines += _lines(_COMMUNICATION_TYPES)

    def take_lines(self) -> tuple[bytes, bytes]:
        """Return the new lines of the hash and the type dictionary."""
        lines = _encode("".join(self._hash_lines)), _encode("".join(self._type_lines))
        self._hash_lines, self._type_lines = [], []
        return lines


def _lines(types: Mapping[tuple[int, int], str]) -> list[str]:
    return [f"{level}_{number}:{name}\n" for (level, number), name in types.items()]

"""The files of torch_npu's own profiler: calls of framework operators, and blocks of memory.

They are in ``FRAMEWORK`` next to the ``PROF_*`` directory, on the same clock. Source: collectors/FRONTENDS.md section
2.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from npuprof.simulator.directory import append_file

FOLDER = "FRAMEWORK"
_OPERATORS = "torch.op_range"
_BLOCKS = "torch.memory_usage"
_PENDING_BYTES = 1 << 20
_MAX_TEXT = 1 << 16

_HEAD = struct.Struct("<HI")
_CALL = struct.Struct("<3q4QBB")
_BLOCK = struct.Struct("<7q2b3B2Q")
_KIND_CALL, _KIND_BLOCK = 1, 3
_NAME, _DTYPES, _SHAPES, _STACK = 2, 3, 4, 8
_NPU = 20  # torch's device type number
_BLOCK_EVENTS = {"allocated": 0, "released": 1}

BlockEvent: TypeAlias = Literal["allocated", "released"]


class OperatorCall(NamedTuple):
    """A call of a framework operator, on the host's monotonic clock."""

    name: str
    thread_id: int
    begin_ns: int
    end_ns: int
    sequence: int = -1  # the number that links a forward call to its backward call; -1 for none
    forward_thread: int = 0  # in the backward pass the thread number of the forward call; 0 elsewhere
    # shapes, dtypes: shapes and data types of the inputs: axes joined by `,` and operands by `;`, types by `;`.
    shapes: str = ""
    dtypes: str = ""
    stack: str = ""  # the frames of the user's code, the innermost first, as `file(line): function` joined by `;`


class Block(NamedTuple):
    """An allocation or release by the framework's allocator, with the totals after it."""

    event: BlockEvent
    thread_id: int
    time_ns: int
    address: int
    size_bytes: int
    allocated_bytes: int
    reserved_bytes: int
    device_id: int


class FrameworkFiles:
    """The files being written; the folder is created by the first write."""

    def __init__(self, parent: Path) -> None:
        self._folder = parent / FOLDER
        self._pending: dict[str, bytearray] = {}

    def call(self, call: OperatorCall) -> None:
        """Add a call of an operator."""
        stamps = (call.begin_ns, call.end_ns, call.sequence)
        threads = (call.thread_id, call.thread_id, call.forward_thread)
        fields = ((_NAME, call.name), (_DTYPES, call.dtypes), (_SHAPES, call.shapes), (_STACK, call.stack))
        texts = b"".join(_record(kind, text.encode(errors="replace")[:_MAX_TEXT]) for kind, text in fields if text)
        self._add(_OPERATORS, _record(_KIND_CALL, _CALL.pack(*stamps, os.getpid(), *threads, 0, 0) + texts))

    def block(self, block: Block) -> None:
        """Add an allocation or release."""
        size = block.size_bytes if block.event == "allocated" else -block.size_bytes
        totals = (block.allocated_bytes, block.reserved_bytes, block.allocated_bytes, 0)
        device = (_NPU, block.device_id, 0, _BLOCK_EVENTS[block.event], 0)
        payload = _BLOCK.pack(block.address, block.time_ns, size, *totals, *device, block.thread_id, os.getpid())
        self._add(_BLOCKS, _record(_KIND_BLOCK, payload))

    def flush(self) -> None:
        """Write the buffers; on an OSError the data is dropped."""
        pending, self._pending = self._pending, {}
        if pending:
            self._folder.mkdir(mode=0o700, exist_ok=True)
        for name, data in pending.items():
            append_file(self._folder / name, bytes(data))

    def _add(self, name: str, data: bytes) -> None:
        waiting = self._pending.setdefault(name, bytearray())
        waiting += data
        if len(waiting) > _PENDING_BYTES:
            self.flush()


def _record(kind: int, payload: bytes) -> bytes:
    return _HEAD.pack(kind, len(payload)) + payload

"""Write FRAMEWORK files and the directory around them, from the specification and not from the decoder.

Source: collectors/FRONTENDS.md section 2.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

START_NS = 5_000_000_000
"""The monotonic clock at the start of the recording."""

EPOCH_OFFSET_NS = 1_763_600_000_123_456_789
"""What lies between that clock and the UTC epoch."""

PROCESS, MAIN, WORKER, BACKWARD = 100, 100, 101, 102

CALL, RETURN, C_CALL, C_RETURN = range(4)
ENQUEUE_BEGIN, ENQUEUE_END, DEQUEUE_BEGIN, DEQUEUE_END = range(4)
ALLOCATED, RELEASED, IDLE = range(3)


def record(kind: int, payload: bytes) -> bytes:
    """Make a record or a field: type, length, value."""
    return struct.pack("<HI", kind, len(payload)) + payload


def text(kind: int, value: str | bytes | None) -> bytes:
    """Make a field of text; nothing for None."""
    if value is None:
        return b""
    return record(kind, value.encode() if isinstance(value, str) else value)


@dataclass
class Framework:
    """The content of one FRAMEWORK folder; times are given from the start of the recording."""

    files: dict[str, bytearray] = field(default_factory=dict)
    to_stamp: Any = None

    def _stamp(self, time_ns: int) -> int:
        return int(self.to_stamp(time_ns)) if self.to_stamp else START_NS + time_ns

    def _add(self, name: str, content: bytes) -> None:
        self.files.setdefault(f"torch.{name}", bytearray()).extend(content)

    def op(
        self,
        name: str | bytes,
        start: int,
        end: int,
        thread: int = MAIN,
        *,
        sequence: int = -1,
        forward_thread: int = 0,
        dtypes: str | None = None,
        shapes: str | None = None,
        stack: str | None = None,
        modules: str | None = None,
    ) -> None:
        """Add a call of an operator."""
        stamps = (self._stamp(start), self._stamp(end), sequence)
        fixed = struct.pack("<3q4QBB", *stamps, PROCESS, thread, thread, forward_thread, 0, 0)
        fields = ((2, name), (3, dtypes), (4, shapes), (8, stack), (9, modules))
        self._add("op_range", record(1, fixed + b"".join(text(kind, value) for kind, value in fields)))

    def mark(self, time: int, category: int, name: str, correlation: int, thread: int) -> None:
        """Add one moment of the task queue."""
        fixed = struct.pack("<q4Q", self._stamp(time), category, correlation, thread, PROCESS)
        self._add("op_mark", record(2, fixed + text(1, name)))

    def queued(self, name: str, correlation: int, enqueue: tuple[int, int], dequeue: tuple[int, int]) -> None:
        """Add an operator's way through the queue: the begin of the enqueue does not know the id yet."""
        self.mark(enqueue[0], ENQUEUE_BEGIN, name, 0, MAIN)
        self.mark(enqueue[1], ENQUEUE_END, name, correlation, MAIN)
        self.mark(dequeue[0], DEQUEUE_BEGIN, name, correlation, WORKER)
        self.mark(dequeue[1], DEQUEUE_END, name, correlation, WORKER)

    def block(
        self,
        time: int,
        kind: int,
        pointer: int,
        size: int,
        totals: tuple[int, int, int] = (0, 0, 0),
        *,
        thread: int = MAIN,
        device_type: int = 20,
        device: int = 2,
        allocator: int = 0,
    ) -> None:
        """Add a record of the allocator; totals are allocated, reserved and active bytes."""
        fixed = struct.pack(
            "<7q2b3B", pointer, self._stamp(time), size, *totals, 77, device_type, device, 0, kind, allocator
        )
        self._add("memory_usage", record(3, fixed + struct.pack("<2Q", thread, PROCESS)))

    def function(self, key: int, name: str | bytes) -> None:
        """Name a Python function."""
        self._add("python_tracer_hash", record(4, struct.pack("<Q", key) + text(1, name)))

    def moment(self, time: int, key: int, tag: int, thread: int = MAIN) -> None:
        """Add a call or a return of a Python function."""
        self._add("python_tracer_func", struct.pack("<4QB", self._stamp(time), thread, PROCESS, key, tag))

    def parameters(self, key: int, module: str | bytes | None = None, optimizer: str | None = None) -> None:
        """Add the parameters of a module or an optimizer."""
        fields = text(1, module) + text(2, optimizer)
        self._add("param_tensor_info", record(5, struct.pack("<Q", key) + fields))

    def pause(self, start: int, end: int) -> None:
        """Add a pause of the garbage collector."""
        self._add("gc_record", struct.pack("<3Q", PROCESS, self._stamp(start), self._stamp(end)))

    def write(self, root: Path, info: Mapping[str, Any] | None = None) -> Path:
        """Write a ``*_ascend_pt`` directory that was not analysed."""
        folder = root / "FRAMEWORK"
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in self.files.items():
            (folder / name).write_bytes(content)
        (root / "profiler_info.json").write_text(json.dumps(dict(info or profiler_info())))
        return root


def profiler_info(**start: Any) -> dict[str, Any]:
    """Make ``profiler_info.json`` of a run of one second."""
    return {
        "config": {"common_config": {"activities": ["ProfilerActivity.CPU"]}, "experimental_config": {}},
        "start_info": {
            "syscnt_enable": False,
            "freq": 100,
            "start_cnt": 0,
            "start_monotonic": START_NS,
            **start,
        },
        "end_info": {
            "collectionTimeEnd": START_NS + 1_000_000_000 + EPOCH_OFFSET_NS,
            "MonotonicTimeEnd": START_NS + 1_000_000_000,
        },
        "torch_npu_version": "2.13.0",
    }


def utc(time: int) -> int:
    """Return the epoch time of a moment of the recording."""
    return START_NS + time + EPOCH_OFFSET_NS


def small() -> Framework:
    """Make a run of two steps with an operator through the queue, a backward pass, calls, memory and a pause."""
    run = Framework()
    run.op("aten::mm", 110, 150, dtypes="float;float", shapes="2,3;3,4", sequence=5, stack="a.py(3): f;b.py(9): g")
    run.op("aten::linear", 105, 190, sequence=4, modules="Net/Linear_0")
    run.queued("aclnnMatmul", 7, (120, 140), (160, 260))
    run.op("MmBackward0", 300, 340, BACKWARD, sequence=5, forward_thread=1)
    run.op("ProfilerStep#3", 100, 400)
    run.op("ProfilerStep#4", 400, 700)
    run.op("aten::add", 450, 500)
    for time, key, tag in ((50, 1, CALL), (100, 2, CALL), (110, 3, C_CALL), (120, 3, C_RETURN), (300, 2, RETURN)):
        run.moment(time, key, tag)
    run.function(1, "train.py(1): <module>")
    run.function(2, "Linear######9001")
    run.function(3, "<built-in method mm>")
    run.block(115, ALLOCATED, 0x1000, 512, (512, 2048, 512))
    run.block(460, RELEASED, 0x1000, -512, (0, 2048, 512))
    run.block(480, IDLE, 0x1000, -512, (0, 2048, 0))
    run.parameters(2, "weight;bias")
    run.pause(600, 650)
    return run

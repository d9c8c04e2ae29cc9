"""The host's records, as bytes. Source: raw/FORMAT.md section 4."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Literal, TypeAlias

from npuprof.simulator import layouts, names
from npuprof.simulator.cost_model import Core, Operator, Tensor
from npuprof.simulator.device_view import MAX_COPY_BYTES, CopyKind, DeviceView, HostCall, Stream, Task
from npuprof.simulator.names import LEVEL_ACL, LEVEL_MARK, LEVEL_NODE, LEVEL_RUNTIME, Names

DESTROYED = 0xFFFF  # flip count of a destroyed stream

# Offsets within a call at which its inner calls begin, the task is created and the node is described.
NODE_AFTER_NS = 400
RUNTIME_AFTER_NS = 1_200
TRACK_AFTER_NS = 2_000
FLIP_AFTER_NS = TRACK_AFTER_NS - 1  # gap between the tasks before and after a wrap of their ids
NODE_INFO_AFTER_NS = 3_400
NODE_END_AFTER_NS = 3_600
RUNTIME_END_AFTER_NS = 2_800

EXTENDED = 40  # this data length means that a task track holds the block number
BASIC_LENGTH = 33
_MEMCPY_LENGTH = 18
ADDITIONAL_LENGTH = 232
_MAX_AXES = 8
_MAX_LENGTH = 0xFFFFFFFF
MAX_BLOCKS = 0xFFFF

# Vector cores that a mixed kernel uses with the cube core of each block. A MIX_AIV kernel is launched the
# same way and keeps no cube core busy: published results of such kernels hold no cycle of a cube.
MIX_RATIOS: dict[Core, int] = {"MIX_AIC": 2, "MIX_AIV": 0}

# Graph engine number of the core, and runtime number of the task type. Sections 4.1 and 4.4.
CORES: dict[Core, tuple[int, int]] = {
    "AI_CORE": (0, names.TASK_KERNEL_AICORE),
    "AI_VECTOR_CORE": (2, names.TASK_KERNEL_AIVEC),
    "MIX_AIC": (4, names.TASK_KERNEL_MIX_AIC),
    "MIX_AIV": (5, names.TASK_KERNEL_MIX_AIV),
}
_TASK_TYPES = {
    "MEMCPY_ASYNC": names.TASK_MEMCPY_ASYNC,
    "EVENT_RECORD": names.TASK_EVENT_RECORD,
    "STREAM_WAIT_EVENT": names.TASK_STREAM_WAIT_EVENT,
}
_DIRECTIONS: dict[CopyKind, int] = {"host_to_device": 1, "device_to_host": 2, "device_to_device": 3}

MarkKind: TypeAlias = Literal["marker", "push_pop", "range", "marker_ex"]
_MARK_KINDS: dict[MarkKind, int] = {"marker": 0, "push_pop": 1, "range": 2, "marker_ex": 3}


@dataclass(frozen=True)
class Mark:
    """A marker (``start_ns == end_ns``) or a finished range, on the host's monotonic clock."""

    kind: MarkKind
    message: bytes
    thread_id: int
    start_ns: int
    end_ns: int
    domain: str = ""


class HostRecords:
    """Builds records; their names go to the recording's dictionaries."""

    def __init__(self, dictionary: Names) -> None:
        self._names = dictionary

    def acl_call(self, name: str, call: HostCall, *, operator: bool = False) -> bytes:
        """Return the api record of an acl call, of the operator library or of the runtime."""
        api_class = names.CLASS_OPERATOR if operator else names.CLASS_RUNTIME
        number = self._names.api_type(LEVEL_ACL, name, api_class)
        return self._api(LEVEL_ACL, number, call, call.begin_ns, call.end_ns, 0)

    def node_launch(self, operator: Operator, call: HostCall) -> bytes:
        """Return the api record of the node's launch, inside the acl call."""
        begin_ns, end_ns = call.begin_ns + NODE_AFTER_NS, call.begin_ns + NODE_END_AFTER_NS
        item = self._names.hash(operator.name)
        return self._api(LEVEL_NODE, names.NODE_LAUNCH, call, begin_ns, end_ns, item)

    def runtime_call(self, name: str, call: HostCall) -> bytes:
        """Return the api record of the runtime call that submits the task."""
        begin_ns, end_ns = call.begin_ns + RUNTIME_AFTER_NS, call.begin_ns + RUNTIME_END_AFTER_NS
        return self._api(LEVEL_RUNTIME, self._names.api_type(LEVEL_RUNTIME, name), call, begin_ns, end_ns, 0)

    def kernel_track(self, task: Task, operator: Operator, call: HostCall) -> bytes:
        return self._track(
            task.device_id,
            task.stream_id,
            task.task_id,
            call.thread_id,
            call.begin_ns + TRACK_AFTER_NS,
            task_type=CORES[operator.core][1],
            kernel_name=self._names.hash(operator.name),
            block_num=min(operator.block_num, MAX_BLOCKS),
            mix_ratio=MIX_RATIOS.get(operator.core, 0),
        )

    def task_track(self, task_type: str, task: Task, call: HostCall) -> bytes:
        """Return the task track of a copy or an event."""
        time_ns = call.begin_ns + TRACK_AFTER_NS
        number = _TASK_TYPES[task_type]
        return self._track(task.device_id, task.stream_id, task.task_id, call.thread_id, time_ns, task_type=number)

    def flip(self, stream: Stream, count: int, call: HostCall) -> bytes:
        """Return the task track of a wrap of a stream's task ids."""
        time_ns = call.begin_ns + FLIP_AFTER_NS
        return self._track(
            stream.device_id, stream.stream_id, 0, call.thread_id, time_ns, task_type=names.TASK_FLIP, flip=count
        )

    def node_basic_info(self, operator: Operator, call: HostCall) -> bytes:
        """Return the record of an operator's type and block count."""
        mix = MIX_RATIOS.get(operator.core, 0)
        return layouts.NODE_BASIC_INFO.pack(
            layouts.HOST_MAGIC,
            LEVEL_NODE,
            names.NODE_BASIC_INFO,
            call.thread_id,
            BASIC_LENGTH,
            call.begin_ns + NODE_INFO_AFTER_NS,
            self._names.hash(operator.name),
            CORES[operator.core][0],
            self._names.hash(operator.op_type),
            min(operator.block_num, MAX_BLOCKS) | mix << 16,
            0,
        )

    def tensor_info(self, operator: Operator, call: HostCall) -> bytes:
        """Return the records of an operator's operands, five in each; nothing without operands."""
        words = [tensor_words(0, tensor) for tensor in operator.inputs]
        words += [tensor_words(1, tensor) for tensor in operator.outputs]
        parts = []
        for first in range(0, len(words), layouts.TENSORS_PER_RECORD):
            chunk = words[first : first + layouts.TENSORS_PER_RECORD]
            flat = [word for tensor in chunk for word in tensor]
            parts.append(self._node_list(names.NODE_TENSOR_INFO, layouts.TENSOR_INFO, operator, call, len(chunk), flat))
        return b"".join(parts)

    def context_ids(self, operator: Operator, call: HostCall) -> bytes:
        """Return the record of a mixed kernel's context; nothing for other kernels."""
        if operator.core not in MIX_RATIOS:
            return b""
        return self._node_list(names.NODE_CONTEXT_ID_INFO, layouts.CONTEXT_ID_INFO, operator, call, 1, [0])

    def memcpy_info(self, kind: CopyKind, size_bytes: int, call: HostCall) -> bytes:
        """Return the record of a copy's size and direction."""
        return layouts.MEMCPY_INFO.pack(
            layouts.HOST_MAGIC,
            LEVEL_RUNTIME,
            names.RUNTIME_MEMCPY_INFO,
            call.thread_id,
            _MEMCPY_LENGTH,
            call.begin_ns + TRACK_AFTER_NS,
            size_bytes,
            MAX_COPY_BYTES,
            _DIRECTIONS[kind],
        )

    def allocation(self, device: DeviceView, address: int, size_bytes: int, call: HostCall) -> bytes:
        """Return the record of an allocation, or of a release (negative `size_bytes`)."""
        return layouts.TASK_MEMORY_INFO.pack(
            layouts.HOST_MAGIC,
            LEVEL_NODE,
            names.NODE_TASK_MEMORY,
            call.thread_id,
            ADDITIONAL_LENGTH,
            call.begin_ns,
            address,
            size_bytes,
            self._names.hash("aclrtMalloc"),
            device.memory.allocated_bytes,
            device.memory.allocated_bytes,
            device.device_id,
            20,  # device type number of an NPU in frameworks
        )

    def mark(self, mark: Mark, mark_id: int) -> bytes:
        """Return the records of a marker or range; a long message of a stream marker takes several records."""
        extended = mark.kind == "marker_ex"
        room = layouts.MARK_MESSAGE_BYTES - 1  # a zero ends the text
        pieces = [mark.message[at : at + room] for at in range(0, len(mark.message), room)] or [b""]
        domain = self._names.hash(mark.domain) if mark.domain else 0
        return b"".join(
            layouts.MARK.pack(
                layouts.HOST_MAGIC,
                LEVEL_MARK,
                0,
                mark.thread_id,
                ADDITIONAL_LENGTH,
                mark.start_ns,
                int(extended),
                segment,
                layouts.MARK_MAGIC,
                layouts.MARK_TAG,
                os.getpid(),
                mark.thread_id,
                0,
                _MARK_KINDS[mark.kind],
                mark.start_ns,
                mark.end_ns,
                mark_id,
                domain,
                0,
                piece,
            )
            for segment, piece in enumerate(pieces)
        )

    @staticmethod
    def _api(level: int, number: int, call: HostCall, begin_ns: int, end_ns: int, item: int) -> bytes:
        return layouts.API.pack(layouts.HOST_MAGIC, level, number, call.thread_id, 0, begin_ns, end_ns, item)

    @staticmethod
    def _track(
        device_id: int,
        stream_id: int,
        task_id: int,
        thread_id: int,
        time_ns: int,
        *,
        task_type: int,
        flip: int = 0,
        kernel_name: int = 0,
        block_num: int = 0,
        mix_ratio: int = 0,
    ) -> bytes:
        return layouts.TASK_TRACK.pack(
            layouts.HOST_MAGIC,
            LEVEL_RUNTIME,
            names.RUNTIME_TASK_TRACK,
            thread_id,
            EXTENDED,
            time_ns,
            device_id,
            stream_id,
            task_id,
            flip,
            task_type,
            kernel_name,
            block_num,
            0,
            mix_ratio,
        )

    def _node_list(
        self, number: int, layout: layouts.Layout, operator: Operator, call: HostCall, count: int, words: list[int]
    ) -> bytes:
        return layout.pack(
            layouts.HOST_MAGIC,
            LEVEL_NODE,
            number,
            call.thread_id,
            ADDITIONAL_LENGTH,
            call.begin_ns + NODE_INFO_AFTER_NS,
            self._names.hash(operator.name),
            count,
            *words,
            *[0] * (55 - len(words)),
        )


def tensor_words(kind: int, tensor: Tensor) -> list[int]:
    """Return the 11 words of an operand; a scalar has one element, for the format has no empty shape."""
    shape = [min(length, _MAX_LENGTH) for length in tensor.shape[:_MAX_AXES]] or [1]
    return [kind, tensor.format_code, tensor.dtype_code, *shape, *[0] * (_MAX_AXES - len(shape))]

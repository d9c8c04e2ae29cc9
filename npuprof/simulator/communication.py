"""A collective on one device: the tasks of its plan, and its records.

Source: raw/FORMAT.md sections 4.1, 4.2, 4.4, 5.1 and 8.9.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from npuprof.simulator import layouts, names
from npuprof.simulator.device_view import HostCall, Task
from npuprof.simulator.host_records import ADDITIONAL_LENGTH, BASIC_LENGTH, EXTENDED, NODE_AFTER_NS, TRACK_AFTER_NS
from npuprof.simulator.names import LEVEL_ACL, LEVEL_COMMUNICATION, LEVEL_NODE, LEVEL_RUNTIME, Names
from npuprof.simulator.plans import LinkKind, Plan

StepKind: TypeAlias = Literal["Notify_Record", "Notify_Wait", "Memcpy", "Reduce_Inline", "RDMASend"]

STEP_NS = 300  # host time of a step within the call
CALL_NS = 3_000  # host time of the call around all steps
_OP_INFO_BEFORE_NS = 600
_NODE_INFO_BEFORE_NS = 700
_NODE_END_BEFORE_NS = 400
_OP_INFO_LENGTH = 26
_NONE = 0xFFFFFFFF

# Runtime number of the task type, and kind of the device's queue entry.
_TASKS: dict[StepKind, tuple[int, int]] = {
    "Notify_Record": (names.TASK_NOTIFY_RECORD, 6),
    "Notify_Wait": (names.TASK_NOTIFY_WAIT, 7),
    "Memcpy": (names.TASK_MEMCPY_ASYNC, 11),
    "Reduce_Inline": (names.TASK_REDUCE_ASYNC_V2, 11),
    "RDMASend": (names.TASK_RDMA_SEND, 16),
}
_DTYPES = {
    "int8": 0,
    "int16": 1,
    "int32": 2,
    "float16": 3,
    "float32": 4,
    "int64": 5,
    "uint64": 6,
    "uint8": 7,
    "bool": 7,
    "uint16": 8,
    "uint32": 9,
    "float64": 10,
    "bfloat16": 11,
}
_NO_DTYPE = 255
_LINKS: dict[LinkKind, int] = {"HCCS": 1, "ROCE": 3}
_CORE_COMMUNICATION = 9  # graph engine number of tasks that run on no core
_SDMA, _RDMA = 0, 1
_RDMA_PAYLOAD = 1


@dataclass(frozen=True)
class Collective:
    """A collective as one rank runs it.

    `name` is the communication library's, such as ``hcom_allReduce_``, `api` is the call, such as ``HcclAllReduce``;
    records number the ranks by their position in `members`.
    """

    name: str
    api: str
    group: str
    rank: int
    members: tuple[int, ...]
    data_type: str
    count: int
    plan: Plan


@dataclass(frozen=True)
class Step:
    """One task of a collective.

    `since_start_ns` is its earliest end after the common start; ``None`` if it waits for no rank.
    """

    kind: StepKind
    plane: int
    remote: int
    size_bytes: int
    link: LinkKind
    duration_ns: int
    since_start_ns: int | None = None


def steps_of(plan: Plan, notify_ns: int) -> list[Step]:
    """Return the tasks of a plan in launch order.

    In each stage a rank notifies its peers, waits for their notifications and moves its data; the last task waits until
    all have ended.
    """
    return list(_steps(plan, notify_ns))


def _steps(plan: Plan, notify_ns: int) -> Iterator[Step]:
    begin_ns = 0
    for stage in plan.stages:
        for move in stage.moves:
            yield Step("Notify_Record", move.plane, move.peer, 0, move.link, notify_ns)
            yield Step("Notify_Wait", move.plane, move.peer, 0, move.link, notify_ns, begin_ns)
            if move.size_bytes:
                kind: StepKind = "Reduce_Inline" if move.kind == "reduce" else "Memcpy"
                if move.link == "ROCE":
                    kind = "RDMASend"
                yield Step(kind, move.plane, move.peer, move.size_bytes, move.link, stage.duration_ns)
        # A notification in each direction separates the data of two stages.
        begin_ns += stage.duration_ns + 2 * notify_ns
    if plan.stages:
        last = plan.stages[-1].moves[0]
        yield Step("Notify_Wait", 0, last.peer, 0, last.link, notify_ns, begin_ns)


def call_duration_ns(steps: int) -> int:
    """Return the host time of a call with these steps."""
    return CALL_NS + STEP_NS * steps


def sqe_of(step: Step) -> int:
    """Return the queue entry type of a step's task."""
    return _TASKS[step.kind][1]


class CommunicationRecords:
    """Builds the host's records of collectives."""

    def __init__(self, dictionary: Names) -> None:
        self._names = dictionary

    def library_call(self, collective: Collective, call: HostCall) -> bytes:
        """Return the api record of the communication library's call."""
        number = self._names.api_type(LEVEL_ACL, collective.api, names.CLASS_COMMUNICATION)
        return _api(LEVEL_ACL, number, call, call.begin_ns, call.end_ns, 0)

    def node_call(self, collective: Collective, call: HostCall) -> bytes:
        """Return the api record of the operator around its steps."""
        self._names.communicate()
        number = self._names.api_type(LEVEL_NODE, collective.name, names.CLASS_COLLECTIVE)
        span = (call.begin_ns + NODE_AFTER_NS, call.end_ns - _NODE_END_BEFORE_NS)
        return _api(LEVEL_NODE, number, call, *span, self._names.hash(collective.name))

    def node_basic_info(self, collective: Collective, call: HostCall) -> bytes:
        """Return the record of the operator's type, which a parser needs for its statistics."""
        name = self._names.hash(collective.name)
        return layouts.NODE_BASIC_INFO.pack(
            layouts.HOST_MAGIC,
            LEVEL_NODE,
            names.NODE_BASIC_INFO,
            call.thread_id,
            BASIC_LENGTH,
            call.end_ns - _NODE_INFO_BEFORE_NS,
            name,
            _CORE_COMMUNICATION,
            name,
            0,
            0,
        )

    def operator(self, collective: Collective, call: HostCall) -> bytes:
        """Return the record of the operator's data type, count, algorithm and group."""
        return layouts.HCCL_OP_INFO.pack(
            layouts.HOST_MAGIC,
            LEVEL_NODE,
            names.NODE_HCCL_OP_INFO,
            call.thread_id,
            _OP_INFO_LENGTH,
            call.end_ns - _OP_INFO_BEFORE_NS,
            0,
            _DTYPES.get(collective.data_type, _NO_DTYPE),
            self._names.hash(collective.plan.algorithm),
            collective.count,
            self._names.hash(collective.group),
        )

    def step_call(self, number: int, step: Step, call: HostCall) -> bytes:
        """Return the api record of a step, on the main stream (plane 0) or a side stream."""
        at = _step_ns(number, call)
        stream = names.COMMUNICATION_SLAVE if step.plane else names.COMMUNICATION_MASTER
        return _api(LEVEL_COMMUNICATION, stream, call, at, at + STEP_NS - 50, self._names.hash(step.kind))

    def step_track(self, number: int, step: Step, task: Task, call: HostCall) -> bytes:
        return layouts.TASK_TRACK.pack(
            layouts.HOST_MAGIC,
            LEVEL_RUNTIME,
            names.RUNTIME_TASK_TRACK,
            call.thread_id,
            EXTENDED,
            _step_ns(number, call) + STEP_NS // 3,
            task.device_id,
            task.stream_id,
            task.task_id,
            0,
            _TASKS[step.kind][0],
            *(0, 0, 0, 0),
        )

    def step_info(self, number: int, step: Step, collective: Collective, call: HostCall) -> bytes:
        """Return the record of a step's ranks, data and link."""
        moves = bool(step.size_bytes)
        return layouts.HCCL_INFO.pack(
            layouts.HOST_MAGIC,
            LEVEL_COMMUNICATION,
            names.COMMUNICATION_HCCL_INFO,
            call.thread_id,
            ADDITIONAL_LENGTH,
            _step_ns(number, call) + STEP_NS // 2,
            self._names.hash(step.kind),
            0,
            self._names.hash(collective.group),
            collective.members.index(collective.rank),
            collective.members.index(step.remote),
            len(collective.members),
            0,
            step.plane,
            _NONE,
            0 if moves else number + 1,
            0,
            0,
            step.duration_ns / 1000,
            0,
            0,
            step.size_bytes,
            0,
            _DTYPES.get(collective.data_type, _NO_DTYPE),
            _LINKS[step.link],
            _RDMA if step.link == "ROCE" else _SDMA,
            _RDMA_PAYLOAD if step.kind == "RDMASend" else _NONE,
        )


def _step_ns(number: int, call: HostCall) -> int:
    return call.begin_ns + TRACK_AFTER_NS + number * STEP_NS


def _api(level: int, number: int, call: HostCall, begin_ns: int, end_ns: int, item: int) -> bytes:
    return layouts.API.pack(layouts.HOST_MAGIC, level, number, call.thread_id, 0, begin_ns, end_ns, item)

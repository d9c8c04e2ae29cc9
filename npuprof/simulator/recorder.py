"""The recorder: turns events of the machine into records, and records into files.

The machine's lock is held in every call. Host records are written as they arrive; device records are held back until
the clock has passed them. Both are written in batches.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from npuprof.recordings.clock import Clock
from npuprof.simulator import device_records, host_records
from npuprof.simulator.clock import same_microsecond
from npuprof.simulator.collection import Collection
from npuprof.simulator.communication import Collective, CommunicationRecords, Step, sqe_of
from npuprof.simulator.cost_model import Chip, Estimate, Operator
from npuprof.simulator.device_records import MemorySampler
from npuprof.simulator.device_view import CopyKind, DeviceView, HostCall, Stream, Task
from npuprof.simulator.directory import ProfDirectory
from npuprof.simulator.framework import Block, FrameworkFiles, OperatorCall
from npuprof.simulator.names import Names

_BATCH_RECORDS = 2048
_BATCH_NS = 500_000_000


class Recorder:
    """A recording from start to stop, in a ``PROF_*`` directory below `parent`; an OSError if it cannot be created.

    Attributes
    ----------
    error
        The error that ended writing, such as a full disk. The machine continues.
    """

    def __init__(
        self,
        collection: Collection,
        parent: Path,
        *,
        chip: Chip,
        clock: Clock,
        rank_id: int,
        devices: Iterable[DeviceView],
    ) -> None:
        self._clock = clock
        self.collection = collection
        self.error: OSError | None = None
        self._names = Names()
        self._host = host_records.HostRecords(self._names)
        self._communication = CommunicationRecords(self._names)
        self._devices: dict[int, device_records.DeviceRecords] = {}
        self._samplers: dict[int, MemorySampler] = {}
        self._mark_ids = itertools.count(1)
        self._unwritten = 0
        realtime_ns, monotonic_ns = same_microsecond(clock)
        self._started_ns = self._written_ns = monotonic_ns
        self._directory = ProfDirectory(parent, chip, collection, realtime_ns, monotonic_ns, rank_id)
        self._framework: FrameworkFiles | None = FrameworkFiles(parent)
        self._write_dictionaries()
        for device in devices:
            self.open_device(device)

    @property
    def directory(self) -> Path:
        """The ``PROF_*`` directory."""
        return self._directory.path

    # -- what happens --------------------------------------------------------------------------------------

    def open_device(self, device: DeviceView) -> None:
        """Add a device, if the collection includes it."""
        if device.device_id not in self.collection.device_ids or device.device_id in self._devices or self.error:
            return
        now_ns = self._clock.monotonic_raw_ns()
        # A time at which the device's counter ticks, so that the two clocks are paired without rounding.
        tick = device.tick_at(now_ns)
        try:
            self._directory.open_device(device.device_id, device.ns_at(tick), tick)
        except OSError as error:
            self._fail(error)
            return
        records = self._devices[device.device_id] = device_records.DeviceRecords(device, self.collection)
        # Before the start: an entry states the frequency from then on.
        records.frequency(tick - 1, device.chip.idle_mhz)
        if self.collection.memory_hz:
            self._samplers[device.device_id] = MemorySampler(device, device.ns_at(tick), self.collection.memory_hz)

    def operator_launched(
        self, device: DeviceView, task: Task, operator: Operator, work: Estimate, call: HostCall
    ) -> None:
        """Record the launch of an operator."""
        wanted = self.collection
        if wanted.acl_api:
            self._api(self._host.acl_call(operator.api, call, operator=True))
        if wanted.tasks:
            self._api(self._host.node_launch(operator, call))
            if device.device_id in self._devices:
                self._on_host("aging.compact.task_track", self._host.kernel_track(task, operator, call))
        if wanted.runtime_api:
            self._api(self._host.runtime_call("KernelLaunch", call))
        if wanted.operator_details:
            self._on_host("aging.compact.node_basic_info", self._host.node_basic_info(operator, call))
            self._on_host("aging.additional.tensor_info", self._host.tensor_info(operator, call))
            self._on_host("aging.additional.context_id_info", self._host.context_ids(operator, call))
        if (records := self._devices.get(device.device_id)) is not None:
            records.kernel(task, operator, work)
            if (sampler := self._samplers.get(device.device_id)) is not None:
                sampler.traffic(task.start_ns, task.end_ns, operator.read_bytes, operator.written_bytes)
        self._batch(call.end_ns)

    def copied(
        self, device: DeviceView, tasks: tuple[Task, ...], kind: CopyKind, size_bytes: int, call: HostCall, wait: bool
    ) -> None:
        """Record a copy."""
        if self.collection.acl_api:
            self._api(self._host.acl_call("aclrtMemcpy" if wait else "aclrtMemcpyAsync", call))
        if self.collection.runtime_api:
            self._api(self._host.runtime_call("MemCopySync" if wait else "MemcpyAsync", call))
        records = self._devices.get(device.device_id)
        if self.collection.tasks and records is not None:
            self._on_host("aging.compact.memcpy_info", self._host.memcpy_info(kind, size_bytes, call))
            for task in tasks:
                self._on_host("aging.compact.task_track", self._host.task_track("MEMCPY_ASYNC", task, call))
                records.copy(task, kind)
        if (sampler := self._samplers.get(device.device_id)) is not None:
            reads, writes = kind != "host_to_device", kind != "device_to_host"
            sampler.traffic(tasks[0].start_ns, tasks[-1].end_ns, size_bytes * reads, size_bytes * writes)
        self._batch(call.end_ns)

    def communicated(
        self, device: DeviceView, collective: Collective, steps: Sequence[Step], tasks: Sequence[Task], call: HostCall
    ) -> None:
        """Record a collective, with one task per step."""
        wanted, makes = self.collection, self._communication
        if wanted.acl_api:
            self._api(makes.library_call(collective, call))
        records = self._devices.get(device.device_id)
        if wanted.tasks and records is not None:
            self._api(makes.node_call(collective, call))
            for number, (step, task) in enumerate(zip(steps, tasks, strict=True)):
                self._api(makes.step_call(number, step, call))
                self._on_host("aging.compact.task_track", makes.step_track(number, step, task, call))
                if wanted.communication:
                    info = makes.step_info(number, step, collective, call)
                    self._on_host("aging.additional.hccl_info", info)
                records.communication(task, sqe_of(step))
            if wanted.operator_details:
                self._on_host("aging.compact.node_basic_info", makes.node_basic_info(collective, call))
            if wanted.communication:
                self._on_host("aging.compact.hccl_op_info", makes.operator(collective, call))
        self._batch(call.end_ns)

    def event_recorded(self, device: DeviceView, task: Task, call: HostCall) -> None:
        """Record an event in a stream."""
        self._event(device, task, call, "aclrtRecordEvent", "EventRecord", "EVENT_RECORD")

    def event_awaited(self, device: DeviceView, task: Task, call: HostCall) -> None:
        """Record a stream's wait for an event."""
        self._event(device, task, call, "aclrtStreamWaitEvent", "StreamWaitEvent", "STREAM_WAIT_EVENT")

    def runtime_call(self, name: str, call: HostCall) -> None:
        """Record a call without a task, such as a synchronisation."""
        # A call that was in progress in another thread at the start of the recording is not part of it.
        if self.collection.acl_api and call.begin_ns >= self._started_ns:
            self._api(self._host.acl_call(name, call))
        self._batch(call.end_ns)

    def task_ids_wrapped(self, device: DeviceView, stream: Stream, tick: int, call: HostCall) -> None:
        """Record a wrap of the task ids of a stream."""
        self._flip(device, stream, stream.flip_count, tick, call)

    def stream_destroyed(self, device: DeviceView, stream: Stream, call: HostCall) -> None:
        """Record that a stream is destroyed; its id may be reused."""
        tick = max(stream.end_tick + 1, device.tick_at(call.begin_ns))
        self._flip(device, stream, host_records.DESTROYED, tick, call)

    def marked(self, mark: host_records.Mark) -> None:
        """Record a marker or a finished range."""
        # A range that began before the recording is not part of it.
        if self.collection.marks and mark.start_ns >= self._started_ns:
            self._on_host("aging.additional.msproftx", self._host.mark(mark, next(self._mark_ids)))
            self._batch(mark.end_ns)

    def marked_on_stream(self, device: DeviceView, task: Task, mark: host_records.Mark) -> None:
        """Record a marker on the host and in a stream."""
        if self.collection.marks and mark.start_ns >= self._started_ns:
            mark_id = next(self._mark_ids)
            self._on_host("aging.additional.msproftx", self._host.mark(mark, mark_id))
            self._step(device, task, mark_id, device_records.TAG_MARK)

    def step_tagged(self, device: DeviceView, task: Task, index: int, tag: int) -> None:
        """Record the begin or end of a step in a stream."""
        if self.collection.steps:
            self._step(device, task, index, tag)

    def memory_changed(self, device: DeviceView, address: int, size_bytes: int, call: HostCall) -> None:
        """Record an allocation (positive `size_bytes`) or release."""
        if (sampler := self._samplers.get(device.device_id)) is not None:
            sampler.allocated(call.begin_ns, device.memory.allocated_bytes)
        if self.collection.allocations:
            record = self._host.allocation(device, address, size_bytes, call)
            self._on_host("aging.additional.task_memory_info", record)
        self._batch(call.end_ns)

    # -- frameworks ----------------------------------------------------------------------------------------

    @property
    def takes_framework(self) -> bool:
        """Whether calls of framework operators are recorded."""
        return self._framework is not None and self.error is None

    def without_framework(self) -> None:
        """Skip calls of framework operators, in a collection of the device only."""
        self._framework = None

    def operator_called(self, call: OperatorCall) -> None:
        """Record a call of a framework operator, unless it began before the recording."""
        if self._framework is not None and call.begin_ns >= self._started_ns:
            self._to_framework(lambda files: files.call(call))

    def block_changed(self, block: Block) -> None:
        """Record an allocation or release of a framework's allocator."""
        if self._framework is not None and self.collection.allocations and block.time_ns >= self._started_ns:
            self._to_framework(lambda files: files.block(block))

    def _to_framework(self, write: Callable[[FrameworkFiles], None]) -> None:
        if self._framework is not None and self.error is None:
            try:
                write(self._framework)
            except OSError as error:
                self._fail(error)

    # -- the end -------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Write all remaining records and complete the directory, after the last task; see :attr:`error`."""
        if self.error is None:
            try:
                self._write(self._clock.monotonic_raw_ns(), everything=True)
                if self._framework is not None:
                    self._framework.flush()
                self._directory.close(*same_microsecond(self._clock, later=True))
            except OSError as error:
                self._fail(error)

    # -- internals -----------------------------------------------------------------------------------------

    def _event(self, device: DeviceView, task: Task, call: HostCall, acl: str, runtime: str, task_type: str) -> None:
        if self.collection.acl_api:
            self._api(self._host.acl_call(acl, call))
        if self.collection.runtime_api:
            self._api(self._host.runtime_call(runtime, call))
        if self.collection.tasks and (records := self._devices.get(device.device_id)) is not None:
            self._on_host("aging.compact.task_track", self._host.task_track(task_type, task, call))
            records.event(task, task_type)
        self._batch(call.end_ns)

    def _flip(self, device: DeviceView, stream: Stream, count: int, tick: int, call: HostCall) -> None:
        if self.collection.tasks and (records := self._devices.get(device.device_id)) is not None:
            self._on_host("aging.compact.task_track", self._host.flip(stream, count, call))
            records.flip(stream.stream_id, count, tick)

    def _step(self, device: DeviceView, task: Task, index: int, tag: int) -> None:
        if (records := self._devices.get(device.device_id)) is not None:
            records.step(task, index, tag)
            self._batch(task.end_ns)

    def _api(self, data: bytes) -> None:
        self._on_host("aging.api_event.data", data)

    def _on_host(self, name: str, data: bytes) -> None:
        if self.error is None and data:
            self._unwritten += 1
            try:
                self._directory.host(name, data)
            except OSError as error:
                self._fail(error)

    def _batch(self, now_ns: int) -> None:
        """Write a batch once there are enough records, or enough time has passed."""
        if self.error is None and (self._unwritten > _BATCH_RECORDS or now_ns - self._written_ns > _BATCH_NS):
            try:
                self._write(now_ns, everything=False)
            except OSError as error:
                self._fail(error)

    def _write(self, now_ns: int, *, everything: bool) -> None:
        self._unwritten = 0
        self._written_ns = now_ns
        self._write_dictionaries()
        for device_id, sampler in self._samplers.items():
            for name, data in sampler.samples_until(now_ns):
                self._directory.device(device_id, name, data)
        for device_id, records in self._devices.items():
            until_tick = None if everything else records.device.tick_at(now_ns)
            for name, data in records.take(until_tick):
                self._directory.device(device_id, name, data)
        self._directory.flush()

    def _write_dictionaries(self) -> None:
        self._directory.dictionaries(*self._names.take_lines())

    def _fail(self, error: OSError) -> None:
        self.error = error
        for records in self._devices.values():
            records.discard()
        try:
            self._directory.abandon()
        except OSError as further:
            self.error = further

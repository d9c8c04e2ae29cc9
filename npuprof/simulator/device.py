"""A simulated device: streams that run operators, copies and waits in order, on the device's own counter.

Times are fixed at launch. A task starts at the latest of three times: the launch plus a latency, the end of the
previous task in its stream, and the events that the stream waits for; its duration follows from the roofline of the
chip. Streams do not slow each other down: concurrent kernels take as long as they would alone.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from npuprof.lines import call_stacks
from npuprof.simulator.clock import emulated
from npuprof.simulator.cost_model import Core, Operator, Tensor, block_count, estimate
from npuprof.simulator.device_view import (
    MAX_COPY_BYTES,
    QUEUE_DEPTH,
    TASK_IDS,
    CopyKind,
    DeviceView,
    Event,
    HostCall,
    Stream,
    Task,
)
from npuprof.simulator.host import Host

if TYPE_CHECKING:
    from npuprof.simulator.communication import Collective, Step
    from npuprof.simulator.host_records import Mark

FLIP_TICKS = 5  # the task that announces a wrap of the task ids briefly occupies the stream
_EVENT_TICKS = 5
_COPY_FLOOR_NS = 2_000
_MAX_STREAMS = 2048  # stream ids have 11 bits
_emulated = emulated(lambda device: device.host.clock)


class Device(DeviceView):
    """One NPU of a host."""

    def __init__(self, host: Host, device_id: int) -> None:
        super().__init__(device_id, host.chip)
        self.host = host
        self._streams: dict[int, Stream] = {}
        self.default_stream = self.create_stream()

    # -- streams and events --------------------------------------------------------------------------------

    @property
    def streams(self) -> tuple[Stream, ...]:
        """The existing streams, in creation order; the first is the default stream."""
        return tuple(self._streams.values())

    def create_stream(self) -> Stream:
        """Create a stream.

        Raises
        ------
        RuntimeError
            If all 2048 stream ids are in use.
        """
        with self.host.lock:
            free = next((number for number in range(_MAX_STREAMS) if number not in self._streams), None)
            if free is None:
                raise RuntimeError(f"device {self.device_id} has no free stream: destroy some of its {_MAX_STREAMS}")
            stream = self._streams[free] = Stream(self.device_id, free)
            return stream

    @_emulated
    def destroy_stream(self, stream: Stream) -> None:
        """Wait for a stream and destroy it; its id becomes free."""
        self.synchronize(stream)
        with self.host.lock:
            stream.destroyed = True
            self._streams.pop(stream.stream_id, None)
            if (recorder := self.host.recorder) is not None:
                recorder.stream_destroyed(self, stream, self.host.call_now())

    @_emulated
    def record_event(self, event: Event, stream: Stream | None = None) -> Task:
        """Record `event` after the tasks now in the stream."""
        stream = self._wait_for_room(stream)
        with self.host.lock:
            call = self._begin_call()
            task = self._enqueue(stream, call, _EVENT_TICKS)
            event.recorded_ns = task.end_ns
            if (recorder := self.host.recorder) is not None:
                recorder.event_recorded(self, task, call)
        self.host.end_call(call)
        return task

    @_emulated
    def wait_event(self, event: Event, stream: Stream | None = None) -> Task:
        """Make the stream wait for `event`; an event that was never recorded delays nothing."""
        stream = self._wait_for_room(stream)
        with self.host.lock:
            call = self._begin_call()
            until = 0 if event.recorded_ns is None else self.tick_at(event.recorded_ns)
            task = self._enqueue(stream, call, _EVENT_TICKS, until_tick=until)
            if (recorder := self.host.recorder) is not None:
                recorder.event_awaited(self, task, call)
        self.host.end_call(call)
        return task

    @_emulated
    def synchronize(self, stream: Stream | None = None) -> None:
        """Wait on the clock for the tasks of the stream, or of all streams."""
        with self.host.lock:
            waited = [stream] if stream is not None else self._streams.values()
            end_ns = self.ns_at(max((each.end_tick for each in waited), default=0))
        self._wait("aclrtSynchronizeDevice" if stream is None else "aclrtSynchronizeStream", end_ns)

    @_emulated
    def synchronize_event(self, event: Event) -> None:
        """Wait on the clock for an event; return at once if it was never recorded."""
        self._wait("aclrtSynchronizeEvent", event.recorded_ns or 0)

    def _wait(self, name: str, end_ns: int) -> None:
        """Wait until a time within a host call of the given name."""
        host = self.host
        begin_ns = host.clock.monotonic_raw_ns()
        call_stacks.take(begin_ns)
        host.clock.sleep_until_ns(max(end_ns, begin_ns + 1))
        call = HostCall(threading.get_native_id(), begin_ns, host.clock.monotonic_raw_ns())
        with host.lock:
            if host.recorder is not None:
                host.recorder.runtime_call(name, call)
        self.host.end_call(call)

    @_emulated
    def tag_step(self, index: int, tag: int, stream: Stream | None = None) -> Task:
        """Record the begin or end of a step at the current position of the stream."""
        stream = self._wait_for_room(stream)
        with self.host.lock:
            task = self._enqueue(stream, self._begin_call(), _EVENT_TICKS)
            if (recorder := self.host.recorder) is not None:
                recorder.step_tagged(self, task, index, tag)
        return task

    @_emulated
    def mark(self, mark: Mark, stream: Stream | None = None) -> Task:
        """Record a marker of the host at the current position of the stream."""
        stream = self._wait_for_room(stream)
        with self.host.lock:
            task = self._enqueue(stream, self._begin_call(), _EVENT_TICKS)
            if (recorder := self.host.recorder) is not None:
                recorder.marked_on_stream(self, task, mark)
        return task

    # -- memory --------------------------------------------------------------------------------------------

    @_emulated
    def allocate(self, size_bytes: int) -> int:
        """Return the address of a new block of device memory, or 0 if it is full."""
        with self.host.lock:
            call = self._begin_call()
            address = self.memory.allocate(size_bytes)
            if address and (recorder := self.host.recorder) is not None:
                recorder.memory_changed(self, address, self.memory.size_of(address), call)
        return address

    @_emulated
    def release(self, address: int) -> bool:
        """Release a block; return whether the address was that of a block."""
        with self.host.lock:
            call = self._begin_call()
            size_bytes = self.memory.release(address)
            if size_bytes and (recorder := self.host.recorder) is not None:
                recorder.memory_changed(self, address, -size_bytes, call)
        return bool(size_bytes)

    # -- work ----------------------------------------------------------------------------------------------

    @_emulated
    def launch(
        self,
        op_type: str,
        *,
        core: Core = "AI_VECTOR_CORE",
        inputs: Sequence[Tensor] = (),
        outputs: Sequence[Tensor] = (),
        flops: int = 0,
        read_bytes: int | None = None,
        written_bytes: int | None = None,
        block_num: int | None = None,
        name: str | None = None,
        api: str | None = None,
        stream: Stream | None = None,
    ) -> Task:
        """Launch an operator from the calling thread and return at once.

        Parameters
        ----------
        op_type, core
            The operator's type (``MatMulV3``, ``Add`` ...) and its cores.
        inputs, outputs
            Operands in order.
        flops
            Number of operations.
        read_bytes, written_bytes
            Memory traffic; by default the sizes of the inputs and of the outputs.
        block_num
            Number of cores; by default chosen by size.
        name, api
            The node's name and the acl call; by default ``aclnn`` and the type, as in single-operator calls.
        stream
            By default the default stream.
        """
        api = api or f"aclnn{op_type}"
        read = sum(tensor.size_bytes for tensor in inputs) if read_bytes is None else read_bytes
        written = sum(tensor.size_bytes for tensor in outputs) if written_bytes is None else written_bytes
        if block_num is None:
            block_num = block_count(self.chip, core, tuple(outputs), read + written)
        name = name or f"{api}_{op_type}_{op_type}"
        operands = tuple(inputs), tuple(outputs)
        operator = Operator(op_type, name, api, core, *operands, int(flops), read, written, block_num)
        return self._launch(operator, stream)

    def _launch(self, operator: Operator, stream: Stream | None) -> Task:
        work = estimate(self.chip, operator)
        stream = self._wait_for_room(stream)
        with self.host.lock:
            call = self._begin_call()
            ticks = max(2, -(-work.duration_ns // self.chip.tick_ns))
            task = self._enqueue(stream, call, ticks)
            if (recorder := self.host.recorder) is not None:
                recorder.operator_launched(self, task, operator, work, call)
        self.host.end_call(call)
        return task

    @_emulated
    def copy(
        self, kind: CopyKind, size_bytes: int, stream: Stream | None = None, *, wait: bool = False
    ) -> tuple[Task, ...]:
        """Copy between host and device or on the device, in tasks of up to 64 MiB; `wait` is the synchronous call."""
        stream = self._wait_for_room(stream)
        with self.host.lock:
            call = self._begin_call()
            parts = _parts(size_bytes)
            if stream.next_task_id + len(parts) > TASK_IDS:
                # The track records of a copy share a timestamp, so the task ids cannot wrap between them.
                stream.next_task_id = TASK_IDS
            tasks = tuple(self._enqueue(stream, call, self._copy_ticks(kind, part_bytes)) for part_bytes in parts)
            if wait:
                call = call._replace(end_ns=max(call.end_ns, tasks[-1].end_ns))
            if (recorder := self.host.recorder) is not None:
                recorder.copied(self, tasks, kind, size_bytes, call, wait)
        if wait:
            self.host.clock.sleep_until_ns(call.end_ns)
        self.host.end_call(call)
        return tasks

    # -- communication -------------------------------------------------------------------------------------

    @_emulated
    def begin_communication(self, duration_ns: int) -> HostCall:
        """Begin the call of a collective, with this duration on the host."""
        with self.host.lock:
            call = self._begin_call()
        return call._replace(end_ns=call.begin_ns + duration_ns)

    def ready_ns(self, streams: Sequence[Stream], call: HostCall) -> int:
        """Return the earliest start of a task of `call` on all of the streams, on the host's clock."""
        with self.host.lock:
            earliest = self.tick_at(call.begin_ns + self.chip.launch_latency_ns)
            return self.ns_at(max([earliest, *(stream.end_tick for stream in streams)]))

    @_emulated
    def communicate(
        self, collective: Collective, steps: Sequence[Step], planes: Sequence[Stream], call: HostCall, start_ns: int
    ) -> list[Task]:
        """Run the steps of a collective, each on the stream of its plane, after `start_ns` on the host's clock."""
        with self.host.lock:
            for stream in planes:
                if stream.next_task_id + len(steps) > TASK_IDS:
                    stream.next_task_id = TASK_IDS  # a wrap of the ids precedes the first step
            tasks = []
            for step in steps:
                until = 0 if step.since_start_ns is None else self.tick_at(start_ns + step.since_start_ns)
                ticks = -(-step.duration_ns // self.chip.tick_ns)
                tasks.append(self._enqueue(planes[step.plane], call, ticks, until_tick=until))
            if (recorder := self.host.recorder) is not None:
                recorder.communicated(self, collective, steps, tasks, call)
        self.host.end_call(call)
        return tasks

    # -- internals -----------------------------------------------------------------------------------------

    def _copy_ticks(self, kind: CopyKind, size_bytes: int) -> int:
        # On the device, reading and writing use the same memory.
        seconds = {
            "host_to_device": size_bytes / self.chip.host_to_device_bytes_per_s,
            "device_to_host": size_bytes / self.chip.device_to_host_bytes_per_s,
            "device_to_device": 2 * size_bytes / self.chip.hbm_bytes_per_s,
        }[kind]
        return -(-(round(seconds * 1e9) + _COPY_FLOOR_NS) // self.chip.tick_ns)

    def _wait_for_room(self, stream: Stream | None) -> Stream:
        """Return the stream, by default the default stream, once its queue has room."""
        stream = self.default_stream if stream is None else stream
        if stream.destroyed:
            raise ValueError(f"stream {stream.stream_id} of device {self.device_id} was destroyed: create another")
        if len(stream.queued_ns) == QUEUE_DEPTH:
            self.host.clock.sleep_until_ns(stream.queued_ns[0])
        return stream

    def _begin_call(self) -> HostCall:
        self.host.activate(self)
        return self.host.call_now()

    def _enqueue(self, stream: Stream, call: HostCall, ticks: int, until_tick: int = 0) -> Task:
        """Return the next task of a stream with its id and times; the caller holds the lock."""
        earliest = self.tick_at(call.begin_ns + self.chip.launch_latency_ns)
        start = max(earliest, stream.end_tick)
        task_id = stream.next_task_id
        if task_id == TASK_IDS:
            task_id = 0
            stream.flip_count += 1
            flip_tick = start + 1
            start = flip_tick + FLIP_TICKS
            if (recorder := self.host.recorder) is not None:
                recorder.task_ids_wrapped(self, stream, flip_tick, call)
        end = max(start + ticks, until_tick)
        stream.next_task_id = task_id + 1
        stream.end_tick = end
        stream.queued_ns.append(self.ns_at(end))
        return Task(self.device_id, stream.stream_id, task_id, start, end, self.ns_at(start), self.ns_at(end))


def _parts(size_bytes: int) -> list[int]:
    """Return the task sizes of a copy; an empty copy is one task."""
    full, remainder = divmod(size_bytes, MAX_COPY_BYTES)
    return [MAX_COPY_BYTES] * full + ([remainder] if remainder or not full else [])

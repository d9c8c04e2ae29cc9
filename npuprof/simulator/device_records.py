"""A device's records, in the order of its counter, and samples of its memory. Source: raw/FORMAT.md sections 5 and 6.

A device reports a task after it has run, while the simulator knows the task at launch: records are held back until the
counter has passed them. No thread samples memory: samples are computed from the recorded changes.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Iterator
from operator import itemgetter

import numpy as np

from npuprof.simulator import layouts, pmu
from npuprof.simulator.collection import Collection
from npuprof.simulator.cost_model import Core, Estimate, Operator
from npuprof.simulator.device_view import CopyKind, DeviceView, Task
from npuprof.simulator.host_records import MIX_RATIOS

_HBM_STACKS = 4
_BYTES_A_COUNT = 32
_AT_ONCE = 256
_EVENT_READ = 0
_EVENT_WRITE = 1
_EVENT_PROCESS = 0
_EVENT_DEVICE = 1


class MemorySampler:
    """Samples of allocated memory and of memory bandwidth of one device, since `anchor_ns`."""

    def __init__(self, device: DeviceView, anchor_ns: int, frequency_hz: int) -> None:
        self._system_bytes = device.chip.system_bytes
        self._anchor_ns = anchor_ns
        self._period_ns = 10**9 // frequency_hz
        self._next = 0
        self._allocated = [(anchor_ns, device.memory.allocated_bytes)]
        self._traffic: list[tuple[int, int, int, int]] = []

    def allocated(self, time_ns: int, allocated_bytes: int) -> None:
        """Record the allocated bytes from a time on."""
        self._allocated.append((time_ns, allocated_bytes))

    def traffic(self, start_ns: int, end_ns: int, read_bytes: int, written_bytes: int) -> None:
        """Record traffic that is spread evenly over an interval."""
        self._traffic.append((start_ns, end_ns, read_bytes, written_bytes))

    def samples_until(self, now_ns: int) -> Iterator[tuple[str, bytes]]:
        """Yield stream names and records of the new samples up to a time."""
        last = (now_ns - self._anchor_ns) // self._period_ns
        while self._next <= last:
            # In batches: a long pause has many samples, times all intervals of traffic before it.
            offsets_ns = np.arange(self._next, min(last + 1, self._next + _AT_ONCE)) * self._period_ns
            self._next += len(offsets_ns)
            yield "hbm.data", self._bandwidth(offsets_ns)
            used = self._memory(offsets_ns)
            yield "npu_mem.app", _npu_mem(offsets_ns, _EVENT_PROCESS, used)
            yield "npu_mem.data", _npu_mem(offsets_ns, _EVENT_DEVICE, used + self._system_bytes)

    def _memory(
        self, offsets_ns: np.ndarray[tuple[int], np.dtype[np.int64]]
    ) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        times, sizes = (np.array(column, dtype=np.int64) for column in zip(*self._allocated, strict=True))
        rows = np.searchsorted(times, offsets_ns + self._anchor_ns, side="right") - 1
        self._allocated = self._allocated[int(rows[-1]) :]
        return np.asarray(sizes[rows])

    def _bandwidth(self, offsets_ns: np.ndarray[tuple[int], np.dtype[np.int64]]) -> bytes:
        """Return the records of reads and writes of each HBM stack since the previous sample."""
        edges_ns = np.concatenate(([offsets_ns[0] - self._period_ns], offsets_ns)) + self._anchor_ns
        traffic = np.array(self._traffic, dtype=np.int64).reshape(-1, 4)
        start, end = traffic[:, :1], traffic[:, 1:2]
        # The share of each interval that lies before each edge; differences give the shares between edges.
        before = np.clip((edges_ns - start) / np.maximum(end - start, 1), 0, 1)
        between = np.diff(before, axis=1)
        records = np.zeros((len(offsets_ns), 2, _HBM_STACKS), layouts.HBM.dtype)
        records["time_us"] = (offsets_ns // 1000)[:, None, None]
        records["event"] = np.array([_EVENT_READ, _EVENT_WRITE])[None, :, None]
        records["hbm_id"] = np.arange(_HBM_STACKS)
        for direction in (0, 1):
            moved_bytes = traffic[:, 2 + direction] @ between
            records["count"][:, direction] = np.rint(moved_bytes / _BYTES_A_COUNT / _HBM_STACKS)[:, None]
        self._traffic = [row for row in self._traffic if row[1] > edges_ns[-1]]
        return records.tobytes()


def _npu_mem(
    offsets_ns: np.ndarray[tuple[int], np.dtype[np.int64]], event: int, used: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> bytes:
    records = np.zeros(len(offsets_ns), layouts.NPU_MEM.dtype)
    records["time_us"] = offsets_ns // 1000 & 0xFFFFFFFF
    records["event"] = event
    records["hbm_bytes"] = used
    return records.tobytes()


TAG_MARK = 11

_STARS = "stars_soc.data"
_PMU = "ffts_profile.data"
_COUNTED = (_STARS, _PMU)

# Types of queue entries. Section 5.1.
SQE_AI_CORE = 0
SQE_AIV = 2
_SQE_EVENT_RECORD = 4
_SQE_EVENT_WAIT = 5
_SQE_SDMA = 11
_SQE_PCIE_DMA = 17
_SUBTASK: dict[Core, int] = {"AI_CORE": 0, "AI_VECTOR_CORE": 1, "MIX_AIC": 6, "MIX_AIV": 7}
_FFTSPLUS = 4
_NO_MODEL = 0xFFFFFFFF


def pmu_flags(core: Core) -> int:
    """Return the byte of a counter record that identifies the type of kernel. Section 5.2."""
    if core in MIX_RATIOS:
        return _FFTSPLUS << 5
    return 1 << 5 if core == "AI_VECTOR_CORE" else 0


class DeviceRecords:
    """The pending records of one device."""

    def __init__(self, device: DeviceView, collection: Collection) -> None:
        self.device = device
        self._wanted = collection
        self._waiting: list[tuple[int, int, str, bytes]] = []
        self._serial = itertools.count()
        self._loss_counter = dict.fromkeys(_COUNTED, 0)
        self._at_load_frequency = False
        self._discarding = False

    def discard(self) -> None:
        """Drop all records from now on, after a write error."""
        self._discarding = True
        self._waiting.clear()

    def take(self, until_tick: int | None = None) -> Iterator[tuple[str, bytes]]:
        """Yield stream names and records up to a tick, or all, oldest first."""
        self._waiting.sort(key=itemgetter(0, 1))
        if until_tick is None:
            past, self._waiting = self._waiting, []
        else:
            split = bisect_right(self._waiting, until_tick, key=itemgetter(0))
            past, self._waiting = self._waiting[:split], self._waiting[split:]
        for _, _, name, data in past:
            yield name, self._set_loss_counter(name, data) if name in _COUNTED else data

    def frequency(self, tick: int, mhz: int) -> None:
        """Record the core frequency from a tick on."""
        if self._wanted.tasks:
            entries = [tick & 0xFFFFFFFF, tick >> 32, mhz, 0] + [0] * (4 * (layouts.FREQUENCY_ENTRIES - 1))
            self._add(tick, "lpmFreqConv.data", layouts.FREQUENCY.pack(1, 0, *entries))

    def kernel(self, task: Task, operator: Operator, work: Estimate) -> None:
        """Record a kernel."""
        if not self._at_load_frequency:
            self._at_load_frequency = True
            self.frequency(task.start_tick, self.device.chip.core_mhz)
        if self._wanted.tasks:
            self._task(task, SQE_AIV if operator.core in ("AI_VECTOR_CORE", "MIX_AIV") else SQE_AI_CORE)
            if operator.core in MIX_RATIOS:
                self._context(task, operator.core)
        duration_ns = task.end_ns - task.start_ns
        blocks = operator.block_num
        key = (self.device.chip, operator, work, duration_ns, blocks, operator.core in ("AI_CORE", "MIX_AIC"))
        if self._wanted.counters:
            self._counters(task, operator, key)
        if self._wanted.l2_cache:
            counters = pmu.l2_counters_of(key)
            self._add(
                task.end_tick, "l2_cache.data", layouts.L2_CACHE.pack(0, task.stream_id, task.task_id, 0, *counters)
            )

    def copy(self, task: Task, kind: CopyKind) -> None:
        """Record a copy."""
        self._task(task, _SQE_SDMA if kind == "device_to_device" else _SQE_PCIE_DMA)

    def event(self, task: Task, task_type: str) -> None:
        """Record that a stream records an event, or waits for it."""
        self._task(task, _SQE_EVENT_RECORD if task_type == "EVENT_RECORD" else _SQE_EVENT_WAIT)

    def communication(self, task: Task, sqe_type: int) -> None:
        """Record a step of a collective."""
        self._task(task, sqe_type)

    def flip(self, stream_id: int, count: int, tick: int) -> None:
        """Record that the task ids of a stream wrap at a tick."""
        data = layouts.TS_TRACK_FLIP.pack(0, layouts.TS_FLIP, layouts.TS_TRACK_FLIP.size, 0, tick, stream_id, count, 0)
        self._add(tick, "ts_track.data", data)

    def step(self, task: Task, index: int, tag: int) -> None:
        """Record the tag of a step or a marker."""
        data = layouts.TS_TRACK_STEP.pack(
            0,
            layouts.TS_STEP,
            layouts.TS_TRACK_STEP.size,
            0,
            task.start_tick,
            index,
            _NO_MODEL,
            task.stream_id,
            task.task_id,
            tag,
        )
        self._add(task.start_tick, "ts_track.data", data)

    def _task(self, task: Task, sqe_type: int) -> None:
        for function, tick in ((layouts.HEAD_TASK_START, task.start_tick), (layouts.HEAD_TASK_END, task.end_tick)):
            head = layouts.head(function, 0, sqe_type)
            data = layouts.STARS_SOC.pack(head, layouts.DEVICE_MAGIC, task.stream_id, task.task_id, tick, 0, 0, 0, 0)
            self._add(tick, _STARS, data)

    def _context(self, task: Task, core: Core) -> None:
        """Add the inner task of a mixed kernel."""
        for function, tick in (
            (layouts.HEAD_CONTEXT_START, task.start_tick),
            (layouts.HEAD_CONTEXT_END, task.end_tick),
        ):
            data = layouts.STARS_SOC.pack(
                layouts.head(function, 0, SQE_AI_CORE),
                layouts.DEVICE_MAGIC,
                task.stream_id,
                task.task_id,
                tick,
                _SUBTASK[core],
                0,
                _FFTSPLUS << 13,
                0,
            )
            self._add(tick, _STARS, data)

    def _counters(self, task: Task, operator: Operator, key: pmu.UsageKey) -> None:
        """Add the counters of all blocks of a kernel, and of the vector cores of a mixed kernel."""
        mixed = operator.core in MIX_RATIOS
        sqe_type = SQE_AIV if operator.core == "AI_VECTOR_CORE" else SQE_AI_CORE
        plus = pmu_flags(operator.core)
        subtask = _SUBTASK[operator.core] if mixed else 0
        counters = pmu.counters_of(self._wanted.metric, key)
        self._pmu(task, layouts.head(layouts.HEAD_CONTEXT_PMU, 0, sqe_type), subtask, 0, plus, (0, 0), counters)
        ratio = MIX_RATIOS.get(operator.core, 0)
        if not ratio:
            return
        helpers = ratio * operator.block_num
        together = pmu.counters_of(self._wanted.metric, (*key[:4], helpers, False))
        shared = tuple(counter // helpers for counter in together)
        for core_id in range(helpers):
            sub_block, block = core_id % ratio, core_id // ratio
            core = 1 | core_id << 1
            head = layouts.head(layouts.HEAD_BLOCK_PMU, 0, SQE_AI_CORE)
            self._pmu(task, head, subtask, core, plus, (sub_block, block), shared)

    def _pmu(
        self,
        task: Task,
        head: int,
        subtask: int,
        core: int,
        plus: int,
        block: tuple[int, int],
        counters: tuple[int, ...],
    ) -> None:
        # The counters are read just before the scheduler logs the end.
        end = max(task.start_tick, task.end_tick - 1)
        data = layouts.FFTS_PROFILE.pack(
            head,
            layouts.DEVICE_MAGIC,
            task.stream_id,
            task.task_id,
            subtask,
            0,
            core & 0xFF,
            plus,
            *block,
            *counters,
            task.start_tick,
            end,
        )
        self._add(task.end_tick, _PMU, data)

    def _add(self, tick: int, name: str, data: bytes) -> None:
        if not self._discarding:
            self._waiting.append((tick, next(self._serial), name, data))

    def _set_loss_counter(self, name: str, data: bytes) -> bytes:
        """Set the loss counter, from which readers detect lost records."""
        number = self._loss_counter[name]
        self._loss_counter[name] = number + 1
        head = int.from_bytes(data[:2], "little") | (number & 15) << 6
        return head.to_bytes(2, "little") + data[2:]

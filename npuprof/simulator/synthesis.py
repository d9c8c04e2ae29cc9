"""Synthetic recordings of any size, filled with NumPy, for benchmarks and tests."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np

from npuprof.arrays import Int64, Records, Uint64
from npuprof.simulator import host_records, layouts, names, pmu
from npuprof.simulator.collection import ACL_API, AICORE_METRICS, MSPROFTX, RUNTIME_API, TASK_TIME, Collection
from npuprof.simulator.cost_model import Core, Operator, Tensor, block_count, estimate
from npuprof.simulator.device import FLIP_TICKS, Device
from npuprof.simulator.device_records import SQE_AI_CORE, SQE_AIV, pmu_flags
from npuprof.simulator.device_view import TASK_IDS
from npuprof.simulator.directory import ProfDirectory
from npuprof.simulator.machine import Simulator
from npuprof.simulator.names import LEVEL_ACL, LEVEL_NODE, LEVEL_RUNTIME, Names

_EPOCH_NS = 1_763_600_000_000_000_000  # fixed, so that equal arguments give equal data
_MONOTONIC_NS = 36_471_000_000_000
_FIRST_CALL_NS = 50_000_000
_FIRST_THREAD_ID = 1000
_MEAN_GAP_NS = 3_000
_LEAST_GAP_NS = 1_000
_MARKS = 10
_SQUARES = (256, 512, 1024, 2048)
_VECTOR_OPERATORS = ("Add", "Mul", "Cast", "ReduceSum", "Softmax", "Transpose")


def synthesise(
    directory: str | Path, launches: int = 100_000, streams: int = 4, threads: int = 3, seed: int = 0
) -> Path:
    """Write a level 2 recording of one device, with counters.

    Parameters
    ----------
    directory
        The parent of the ``PROF_*`` directory.
    launches
        Number of operators; more than 65,536 on a stream make its task ids wrap.
    streams, threads
        Number of streams of the device, and of threads of the host.
    seed
        Seed of the order, sizes and gaps.

    Returns
    -------
    Path
        The ``PROF_*`` directory.

    Raises
    ------
    ValueError
        If `launches`, `streams` or `threads` is not positive.
    OSError
        If the directory cannot be written.
    """
    if min(launches, streams, threads) < 1:
        raise ValueError("launches, streams and threads must be at least 1")
    return _Synthesis(Path(directory), launches, streams, threads, np.random.default_rng(seed)).write()


class _Synthesis:
    """The columns of a recording, a row per launch in call order."""

    def __init__(self, directory: Path, launches: int, streams: int, threads: int, random: np.random.Generator) -> None:
        self._device: Device = Simulator().device(0)
        chip = self._device.chip
        self._collection = Collection((0,), 1, ACL_API | TASK_TIME | AICORE_METRICS | RUNTIME_API | MSPROFTX)
        self._directory = ProfDirectory(directory, chip, self._collection, _EPOCH_NS, _MONOTONIC_NS)
        self._names = Names()
        self._host = host_records.HostRecords(self._names)
        self._operators = _catalogue(self._device)
        self._kind = random.integers(len(self._operators), size=launches)
        thread = random.integers(threads, size=launches)
        begin_ns = _call_times(thread, threads, chip.launch_host_ns, random)
        order = np.argsort(begin_ns, kind="stable")
        self._begin_ns = _separate(begin_ns[order])
        self._thread_id = _FIRST_THREAD_ID + thread[order]
        self._stream_id = random.integers(streams, size=launches)
        self._run_on_device(streams)

    def _run_on_device(self, streams: int) -> None:
        """Assign a task id, start and end to every launch, and a tick to every wrap of the ids."""
        launches = len(self._kind)
        device = self._device
        durations = [estimate(device.chip, operator).duration_ns for operator in self._operators]
        duration = (-(-np.array(durations) // device.chip.tick_ns))[self._kind]
        # The device's counter at a time of the host; same arithmetic for arrays and integers.
        earliest = np.asarray(device.tick_at(self._begin_ns + device.chip.launch_latency_ns))  # type: ignore[arg-type]
        self._task_id = np.zeros(launches, np.int64)
        self._start, self._end = np.zeros(launches, np.int64), np.zeros(launches, np.int64)
        flips = []
        for stream_id in range(streams):
            rows = np.flatnonzero(self._stream_id == stream_id)
            number = np.arange(len(rows))
            self._task_id[rows] = number % TASK_IDS
            wraps = (number % TASK_IDS == 0) & (number > 0)
            taken = duration[rows] + np.where(wraps, FLIP_TICKS + 1, 0)
            done = np.cumsum(taken)
            # end[i] = max(earliest[i], end[i - 1]) + taken[i], unrolled.
            self._end[rows] = done + np.maximum.accumulate(earliest[rows] - (done - taken))
            self._start[rows] = self._end[rows] - duration[rows]
            wrapped = rows[wraps]
            flips += [(stream_id, count + 1, int(row)) for count, row in enumerate(wrapped)]
        self._flips = flips

    def write(self) -> Path:
        """Write all streams and complete the directory."""
        device = self._device
        tick = device.tick_at(_MONOTONIC_NS)
        self._directory.open_device(0, device.ns_at(tick), tick)
        self._directory.host("aging.api_event.data", self._api().tobytes())
        self._directory.host("aging.compact.node_basic_info", self._node_basic_info().tobytes())
        self._directory.host("aging.compact.task_track", self._task_track().tobytes())
        self._directory.host("aging.additional.tensor_info", self._tensor_info().tobytes())
        self._directory.host("aging.additional.msproftx", self._marks())
        self._directory.device(0, "stars_soc.data", self._stars().tobytes())
        self._directory.device(0, "ffts_profile.data", self._counters().tobytes())
        self._directory.device(0, "lpmFreqConv.data", self._frequencies(tick))
        if self._flips:
            self._directory.device(0, "ts_track.data", self._device_flips())
        self._directory.dictionaries(*self._names.take_lines())
        ended_ns = max(int(device.ns_at(int(self._end.max()))), int(self._begin_ns[-1])) + 1_000_000
        self._directory.close(_EPOCH_NS + ended_ns - _MONOTONIC_NS, ended_ns)
        return self._directory.path

    # -- host ----------------------------------------------------------------------------------------------

    def _header(self, layout: layouts.Layout, level: int, number: int, length: int, after_ns: int) -> Records:
        records = np.zeros(len(self._kind), layout.dtype)
        records["magic"], records["level"], records["type"] = layouts.HOST_MAGIC, level, number
        records["thread_id"], records["data_length"] = self._thread_id, length
        records["time"] = self._begin_ns + after_ns
        return records

    def _hashes(self) -> Uint64:
        return np.array([self._names.hash(operator.name) for operator in self._operators], np.uint64)[self._kind]

    def _api(self) -> Records:
        """Return three nested calls per launch."""
        host = host_records
        acl = [self._names.api_type(LEVEL_ACL, each.api, names.CLASS_OPERATOR) for each in self._operators]
        runtime = self._names.api_type(LEVEL_RUNTIME, "KernelLaunch")
        records = np.zeros((len(self._kind), 3), layouts.API.dtype)
        records["magic"] = layouts.HOST_MAGIC
        records["level"] = LEVEL_ACL, LEVEL_NODE, LEVEL_RUNTIME
        records["type"][:, 0] = np.array(acl)[self._kind]
        records["type"][:, 1:] = names.NODE_LAUNCH, runtime
        records["thread_id"] = self._thread_id[:, None]
        begin_ns = self._begin_ns[:, None]
        records["begin"] = begin_ns + np.array([0, host.NODE_AFTER_NS, host.RUNTIME_AFTER_NS])
        launch_ns = self._device.chip.launch_host_ns
        records["end"] = begin_ns + np.array([launch_ns, host.NODE_END_AFTER_NS, host.RUNTIME_END_AFTER_NS])
        records["item_id"][:, 1] = self._hashes()
        return records

    def _node_basic_info(self) -> Records:
        records = self._header(
            layouts.NODE_BASIC_INFO,
            LEVEL_NODE,
            names.NODE_BASIC_INFO,
            host_records.BASIC_LENGTH,
            host_records.NODE_INFO_AFTER_NS,
        )
        types = np.array([self._names.hash(operator.op_type) for operator in self._operators], np.uint64)
        records["op_name"], records["op_type"] = self._hashes(), types[self._kind]
        records["task_type"] = np.array([host_records.CORES[each.core][0] for each in self._operators])[self._kind]
        records["block_num"] = self._blocks()
        return records

    def _blocks(self) -> Int64:
        return np.array([operator.block_num for operator in self._operators])[self._kind]

    def _task_track(self) -> Records:
        records = self._header(
            layouts.TASK_TRACK,
            LEVEL_RUNTIME,
            names.RUNTIME_TASK_TRACK,
            host_records.EXTENDED,
            host_records.TRACK_AFTER_NS,
        )
        records["stream_id"], records["task_id"] = self._stream_id, self._task_id
        records["task_type"] = np.array([host_records.CORES[each.core][1] for each in self._operators])[self._kind]
        records["kernel_name"], records["block_num"] = self._hashes(), self._blocks()
        rows = np.array([row for _, _, row in self._flips], np.int64)
        flips = _take(records, rows)
        flips["task_type"], flips["task_id"], flips["kernel_name"], flips["block_num"] = names.TASK_FLIP, 0, 0, 0
        flips["flip"] = [count for _, count, _ in self._flips]
        flips["time"] = self._begin_ns[rows] + host_records.FLIP_AFTER_NS
        together = _take(records, np.concatenate((np.arange(len(records)), rows)))
        together[len(records) :] = flips
        return _take(together, np.argsort(together["time"], kind="stable"))

    def _tensor_info(self) -> Records:
        records = self._header(
            layouts.TENSOR_INFO,
            LEVEL_NODE,
            names.NODE_TENSOR_INFO,
            host_records.ADDITIONAL_LENGTH,
            host_records.NODE_INFO_AFTER_NS,
        )
        records["op_name"] = self._hashes()
        words = np.zeros((len(self._operators), 5, 11), np.uint32)
        for row, operator in enumerate(self._operators):
            operands = [(0, tensor) for tensor in operator.inputs] + [(1, tensor) for tensor in operator.outputs]
            for column, (kind, tensor) in enumerate(operands):
                words[row, column] = host_records.tensor_words(kind, tensor)
        counts = np.array([len(operator.inputs) + len(operator.outputs) for operator in self._operators])
        records["count"], records["tensors"] = counts[self._kind], words.reshape(-1, 55)[self._kind]
        return records

    def _marks(self) -> bytes:
        """Return ranges that divide the time of the calls evenly."""
        edges = np.linspace(int(self._begin_ns[0]), int(self._begin_ns[-1]) + 1, _MARKS + 1).astype(np.int64)
        return b"".join(
            self._host.mark(
                host_records.Mark("range", f"step {number}".encode(), _FIRST_THREAD_ID, int(start), int(end)),
                number + 1,
            )
            for number, (start, end) in enumerate(itertools.pairwise(edges))
        )

    # -- device --------------------------------------------------------------------------------------------

    def _sqe(self) -> Int64:
        cube = [operator.core == "AI_CORE" for operator in self._operators]
        return np.where(np.array(cube)[self._kind], SQE_AI_CORE, SQE_AIV)

    def _stars(self) -> Records:
        records = np.zeros((2, len(self._kind)), layouts.STARS_SOC.dtype)
        # Ends first: at equal ticks, the end of a task comes before the start of the next.
        records["head"] = np.array([layouts.HEAD_TASK_END, layouts.HEAD_TASK_START])[:, None] | self._sqe() << 10
        records["magic"] = layouts.DEVICE_MAGIC
        records["stream_id"], records["task_id"] = self._stream_id, self._task_id
        records["tick"] = self._end, self._start
        return _sort(records.reshape(-1), "tick")

    def _counters(self) -> Records:
        records = np.zeros(len(self._kind), layouts.FFTS_PROFILE.dtype)
        records["head"] = layouts.HEAD_CONTEXT_PMU | self._sqe() << 10
        records["magic"] = layouts.DEVICE_MAGIC
        records["stream_id"], records["task_id"] = self._stream_id, self._task_id
        chip = self._device.chip
        values = []
        for operator in self._operators:
            work = estimate(chip, operator)
            duration_ns = -(-work.duration_ns // chip.tick_ns) * chip.tick_ns
            cube = operator.core == "AI_CORE"
            key = (chip, operator, work, duration_ns, operator.block_num, cube)
            values.append(pmu.counters_of(self._collection.metric, key))
        table = np.array(values)[self._kind]
        records["cycles"], records["counters"] = table[:, 0], table[:, 1:]
        records["fftsplus"] = np.array([pmu_flags(operator.core) for operator in self._operators])[self._kind]
        records["start_tick"], records["end_tick"] = self._start, self._end - 1
        return _sort(records, "end_tick")

    def _frequencies(self, tick: int) -> bytes:
        chip = self._device.chip
        loaded = int(self._start.min())
        # The first entry precedes the start: it states the frequency from the start on.
        changes = ((tick - 1, chip.idle_mhz), (loaded, chip.core_mhz))
        entries = [word for moment, mhz in changes for word in (moment & 0xFFFFFFFF, moment >> 32, mhz, 0)]
        return layouts.FREQUENCY.pack(2, 0, *entries, *[0] * (4 * layouts.FREQUENCY_ENTRIES - len(entries)))

    def _device_flips(self) -> bytes:
        ordered = sorted((int(self._start[row]) - FLIP_TICKS, stream, count) for stream, count, row in self._flips)
        size = layouts.TS_TRACK_FLIP.size
        return b"".join(
            layouts.TS_TRACK_FLIP.pack(0, layouts.TS_FLIP, size, 0, tick, stream, count, 0)
            for tick, stream, count in ordered
        )


def _take(records: Records, rows: Int64) -> Records:
    """Return whole records by row number: NumPy's indexing leaves bytes outside all fields undefined."""
    return records.view(np.dtype((np.void, records.dtype.itemsize)))[rows].view(records.dtype)


def _sort(records: Records, field: str) -> Records:
    """Sort device records by time and set their loss counters."""
    ordered = _take(records, np.argsort(records[field], kind="stable"))
    ordered["head"] |= (np.arange(len(ordered)) & 15).astype(np.uint16) << 6
    return ordered


def _call_times(thread: Int64, threads: int, launch_host_ns: int, random: np.random.Generator) -> Int64:
    """Return the begin of each call: threads run concurrently, calls of a thread never overlap."""
    begin_ns = np.zeros(len(thread), np.int64)
    for number in range(threads):
        rows = np.flatnonzero(thread == number)
        gaps = _LEAST_GAP_NS + random.exponential(_MEAN_GAP_NS, len(rows)).astype(np.int64)
        begin_ns[rows] = _MONOTONIC_NS + _FIRST_CALL_NS + np.cumsum(launch_host_ns + gaps)
    return begin_ns


def _separate(begin_ns: Int64) -> Int64:
    """Separate calls with equal begins, so that a wrap of task ids fits between any two calls."""
    steps = np.arange(len(begin_ns)) * 2
    return np.asarray(np.maximum.accumulate(begin_ns - steps) + steps)


def _catalogue(device: Device) -> list[Operator]:
    """Return the operators: matrix products and vector operators of several sizes."""
    operators = []
    for side in _SQUARES:
        square = Tensor((side, side), "float16")
        operators.append(_operator(device, "MatMulV3", "aclnnMatmul", (square, square), square, 2 * side**3))
        for op_type in _VECTOR_OPERATORS:
            inputs = (square, square) if op_type in ("Add", "Mul") else (square,)
            output = Tensor((side,), "float16") if op_type == "ReduceSum" else square
            operators.append(_operator(device, op_type, f"aclnn{op_type}", inputs, output, side**2))
    return operators


def _operator(
    device: Device, op_type: str, api: str, inputs: tuple[Tensor, ...], output: Tensor, flops: int
) -> Operator:
    core: Core = "AI_CORE" if op_type == "MatMulV3" else "AI_VECTOR_CORE"
    read_bytes = sum(tensor.size_bytes for tensor in inputs)
    blocks = block_count(device.chip, core, (output,), read_bytes + output.size_bytes)
    name = f"{api}_{op_type}_{inputs[0].shape[0]}"
    return Operator(op_type, name, api, core, inputs, (output,), flops, read_bytes, output.size_bytes, blocks)

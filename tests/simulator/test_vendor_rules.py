"""Recordings of many kinds of sessions, put to the rules of the vendor's parser."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import npuprof
from npuprof import simulator
from npuprof.recordings.clock import SystemClock
from npuprof.simulator import Event, Simulator, Tensor, synthesise
from npuprof.simulator.cost_model import Core
from npuprof.simulator.device_view import TASK_IDS
from tests.simulator.conftest import Record
from tests.simulator.vendor_checks import check
from tests.simulator.vendor_rules import DESTROYED, FLIP, Recording, host_keys
from tests.simulator.work import everything, matmul

HALF = Tensor((512, 512), "float16")
CORES: tuple[Core, ...] = ("AI_CORE", "AI_VECTOR_CORE", "MIX_AIC", "MIX_AIV")
ALL = 0x12F | 0x80 | 0x10 | 0x1000


def in_thread(work: Callable[[], object]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def several_streams_and_threads(machine: Simulator) -> None:
    device = machine.device(0)
    streams = [device.create_stream() for _ in range(3)]

    def launch() -> None:
        for number, core in enumerate(CORES * 3):
            operands = (HALF,) * (number + 1)
            device.launch(core.title(), core=core, inputs=operands, outputs=(HALF,), stream=streams[number % 3])
            device.copy("device_to_device", 300 << 20, streams[number % 3], wait=bool(number % 2))

    for _ in range(3):
        in_thread(launch)
    for stream in streams:
        device.destroy_stream(stream)
    again = device.create_stream()
    device.launch("Add", inputs=(HALF,), outputs=(HALF,), stream=again)


def several_devices(machine: Simulator) -> None:
    event = Event()
    for device in machine.devices:
        device.launch("Add", inputs=(HALF, HALF), outputs=(HALF,))
        device.record_event(event)
        device.wait_event(event, device.create_stream())
        device.synchronize()


def wraps(machine: Simulator) -> None:
    device = machine.device(0)
    for left, work in (
        (2, lambda: [device.launch("Add", outputs=(HALF,)) for _ in range(5)]),
        (1, lambda: device.copy("host_to_device", 200 << 20)),
        (1, lambda: [device.record_event(Event()) for _ in range(3)]),
    ):
        device.default_stream.next_task_id = TASK_IDS - left
        work()


def marks(machine: Simulator) -> None:
    marker, device = machine.marker, machine.device(0)
    matmul(machine)
    stamp = marker.create_stamp()
    assert marker.set_message(stamp, "train: ä") == 0
    assert marker.mark(stamp) == marker.push(stamp) == marker.pop() == 0
    number, _ = marker.range_start(stamp)
    assert marker.range_stop(number) == 0
    assert marker.mark_on_stream("forward" * 20, device, device.default_stream) == 0
    info = marker.create_step_info()
    for tag in (0, 1, 60000, 60001):
        assert marker.step(info, tag, device, device.default_stream) == 0


def nothing(_machine: Simulator) -> None:
    pass


WORK = {work.__name__: work for work in (everything, several_streams_and_threads, wraps, marks, nothing)}


@pytest.mark.slow
@pytest.mark.parametrize("mask", [0x80, 0x801, 0x27, 0x12F, ALL], ids=hex)
@pytest.mark.parametrize("work", WORK.values(), ids=WORK)
def test_a_recording_keeps_the_rules(work: Callable[[Simulator], object], mask: int, record: Record) -> None:
    if work is marks and not mask & 0x80:
        mask |= 0x80
    check(record(work, mask, settings={3: "50"} if mask & 0x1000 else None))


def test_a_recording_of_several_devices_keeps_the_rules(record: Record) -> None:
    assert check(record(several_devices, ALL, devices=(0, 1), settings={3: "100"})).device_ids == [0, 1]


@pytest.mark.slow
@pytest.mark.parametrize("metric", [0, 1, 2, 3, 4, 5, 6, 8])
def test_the_counters_of_every_metric_set_keep_the_rules(metric: int, record: Record) -> None:
    def work(machine: Simulator) -> None:
        for dtype in ("float16", "float32", "int8", "int32", "float64", "bool"):
            for core in CORES:
                for side, flops in ((4, 0), (1024, 2 * 1024**3), (64, 10**12)):
                    operand = Tensor((side, side), dtype)
                    machine.device(0).launch("Op", core=core, inputs=(operand,) * 2, outputs=(operand,), flops=flops)

    check(record(work, 0x12F, metric))


@pytest.mark.slow
@pytest.mark.parametrize("block_num", [1, 24, 25, 48, 100])
@pytest.mark.parametrize("core", CORES)
def test_more_blocks_than_cores_run_in_rounds(core: Core, block_num: int, record: Record) -> None:
    def work(machine: Simulator) -> None:
        machine.device(0).launch("Op", core=core, inputs=(HALF,), outputs=(HALF,), flops=10**10, block_num=block_num)

    recording = record(work, 0x12F)
    check(recording)
    (kernel,) = npuprof.load(recording).kernels.to_dict("records")
    for total in ("aic_total_time_ns", "aiv_total_time_ns"):
        assert not kernel.get(total, 0) > kernel["duration_ns"]
    assert not kernel.get("cube_utilization_percent", 0) > 100


@pytest.mark.long
def test_task_ids_that_wrap_by_launches_keep_the_rules(record: Record) -> None:
    def work(machine: Simulator) -> None:
        for _ in range(66_000):
            machine.device(0).record_event(Event())

    recording = check(record(work, 0x800))
    assert [track.values[3] for track in recording.tracks if track.values[4] == FLIP] == [1]
    assert len(host_keys(recording, 0)) == 66_000


@pytest.mark.slow
def test_a_recording_made_in_bulk_keeps_the_rules(tmp_path: Path) -> None:
    check(synthesise(tmp_path, launches=1000, streams=3, threads=40))


def test_names_that_are_odd_are_written(record: Record) -> None:
    def work(machine: Simulator) -> None:
        for name in ("a:b", "x\ud800", "<script>", "核", "a" * 5000):
            machine.device(0).launch("Add", outputs=(Tensor((1 << 40,), "int8"),), block_num=1 << 20, name=name)

    names = set(check(record(work, 0x12F)).hashes.values())
    assert {"a:b", "x?", "<script>", "核", "a" * 5000} <= names


def test_a_stream_id_that_comes_back_is_another_stream(record: Record) -> None:
    recording = check(record(several_streams_and_threads, 0x12F))
    destroyed = [track for track in recording.tracks if track.values[3] == DESTROYED]
    assert len(destroyed) == 3


@pytest.mark.slow
def test_threads_that_launch_while_recordings_start_and_stop(tmp_path: Path) -> None:
    machine = simulator.configure(clock=SystemClock(), devices=2)
    errors: list[BaseException] = []
    stopped = threading.Event()

    def launch(number: int) -> None:
        try:
            device = machine.device(number % 2)
            stream = device.create_stream()
            while not stopped.is_set():
                device.launch("Add", inputs=(HALF,), outputs=(HALF,), stream=stream)
                device.copy("host_to_device", 1 << 10, stream)
                device.release(device.allocate(1 << 10))
        except BaseException as error:
            errors.append(error)
            raise

    threads = [threading.Thread(target=launch, args=(number,)) for number in range(4)]
    profiler = machine.profiler
    assert profiler.init(str(tmp_path)) == 0
    assert profiler.set_config(3, "100") == 0
    config = profiler.create_config((0, 1), 1, ALL)
    for thread in threads:
        thread.start()
    try:
        for _ in range(4):
            assert profiler.start(config) == 0
            machine.device(0).launch("Mul", inputs=(HALF,), outputs=(HALF,))
            machine.device(0).synchronize()
            assert profiler.stop(config) == 0
    finally:
        stopped.set()
        for thread in threads:
            thread.join()
    assert not errors
    recordings = sorted(tmp_path.iterdir())
    assert len(recordings) == 4
    for recording in recordings:
        assert check(recording).tracks


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system does not fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_fork_leaves_the_recording_to_its_parent(record: Record) -> None:
    def work(machine: Simulator) -> None:
        matmul(machine, 3)
        child = os.fork()
        if not child:
            try:
                matmul(machine, 5)
                os._exit(0 if machine.recorder is None and machine.profiler.finalize() == 0 else 1)
            finally:
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        matmul(machine, 2)

    assert len(host_keys(check(record(work)), 0)) == 5


def test_ranges_that_began_before_the_recording_are_not_part_of_it(machine: Simulator, tmp_path: Path) -> None:
    profiler, marker = machine.profiler, machine.marker
    config = profiler.create_config((0,), 1, ALL)
    assert profiler.init(str(tmp_path)) == profiler.start(config) == 0
    stamp = marker.create_stamp()
    assert marker.push(stamp) == 0
    number, _ = marker.range_start(stamp)
    matmul(machine)
    assert profiler.stop(config) == 0
    before = set(tmp_path.iterdir())
    machine.clock.sleep_until_ns(machine.clock.monotonic_raw_ns() + 10_000)
    assert profiler.start(config) == 0
    assert marker.pop() == marker.range_stop(number) == marker.mark(stamp) == 0
    matmul(machine)
    assert profiler.stop(config) == 0
    (recording,) = set(tmp_path.iterdir()) - before
    assert len(check(recording).host("additional.msproftx")) == 1


@pytest.mark.parametrize("how", ["stop", "finalize"])
def test_a_second_stop_waits_until_the_recording_is_complete(how: str, tmp_path: Path) -> None:
    machine = simulator.configure(clock=SystemClock())
    profiler = machine.profiler
    config = profiler.create_config((0,), 1, 0x12F)
    assert profiler.init(str(tmp_path)) == profiler.start(config) == 0
    big = Tensor((16384, 16384), "float16")
    machine.device(0).launch("Add", inputs=(big, big), outputs=(big,))
    codes: list[int] = []
    complete: list[bool] = []

    def stop() -> None:
        codes.append(profiler.stop(config) if how == "stop" else profiler.finalize())
        complete.append(any(tmp_path.glob("*/host/end_info.done")))

    threads = [threading.Thread(target=stop) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert codes == [0] * 3
    assert all(complete)


def test_an_interrupt_of_the_wait_leaves_the_recording_complete(
    machine: Simulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_until_ns: int) -> None:
        raise KeyboardInterrupt

    profiler = machine.profiler
    config = profiler.create_config((0,), 1, 0x12F)
    assert profiler.init(str(tmp_path)) == profiler.start(config) == 0
    matmul(machine, 5)
    with monkeypatch.context() as patch:
        patch.setattr(machine.clock, "sleep_until_ns", interrupt)
        with pytest.raises(KeyboardInterrupt):
            profiler.stop(config)
    machine.synchronize()
    (recording,) = tmp_path.iterdir()
    assert (recording / "host" / "end_info.done").exists()
    assert len(host_keys(Recording(recording), 0)) == 5
    assert profiler.start(config) == profiler.stop(config) == 0


@pytest.mark.slow
def test_memory_samples_after_a_long_pause_are_written_in_pieces(record: Record) -> None:
    def work(machine: Simulator) -> None:
        matmul(machine, 3)
        machine.clock.sleep_until_ns(machine.clock.monotonic_raw_ns() + 3600 * 10**9)

    recording = check(record(work, ALL, settings={3: "10"}))
    assert len(recording.device(0, "npu_mem.app")) == 36_001

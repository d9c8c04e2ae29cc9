"""The device model: order, waits, copies, task ids, clocks."""

from __future__ import annotations

import itertools
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npuprof import simulator
from npuprof.simulator import Event, Simulator, Stream, Task, Tensor
from npuprof.simulator.cost_model import CHIPS, Operator, estimate
from npuprof.simulator.device_view import QUEUE_DEPTH
from tests.conftest import FakeClock

HALF = Tensor((1024, 1024), "float16")


def _matmul(machine: Simulator, stream: Stream | None = None) -> Task:
    return machine.device(0).launch(
        "MatMulV3", core="AI_CORE", inputs=(HALF, HALF), outputs=(HALF,), flops=2 * 1024**3, stream=stream
    )


def test_tasks_of_a_stream_run_one_after_the_other(machine: Simulator) -> None:
    tasks = [_matmul(machine) for _ in range(5)]
    assert [task.task_id for task in tasks] == [0, 1, 2, 3, 4]
    assert all(before.end_tick <= after.start_tick for before, after in itertools.pairwise(tasks))


def test_a_task_starts_no_earlier_than_its_launch_and_latency(machine: Simulator, clock: FakeClock) -> None:
    launched_ns = clock.now_ns
    assert _matmul(machine).start_ns >= launched_ns + machine.chip.launch_latency_ns


def test_streams_run_beside_each_other(machine: Simulator) -> None:
    other = machine.device(0).create_stream()
    first, second = _matmul(machine), _matmul(machine, stream=other)
    assert second.start_tick < first.end_tick


def test_a_stream_waits_for_an_event_of_another(machine: Simulator) -> None:
    device, event = machine.device(0), Event()
    other = device.create_stream()
    big = Tensor((8192, 8192), "float16")
    before = device.launch("Add", inputs=(big, big), outputs=(big,))
    device.record_event(event)
    waiting = device.wait_event(event, other)
    after = _matmul(machine, stream=other)
    assert waiting.start_tick < before.end_tick <= waiting.end_tick <= after.start_tick


def test_a_stream_waits_for_an_event_of_another_device(machine: Simulator) -> None:
    event = Event()
    recorded = machine.device(0).record_event(event)
    waiting = machine.device(1).wait_event(event)
    assert waiting.end_ns >= recorded.end_ns


def test_an_event_that_was_never_recorded_holds_nothing_up(machine: Simulator) -> None:
    device = machine.device(0)
    assert device.wait_event(Event()).end_ns - device.launch("Add", outputs=(HALF,)).start_ns <= 0


def test_synchronise_waits_until_the_end_of_the_stream(machine: Simulator, clock: FakeClock) -> None:
    task = _matmul(machine)
    assert clock.now_ns < task.end_ns
    machine.device(0).synchronize()
    assert clock.now_ns >= task.end_ns


def test_the_same_calls_on_the_same_clock_give_the_same_tasks(clock: FakeClock) -> None:
    begin_ns = clock.now_ns

    def run() -> list[Task]:
        clock.now_ns = begin_ns
        machine = simulator.configure(clock=clock)
        other = machine.device(0).create_stream()
        return [_matmul(machine), _matmul(machine, stream=other), *machine.device(0).copy("host_to_device", 1 << 20)]

    assert run() == run()


def test_a_long_copy_is_several_tasks(machine: Simulator) -> None:
    assert len(machine.device(0).copy("device_to_host", 200 << 20)) == 4
    assert len(machine.device(0).copy("device_to_host", 0)) == 1


def test_a_copy_takes_its_size_over_the_bandwidth(machine: Simulator) -> None:
    (task,) = machine.device(0).copy("host_to_device", 25 << 20)
    expected_ns = (25 << 20) / machine.chip.host_to_device_bytes_per_s * 1e9
    assert expected_ns < task.end_ns - task.start_ns < expected_ns + 3000


def test_a_synchronous_copy_returns_when_it_is_done(machine: Simulator, clock: FakeClock) -> None:
    (task,) = machine.device(0).copy("host_to_device", 1 << 20, wait=True)
    assert clock.now_ns >= task.end_ns


def test_task_ids_wrap_after_16_bits(machine: Simulator) -> None:
    stream = machine.device(0).create_stream()
    stream.next_task_id = 0xFFFF
    last, first = _matmul(machine, stream=stream), _matmul(machine, stream=stream)
    assert (last.task_id, first.task_id, stream.flip_count) == (0xFFFF, 0, 1)
    assert first.start_tick > last.end_tick


def test_a_launch_waits_when_the_queue_is_full(machine: Simulator, clock: FakeClock) -> None:
    big = Tensor((16384, 16384), "float16")
    first = machine.device(0).launch("Add", inputs=(big, big), outputs=(big,))
    for _ in range(QUEUE_DEPTH):
        machine.device(0).launch("Add", inputs=(big, big), outputs=(big,))
    assert clock.now_ns >= first.end_ns


def test_stream_ids_come_back(machine: Simulator) -> None:
    device = machine.device(0)
    first = device.create_stream()
    device.destroy_stream(first)
    assert device.create_stream().stream_id == first.stream_id
    with pytest.raises(ValueError, match="was destroyed"):
        device.launch("Add", stream=first)


def test_devices_have_counters_of_their_own(machine: Simulator) -> None:
    one, two = machine.devices
    assert one.tick_at(10**12) != two.tick_at(10**12)
    assert one.ns_at(one.tick_at(10**12)) == two.ns_at(two.tick_at(10**12)) == 10**12


@given(st.integers(min_value=0, max_value=2**62))
def test_the_counter_never_runs_ahead_of_a_moment(moment_ns: int) -> None:
    device = Simulator().device(0)
    assert 0 <= device.ns_at(device.tick_at(moment_ns)) - moment_ns < device.chip.tick_ns


def test_threads_can_launch_at_once(machine: Simulator) -> None:
    tasks: list[Task] = []

    def work() -> None:
        tasks.extend(_matmul(machine) for _ in range(200))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ordered = sorted(tasks, key=lambda task: task.task_id)
    assert [task.task_id for task in ordered] == list(range(800))
    assert all(before.end_tick <= after.start_tick for before, after in itertools.pairwise(ordered))


def test_product_is_cube_bound_and_addition_memory_bound() -> None:
    chip = CHIPS["910B"]
    big = Tensor((8192, 8192), "float16")
    size = big.size_bytes
    product = estimate(
        chip, Operator("MatMulV3", "m", "aclnnMatmul", "AI_CORE", (big, big), (big,), 2 * 8192**3, 2 * size, size, 24)
    )
    addition = estimate(
        chip, Operator("Add", "a", "aclnnAdd", "AI_VECTOR_CORE", (big, big), (big,), 8192**2, 2 * size, size, 48)
    )
    assert product.duration_ns == product.cube_ns + chip.kernel_floor_ns
    assert 2 * 8192**3 / product.cube_ns / 1e3 == pytest.approx(353.9, rel=1e-3)  # TFLOPS
    assert addition.duration_ns == addition.read_ns + addition.write_ns + chip.kernel_floor_ns
    assert 3 * size / (addition.read_ns + addition.write_ns) == pytest.approx(1600, rel=1e-3)  # GB/s


def test_what_a_configuration_does_not_name_stays(clock: FakeClock) -> None:
    before = simulator.current()
    assert simulator.configure(semantics="legacy") is before
    assert simulator.configure(busy=True) is simulator.current() is before
    after = simulator.configure(devices=3)
    assert (len(after.devices), after.semantics, after.busy, after.clock) == (3, "legacy", True, clock)
    with pytest.raises(ValueError, match="910B"):
        simulator.configure(chip="Z80")


def test_a_new_configuration_completes_the_recording_of_the_former_machine(clock: FakeClock, tmp_path: Path) -> None:
    before = simulator.current()
    profiler, device = before.profiler, before.device(0)
    device.create_stream()
    address = device.allocate(1024)
    assert profiler.init(str(tmp_path)) == profiler.start(profiler.create_config([0], 1, 0x7)) == 0
    device.launch("Add")
    after = simulator.configure(devices=2)
    (recording,) = tmp_path.glob("PROF_*")
    assert (recording / "host" / "end_info").is_file()  # written when a recording is complete
    assert (recording / "device_0" / "data").is_dir()
    assert before.recorder is None
    assert simulator.current() is after is not before
    assert [len(each.streams) for each in after.devices] == [1, 1]
    assert not after.device(0).memory.holds(address, 1)
    assert (after.profiler.initialised, after.opened, after.recorder) == (False, (), None)
    simulator.configure(chip="910B")
    assert simulator.current() is not after  # a chip that is named is a fresh machine too
    assert len(simulator.current().devices) == 2
    assert simulator.reset().semantics == "current"

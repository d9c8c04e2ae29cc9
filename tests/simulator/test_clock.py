"""The clocks of the simulated machine: without emulation, and on which only what is launched takes time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npuprof import simulator
from npuprof.collectors.python_stacks import PythonStacks
from npuprof.options import Options
from npuprof.session.session import Session
from npuprof.simulator import Simulator, Tensor, device
from npuprof.simulator.clock import EmulationClock, VirtualClock
from npuprof.simulator.cost_model import Chip, Estimate, Operator, estimate
from npuprof.sources.recording.python_stacks import read
from npuprof.tables.notes import Notes
from tests.conftest import FakeClock


def test_it_stands_still_until_somebody_waits_or_works() -> None:
    clock = VirtualClock()
    begun_ns, began_ns = clock.monotonic_raw_ns(), clock.realtime_ns()
    assert clock.monotonic_raw_ns() == begun_ns
    clock.sleep_until_ns(begun_ns + 500)
    clock.sleep_until_ns(begun_ns)  # that is over
    clock.pass_ns(100)
    assert clock.monotonic_raw_ns() - begun_ns == clock.realtime_ns() - began_ns == 600


def test_it_begins_at_the_next_microsecond_of_another_clock(clock: FakeClock) -> None:
    clock.now_ns += 1
    virtual = VirtualClock(clock)
    assert virtual.monotonic_raw_ns() == clock.now_ns + 999
    assert virtual.realtime_ns() - virtual.monotonic_raw_ns() == clock.epoch_ns


def test_a_launch_takes_what_the_chip_says() -> None:
    clock = VirtualClock()
    machine = Simulator(clock=clock)
    before_ns = clock.monotonic_raw_ns()
    machine.device(0).launch("Add")
    assert clock.monotonic_raw_ns() - before_ns == machine.chip.launch_host_ns + 1


_US = 1_000


@st.composite
def _programs(draw: st.DrawFn) -> list[tuple[str, int]]:
    """Host work, emulation (nested or not) and waits, each of some time."""
    parts = st.tuples(st.sampled_from(["work", "emulate", "nested", "wait", "wait inside"]), st.integers(0, 5_000))
    return draw(st.lists(parts, max_size=30))


@given(_programs(), st.booleans())
def test_only_host_work_and_waits_take_time(program: list[tuple[str, int]], recording: bool) -> None:
    system = FakeClock()
    clock = EmulationClock(system)
    if recording:
        clock.begin_recording()
    began_ns, counted_ns = clock.monotonic_raw_ns(), 0
    for what, amount in program:
        before_ns = clock.monotonic_raw_ns()
        if what == "work":
            system.advance(amount)
        elif what == "wait":
            clock.sleep_until_ns(before_ns + amount)
        else:
            with clock.emulating():
                with clock.emulating() if what == "nested" else nullcontext():
                    system.advance(amount)
                if what == "wait inside":
                    clock.sleep_until_ns(before_ns + amount)
        counted_ns += amount if what in ("work", "wait", "wait inside") or not recording else 0
        assert before_ns <= clock.monotonic_raw_ns() <= system.now_ns
        assert clock.realtime_ns() - clock.monotonic_raw_ns() == system.epoch_ns
    assert clock.monotonic_raw_ns() - began_ns == counted_ns
    assert clock.left_out_ns == system.now_ns - clock.monotonic_raw_ns()
    if recording:
        clock.end_recording()
    assert clock.left_out_ns == 0


def test_wait_sleeps_only_beyond_emulation() -> None:
    system = FakeClock()
    clock = EmulationClock(system)
    clock.begin_recording()
    now_ns = clock.monotonic_raw_ns()
    with clock.emulating():
        system.advance(3 * _US)
    emulated_ns = system.now_ns
    clock.sleep_until_ns(now_ns + 2 * _US)
    assert (clock.monotonic_raw_ns(), system.now_ns) == (now_ns + 2 * _US, emulated_ns)
    clock.sleep_until_ns(now_ns + 7 * _US)
    assert clock.monotonic_raw_ns() == system.now_ns == now_ns + 7 * _US


def test_it_stands_still_for_every_thread_while_one_emulates() -> None:
    system = FakeClock()
    clock = EmulationClock(system)
    clock.begin_recording()
    now_ns = clock.monotonic_raw_ns()
    with clock.emulating(), ThreadPoolExecutor(1) as other:
        system.advance(5 * _US)
        assert other.submit(clock.monotonic_raw_ns).result() == now_ns
        other.submit(clock.sleep_until_ns, now_ns + 2 * _US).result()
        assert clock.monotonic_raw_ns() == now_ns + 2 * _US
    system.advance(_US)
    assert clock.monotonic_raw_ns() == now_ns + 3 * _US


def test_long_emulation_does_not_stop_the_clock() -> None:
    system = FakeClock()
    clock = EmulationClock(system)
    clock.begin_recording()
    with suppress(ValueError), clock.emulating():
        raise ValueError
    with clock.emulating():
        clock.end_recording()
        assert clock.monotonic_raw_ns() == system.now_ns
    system.advance(_US)
    assert clock.monotonic_raw_ns() == system.now_ns


def test_a_skipped_wait_is_the_time_of_the_line_that_waits(tmp_path: Path) -> None:
    system = FakeClock()
    clock = EmulationClock(system)
    clock.begin_recording()

    def synchronises() -> None:
        clock.sleep_until_ns(clock.monotonic_raw_ns() + 10_000_000)

    stacks = PythonStacks(interval_s=60, clock=clock)
    stacks.start()
    with clock.emulating():
        system.advance(20_000_000)
    synchronises()
    stacks.stop()
    stacks.write(tmp_path / "stacks.parquet")
    table = read(tmp_path / "stacks.parquet", Notes())["python"]
    waited = table[table["name"].astype(str).str.endswith(": synchronises")]
    assert waited["duration_ns"].tolist() == [10_000_000]


@pytest.fixture
def slow_computer(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    """A computer that takes five milliseconds to emulate each launch."""
    system = FakeClock()

    def slowly(chip: Chip, operator: Operator) -> Estimate:
        system.advance(5_000_000)
        return estimate(chip, operator)

    monkeypatch.setattr(device, "estimate", slowly)
    simulator.configure(clock=EmulationClock(system))
    return system


@pytest.mark.slow
def test_recording_states_left_out_emulation(slow_computer: FakeClock, tmp_path: Path) -> None:
    npu = simulator.current().device(0)
    with Session(Options(level=1, collector="simulator", output=tmp_path)) as session:
        began_ns = slow_computer.now_ns
        for _ in range(5):
            for _ in range(6):
                npu.launch("MatMulV3", core="AI_CORE", outputs=[Tensor((1024, 1024), "float16")], flops=10**10)
            slow_computer.advance(40_000)  # the user's Python
            npu.copy("device_to_host", 4, wait=True)
            session.step()
        ended_ns = slow_computer.now_ns
    run = session.result
    assert run.info.started_ns is not None
    assert run.info.stopped_ns is not None
    wall_ns = run.info.stopped_ns - run.info.started_ns
    assert len(run.kernels) == 30
    assert run.info.emulated_ns == ended_ns - began_ns - wall_ns > 100_000_000
    assert "of emulation left out" in run._repr_html_()
    computing_ns = int(run.kernels["duration_ns"].sum())
    assert computing_ns < wall_ns < 2 * computing_ns  # the device is busy
    first, last = run.kernels["start_ns"].min(), (run.kernels["start_ns"] + run.kernels["duration_ns"]).max()
    assert run.info.started_ns <= first < last <= run.info.stopped_ns
    _assert_nested(run.api)


def _assert_nested(api: pd.DataFrame) -> None:
    """Of two calls of a thread, one contains the other or ends before it."""
    for _, calls in api.groupby("thread_id"):
        open_until: list[int] = []
        ordered = calls.assign(end=calls["start_ns"] + calls["duration_ns"]).sort_values(
            ["start_ns", "duration_ns"], ascending=[True, False]
        )
        for start, end in zip(ordered["start_ns"], ordered["end"], strict=True):
            while open_until and open_until[-1] <= start:
                open_until.pop()
            assert not open_until or end <= open_until[-1]
            open_until.append(end)
    assert len(api)

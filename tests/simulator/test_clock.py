"""The clock on which only what is launched takes time."""

from __future__ import annotations

from npuprof.simulator import Simulator
from npuprof.simulator.clock import VirtualClock
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

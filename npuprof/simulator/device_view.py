"""A device as the host sees it: its clock beside the host's, the host's calls, and what frameworks tell of theirs."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, NamedTuple

from npuprof.clock import Clock
from npuprof.simulator.chips import Chip
from npuprof.simulator.framework import Block, OperatorCall

if TYPE_CHECKING:
    from npuprof.simulator.machine import Simulator


class HostCall(NamedTuple):
    """One call on the host: the thread, and when it began and ended on the monotonic clock."""

    thread_id: int
    begin_ns: int
    end_ns: int


class HostSide:
    """What concerns a device without running anything on it.

    Parameters
    ----------
    simulator
        The machine that it is in: its clock, its lock and its recorder.
    device_id
        Its number.
    chip
        What it is made of.
    """

    def __init__(self, simulator: Simulator, device_id: int, chip: Chip) -> None:
        self._simulator = simulator
        self.device_id = device_id
        self.chip = chip
        # The device has booted at another time than the host, so its counter starts elsewhere.
        self._counter_offset = (device_id + 1) << 32

    def tick_at(self, monotonic_raw_ns: int) -> int:
        """Give the device's counter at the first tick that is not before a moment of the host."""
        return -(-monotonic_raw_ns // self.chip.tick_ns) + self._counter_offset

    def ns_at(self, tick: int) -> int:
        """Give the moment on the host's monotonic clock of a value of the device's counter (exact)."""
        return (tick - self._counter_offset) * self.chip.tick_ns

    @property
    def clock(self) -> Clock:
        """The host's clock."""
        return self._simulator.clock

    def now_ns(self) -> int:
        """Give the host's monotonic time."""
        return self._simulator.clock.monotonic_raw_ns()

    # -- frameworks ----------------------------------------------------------------------------------------

    @property
    def takes_calls(self) -> bool:
        """Whether calls of a framework's operators are being recorded."""
        recorder = self._simulator.recorder
        return recorder is not None and recorder.takes_framework

    def tell_call(self, call: OperatorCall) -> None:
        """Tell the recorder of a call of a framework's operator."""
        with self._simulator.lock:
            if (recorder := self._simulator.recorder) is not None:
                recorder.operator_called(call)

    def tell_block(self, block: Block) -> None:
        """Tell the recorder of a block that a framework's allocator gave out or took back."""
        with self._simulator.lock:
            if (recorder := self._simulator.recorder) is not None:
                recorder.block_changed(block)

    # -- calls ---------------------------------------------------------------------------------------------

    def _call_now(self) -> HostCall:
        begin_ns = self._simulator.clock.monotonic_raw_ns()
        return HostCall(threading.get_native_id(), begin_ns, begin_ns + self.chip.launch_host_ns)

    def _end_call(self, call: HostCall) -> None:
        """Return after the call's end, so that calls of a thread do not touch; nearly always it is over by now."""
        # The system's sleep lasts far longer than a launch, so this spins, unless the clock stands still.
        clock = self._simulator.clock
        before_ns = clock.monotonic_raw_ns()
        while before_ns <= call.end_ns:
            now_ns = clock.monotonic_raw_ns()
            if now_ns <= before_ns:
                clock.sleep_until_ns(call.end_ns + 1)
                return
            before_ns = now_ns

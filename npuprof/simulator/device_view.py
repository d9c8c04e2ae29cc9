"""A device as the host sees it: its counter beside the host's clock, its memory, and the host's calls."""

from __future__ import annotations

from typing import NamedTuple

from npuprof.simulator.chips import Chip
from npuprof.simulator.memory import DeviceMemory


class HostCall(NamedTuple):
    """One call on the host: the thread, and when it began and ended on the monotonic clock."""

    thread_id: int
    begin_ns: int
    end_ns: int


class DeviceView:
    """What concerns a device without running anything on it.

    Parameters
    ----------
    device_id
        Its number.
    chip
        What it is made of.
    """

    def __init__(self, device_id: int, chip: Chip) -> None:
        self.device_id = device_id
        self.chip = chip
        self.memory = DeviceMemory(device_id, chip.hbm_bytes)
        # The device has booted at another time than the host, so its counter starts elsewhere.
        self._counter_offset = (device_id + 1) << 32

    def tick_at(self, monotonic_raw_ns: int) -> int:
        """Return the device's counter at the first tick that is not before a moment of the host."""
        return -(-monotonic_raw_ns // self.chip.tick_ns) + self._counter_offset

    def ns_at(self, tick: int) -> int:
        """Return the moment on the host's monotonic clock of a value of the device's counter (exact)."""
        return (tick - self._counter_offset) * self.chip.tick_ns

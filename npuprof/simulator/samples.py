"""Samples of device memory and its bandwidth at a fixed rate. Source: raw/FORMAT.md section 6, version 1.0.

No thread samples anything: the machine says what changed and when, and the samples up to any moment follow.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from npuprof.simulator import layouts
from npuprof.simulator.device_view import DeviceView

_HBM_STACKS = 4
_BYTES_A_COUNT = 32
_AT_ONCE = 256
_EVENT_READ = 0
_EVENT_WRITE = 1
_EVENT_PROCESS = 0
_EVENT_DEVICE = 1


class MemorySampler:
    """The samples of one device.

    Parameters
    ----------
    device
        The device, for what is allocated now and what its system needs.
    anchor_ns
        The moment of the device's start file, from which samples count.
    frequency_hz
        Samples a second.
    """

    def __init__(self, device: DeviceView, anchor_ns: int, frequency_hz: int) -> None:
        self._system_bytes = device.chip.system_bytes
        self._anchor_ns = anchor_ns
        self._period_ns = 10**9 // frequency_hz
        self._next = 0
        self._allocated = [(anchor_ns, device.memory.allocated_bytes)]
        self._traffic: list[tuple[int, int, int, int]] = []

    def allocated(self, time_ns: int, allocated_bytes: int) -> None:
        """Note that so much is allocated from a moment on."""
        self._allocated.append((time_ns, allocated_bytes))

    def traffic(self, start_ns: int, end_ns: int, read_bytes: int, written_bytes: int) -> None:
        """Note that so much is read and written, evenly, in a stretch of time."""
        self._traffic.append((start_ns, end_ns, read_bytes, written_bytes))

    def samples_until(self, now_ns: int) -> Iterator[tuple[str, bytes]]:
        """Yield stream names and records of the samples up to a moment that were not given before."""
        last = (now_ns - self._anchor_ns) // self._period_ns
        while self._next <= last:
            # Not all at once: after a long pause they are many, for every stretch of traffic before it.
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
        """Return the records of reads and writes of each stack since the sample before."""
        edges_ns = np.concatenate(([offsets_ns[0] - self._period_ns], offsets_ns)) + self._anchor_ns
        traffic = np.array(self._traffic, dtype=np.int64).reshape(-1, 4)
        start, end = traffic[:, :1], traffic[:, 1:2]
        # The share of each stretch that lies before each edge; its differences are the shares between edges.
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

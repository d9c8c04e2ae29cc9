"""The state of a device that the host and the recorder read: streams and tasks, memory, counter."""

from __future__ import annotations

import bisect
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from npuprof.simulator.cost_model import Chip

TASK_IDS = 1 << 16  # a task id has 16 bits and wraps
MAX_COPY_BYTES = 64 << 20  # longer copies become several tasks
QUEUE_DEPTH = 2048  # a launch waits while its stream holds this many unfinished tasks

CopyKind: TypeAlias = Literal["host_to_device", "device_to_host", "device_to_device"]


class Task(NamedTuple):
    """A task with its times, which are fixed at launch.

    Ticks count on the device's counter; ``start_ns`` and ``end_ns`` are the same times on the host's monotonic clock.
    """

    device_id: int
    stream_id: int
    task_id: int
    start_tick: int
    end_tick: int
    start_ns: int
    end_ns: int


@dataclass
class Stream:
    """A queue of tasks that run in order.

    Attributes
    ----------
    next_task_id, flip_count
        The 16-bit id of the next task, and the number of wraps of the ids.
    end_tick
        The end of the last task, on the device's counter.
    queued_ns
        The ends of the newest tasks on the host's clock, oldest first; at most the depth of the queue.
    """

    device_id: int
    stream_id: int
    next_task_id: int = 0
    flip_count: int = 0
    end_tick: int = 0
    queued_ns: deque[int] = field(default_factory=lambda: deque(maxlen=QUEUE_DEPTH))
    destroyed: bool = False


@dataclass
class Event:
    """A point in a stream, with its time on the host's monotonic clock; ``None`` before it is recorded."""

    recorded_ns: int | None = None


_ALIGNMENT = 512
_PAGE_BYTES = 64 << 10
_BASE_ADDRESS = 0x12C0_0000_0000  # in the range of device addresses; not an address of this process


class DeviceMemory:
    """Memory of one device: addresses and sizes of blocks; contents take host memory only for written pages.

    `device_id` keeps the addresses of different devices apart.
    """

    def __init__(self, device_id: int, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.allocated_bytes = 0
        self._next = _BASE_ADDRESS + (device_id << 40)
        self._addresses: list[int] = []
        self._sizes: dict[int, int] = {}
        self._contents: dict[int, dict[int, bytearray]] = {}

    def allocate(self, size_bytes: int) -> int:
        """Return the address of a new block, or 0 if the memory is full."""
        rounded = -(-max(size_bytes, 1) // _ALIGNMENT) * _ALIGNMENT
        if self.allocated_bytes + rounded > self.size_bytes:
            return 0
        address = self._next
        self._next += rounded
        self._addresses.append(address)  # they only grow, so the list stays sorted
        self._sizes[address] = rounded
        self.allocated_bytes += rounded
        return address

    def release(self, address: int) -> int:
        """Release a block; return its size, or 0 if there is no block at the address."""
        size = self._sizes.pop(address, 0)
        if size:
            del self._addresses[bisect.bisect_left(self._addresses, address)]
            self._contents.pop(address, None)
            self.allocated_bytes -= size
        return size

    def size_of(self, address: int) -> int:
        """Return the size of the block at an address, or 0."""
        return self._sizes.get(address, 0)

    def holds(self, address: int, size_bytes: int) -> bool:
        """Return whether a range lies within a single block."""
        return self._block(address, size_bytes) is not None

    def read(self, address: int, size_bytes: int) -> bytes:
        """Return the contents of a range of one block; unwritten bytes are zero."""
        start = self._start(address, size_bytes)
        pages = self._contents.get(start, {})
        parts = []
        for number, first, last in _pieces(address - start, size_bytes):
            page = pages.get(number)
            parts.append(bytes(last - first) if page is None else bytes(page[first:last]))
        return b"".join(parts)

    def write(self, address: int, data: bytes) -> None:
        """Write the contents of a range of one block."""
        start = self._start(address, len(data))
        pages = self._contents.setdefault(start, {})
        view = memoryview(data)
        for number, first, last in _pieces(address - start, len(data)):
            page = pages.get(number)
            if page is None:
                page = pages[number] = bytearray(_PAGE_BYTES)
            page[first:last] = view[: last - first]
            view = view[last - first :]

    def _block(self, address: int, size_bytes: int) -> int | None:
        index = bisect.bisect_right(self._addresses, address) - 1
        if index < 0 or size_bytes < 0:
            return None
        start = self._addresses[index]
        return start if address + size_bytes <= start + self._sizes[start] else None

    def _start(self, address: int, size_bytes: int) -> int:
        start = self._block(address, size_bytes)
        if start is None:
            raise ValueError(f"no block of the device holds {size_bytes} bytes at {address:#x}")
        return start


def _pieces(offset: int, size_bytes: int) -> Iterator[tuple[int, int, int]]:
    """Split a range of a block by page: page number, first and last offset."""
    end = offset + size_bytes
    while offset < end:
        number, first = divmod(offset, _PAGE_BYTES)
        last = min(_PAGE_BYTES, first + end - offset)
        yield number, first, last
        offset += last - first


class HostCall(NamedTuple):
    """A host call: thread, begin and end on the monotonic clock."""

    thread_id: int
    begin_ns: int
    end_ns: int


class DeviceView:
    """Number, chip, memory and counter of a device."""

    def __init__(self, device_id: int, chip: Chip) -> None:
        self.device_id = device_id
        self.chip = chip
        self.memory = DeviceMemory(device_id, chip.hbm_bytes)
        # The device was booted at another time than the host, so its counter starts at another value.
        self._counter_offset = (device_id + 1) << 32

    def tick_at(self, monotonic_raw_ns: int) -> int:
        """Return the device's counter at the first tick at or after a host time."""
        return -(-monotonic_raw_ns // self.chip.tick_ns) + self._counter_offset

    def ns_at(self, tick: int) -> int:
        """Return the time of a counter value on the host's monotonic clock (exact)."""
        return (tick - self._counter_offset) * self.chip.tick_ns

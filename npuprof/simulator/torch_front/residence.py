"""Which of torch's storages the simulated device holds, in blocks of a caching allocator like torch_npu's.

A storage comes to the device when a kernel gives it, or when one needs it that the host has made. Its block goes back
when torch frees the storage.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from typing import Any

from npuprof.simulator.device import Device
from npuprof.simulator.framework import Block, BlockEvent

# How torch_npu rounds sizes, and what it asks of the device at a time. Source: its caching allocator, as PyTorch's.
_GRAIN = 512
_SMALL = 1 << 20
_SMALL_SEGMENT = 2 << 20
_MEDIUM = 10 << 20
_MEDIUM_SEGMENT = 20 << 20
_LARGE_GRAIN = 2 << 20


class Residence:
    """The storages that one device holds.

    Parameters
    ----------
    device
        The device.
    """

    def __init__(self, device: Device) -> None:
        self._device: Device = weakref.proxy(device)  # which this is kept for: it must be able to go
        self._lock = threading.RLock()
        self._held: dict[int, tuple[int, int]] = {}  # address and bytes by identity of the storage
        self._gone: deque[int] = deque()
        self._free: dict[int, list[int]] = {}  # addresses by bytes
        self._room: dict[bool, tuple[int, int]] = {}  # rest of the newest segment for small and for medium blocks
        self.allocated_bytes = 0
        self.reserved_bytes = 0

    def holds(self, storage: Any) -> bool:
        """Return whether the device has a storage."""
        self._settle()
        return id(storage) in self._held

    def hold(self, storage: Any) -> bool:
        """Allocate a block for a storage; return whether it had none.

        Raises
        ------
        MemoryError
            If the device has no room for it.
        """
        self._settle()
        key = id(storage)
        with self._lock:
            if key in self._held:
                return False
            size_bytes = max(_GRAIN, -(-storage.nbytes() // _GRAIN) * _GRAIN)
            address = self._take(size_bytes)
            self._held[key] = address, size_bytes
        # A destructor may run anywhere, in the midst of this class too, so it only leaves a note.
        weakref.finalize(storage, self._gone.append, key).atexit = False
        self.allocated_bytes += size_bytes
        self._tell("allocated", address, size_bytes)
        return True

    def _settle(self) -> None:
        """Take back the blocks of storages that are gone."""
        while self._gone:
            try:
                key = self._gone.popleft()
            except IndexError:  # another thread has been quicker
                return
            with self._lock:
                address, size_bytes = self._held.pop(key)
                self._free.setdefault(size_bytes, []).append(address)
                self.allocated_bytes -= size_bytes
            self._tell("released", address, size_bytes)

    def _take(self, size_bytes: int) -> int:
        if free := self._free.get(size_bytes):
            return free.pop()
        if size_bytes > _MEDIUM:
            rounded = -(-size_bytes // _LARGE_GRAIN) * _LARGE_GRAIN
            return self._segment(rounded)
        is_small = size_bytes <= _SMALL
        address, left = self._room.get(is_small, (0, 0))
        if left < size_bytes:
            left = _SMALL_SEGMENT if is_small else _MEDIUM_SEGMENT
            address = self._segment(left)
        self._room[is_small] = address + size_bytes, left - size_bytes
        return address

    def _segment(self, size_bytes: int) -> int:
        address = self._device.allocate(size_bytes)
        if not address:
            free_bytes = self._device.memory.size_bytes - self._device.memory.allocated_bytes
            raise MemoryError(
                f"simulated device {self._device.device_id} has no room for {size_bytes} bytes "
                f"({free_bytes} bytes are free): let go of tensors, or make batches smaller"
            )
        self.reserved_bytes += size_bytes
        return address

    def _tell(self, event: BlockEvent, address: int, size_bytes: int) -> None:
        device, now_ns = self._device, self._device.host.clock.monotonic_raw_ns()
        totals = self.allocated_bytes, self.reserved_bytes
        device.host.record_block(
            Block(event, threading.get_native_id(), now_ns, address, size_bytes, *totals, device.device_id)
        )


_residences: weakref.WeakKeyDictionary[Device, Residence] = weakref.WeakKeyDictionary()
_making = threading.Lock()


def residence_of(device: Device) -> Residence:
    """Return what a device holds; the same for every context on it."""
    with _making:
        return _residences.setdefault(device, Residence(device))

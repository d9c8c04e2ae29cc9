"""Records of the torch front: calls of operators, and the storages on the device.

A storage moves to the device when a kernel writes it, or reads it for the first time. Its block
comes from a caching allocator like torch_npu's, and is released when torch frees the storage.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from npuprof.simulator.device import Device
from npuprof.simulator.framework import Block, BlockEvent, OperatorCall
from npuprof.simulator.host import Host

_NODE = "autograd::engine::evaluate_function: "


class Node(NamedTuple):
    """The autograd node being evaluated: name, and sequence number (-1 for none)."""

    name: str
    sequence: int


@dataclass
class _OpenNode:
    node: Node
    graph_task: int
    begin_ns: int
    calls: list[OperatorCall] = field(default_factory=list)


class Calls:
    """Open calls of framework operators in one thread, and the autograd nodes around them."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._thread_id = threading.get_native_id()
        self._sequence = 0
        self._node: _OpenNode | None = None
        self._ranges: list[tuple[str, int]] = []

    @property
    def in_backward(self) -> bool:
        """Whether a node of the backward pass is open."""
        return self._node is not None

    def sees(self, sequence: int) -> int:
        """Return the sequence number of the node that a call created, by the counter after it; -1 for none."""
        made = sequence - 1 if sequence > self._sequence else -1
        self._sequence = sequence
        return made

    def starts_at(self, sequence: int) -> None:
        """Set the counter of autograd nodes."""
        self._sequence = sequence

    def inside(self, node: Node | None, graph_task: int, begin_ns: int) -> None:
        """Enter a node of the backward pass, or leave it with None."""
        known = self._node
        if known is not None and (node != known.node or graph_task != known.graph_task):
            self.close_node()
            known = None
        if node is not None and known is None:
            self._node = _OpenNode(node, graph_task, begin_ns)

    def called(self, call: OperatorCall) -> None:
        """Add a finished call."""
        if self._node is None:
            self._host.record_call(call)
        else:  # the sequence number then belongs to the node
            self._node.calls.append(call._replace(sequence=-1))

    def close_node(self) -> None:
        """Close the open node; autograd only reports the next node."""
        known, self._node = self._node, None
        if known is None or not known.calls:
            return
        span = (self._thread_id, known.begin_ns, max(call.end_ns for call in known.calls))
        self._host.record_call(OperatorCall(_NODE + known.node.name, *span))
        if known.node.sequence >= 0:
            self._host.record_call(OperatorCall(known.node.name, *span, known.node.sequence, self._thread_id))
        # After the enclosing calls: rows with equal times keep this order.
        for call in known.calls:
            self._host.record_call(call)

    def open_range(self, name: str) -> None:
        """Open a range of the user or of an optimizer."""
        self.close_node()
        self._ranges.append((name, self._host.clock.monotonic_raw_ns()))

    def close_range(self) -> None:
        """Close the innermost range, if it was opened in the context."""
        self.close_node()
        if self._ranges:
            name, begin_ns = self._ranges.pop()
            self._host.record_call(OperatorCall(name, self._thread_id, begin_ns, self._host.clock.monotonic_raw_ns()))


# How torch_npu rounds sizes, and the sizes it requests from the device. Source: its caching allocator, like PyTorch's.
_GRAIN = 512
_SMALL = 1 << 20
_SMALL_SEGMENT = 2 << 20
_MEDIUM = 10 << 20
_MEDIUM_SEGMENT = 20 << 20
_LARGE_GRAIN = 2 << 20


class Residence:
    """The storages on one device."""

    def __init__(self, device: Device) -> None:
        self._device: Device = weakref.proxy(device)  # the key that this object is cached by: it must stay collectable
        self._lock = threading.RLock()
        self._held: dict[int, tuple[int, int]] = {}  # address and size by identity of the storage
        self._gone: deque[int] = deque()
        self._free: dict[int, list[int]] = {}  # addresses of free blocks by size
        self._room: dict[bool, tuple[int, int]] = {}  # rest of the newest segment for small and for medium blocks
        self.allocated_bytes = 0
        self.reserved_bytes = 0

    def holds(self, storage: Any) -> bool:
        """Return whether a storage is on the device."""
        self._release_freed()
        return id(storage) in self._held

    def hold(self, storage: Any) -> bool:
        """Allocate a block for a storage; return whether it is new. Raise a MemoryError if the device is full."""
        self._release_freed()
        key = id(storage)
        with self._lock:
            if key in self._held:
                return False
            size_bytes = max(_GRAIN, -(-storage.nbytes() // _GRAIN) * _GRAIN)
            address = self._take(size_bytes)
            self._held[key] = address, size_bytes
        # A destructor may run at any point, even within this class, so it only leaves a note.
        weakref.finalize(storage, self._gone.append, key).atexit = False
        self.allocated_bytes += size_bytes
        self._notify("allocated", address, size_bytes)
        return True

    def _release_freed(self) -> None:
        """Release the blocks of freed storages."""
        while self._gone:
            try:
                key = self._gone.popleft()
            except IndexError:  # another thread has taken it
                return
            with self._lock:
                address, size_bytes = self._held.pop(key)
                self._free.setdefault(size_bytes, []).append(address)
                self.allocated_bytes -= size_bytes
            self._notify("released", address, size_bytes)

    def _take(self, size_bytes: int) -> int:
        if free := self._free.get(size_bytes):
            return free.pop()
        if size_bytes > _MEDIUM:
            rounded = -(-size_bytes // _LARGE_GRAIN) * _LARGE_GRAIN
            return self._segment(rounded)
        is_small = size_bytes <= _SMALL
        address, remaining = self._room.get(is_small, (0, 0))
        if remaining < size_bytes:
            remaining = _SMALL_SEGMENT if is_small else _MEDIUM_SEGMENT
            address = self._segment(remaining)
        self._room[is_small] = address + size_bytes, remaining - size_bytes
        return address

    def _segment(self, size_bytes: int) -> int:
        address = self._device.allocate(size_bytes)
        if not address:
            free_bytes = self._device.memory.size_bytes - self._device.memory.allocated_bytes
            raise MemoryError(
                f"simulated device {self._device.device_id} has no room for {size_bytes} bytes "
                f"({free_bytes} bytes are free): delete tensors, or make batches smaller"
            )
        self.reserved_bytes += size_bytes
        return address

    def _notify(self, event: BlockEvent, address: int, size_bytes: int) -> None:
        device, now_ns = self._device, self._device.host.clock.monotonic_raw_ns()
        totals = self.allocated_bytes, self.reserved_bytes
        device.host.record_block(
            Block(event, threading.get_native_id(), now_ns, address, size_bytes, *totals, device.device_id)
        )


_residences: weakref.WeakKeyDictionary[Device, Residence] = weakref.WeakKeyDictionary()
_making = threading.Lock()


def residence_of(device: Device) -> Residence:
    """Return the storages on a device, shared by all contexts."""
    with _making:
        return _residences.setdefault(device, Residence(device))

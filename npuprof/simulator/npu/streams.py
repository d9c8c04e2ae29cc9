"""Streams and memory of the simulated NPU, for arrays."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from npuprof.arrays import Records
from npuprof.simulator.device import Device
from npuprof.simulator.device_view import Event as DeviceEvent
from npuprof.simulator.device_view import Stream as DeviceStream
from npuprof.simulator.machine import current

if TYPE_CHECKING:
    from collections.abc import Mapping


def device_of(device_id: int) -> Device:
    """Return a device of the current machine; raise a ValueError if it does not exist."""
    devices = current().devices
    if not 0 <= device_id < len(devices):
        raise ValueError(
            f"no device {device_id!r}: the simulated machine has {len(devices)}, numbered from 0; "
            "npuprof.simulator.configure(devices=...) gives it more"
        )
    return devices[device_id]


class Event:
    """A point in a stream, from :meth:`Stream.record`."""

    def __init__(self, event: DeviceEvent, device: Device) -> None:
        self.device_event = event
        self.device = device

    def synchronize(self) -> None:
        """Wait until the stream has reached the event."""
        self.device.synchronize_event(self.device_event)


class Stream:
    """A queue of tasks of a simulated NPU, which run in order; streams run concurrently.

    Examples
    --------
    >>> side = npu.Stream()
    >>> with npu.stream(side):
    ...     y = x @ w
    >>> npu.current_stream().wait(side.record())
    """

    def __init__(self, device: int = 0) -> None:
        self._device = device_of(device)
        self._stream = self._device.create_stream()

    @classmethod
    def _of(cls, device: Device, stream: DeviceStream) -> Stream:
        """Wrap an existing stream."""
        self = cls.__new__(cls)
        self._device = device
        self._stream = stream
        return self

    @property
    def device(self) -> int:
        """Number of the device."""
        return self._device.device_id

    @property
    def stream_id(self) -> int:
        """Number of the stream on its device, as shown in profiles."""
        return self._stream.stream_id

    def on(self, device: Device) -> DeviceStream:
        """Return the stream of `device`; raise a RuntimeError if it was destroyed, or its machine replaced."""
        if self._device is not device or self._stream.destroyed:
            raise RuntimeError(f"{self!r} was destroyed, or its machine reconfigured: make a new stream")
        return self._stream

    def synchronize(self) -> None:
        """Wait for all tasks of the stream."""
        self._device.synchronize(self.on(self._device))

    def record(self) -> Event:
        """Record an event after the tasks now in the stream, and return it."""
        event = DeviceEvent()
        self._device.record_event(event, self.on(self._device))
        return Event(event, self._device)

    def wait(self, event: Event) -> None:
        """Make later tasks of this stream wait for an event of another stream."""
        self._device.wait_event(event.device_event, self.on(self._device))

    def destroy(self) -> None:
        """Wait for the stream and release its number."""
        self._device.destroy_stream(self.on(self._device))

    def __repr__(self) -> str:
        return f"<npuprof.simulator.npu.Stream {self.stream_id} of simulated device {self.device}>"


# The streams chosen by each thread (and asynchronous task), by device; never changed in place.
_chosen: ContextVar[Mapping[int, Stream]] = ContextVar("npuprof_streams", default=MappingProxyType({}))


@contextmanager
def stream(chosen: Stream | None) -> Iterator[Stream | None]:
    """Launch in `chosen`, on its device, within the ``with`` block; ``None`` changes nothing."""
    if chosen is None:
        yield None
        return
    token = _chosen.set({**_chosen.get(), chosen.device: chosen})
    try:
        yield chosen
    finally:
        _chosen.reset(token)


def launch_stream(device: Device) -> DeviceStream:
    """Return the stream of the calling thread's launches on a device."""
    chosen = _chosen.get().get(device.device_id)
    return device.default_stream if chosen is None else chosen.on(device)


def current_stream(device: int = 0) -> Stream:
    """Return the stream of the calling thread's launches on a device; the default stream at first."""
    simulated = device_of(device)
    return Stream._of(simulated, launch_stream(simulated))


_Array = TypeVar("_Array", bound="DeviceArray")

_KINDS = "biufc"
_MAX_ITEM_BYTES = 16  # complex128; NumPy's extended precision has no counterpart on a device


# Blocks without references. A destructor may run at any point, even within a device call, so it only appends to this
# list; the next allocation or synchronisation releases the block.
_dropped: deque[tuple[Device, int]] = deque()


def release_dropped() -> None:
    """Release the memory of deleted arrays."""
    while _dropped:
        try:
            device, address = _dropped.popleft()
        except IndexError:  # another thread has taken it
            return
        device.release(address)


class Block:
    """A block of device memory, released with its last reference; raises a MemoryError if the device is full."""

    __slots__ = ("_address", "_device")

    def __init__(self, device: Device, size_bytes: int) -> None:
        self._device = device
        self._address = 0
        release_dropped()
        self._address = device.allocate(size_bytes)
        if not self._address:
            free_bytes = device.memory.size_bytes - device.memory.allocated_bytes
            raise MemoryError(
                f"simulated device {device.device_id} has no room for {size_bytes} bytes "
                f"({free_bytes} bytes are free): delete arrays, or take them to the host with x.to_host()"
            )

    def __del__(self) -> None:
        if self._address:
            _dropped.append((self._device, self._address))


class DeviceArray:
    """An array of a simulated device, without NumPy's interface."""

    __slots__ = ("__weakref__", "_block", "_device_id", "_values")

    _values: Records  # the values. A view shares them with its base, as in NumPy.
    _block: Block  # the memory of the device; a view has its base's
    _device_id: int  # number of the device

    @classmethod
    def _make(cls: type[_Array], values: Any, device_id: int, block: Block | None = None) -> _Array:
        """Make an array of values that are not modified elsewhere, by default in a new block."""
        self = cls.__new__(cls)
        self._values = np.asarray(values)
        self._device_id = device_id
        check_dtype(self._values.dtype)
        self._block = Block(device_of(device_id), self._values.nbytes) if block is None else block
        return self


def wrap(like: _Array, values: Any, operands: Sequence[DeviceArray] = ()) -> _Array:
    """Make an array of the type and device of `like`; a view of an operand shares its block."""
    values = np.asarray(values)
    bases: tuple[DeviceArray, ...] = (like, *operands)
    for base in bases:
        if np.may_share_memory(values, base._values):
            return like._make(values, like._device_id, base._block)
    return like._make(values, like._device_id)


def check_dtype(dtype: np.dtype[Any]) -> None:
    """Raise a TypeError for a data type that NPUs do not have."""
    # A float of 16 bytes is NumPy's extended precision; complex128, also 16 bytes, is supported.
    if dtype.name == "bfloat16" or (
        dtype.kind in _KINDS and dtype.itemsize <= (_MAX_ITEM_BYTES if dtype.kind == "c" else _MAX_ITEM_BYTES // 2)
    ):
        return
    raise TypeError(f"an NPU has no data type {dtype}: convert the values on the host first, to float32 for example")

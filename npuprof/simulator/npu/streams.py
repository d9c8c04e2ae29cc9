"""Streams and memory of the simulated NPU, as arrays use them."""

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
    """Return a device of the simulated machine of now.

    Raises
    ------
    ValueError
        If the machine has no such device.
    """
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


class Stream:
    """A queue of work of a simulated NPU, which runs in order; two streams run beside each other.

    Parameters
    ----------
    device
        Number of the device.

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
        """Wrap a stream that exists."""
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
        """Number of the stream on its device, as profiles show it."""
        return self._stream.stream_id

    def on(self, device: Device) -> DeviceStream:
        """Return the stream as `device` has it.

        Raises
        ------
        RuntimeError
            If the stream was destroyed, or the machine that it was made on is no more.
        """
        if self._device is not device or self._stream.destroyed:
            raise RuntimeError(f"{self!r} is gone, destroyed or with a machine that was reconfigured: make a new one")
        return self._stream

    def synchronize(self) -> None:
        """Wait until everything in the stream has run."""
        self._device.synchronize(self.on(self._device))

    def record(self) -> Event:
        """Return an event that happens when what is in the stream so far has run."""
        event = DeviceEvent()
        self._device.record_event(event, self.on(self._device))
        return Event(event, self._device)

    def wait(self, event: Event) -> None:
        """Make later work of this stream wait for an event of another."""
        self._device.wait_event(event.device_event, self.on(self._device))

    def destroy(self) -> None:
        """Wait for the stream and give its number back."""
        self._device.destroy_stream(self.on(self._device))

    def __repr__(self) -> str:
        return f"<npuprof.simulator.npu.Stream {self.stream_id} of simulated device {self.device}>"


# What each thread (and each asynchronous task) has chosen, by device; never changed in place.
_chosen: ContextVar[Mapping[int, Stream]] = ContextVar("npuprof_streams", default=MappingProxyType({}))


@contextmanager
def stream(chosen: Stream | None) -> Iterator[Stream | None]:
    """Run what is launched in the ``with`` block, by this thread on the stream's device, in `chosen`.

    ``None`` changes nothing.
    """
    if chosen is None:
        yield None
        return
    token = _chosen.set({**_chosen.get(), chosen.device: chosen})
    try:
        yield chosen
    finally:
        _chosen.reset(token)


def launch_stream(device: Device) -> DeviceStream:
    """Return the stream that the calling thread's work on a device goes to."""
    chosen = _chosen.get().get(device.device_id)
    return device.default_stream if chosen is None else chosen.on(device)


def current_stream(device: int = 0) -> Stream:
    """Return the stream that the calling thread's work on a device goes to; at first the default stream."""
    simulated = device_of(device)
    return Stream._of(simulated, launch_stream(simulated))


_Array = TypeVar("_Array", bound="DeviceArray")

_KINDS = "biufc"
_MAX_ITEM_BYTES = 16  # complex128; NumPy's extended precision has no counterpart on a device


# Blocks that nothing refers to any more. A destructor may run anywhere, in the midst of the device's own work too,
# so it only leaves a note here; the next allocation or synchronisation acts on it.
_dropped: deque[tuple[Device, int]] = deque()


def release_dropped() -> None:
    """Free the memory of arrays that are gone."""
    while _dropped:
        try:
            device, address = _dropped.popleft()
        except IndexError:  # another thread has been quicker
            return
        device.release(address)


class Block:
    """Memory of a device, to be released when nothing refers to it any more.

    Parameters
    ----------
    device
        Where.
    size_bytes
        How much; the device rounds it up.

    Raises
    ------
    MemoryError
        If the device has no room for it.
    """

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
                f"({free_bytes} bytes are free): let go of arrays, or take them to the host with x.to_host()"
            )

    def __del__(self) -> None:
        if self._address:
            _dropped.append((self._device, self._address))


class DeviceArray:
    """An array of a simulated device, without what makes it an array for NumPy.

    Attributes
    ----------
    _values
        The true values. A view shares them with its base, as NumPy's views do.
    _block
        The memory of the device; a view keeps its base's.
    _device_id
        Number of the device.
    """

    __slots__ = ("__weakref__", "_block", "_device_id", "_values")

    _values: Records
    _block: Block
    _device_id: int

    @classmethod
    def _make(cls: type[_Array], values: Any, device_id: int, block: Block | None = None) -> _Array:
        """Make an array around values that nobody else changes, in a block of its own if none is given."""
        self = cls.__new__(cls)
        self._values = np.asarray(values)
        self._device_id = device_id
        check_dtype(self._values.dtype)
        self._block = Block(device_of(device_id), self._values.nbytes) if block is None else block
        return self


def wrap(like: _Array, values: Any, operands: Sequence[DeviceArray] = ()) -> _Array:
    """Make an array of the type and on the device of `like`; a view of it or of an operand shares the block."""
    values = np.asarray(values)
    bases: tuple[DeviceArray, ...] = (like, *operands)
    for base in bases:
        if np.may_share_memory(values, base._values):
            return like._make(values, like._device_id, base._block)
    return like._make(values, like._device_id)


def check_dtype(dtype: np.dtype[Any]) -> None:
    """Refuse data types that devices do not have.

    Raises
    ------
    TypeError
        For anything but booleans, integers, floating point and complex numbers of up to 16 bytes, and bfloat16.
    """
    # A float of 16 bytes is NumPy's extended precision; complex128 has as many and is fine.
    if dtype.name == "bfloat16" or (
        dtype.kind in _KINDS and dtype.itemsize <= (_MAX_ITEM_BYTES if dtype.kind == "c" else _MAX_ITEM_BYTES // 2)
    ):
        return
    raise TypeError(f"an NPU has no data type {dtype}: convert the values on the host first, to float32 for example")

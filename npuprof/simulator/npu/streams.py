"""Streams as a notebook uses them: make one, work in it, order it with others by events."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import TYPE_CHECKING

from npuprof.simulator.device import Device
from npuprof.simulator.machine import current
from npuprof.simulator.streams import Event as DeviceEvent
from npuprof.simulator.streams import Stream as DeviceStream

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

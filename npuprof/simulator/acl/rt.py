"""``acl.rt``: devices, contexts, streams, events and memory."""

from __future__ import annotations

import ctypes
import threading

from npuprof.simulator import codes
from npuprof.simulator.device import Device
from npuprof.simulator.device_view import CopyKind, Event, Stream
from npuprof.simulator.machine import current, emulated

_HOST_TO_HOST = 0
_KINDS: dict[int, CopyKind] = {1: "host_to_device", 2: "device_to_host", 3: "device_to_device"}


class Context:
    """The device of a thread."""

    def __init__(self, device: Device) -> None:
        self.device = device


# -- devices and contexts --------------------------------------------------------------------------------------


def get_device_count() -> tuple[int, int]:
    """Return the number of devices."""
    return len(current().devices), codes.SUCCESS


def set_device(device_id: int) -> int:
    """Open a device for the calling thread."""
    return create_context(device_id)[1]


def reset_device(device_id: int) -> int:
    """Wait for a device and release its streams and contexts."""
    devices = current().devices
    if not 0 <= device_id < len(devices):
        return codes.RT_INVALID_DEVICE
    device = devices[device_id]
    for stream in device.streams:
        if stream is not device.default_stream:
            device.destroy_stream(stream)
    contexts = current().runtime.contexts
    for thread_id, handle in list(contexts.items()):
        context = current().handles.get(handle, Context)
        if context is not None and context.device is device:
            del contexts[thread_id]
    return codes.SUCCESS


def get_device() -> tuple[int, int]:
    """Return the calling thread's device."""
    device = _device()
    return (0, codes.RT_CONTEXT_NULL) if device is None else (device.device_id, codes.SUCCESS)


def create_context(device_id: int) -> tuple[int, int]:
    """Open a device and return a context on it, which becomes the calling thread's."""
    simulator = current()
    if not 0 <= device_id < len(simulator.devices):
        return 0, codes.RT_INVALID_DEVICE
    device = simulator.devices[device_id]
    simulator.activate(device)
    handle = simulator.handles.add(Context(device))
    simulator.runtime.contexts[threading.get_native_id()] = handle
    return handle, codes.SUCCESS


def destroy_context(context: int) -> int:
    simulator = current()
    if simulator.handles.remove(context, Context) is None:
        return codes.RT_PARAM_INVALID
    contexts = simulator.runtime.contexts
    for thread_id in [thread for thread, handle in contexts.items() if handle == context]:
        del contexts[thread_id]
    return codes.SUCCESS


def set_context(context: int) -> int:
    """Make a context the calling thread's."""
    simulator = current()
    if simulator.handles.get(context, Context) is None:
        return codes.RT_PARAM_INVALID
    simulator.runtime.contexts[threading.get_native_id()] = context
    return codes.SUCCESS


def get_context() -> tuple[int, int]:
    """Return the calling thread's context."""
    handle = current().runtime.contexts.get(threading.get_native_id(), 0)
    return handle, codes.SUCCESS if handle else codes.RT_CONTEXT_NULL


def synchronize_device() -> int:
    """Wait for all tasks of the calling thread's device."""
    device = _device()
    if device is None:
        return codes.RT_CONTEXT_NULL
    device.synchronize()
    return codes.SUCCESS


# -- streams and events ----------------------------------------------------------------------------------------


def create_stream() -> tuple[int, int]:
    """Create a stream on the calling thread's device."""
    device = _device()
    if device is None:
        return 0, codes.RT_CONTEXT_NULL
    return current().handles.add(device.create_stream()), codes.SUCCESS


def destroy_stream(stream: int) -> int:
    """Wait for a stream and destroy it."""
    removed = current().handles.remove(stream, Stream)
    if removed is None:
        return codes.RT_PARAM_INVALID
    if not removed.destroyed:
        current().device(removed.device_id).destroy_stream(removed)
    return codes.SUCCESS


def synchronize_stream(stream: int) -> int:
    """Wait for a stream."""
    resolved = resolve_stream(stream)
    if resolved is None:
        return codes.RT_STREAM_CONTEXT
    resolved[0].synchronize(resolved[1])
    return codes.SUCCESS


def create_event() -> tuple[int, int]:
    return current().handles.add(Event()), codes.SUCCESS


def destroy_event(event: int) -> int:
    removed = current().handles.remove(event, Event)
    return codes.RT_PARAM_INVALID if removed is None else codes.SUCCESS


def record_event(event: int, stream: int) -> int:
    return _with_event(event, stream, wait=False)


def stream_wait_event(stream: int, event: int) -> int:
    """Make a stream wait for an event."""
    return _with_event(event, stream, wait=True)


@emulated
def synchronize_event(event: int) -> int:
    """Wait for an event."""
    recorded = current().handles.get(event, Event)
    if recorded is None:
        return codes.RT_PARAM_INVALID
    if recorded.recorded_ns is not None:
        (_device() or current().device()).synchronize_event(recorded)
    return codes.SUCCESS


def event_elapsed_time(start_event: int, end_event: int) -> tuple[float, int]:
    """Return the milliseconds between two recorded events."""
    start, end = (current().handles.get(event, Event) for event in (start_event, end_event))
    if start is None or end is None or start.recorded_ns is None or end.recorded_ns is None:
        return 0.0, codes.RT_PARAM_INVALID
    return (end.recorded_ns - start.recorded_ns) / 1e6, codes.SUCCESS


# -- memory ----------------------------------------------------------------------------------------------------


def get_mem_info(attribute: int = 1) -> tuple[int, int, int]:
    """Return free and total bytes of the device's HBM; `attribute` is ignored."""
    del attribute
    device = _device()
    if device is None:
        return 0, 0, codes.RT_CONTEXT_NULL
    memory = device.memory
    return memory.size_bytes - memory.allocated_bytes, memory.size_bytes, codes.SUCCESS


def malloc(size: int, policy: int = 0) -> tuple[int, int]:
    """Allocate device memory; `policy` is ignored."""
    del policy
    device = _device()
    if device is None:
        return 0, codes.RT_CONTEXT_NULL
    if size <= 0:
        return 0, codes.INVALID_PARAM
    address = device.allocate(size)
    return address, codes.SUCCESS if address else codes.RT_MEMORY_ALLOCATION


def free(address: int) -> int:
    """Release device memory."""
    released = any(device.release(address) for device in current().devices if device.memory.size_of(address))
    return codes.SUCCESS if released else codes.RT_PARAM_INVALID


def malloc_host(size: int) -> tuple[int, int]:
    """Allocate host memory at a real address of this process."""
    if size <= 0:
        return 0, codes.INVALID_PARAM
    buffer = (ctypes.c_char * size)()
    address = ctypes.addressof(buffer)
    current().runtime.host_buffers[address] = buffer
    return address, codes.SUCCESS


def free_host(address: int) -> int:
    """Release host memory."""
    released = current().runtime.host_buffers.pop(address, None)
    return codes.RT_PARAM_INVALID if released is None else codes.SUCCESS


@emulated
def memset(address: int, max_count: int, value: int, count: int) -> int:
    """Fill device memory."""
    device = _owner(address, count)
    if device is None or count > max_count:
        return codes.RT_PARAM_INVALID
    device.memory.write(address, bytes([value & 0xFF]) * count)
    return codes.SUCCESS


def memcpy(dst: int, dest_max: int, src: int, count: int, kind: int) -> int:
    """Copy and wait; host addresses are trusted, as in pyACL."""
    return _copy(dst, dest_max, src, count, kind, 0, wait=True)


def memcpy_async(dst: int, dest_max: int, src: int, count: int, kind: int, stream: int) -> int:
    """Copy in a stream: the data at once, the time on the device."""
    return _copy(dst, dest_max, src, count, kind, stream, wait=False)


# -- shared ----------------------------------------------------------------------------------------------------


def resolve_stream(handle: int) -> tuple[Device, Stream] | None:
    """Return the device and stream of a handle; 0 is the default stream of the calling thread's device."""
    if not handle:
        device = _device()
        return None if device is None else (device, device.default_stream)
    stream = current().handles.get(handle, Stream)
    return None if stream is None or stream.destroyed else (current().device(stream.device_id), stream)


def _device() -> Device | None:
    simulator = current()
    handle = simulator.runtime.contexts.get(threading.get_native_id(), 0)
    context = simulator.handles.get(handle, Context)
    return None if context is None else context.device


def _owner(address: int, count: int) -> Device | None:
    return next((device for device in current().devices if device.memory.holds(address, count)), None)


def _with_event(event: int, stream: int, *, wait: bool) -> int:
    resolved = resolve_stream(stream)
    happening = current().handles.get(event, Event)
    if happening is None:
        return codes.RT_PARAM_INVALID
    if resolved is None:
        return codes.RT_STREAM_CONTEXT
    device, target = resolved
    if wait:
        device.wait_event(happening, target)
    else:
        device.record_event(happening, target)
    return codes.SUCCESS


@emulated
def _copy(dst: int, dest_max: int, src: int, count: int, kind: int, stream: int, *, wait: bool) -> int:
    if not 0 <= count <= dest_max or kind not in (_HOST_TO_HOST, *_KINDS):
        return codes.RT_PARAM_INVALID
    if kind == _HOST_TO_HOST:
        ctypes.memmove(dst, src, count)
        return codes.SUCCESS
    resolved = resolve_stream(stream)
    if resolved is None:
        return codes.RT_STREAM_CONTEXT if stream else codes.RT_CONTEXT_NULL
    source = None if kind == 1 else _owner(src, count)
    target = None if kind == 2 else _owner(dst, count)
    if (kind != 1 and source is None) or (kind != 2 and target is None):
        return codes.RT_PARAM_INVALID
    data = ctypes.string_at(src, count) if source is None else source.memory.read(src, count)
    if target is None:
        ctypes.memmove(dst, data, count)
    else:
        target.memory.write(dst, data)
    resolved[0].copy(_KINDS[kind], count, resolved[1], wait=wait)
    return codes.SUCCESS

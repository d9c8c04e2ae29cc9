"""The msproftx extension: stamps, markers and ranges of the host, step tags of the device.

Source: collectors/FRONTENDS.md section 3.5, raw/FORMAT.md sections 4.3 and 5.4.
"""

from __future__ import annotations

import itertools
import threading
from dataclasses import dataclass

from npuprof.simulator import codes
from npuprof.simulator.clock import emulated
from npuprof.simulator.device import Device
from npuprof.simulator.device_view import Stream
from npuprof.simulator.host import Host
from npuprof.simulator.host_records import Mark, MarkKind

_MAX_STAMP_BYTES = 126
_MAX_STREAM_MARK_BYTES = 155
_STEP_BEGIN = 60000
_STEP_END = 60001
_STEP_TAGS = {0: _STEP_BEGIN, 1: _STEP_END, _STEP_BEGIN: _STEP_BEGIN, _STEP_END: _STEP_END}
_DOMAIN = "default"
_emulated = emulated(lambda marker: marker._host.clock)


@dataclass
class Stamp:
    """A stamp: the message of its next markers and ranges."""

    message: bytes = b""


@dataclass
class StepInfo:
    """A counter of steps."""

    index: int = 0


class Marker:
    """The marker calls of ``acl.prof``, on one host."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._pushed: dict[int, list[tuple[bytes, int]]] = {}
        self._ranges: dict[int, tuple[bytes, int, int]] = {}
        self._range_ids = itertools.count(1)

    @property
    def _on(self) -> bool:
        recorder = self._host.recorder
        return recorder is not None and recorder.collection.marks

    def create_stamp(self) -> int:
        """Return the handle of a new stamp; 0 while no markers are recorded."""
        return self._host.handles.add(Stamp()) if self._on else 0

    def destroy_stamp(self, handle: int) -> None:
        self._host.handles.remove(handle, Stamp)

    def set_message(self, handle: int, message: str) -> int:
        """Set the message of a stamp's marks: at most 126 bytes."""
        stamp = self._host.handles.get(handle, Stamp)
        if stamp is None:
            return codes.INVALID_PARAM
        encoded = message.encode()
        if len(encoded) > _MAX_STAMP_BYTES:
            return codes.FAILED
        stamp.message = encoded
        return codes.SUCCESS

    @_emulated
    def mark(self, handle: int) -> int:
        """Set a marker now."""
        stamp = self._host.handles.get(handle, Stamp)
        if stamp is None or not self._on:
            return codes.FAILED
        now_ns = self._host.clock.monotonic_raw_ns()
        self._record("marker", stamp.message, threading.get_native_id(), now_ns, now_ns)
        return codes.SUCCESS

    @_emulated
    def mark_on_stream(self, message: str, device: Device | None, stream: Stream | None) -> int:
        """Set a marker now, and on the device at the current position of the stream."""
        encoded = message.encode()
        if not self._on or device is None or stream is None or not 0 < len(encoded) <= _MAX_STREAM_MARK_BYTES:
            return codes.FAILED
        now_ns = self._host.clock.monotonic_raw_ns()
        device.mark(Mark("marker_ex", encoded, threading.get_native_id(), now_ns, now_ns, _DOMAIN), stream)
        return codes.SUCCESS

    @_emulated
    def push(self, handle: int) -> int:
        """Begin a range of this thread, nested in its open ranges."""
        stamp = self._host.handles.get(handle, Stamp)
        if stamp is None:
            return codes.INVALID_PARAM
        if not self._on:
            return codes.FAILED
        entry = stamp.message, self._host.clock.monotonic_raw_ns()
        self._pushed.setdefault(threading.get_native_id(), []).append(entry)
        return codes.SUCCESS

    @_emulated
    def pop(self) -> int:
        """End the innermost range of this thread."""
        thread_id = threading.get_native_id()
        stack = self._pushed.get(thread_id)
        if not stack:
            return codes.FAILED
        message, start_ns = stack.pop()
        if not stack:
            del self._pushed[thread_id]
        return self._end("push_pop", message, thread_id, start_ns)

    @_emulated
    def range_start(self, handle: int) -> tuple[int, int]:
        """Begin a range that any thread can end; return its id and a code."""
        stamp = self._host.handles.get(handle, Stamp)
        if stamp is None:
            return 0, codes.INVALID_PARAM
        if not self._on:
            return 0, codes.FAILED
        number = next(self._range_ids)
        self._ranges[number] = stamp.message, threading.get_native_id(), self._host.clock.monotonic_raw_ns()
        return number, codes.SUCCESS

    @_emulated
    def range_stop(self, number: int) -> int:
        """End a range."""
        begun = self._ranges.pop(number, None)
        if begun is None:
            return codes.FAILED
        message, thread_id, start_ns = begun
        return self._end("range", message, thread_id, start_ns)

    def create_step_info(self) -> int:
        """Return the handle of a step counter."""
        return self._host.handles.add(StepInfo())

    def destroy_step_info(self, handle: int) -> int:
        """Destroy a step counter."""
        removed = self._host.handles.remove(handle, StepInfo)
        return codes.INVALID_PARAM if removed is None else codes.SUCCESS

    @_emulated
    def step(self, handle: int, tag: int, device: Device | None, stream: Stream | None) -> int:
        """Record the begin (tag 0 or 60000) or end (1 or 60001) of a step on the device."""
        info = self._host.handles.get(handle, StepInfo)
        if info is None or device is None or tag not in _STEP_TAGS:
            return codes.INVALID_PARAM
        if _STEP_TAGS[tag] == _STEP_BEGIN:
            info.index += 1
        device.tag_step(info.index, _STEP_TAGS[tag], stream)
        return codes.SUCCESS

    def _end(self, kind: MarkKind, message: bytes, thread_id: int, start_ns: int) -> int:
        if not self._on:
            return codes.FAILED
        self._record(kind, message, thread_id, start_ns, self._host.clock.monotonic_raw_ns())
        return codes.SUCCESS

    def _record(self, kind: MarkKind, message: bytes, thread_id: int, start_ns: int, end_ns: int) -> None:
        with self._host.lock:
            if (recorder := self._host.recorder) is not None:
                recorder.marked(Mark(kind, message, thread_id, start_ns, end_ns))

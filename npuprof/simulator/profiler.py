"""States and return codes of the native profiler, in its current and its older semantics.

Source: collectors/FRONTENDS.md section 3.5.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from npuprof.simulator import codes, collection
from npuprof.simulator.clock import begin_recording, end_recording
from npuprof.simulator.collection import ACL_API, AICORE_METRICS, KNOWN_BITS, METRIC_NONE, TASK_TIME, Collection
from npuprof.simulator.device import Device
from npuprof.simulator.host import Host
from npuprof.simulator.pmu import METRICS, PIPE_UTILIZATION

if TYPE_CHECKING:
    from npuprof.simulator.recorder import Recorder

_MAX_PATH_BYTES = 4096
_DEFAULT_MASK = ACL_API | TASK_TIME | AICORE_METRICS


class NativeProfiler:
    """The calls of ``acl.prof`` from ``init`` to ``finalize``, on the devices of a host; every method returns a code.

    Attributes
    ----------
    subscribed
        Models with a subscription, which excludes collection.
    """

    def __init__(self, host: Host, devices: Sequence[Device]) -> None:
        self._host = host
        self._devices = devices
        self.subscribed: set[int] = set()
        self._output: Path | None = None
        self._was_finalised = False
        self._by_file = False
        self._settings: dict[int, str] = {}
        self._running: Collection | None = None
        self._running_handle = 0
        self._completing = threading.RLock()

    @property
    def _legacy(self) -> bool:
        return self._host.semantics == "legacy"

    @property
    def initialised(self) -> bool:
        """Whether a collection is prepared or runs, which excludes subscriptions."""
        return self._output is not None

    def begin_by_file(self, output: Path, mask: int, metric: int, settings: Mapping[int, str]) -> int:
        """Start the collection of all devices that the configuration file of ``acl.init`` requests."""
        code = self.init(str(output))
        if code != codes.SUCCESS:
            return code
        self._settings.update(settings)
        handle = self.create_config(range(len(self._devices)), metric, mask)
        code = self.start(handle)
        self._by_file = code == codes.SUCCESS
        if not self._by_file:
            self._output = None
        return code

    def end_by_file(self) -> int:
        """End the collection of :meth:`begin_by_file`."""
        if not self._by_file:
            return codes.SUCCESS
        self._by_file = False
        return self.finalize()

    def init(self, path: str) -> int:
        """Set the output directory; :meth:`start` checks the path."""
        if os.environ.get("PROFILING_MODE") == "dynamic":
            return codes.FEATURE_UNSUPPORTED
        if self._by_file or self.subscribed:
            return codes.PROF_API_CONFLICT
        if not 0 < len(os.fsencode(path)) < _MAX_PATH_BYTES or "\0" in path:
            return codes.INVALID_PARAM
        if self._output is not None:
            return codes.REPEAT_INITIALIZE
        if ";" in path:
            return codes.INVALID_FILE
        self._output = Path(path).absolute()
        return codes.SUCCESS

    def finalize(self) -> int:
        """End profiling and complete a running recording."""
        if self._by_file:
            return codes.PROF_API_CONFLICT
        if self._output is None and self._legacy:
            return codes.REPEAT_FINALIZE if self._was_finalised else codes.PROF_NOT_RUN
        code = self.complete()
        self._was_finalised = self._output is not None
        self._output = None
        self._settings.clear()
        return code

    def create_config(self, device_ids: Sequence[int], metric: int, mask: int) -> int:
        """Return the handle of a configuration, or 0 for an invalid device list."""
        known = range(len(self._devices))
        if not device_ids or len(set(device_ids)) < len(device_ids) or any(each not in known for each in device_ids):
            return 0
        return self._host.handles.add(Collection(tuple(device_ids), metric, mask))

    def destroy_config(self, handle: int) -> int:
        """Destroy a configuration; its recording continues."""
        removed = self._host.handles.remove(handle, Collection)
        return codes.INVALID_PARAM if removed is None else codes.SUCCESS

    def set_config(self, kind: int, value: str) -> int:
        """Set an option of later recordings."""
        code = collection.check(kind, value)
        if code == codes.SUCCESS:
            self._settings[kind] = value
        return code

    def warmup(self, handle: int) -> int:
        """Prepare a start."""
        if self._running is not None:
            return codes.PROF_API_CONFLICT
        return self._check(self._host.handles.get(handle, Collection))

    def start(self, handle: int) -> int:
        """Start a recording."""
        with self._host.lock:
            return self._start(handle)

    def stop(self, handle: int) -> int:
        """Wait for the devices and complete the recording; 500005 if a part could not be written."""
        with self._completing:
            if self._running is None:
                return codes.PROF_NOT_RUN if self._legacy else codes.SUCCESS
            if not self._is_running(handle, self._collection(handle)):
                return codes.INVALID_PROFILING_CONFIG
            return self.complete()

    def _start(self, handle: int) -> int:
        if self._output is None:
            code = codes.PROF_NOT_RUN if self._legacy else self.init("./")
            if code != codes.SUCCESS:
                return code
        collection = self._collection(handle)
        code = self._check(collection)
        if code != codes.SUCCESS or collection is None:
            return code
        if self._host.busy:
            return codes.PROF_ALREADY_RUN
        if self._running is not None:
            if self._legacy:
                return codes.PROF_ALREADY_RUN
            return codes.SUCCESS if self._is_running(handle, collection) else codes.INVALID_PROFILING_CONFIG
        return self._begin(handle, collection)

    def _collection(self, handle: int) -> Collection | None:
        """Return the configuration of a handle; the null handle is the default on the devices in use."""
        if handle:
            return self._host.handles.get(handle, Collection)
        devices = tuple(device.device_id for device in self._host.opened)
        return Collection(devices, PIPE_UTILIZATION, _DEFAULT_MASK) if devices else None

    def _is_running(self, handle: int, collection: Collection | None) -> bool:
        return handle == self._running_handle or collection == self._running

    @staticmethod
    def _check(collection: Collection | None) -> int:
        if collection is None:
            return codes.INVALID_PARAM
        if collection.mask & ~KNOWN_BITS:
            return codes.PROF_MODULES_UNSUPPORTED
        if collection.metric not in METRICS and collection.metric != METRIC_NONE:
            return codes.INVALID_PARAM
        return codes.SUCCESS

    def _begin(self, handle: int, collection: Collection) -> int:
        # Imported here, so that a machine without profiling is created quickly.
        from npuprof.simulator.recorder import Recorder

        host = self._host
        wanted = Collection(collection.device_ids, collection.metric, collection.mask, dict(self._settings))
        begin_recording(host.clock)
        try:
            recorder = Recorder(
                wanted,
                self._output or Path(),
                chip=host.chip,
                clock=host.clock,
                rank_id=host.rank_id,
                devices=host.opened,
            )
        except OSError:
            end_recording(host.clock)
            return codes.INVALID_FILE
        if recorder.error is not None:
            end_recording(host.clock)
            return codes.INVALID_FILE
        host.recorder = recorder
        self._running, self._running_handle = collection, handle
        return codes.SUCCESS

    def complete(self) -> int:
        """Complete the running recording, if any; return 0, or 500005 if a part could not be written."""
        with self._completing:  # a second caller waits, so that a process does not end during the write
            recorder = self._detach()
            if recorder is None:
                return codes.SUCCESS
            try:
                self._drain()
            finally:  # an interrupt ends the wait, not the recording
                try:
                    recorder.close()
                finally:
                    end_recording(self._host.clock)
            return codes.SUCCESS if recorder.error is None else codes.PROFILING_FAILURE

    def after_fork(self) -> None:
        """Stop recording in the child of a fork; the recording is the parent's."""
        self._completing = threading.RLock()
        self.subscribed.clear()
        self._detach()

    def _drain(self) -> None:
        """Wait for the tasks of every device, without recording the wait."""
        with self._host.lock:
            ends_ns = [device.ns_at(stream.end_tick) for device in self._devices for stream in device.streams]
        self._host.clock.sleep_until_ns(max(ends_ns, default=0))

    def _detach(self) -> Recorder | None:
        """Detach and return the recorder of the running recording.

        From here on, other threads launch unrecorded, so every recorded task ends before the recording does.
        """
        with self._host.lock:
            recorder = self._host.recorder if self._running is not None else None
            self._host.recorder = None
            self._running, self._running_handle = None, 0
        return recorder

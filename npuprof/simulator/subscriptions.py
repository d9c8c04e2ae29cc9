"""Subscriptions to models: descriptions of executed operators, written into the subscriber's pipe.

Source: collectors/FRONTENDS.md section 3 (descriptions of 80 bytes, codes, exclusion of collection).
"""

from __future__ import annotations

import os
import queue
import struct
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from npuprof.simulator import codes
from npuprof.simulator.device_view import Task
from npuprof.simulator.host import Host
from npuprof.simulator.models import Model, Node
from npuprof.simulator.pmu import METRICS
from npuprof.simulator.profiler import NativeProfiler

METRIC_NONE = 0xFF
# signature, model, flag, thread; index, duration, start, end, execution time, cube and vector operations; device.
_DESCRIPTION = struct.Struct("<4I7QI4x")
DESCRIPTION_BYTES = _DESCRIPTION.size
_SIGNATURE = 1
_FLAG_OPERATOR = 0
_MAX_WAITING = 10_000  # unread executions; later executions are not described
_END_S = 5.0


@dataclass(frozen=True)
class SubscribeConfig:
    """The arguments of ``create_subscribe_config``."""

    times: bool
    metric: int
    pipe: int


class Described(NamedTuple):
    """One description, as the getters return it."""

    model_id: int
    node_index: int
    duration_ns: int
    start_ns: int
    end_ns: int


@dataclass
class _Subscription:
    config: SubscribeConfig
    waiting: queue.Queue[tuple[bytes, int] | None] = field(default_factory=lambda: queue.Queue(_MAX_WAITING))
    writer: threading.Thread | None = None


class Subscriptions:
    """The subscription calls of ``acl.prof``, which exclude collection; the methods return codes."""

    def __init__(self, host: Host, profiler: NativeProfiler, models: Mapping[int, Model]) -> None:
        self._host = host
        self._profiler = profiler
        self._models = models
        self._of_model: dict[int, _Subscription] = {}
        self._nodes: list[Node] = []  # a description has no space for names: its index refers to this list
        self._first_index: dict[int, int] = {}

    def create_config(self, times: int, metric: int, pipe: int) -> int:
        """Return the handle of a configuration; 0 for an unknown metric or a closed pipe."""
        if times not in (0, 1) or (metric not in METRICS and metric != METRIC_NONE):
            return 0
        try:
            os.fstat(pipe)
        except (OSError, TypeError, OverflowError):
            return 0
        return self._host.handles.add(SubscribeConfig(bool(times), metric, pipe))

    def destroy_config(self, handle: int) -> int:
        """Destroy a configuration."""
        removed = self._host.handles.remove(handle, SubscribeConfig)
        return codes.INVALID_PARAM if removed is None else codes.SUCCESS

    def subscribe(self, model_id: int, handle: int) -> int:
        """Describe the operators of each execution of a model."""
        if model_id not in self._models:
            return codes.INVALID_MODEL_ID
        config = self._host.handles.get(handle, SubscribeConfig)
        if config is None:
            return codes.INVALID_PARAM
        if self._profiler.initialised:
            return codes.PROF_API_CONFLICT
        if model_id in self._of_model:
            return codes.REPEAT_SUBSCRIBE if self._host.semantics == "legacy" else codes.PROF_REPEAT_SUBSCRIBE
        subscription = self._of_model[model_id] = _Subscription(config)
        self._profiler.subscribed.add(model_id)
        subscription.writer = threading.Thread(
            target=self._write, args=(subscription,), name="npuprof-simulated-subscription", daemon=True
        )
        subscription.writer.start()
        return codes.SUCCESS

    def unsubscribe(self, model_id: int) -> int:
        """End a subscription, after writing the descriptions of past executions that the pipe accepts."""
        subscription = self._of_model.pop(model_id, None)
        if subscription is None:
            return codes.INVALID_MODEL_ID
        self._profiler.subscribed.discard(model_id)
        subscription.waiting.put(None)
        if subscription.writer is not None:
            subscription.writer.join(_END_S)
        return codes.SUCCESS

    def executed(self, model_id: int, model: Model, tasks: Sequence[Task]) -> None:
        """Queue the descriptions of an execution; they are written after its last task."""
        subscription = self._of_model.get(model_id)
        if subscription is None or not tasks:
            return
        first = self._first_index.get(model_id)
        if first is None:
            first = self._first_index[model_id] = len(self._nodes)
            self._nodes += model.nodes
        described = b"".join(
            self._describe(subscription.config, model_id, first + place, task) for place, task in enumerate(tasks)
        )
        try:
            subscription.waiting.put_nowait((described, tasks[-1].end_ns))
        except queue.Full:
            return

    @staticmethod
    def _describe(config: SubscribeConfig, model_id: int, index: int, task: Task) -> bytes:
        start, end = (task.start_ns, task.end_ns) if config.times else (0, 0)
        thread = threading.get_native_id()
        times = (end - start, start, end, end - start)
        return _DESCRIPTION.pack(_SIGNATURE, model_id, _FLAG_OPERATOR, thread, index, *times, 0, 0, task.device_id)

    def _write(self, subscription: _Subscription) -> None:
        while (item := subscription.waiting.get()) is not None:
            described, end_ns = item
            self._host.clock.sleep_until_ns(end_ns)
            while described:
                try:
                    described = described[os.write(subscription.config.pipe, described) :]
                except OSError:
                    return  # the reader has gone

    def described(self, data: bytes, index: int) -> Described | None:
        """Return the description at an index of a buffer; None if there is none."""
        start = index * DESCRIPTION_BYTES
        if not 0 <= start <= len(data) - DESCRIPTION_BYTES:
            return None
        _, model_id, _, _, number, duration, begin, end, *_ = _DESCRIPTION.unpack_from(data, start)
        return Described(model_id, number, duration, begin, end)

    def node(self, index: int) -> Node | None:
        """Return the operator of a description's index."""
        return self._nodes[index] if 0 <= index < len(self._nodes) else None

"""Streams, events and the tasks that run on them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

TASK_IDS = 1 << 16  # a task id has 16 bits and wraps
MAX_COPY_BYTES = 64 << 20  # a longer copy becomes several tasks
QUEUE_DEPTH = 2048  # a launch waits while so many tasks of its stream have not ended

CopyKind: TypeAlias = Literal["host_to_device", "device_to_host", "device_to_device"]


class Task(NamedTuple):
    """One task as the device ran it, or will: the simulated device knows at launch when it ends.

    ``start_tick`` and ``end_tick`` count on the device's own counter, ``start_ns`` and ``end_ns`` are the same
    moments on the host's monotonic clock.
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
    """A queue of tasks that run in order, one after the other.

    Attributes
    ----------
    device_id, stream_id
        Which it is.
    next_task_id, flip_count
        The 16-bit id of the next task, and how often the ids have wrapped.
    end_tick
        When the last task enqueued so far ends, on the device's counter.
    queued_ns
        When the newest tasks end, on the host's clock, oldest first; at most the depth of the queue.
    destroyed
        Whether it is gone.
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
    """A point in a stream that other streams can wait for.

    Attributes
    ----------
    recorded_ns
        When the device reaches it, on the host's monotonic clock; ``None`` before it is recorded.
    """

    recorded_ns: int | None = None

"""Batch ids: the number of wraps of a stream's 16-bit task ids before a task.

Source: raw/FORMAT.md section 8.6.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from npuprof.arrays import Int64

_DESTROYED = 0xFFFF  # count of the flip at the end of a stream; a new stream may reuse its id
_NEAR = 512  # tasks around a flip that another thread may have stamped on the wrong side of it
_FEW = 64  # number of streams
_LOW, _HIGH = 0x4000, 0xC000  # ids just after and just before a wrap


@dataclass(frozen=True)
class Flips:
    """Records of task id wraps: stream, timestamp (on the clock of the tasks), and count."""

    stream: Int64
    stamp: Int64
    count: Int64


def batch_ids(stream: Int64, stamp: Int64, task: Int64, flips: Flips) -> Int64:
    """Return the batch id of every task.

    Parameters
    ----------
    stream, stamp, task
        Stream key, time and 16-bit id of each task. The flips themselves may be among the tasks.

    Returns
    -------
    The number of flips of its stream before each task, including the flip at the stream's end. Near a wrap the id
    decides, not the stamp: stamps of concurrent threads are not in order.
    """
    batch = np.zeros(len(task), np.int64)
    if not len(flips.stream):
        return batch
    flip_order = np.lexsort((flips.stamp, flips.stream))
    wrapped = np.unique(flips.stream)
    flip_rows = _row_bounds(flips.stream[flip_order], wrapped)
    for stream_rows, (first, last) in zip(_rows_of(stream, stamp, wrapped), flip_rows, strict=True):
        selected = flip_order[first:last]
        batch[stream_rows] = _stream_batches(
            stamp[stream_rows], task[stream_rows], flips.stamp[selected], flips.count[selected]
        )
    return batch


def _rows_of(stream: Int64, stamp: Int64, values: Int64) -> Iterator[Int64]:
    """Yield the rows of each stream in order of time."""
    if len(values) <= _FEW and bool((stamp[1:] >= stamp[:-1]).all()):  # one pass per stream is cheaper than sorting
        yield from (np.flatnonzero(stream == value) for value in values)
        return
    order = np.lexsort((stamp, stream))
    yield from (order[low:high] for low, high in _row_bounds(stream[order], values))


def _row_bounds(ordered: Int64, values: Int64) -> list[list[int]]:
    """Return the start and end row of each value in a sorted array."""
    ends = np.searchsorted(ordered, values, side="right")
    return np.stack((np.searchsorted(ordered, values), ends), axis=1).tolist()


def _stream_batches(stamp: Int64, task: Int64, flip_stamp: Int64, flip_count: Int64) -> Int64:
    places = np.searchsorted(stamp, flip_stamp, side="left")
    batch = np.searchsorted(flip_stamp, stamp, side="left").astype(np.int64)
    for turn, (place, count) in enumerate(zip(places.tolist(), flip_count.tolist(), strict=True), 1):
        if count != _DESTROYED:
            _correct_near_wrap(task, batch, place, turn)
    return batch


def _correct_near_wrap(task: Int64, batch: Int64, place: int, turn: int) -> None:
    """Correct the batches of tasks near the wrap at `place` by their ids, in place."""
    before = slice(max(0, place - _NEAR), place)
    wrapped = (task[before] < _LOW) & (np.maximum.accumulate(task[before]) >= _HIGH) & (batch[before] == turn - 1)
    batch[before][wrapped] = turn
    after = slice(place, place + _NEAR)
    late = (task[after] >= _HIGH) & (np.minimum.accumulate(task[after][::-1])[::-1] < _LOW) & (batch[after] == turn)
    batch[after][late] = turn - 1

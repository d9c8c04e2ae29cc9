"""What must hold between the times of host and device: a task follows its launch, and a wait ends after its tasks.

Each is a bound on what has to be added to the device's times. A launch bounds it from below: the task starts at or
after the start of the call that the links name as its launch, a CANN call or else an operator. (The end of an operator
that enqueues its launch is no bound: the queue may take it up before.) A call that returned when the device had
finished bounds it from above: it ends at or after the tasks that it waited for.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields

import numpy as np
import pandas as pd

from npuprof import tables as schema
from npuprof.analysis.correlation import whole_links
from npuprof.arrays import Bools, Int64

_TASKS = ("tasks", "kernels", "communication")
_CALLS = (("api", "api_task"), ("operators", "operator_api"))
_BLOCKING_NS = 100_000  # a call that took this long did wait
_SPREAD = 10  # a wait may return later than usual by this fraction of its own duration
_MOSTLY = 0.5
_NO_STREAM = -1
_BEFORE = int(np.iinfo(np.int64).min)
NEVER = int(np.iinfo(np.int64).max)
"""The bound of a call that waited for nothing known."""


@dataclass(frozen=True)
class LaunchedTasks:
    """Tasks with the calls that launched them, by the links; arrays with an entry per task."""

    # device, stream: of the task; stream -1 if unknown.
    device: Int64
    stream: Int64
    # called_ns, returned_ns: start and end of the call.
    called_ns: Int64
    returned_ns: Int64
    # start_ns, end_ns: start and end of the task, on the device's clock.
    start_ns: Int64
    end_ns: Int64

    def __len__(self) -> int:
        return len(self.device)

    def taken(self, rows: Int64 | Bools) -> LaunchedTasks:
        """Return some of the launches."""
        return LaunchedTasks(*(getattr(self, field.name)[rows] for field in fields(self)))

    @property
    def early_ns(self) -> Int64:
        """How long before its call each task starts; negative if it starts later."""
        return self.called_ns - self.start_ns

    def by_stream(self) -> Iterator[tuple[tuple[int, int], Int64]]:
        """Yield device and stream with the rows of each stream that is known."""
        pairs = pd.DataFrame({"device": self.device, "stream": self.stream}).groupby(["device", "stream"])
        for (device, stream), rows in pairs.indices.items():
            if stream != _NO_STREAM:
                yield (int(device), int(stream)), rows


@dataclass(frozen=True)
class Waits:
    """Calls that returned when the device had finished; arrays with an entry per call."""

    end_ns: Int64  # end of the tasks that the call waited for, on the device's clock
    spare_ns: Int64  # how long after that end the call returned; negative if it returned before


def launches_of(tables: Mapping[str, pd.DataFrame]) -> LaunchedTasks:
    """Return the tasks, kernels and collectives whose launch the links name; of several links, that of a CANN call."""
    links = whole_links(tables)
    parts: list[list[Int64]] = []
    known = {name: np.zeros(len(tables[name]), bool) for name in _TASKS}
    for calls, kind in _CALLS:
        begins, lengths = (tables[calls][name].to_numpy(np.int64) for name in ("start_ns", "duration_ns"))
        for name in _TASKS:
            is_selected = (links["kind"] == kind) & (links["source_table"] == calls) & (links["target_table"] == name)
            source, target = (
                links[f"{end}_row"].to_numpy(np.int64)[is_selected.to_numpy(bool)] for end in ("source", "target")
            )
            target, first = np.unique(target, return_index=True)
            fresh = ~known[name][target]
            target, source = target[fresh], source[first[fresh]]
            known[name][target] = True
            parts.append([*_of_tasks(tables[name], target), begins[source], begins[source] + lengths[source]])
    device, stream, start, end, called, returned = (np.concatenate(column) for column in zip(*parts, strict=True))
    return LaunchedTasks(device, stream, called, returned, start, end)


def _of_tasks(frame: pd.DataFrame, rows: Int64) -> list[Int64]:
    start, device = (frame[name].to_numpy(np.int64)[rows] for name in ("start_ns", "device_id"))
    stream = np.full(len(rows), _NO_STREAM)
    if "stream_id" in frame:
        stream = frame["stream_id"].to_numpy(np.int64, na_value=_NO_STREAM)[rows]
    return [device, stream, start, start + frame["duration_ns"].to_numpy(np.int64)[rows]]


def are_in_order(launches: LaunchedTasks) -> Bools:
    """Return which launches agree with the order of their stream, which runs tasks in the order of their launches.

    These are the longest sequence of each stream in which tasks start in the order of their calls. The others have a
    wrong link, whatever the clock of the device says.
    """
    kept = np.ones(len(launches), bool)
    for _, rows in launches.by_stream():
        order = rows[np.lexsort((launches.start_ns[rows], launches.called_ns[rows]))]
        kept[order] = False
        kept[order[_longest_ascending(launches.start_ns[order].tolist())]] = True
    return kept


def _longest_ascending(values: list[int]) -> list[int]:
    """Return the positions of a longest sequence of values that never descends."""
    tails: list[int] = []  # the least last value of a sequence of each length, and its position
    positions: list[int] = []
    before = [-1] * len(values)
    for position, value in enumerate(values):
        length = bisect_right(tails, value)
        before[position] = positions[length - 1] if length else -1
        tails[length : length + 1] = [value]
        positions[length : length + 1] = [position]
    chosen = positions[-1:]
    while chosen and before[chosen[-1]] >= 0:
        chosen.append(before[chosen[-1]])
    return chosen[::-1]


def waits_for(tables: Mapping[str, pd.DataFrame], launches: LaunchedTasks, device: int) -> Waits:
    """Return the calls that waited for tasks of a device, and how long after these tasks they returned.

    A call that synchronises a device waits for all tasks launched before. One that synchronises a stream waits for the
    last task launched on it, but no table tells the stream. Of the calls of one thread and name, those that took time
    waited for the stream after whose tasks they return most regularly, which does not depend on the clocks; only those
    that do are returned.
    """
    api = tables["api"]
    is_wait = schema.matching(api["name"], lambda name: "Synchronize" in name and "Event" not in name)
    calls = api[is_wait][["name", "thread_id", "start_ns", "duration_ns"]]
    lasting = _last_tasks(launches)
    streams = pd.concat([tables[name][["device_id", "stream_id"]] for name in ("tasks", "kernels")]).drop_duplicates()
    parts = [(np.zeros(0, np.int64), np.zeros(0, np.int64))]
    for (name, _), rows in calls.groupby(["name", "thread_id"], observed=True, sort=True):
        begin, duration = (rows[column].to_numpy(np.int64) for column in ("start_ns", "duration_ns"))
        if "Device" in str(name):
            alone = streams["device_id"].nunique() == 1
            candidates = _by_device(lasting, begin)
        else:
            alone = len(streams) == 1
            candidates = ((key, last.ends_before(begin)) for key, last in lasting.items())
        waited = _most_regular(candidates, begin + duration, duration, alone=alone, all_calls="Device" in str(name))
        if waited is not None and waited[0] == device:
            parts.append(waited[1:])
    ends, spare = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Waits(ends, spare)


@dataclass(frozen=True)
class _LastTask:
    """The tasks of a stream in the order of their launches."""

    returned_ns: Int64
    end_ns: Int64

    def ends_before(self, moments: Int64) -> Int64:
        """Return the end of the last task launched before each moment; :data:`NEVER` without one."""
        at = np.searchsorted(self.returned_ns, moments, side="right") - 1
        return np.append(self.end_ns, NEVER)[at]


def _last_tasks(launches: LaunchedTasks) -> dict[tuple[int, int], _LastTask]:
    """Return the tasks of each stream that start before all tasks launched later: others have a wrong link."""
    streams = {}
    for key, rows in launches.by_stream():
        order = rows[np.argsort(launches.returned_ns[rows], kind="stable")]
        starts = launches.start_ns[order]
        order = order[starts <= np.minimum.accumulate(starts[::-1])[::-1]]
        streams[key] = _LastTask(launches.returned_ns[order], launches.end_ns[order])
    return streams


def _by_device(lasting: Mapping[tuple[int, int], _LastTask], begin: Int64) -> Iterator[tuple[tuple[int, int], Int64]]:
    """Yield for each device the end of the tasks launched before each call, on whichever stream is the last to end."""
    for device in sorted({device for device, _ in lasting}):
        latest = np.full(len(begin), _BEFORE)
        for (of_device, _), last in lasting.items():
            if of_device == device:
                ends = last.ends_before(begin)
                latest = np.maximum(latest, np.where(ends == NEVER, _BEFORE, ends))
        yield (device, _NO_STREAM), np.where(latest == _BEFORE, NEVER, latest)


def _most_regular(
    candidates: Iterator[tuple[tuple[int, int], Int64]], end: Int64, duration: Int64, *, alone: bool, all_calls: bool
) -> tuple[int, Int64, Int64] | None:
    """Return the device whose tasks some calls waited for, the ends of these tasks, and how long after them calls end.

    Parameters
    ----------
    candidates
        Device and stream, and the end of the task that each call would have waited for there.
    alone
        Whether there is only one candidate in the recording, so that one call that took time is enough.
    """
    blocking = duration >= _BLOCKING_NS
    best: tuple[int, float, int, Int64, Int64] | None = None
    for (device, _), ends in candidates:
        is_known = (ends != NEVER) & (blocking | (alone and all_calls))
        spare = end[is_known] - ends[is_known]
        if not alone:
            deviation = np.abs(spare - (np.sort(spare)[len(spare) // 2] if len(spare) else 0))
            regular = deviation <= np.maximum(_BLOCKING_NS, duration[is_known] // _SPREAD)
            if regular.sum() < max(2, _MOSTLY * blocking.sum()):
                continue
            irregular = float(np.median(deviation))
            is_known[is_known], spare = regular, spare[regular]
        elif not len(spare):
            continue
        else:
            irregular = 0.0
        candidate = (len(spare), -irregular, device, ends[is_known], spare)
        if best is None or candidate[:2] > best[:2]:
            best = candidate
    return None if best is None else best[2:]

"""Select the records of a raw directory that a selection needs, so that the rest is not joined.

All records are read, sorted and paired, since the batch of a task id and the number of a connection depend on all
earlier records. Joining and building tables, the larger part of the work, is limited to the selected rows and their
dependencies: their launching calls, whole collectives (whose names are numbered), and the preceding kernel (for
`wait_ns`). Selected rows equal those of the whole run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from npuprof.analysis.intervals import Spans, union
from npuprof.arrays import Bools, Int64
from npuprof.sources.overlap import WITHOUT_SPAN
from npuprof.sources.raw.correlation.launches import may_be_kernels
from npuprof.sources.raw.device.reader import RawDevice
from npuprof.sources.raw.device.tasks import DeviceTasks
from npuprof.sources.raw.host.calls import HostCalls
from npuprof.sources.raw.host.operators import take
from npuprof.sources.raw.host.reader import JOINED, RawHost
from npuprof.sources.raw.host.tracks import Launched
from npuprof.sources.raw.metadata.chip_families import Family
from npuprof.sources.raw.metadata.dictionaries import HASHES, TYPES
from npuprof.sources.raw.records import enums
from npuprof.sources.selection import SelectedPart, SelectedWindows, Selection, Windows
from npuprof.tables.info import Info

_MARGIN_NS = 10_000  # longer than a tick of any host counter
_COVERED = frozenset(
    {
        *JOINED,
        *("api_event.data", "compact.task_track", "additional.msproftx", "additional.task_memory_info"),
        *(name.partition(".")[2] for name in (HASHES, TYPES)),
    }
)
_JOINED_WITH_ALL = ("l2_cache.", "socpmu.")  # device streams without times, matched by counting all kernels


@dataclass(frozen=True)
class Recorded:
    """Records of a directory: calls, launched tasks, device tasks, and their matches."""

    host: RawHost
    devices: Sequence[RawDevice]
    calls: HostCalls
    launched: Launched
    tasks: DeviceTasks
    matched: tuple[Int64, Bools]


@dataclass(frozen=True)
class Needed(Recorded):
    """The records to join, and the rows of their calls in the whole run."""

    rows: Int64

    def number(self, frames: Mapping[str, pd.DataFrame]) -> None:
        """Renumber connection IDs to those of the whole run."""
        for frame in frames.values():
            if "connection_id" not in frame:
                continue
            ids = frame["connection_id"].to_numpy(np.int64, na_value=0)
            is_own = (ids > 0) & (ids <= len(self.rows))
            numbers = np.where(is_own, self.rows[np.where(is_own, ids - 1, 0)] + 1, ids) if len(self.rows) else ids
            frame["connection_id"] = pd.arrays.IntegerArray(numbers, frame["connection_id"].isna().to_numpy())


def find(whole: Recorded, steps: pd.DataFrame, info: Info, part: SelectedPart) -> Needed | None:
    """Return the records that a part of a run needs; None for the whole run."""
    if isinstance(part, Selection):
        if part.is_relative and info.started_ns is None:
            return None
        windows = part.windows(steps, info.started_ns or 0)
        # A kernel that starts exactly at the end of a step belongs to it.
        part = SelectedWindows(windows if part.steps is None else windows.joined(windows.starts, windows.ends + 1))
    if part is None or not _can_be_divided(whole):
        return None
    launched, (track, _) = whole.launched, whole.matched
    begins, ends = (whole.host.clock.to_ns(times.view(np.uint64)) for times in (whole.calls.begins, whole.calls.ends))
    call_times = begins, ends
    requested_rows = np.flatnonzero(part.launches.touch(begins, begins))
    part = replace(part, launches=part.launches.joined(begins[requested_rows], ends[requested_rows] + _MARGIN_NS))
    is_wanted = part.windows.touch(whole.tasks.start_ns, whole.tasks.start_ns + whole.tasks.duration_ns)
    is_wanted |= np.append(part.launches.touch(launched.stamp_ns, launched.stamp_ns), False)[track]
    is_wanted |= _before(whole, is_wanted, _in_collectives(whole, call_times))
    within = _host_ranges(whole, part, is_wanted, call_times)
    launches = np.flatnonzero(within.touch(launched.stamp_ns, launched.stamp_ns))
    place = np.full(len(launched.stamp_ns), -1, np.int64)
    place[launches] = np.arange(len(launches))
    rows = np.flatnonzero(is_wanted | (take(place, track) >= 0))
    calls = np.flatnonzero(within.touch(*call_times))
    return Needed(
        replace(whole.host, within=within),
        whole.devices,
        whole.calls.take(calls),
        launched.take(launches),
        whole.tasks.take(rows),
        (take(place, track[rows]), whole.matched[1][rows]),
        calls,
    )


def _can_be_divided(whole: Recorded) -> bool:
    """Return whether every join stays within a call: no models, no graphs, no older chips."""
    names = [name.partition(".")[2] for name in whole.host.streams.names() if name.startswith(("aging.", "unaging."))]
    if not set(names) <= _COVERED or bool((whole.calls.records["level"] == enums.MODEL).any()):
        return False
    return all(
        device.family is Family.STARS and not any(name.startswith(_JOINED_WITH_ALL) for name in device.streams.names())
        for device in whole.devices
    )


def _in_collectives(whole: Recorded, call_times: Spans) -> Bools:
    """Return a mask of launched tasks that may be steps of collectives: those within any communication call."""
    spans = _spans_of(whole, enums.COMMUNICATION, call_times)
    return spans.touch(whole.launched.stamp_ns, whole.launched.stamp_ns)


def _spans_of(whole: Recorded, level: int, call_times: Spans) -> Windows:
    rows = np.flatnonzero(whole.calls.records["level"] == level)
    return Windows(*union(call_times[0][rows] - _MARGIN_NS, call_times[1][rows] + _MARGIN_NS))


def _before(whole: Recorded, is_wanted: Bools, in_collective: Bools) -> Bools:
    """Return a mask of other required tasks: steps of collectives, preceding kernels, and first and last tasks."""
    tasks, (track, has_parts) = whole.tasks, whole.matched
    steps: Bools = (track >= 0) & np.append(in_collective, False)[track]
    possible = may_be_kernels(tasks, whole.launched.task_type.take(track), track) & ~has_parts
    is_needed: Bools = steps.copy()
    for device in np.unique(tasks.device).tolist():
        of_device = np.flatnonzero((tasks.device == device) & possible)
        certain = (~steps & ((track < 0) | _named_kernels(whole, track)))[of_device]
        last_certain = np.maximum.accumulate(np.where(certain, np.arange(len(of_device)), 0))
        at = np.flatnonzero(is_wanted[of_device])
        first = np.where(at > 0, last_certain[np.maximum(at - 1, 0)], at)
        change = np.zeros(len(of_device) + 1, np.int64)
        np.add.at(change, first, 1)
        np.add.at(change, at, -1)
        reached = np.cumsum(change)[:-1] > 0
        if bool(certain.any()):
            ends = (tasks.start_ns + tasks.duration_ns)[of_device]
            reached[: int(np.argmax(certain)) + 1] = True
            reached |= ends >= ends[certain].max()
        else:
            reached[:] = True
        is_needed[of_device[reached]] = True
    is_needed[_edges(whole)] = True
    return is_needed


def _edges(whole: Recorded) -> Int64:
    """Return the first and last task in each device's range; see :func:`npuprof.sources.overlap.of_span`."""
    tasks, types = whole.tasks, whole.launched.task_type.take(whole.matched[0]).fill(whole.tasks.kind)
    wide = np.array([*(name not in WITHOUT_SPAN for name in types.names), True])[types.codes]
    edges = []
    for device in np.unique(tasks.device).tolist():
        of_device = np.flatnonzero((tasks.device == device) & wide)
        if len(of_device):
            starts = tasks.start_ns[of_device]
            edges += [of_device[np.argmin(starts)], of_device[np.argmax(starts + tasks.duration_ns[of_device])]]
    return np.array(edges, np.int64)


def _named_kernels(whole: Recorded, track: Int64) -> Bools:
    types = whole.launched.task_type.take(track)
    kernels = [name in enums.KERNEL_TASK_TYPES or name.startswith("KERNEL_") for name in types.names]
    return np.array([*kernels, False], bool)[types.codes]


def _host_ranges(whole: Recorded, part: SelectedWindows, is_wanted: Bools, call_times: Spans) -> Windows:
    """Return the host time ranges of the wanted tasks' records, bounded by launching calls."""
    stamps = whole.launched.stamp_ns
    tracks = np.unique(whole.matched[0][is_wanted])
    tracks = tracks[tracks >= 0]
    new = np.concatenate(([True], tracks[1:] != tracks[:-1] + 1))[: len(tracks)]
    last = np.concatenate((new[1:], [True]))[: len(tracks)]
    collectives = _spans_of(whole, enums.COMMUNICATION, call_times)
    rough = part.windows.joined(part.launches.starts, part.launches.ends).joined(collectives.starts, collectives.ends)
    rough = rough.joined(stamps[tracks[new]] - _MARGIN_NS, stamps[tracks[last]] + _MARGIN_NS)
    reaching = np.flatnonzero((whole.calls.records["level"] == enums.NODE) & rough.touch(*call_times))
    return rough.joined(call_times[0][reaching] - _MARGIN_NS, call_times[1][reaching] + _MARGIN_NS)

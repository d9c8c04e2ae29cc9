"""Traces of several ranks that a tool merged into one file to be seen together.

Each rank is a process that launched device work. Its ids of calls, operators, flows and threads count from 1, as those
of any other rank: they are joined within the rank, so the file is split into one of each rank. Merging tools move the
processes of a rank, those of its devices included, by a number of its own, and some write the rank into each event.

Source: TraceLens' trace_fuse.py, and traces without moved ids.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from npuprof.analysis.examination import LAUNCH_ON_GPU
from npuprof.arrays import Bools, Int64, first_rows
from npuprof.errors import SourceError
from npuprof.sources.columns.builders import ABSENT, GatheredColumns
from npuprof.sources.files.gzip_file import read_head
from npuprof.sources.kineto.facts import read_facts
from npuprof.sources.trace.columns import Trace
from npuprof.sources.trace.event import Event
from npuprof.sources.trace.events import arguments_of, read_events
from npuprof.tables.notes import Notes

_HEAD_BYTES = 1 << 20
_EVENTS = re.compile(rb'"traceEvents"\s*:')
_RANK = re.compile(r"(?<![a-z])rank[ _:-]?(\d{1,6})(?!\d)", re.IGNORECASE)
_NUMBER = re.compile(r"-?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?")
_MOST_DEVICES = 1 << 16
_NEARLY_ALL, _FAR_FROM_ALL = 0.995, 0.9  # of the tasks of a device
_MANY = 0.05  # of all tasks
Floats: TypeAlias = npt.NDArray[np.float64]


@dataclass
class MergedRanks:
    """The ranks of a file: which each process is of, and for processes that several share, each launch."""

    hosts: list[Any]  # the processes that launched device work, one a rank, in the order of the ranks
    ranks: list[int]  # their ranks: as names of processes tell them, or else numbered
    of_process: dict[Any, int] = field(default_factory=dict)  # the place in `hosts` of each process
    # The place in `hosts` of each correlation, for devices that processes share.
    of_launch: dict[int, int] = field(default_factory=dict)

    def place_of(self, event: Event) -> int:
        """Return the place of the rank that an event is of; events of no rank are of the first."""
        place = self.of_process.get(event.pid)
        if place is None and self.of_launch:
            launch = arguments_of(event).get("correlation")
            place = self.of_launch.get(launch) if isinstance(launch, int) else None
        return place or 0


class SeveralRanksError(SourceError):
    """A file holds the traces of several ranks."""

    def __init__(self, path: Path, merged: MergedRanks) -> None:
        super().__init__(
            f"{path} holds the traces of {len(merged.hosts)} ranks: load it by itself, as a set of them, or load the "
            "file of each rank"
        )
        self.merged = merged

    def __reduce__(self) -> tuple[Any, ...]:
        return SourceError, (str(self),)


def merged_ranks(trace: Trace, path: Path) -> MergedRanks | None:
    """Return the ranks of a trace of several; None for the trace of one process."""
    calls, tasks = trace.slices["call"], trace.slices["task"]
    causes, key = (calls, "correlation") if len(calls) else (trace.slices["operator"], "external_id")
    if not len(causes):
        return None
    pids = list(dict.fromkeys(pid for pid, _ in trace.lanes))  # in the order of the file
    number = {pid: place for place, pid in enumerate(pids)}
    of_lane = np.array([number[pid] for pid, _ in trace.lanes], np.int64)
    of_cause = of_lane[causes["lane"]]
    hosts = np.flatnonzero(np.bincount(of_cause)).tolist()
    if key == "correlation":
        _refuse_one_number(of_cause, causes, tasks, path)
    if len(hosts) < 2:  # nearly always
        return None
    if not len(tasks):
        return _numbered(trace, [pids[host] for host in hosts], {})
    ids, of_task, wanted = causes[key], of_lane[tasks["lane"]], tasks[key]
    hosts = [host for host in hosts if np.isin(ids[of_cause == host], wanted[wanted > 0]).any()]
    if len(hosts) < 2:
        return None
    begun = np.column_stack([_begun(ids, causes["start_ns"], of_cause == host, wanted) for host in hosts])
    names, devices = [pids[host] for host in hosts], np.unique(of_task).tolist()
    is_known = begun != ABSENT
    if int(is_known.sum(axis=1).max(initial=0)) <= 1:  # the ids of the ranks differ
        owner = np.where(is_known.any(axis=1), is_known.argmax(axis=1), -1)
        owners = {device: np.unique(owner[(of_task == device) & (owner >= 0)]).tolist() for device in devices}
        single = {pids[device]: names[places[0]] for device, places in owners.items() if len(places) == 1}
        merged = _numbered(trace, names, single)
        shared = np.isin(of_task, [device for device, places in owners.items() if len(places) > 1]) & (owner >= 0)
        merged.of_launch = {
            int(launch): merged.hosts.index(names[place])
            for launch, place in zip(wanted[shared].tolist(), owner[shared].tolist(), strict=True)
        }
        return merged
    fits = is_known & (begun <= tasks["start_ns"][:, None])
    shares = np.array([fits[of_task == device].mean(axis=0) for device in devices])
    assigned = (
        _moved(names, [pids[device] for device in devices]) or _by_causes(shares) or _by_order(pids, hosts, devices)
    )
    if assigned is None:
        raise SourceError(
            f"{path} holds the traces of {len(hosts)} processes whose launches have the same ids, and nothing tells "
            "which of them used which device: load the file of each rank"
        )
    return _numbered(
        trace, names, {pids[device]: names[place] for device, place in zip(devices, assigned, strict=True)}
    )


def _refuse_one_number(of_call: Int64, calls: GatheredColumns, tasks: GatheredColumns, path: Path) -> None:
    """Raise a SourceError if processes of several hosts have one number: calls of a process have ids of their own."""
    if not len(tasks):
        return
    launches = np.array([LAUNCH_ON_GPU.match(name) is not None for name in calls.names("name")], np.bool_)[
        calls["name"]
    ]
    rows = np.flatnonzero(launches & (calls["correlation"] > 0))
    pairs = of_call[rows] * (1 << 32) + (calls["correlation"][rows] & 0xFFFF_FFFF)
    known, counts = np.unique(pairs, return_counts=True)
    repeated = np.unique(known[counts > 1] & 0xFFFF_FFFF)
    wanted = tasks["correlation"][tasks["correlation"] > 0] & 0xFFFF_FFFF
    if len(wanted) and np.isin(wanted, repeated).mean() > _MANY:
        raise SourceError(
            f"{path} holds the traces of several processes that have the same number, and the same ids of launches: "
            "nothing tells which of them launched which kernel; load the file of each rank"
        )


def _begun(ids: Int64, starts: Int64, of_host: Bools, wanted: Int64) -> Int64:
    """Return when a process made the launch that each task names; ABSENT without one."""
    row = first_rows(ids[of_host], wanted)
    return np.where((row >= 0) & (wanted > 0), np.append(starts[of_host], ABSENT)[row], ABSENT)


def _moved(hosts: Sequence[Any], devices: Sequence[Any]) -> list[int] | None:
    """Return the place of the host of each device, if a tool added a multiple of a power of ten to those of a rank."""
    if not all(isinstance(pid, int) for pid in (*hosts, *devices)):
        return None
    for unit in (10**digits for digits in range(5, 16)):
        ranks = [host // unit for host in hosts]
        of_devices = [device // unit for device in devices]
        if (
            len({*ranks}) == len(ranks)
            and {*of_devices} == {*ranks}
            and max(pid % unit for pid in devices) < _MOST_DEVICES
        ):
            return [ranks.index(rank) for rank in of_devices]
    return None


def _by_causes(shares: Floats) -> list[int] | None:
    """Return for each device the only host that made all launches before its tasks began, and is no other device's."""
    if ((shares < _NEARLY_ALL) & (shares > _FAR_FROM_ALL)).any():
        return None
    free = {device: set(np.flatnonzero(row >= _NEARLY_ALL).tolist()) for device, row in enumerate(shares)}
    places: dict[int, int] = {}
    while (device := next((device for device, hosts in free.items() if len(hosts) == 1), None)) is not None:
        (places[device],) = free.pop(device)
        if shares.shape[0] == shares.shape[1]:
            free = {other: hosts - {places[device]} for other, hosts in free.items()}
    is_whole = not free and {*places.values()} == set(range(shares.shape[1]))
    return [places[device] for device in range(len(shares))] if is_whole else None


def _by_order(pids: Sequence[Any], hosts: Sequence[int], devices: Sequence[int]) -> list[int] | None:
    """Return hosts and devices paired in their order, if the numbers and the file have the same one."""
    if len(hosts) != len(devices) or any(
        codes != sorted(codes, key=lambda code: _as_key(pids[code])) for codes in (hosts, devices)
    ):
        return None
    return list(range(len(hosts)))


def _as_key(pid: Any) -> tuple[bool, int, str]:
    return not isinstance(pid, int), pid if isinstance(pid, int) else 0, str(pid)


def _numbered(trace: Trace, hosts: Sequence[Any], devices: Mapping[Any, Any]) -> MergedRanks:
    """Return the ranks in the order of their devices and processes, with the numbers in the names of processes."""
    first = {host: min((_as_key(device) for device, of in devices.items() if of == host), default=()) for host in hosts}
    ordered = sorted(hosts, key=lambda host: (first[host], _as_key(host)))
    named = [_rank_in_names(trace, host) for host in ordered]
    known = [rank for rank in named if rank is not None]
    free = [rank for rank in range(len(ordered)) if rank not in known]
    is_sound = len({*known}) == len(known)
    ranks = [free.pop(0) if rank is None else rank for rank in named] if is_sound else list(range(len(ordered)))
    of_process = {host: place for place, host in enumerate(ordered)}
    return MergedRanks(ordered, ranks, {**of_process, **{pid: of_process[host] for pid, host in devices.items()}})


def _rank_in_names(trace: Trace, pid: Any) -> int | None:
    texts = (str(pid), trace.processes.get(pid, ""), trace.labels.get(pid, ""))
    found = [match[1] for text in texts if (match := _RANK.search(text))]
    return int(found[0]) if found else None


def split(path: Path, merged: MergedRanks, folder: Path) -> list[Path]:
    """Write the trace of each rank into a folder; return the files in the order of the ranks."""
    head = read_head(path, _HEAD_BYTES)
    events = _EVENTS.search(head)
    before = head[: events.start()] if events and head.lstrip().startswith(b"{") else b'{"schemaVersion": 1, '
    base = f', "baseTimeNanoseconds": {base_ns}' if (base_ns := read_facts(path).base_ns) else ""
    files = [folder / f"process_{number:05}.pt.trace.json" for number in range(len(merged.hosts))]
    opened: list[IO[bytes]] = []
    encoder = msgspec.json.Encoder()
    try:
        for file in files:
            opened.append(file.open("wb"))
            opened[-1].write(before + b'"traceEvents": [')
        started = [False] * len(files)
        for batch in read_events(path, Notes(), exact=True):
            for event in batch:
                place = merged.place_of(event)
                for name in ("ts", "dur"):
                    if isinstance(text := getattr(event, name), str) and _NUMBER.fullmatch(text):
                        setattr(event, name, msgspec.Raw(text.encode()))
                opened[place].write((b",\n" if started[place] else b"") + encoder.encode(event))
                started[place] = True
        for stream in opened:
            stream.write(f"]{base}}}".encode())
    finally:
        for stream in opened:
            stream.close()
    return files

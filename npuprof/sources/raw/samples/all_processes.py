"""Samples of all host processes and of the whole machine (``host_sys_usage``): CPU and memory.

A stream per process and kind (``PID-CpuUsage.data``, ``PID-Memory.data``), and two for the machine
(``SystemCpuUsage.data``, ``Memory.data``). Each sample is a block of ``/proc`` lines after its timestamp; a usage
between two samples has the time of the first. Source: raw/FORMAT.md section 6.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from npuprof.sources.raw.host.reader import RawHost
from npuprof.sources.raw.metadata.control_files import RecordedSide
from npuprof.sources.raw.metadata.dictionaries import NameColumn
from npuprof.sources.raw.samples.counter_rows import CounterRows, rows
from npuprof.sources.raw.samples.streams import lines, whole

Sample: TypeAlias = tuple[int, float, str]

_PROCESS = re.compile(r"(\d{1,9})-(CpuUsage|Memory)\.data")
_SOURCE = "host_sys_usage"
_PAGE_KIB = 4
_UTIME, _STIME = 11, 12  # fields of /proc/PID/stat after the name, which may contain spaces
_IDLE = (3, 4)  # fields of a /proc/stat line after its name: idle, waiting for disks
_MEMORY_KIB = {
    "MemTotal": "Total",
    "MemFree": "Free",
    "Buffers": "Buffers",
    "Cached": "Cached",
    "Shmem": "Shared",
    "CommitLimit": "Commit Limit",
    "Committed_AS": "Committed",
}
_PAGES = ("Size", "Resident", "Shared")  # the first fields of /proc/PID/statm


@dataclass
class _Block:
    """A sample: timestamp, name of the process, and the remaining lines."""

    stamp: int
    name: str = ""
    lines: list[str] = field(default_factory=list)


def read_all_processes(host: RawHost, side: RecordedSide) -> list[CounterRows]:
    """Read the samples of every process, and of the machine.

    Returns
    -------
    ``System CPU Usage`` (percent by CPU, and of ``all``), ``System Memory ...`` (KB), ``Process CPU Usage`` (percent of
    the machine) and ``Process Memory ...`` (KB), whose instance is ``PID name``.
    """
    streams = {name: match for name in sorted(host.streams.names()) if (match := _PROCESS.fullmatch(name))}
    reader = _Reader(host, side)
    parts = [reader.system_cpu(), *reader.system_memory()]
    parts.append(reader.process_cpu([(name, match[1]) for name, match in streams.items() if match[2] == "CpuUsage"]))
    parts += reader.process_memory([(name, match[1]) for name, match in streams.items() if match[2] == "Memory"])
    reader.account(sum(map(len, parts)))
    return parts


class _Reader:
    """Reader of a recording's streams; one note counts all damaged samples."""

    def __init__(self, host: RawHost, side: RecordedSide) -> None:
        self._host, self._side = host, side
        self._lines = 0

    def account(self, made: int) -> None:
        """Register all lines, each a part of a sample; a note counts damaged lines."""
        if self._lines:
            self._host.notes.ledger.read(_SOURCE, self._lines)
            self._host.notes.ledger.keep(_SOURCE, "counters", self._lines, made)

    def system_cpu(self) -> CounterRows:
        """Read the usage of each CPU."""
        samples: list[Sample] = []
        before: dict[str, tuple[int, int, int]] = {}
        damaged = 0
        for block in self._blocks("SystemCpuUsage.data"):
            for line in block.lines:
                name, *fields = line.split()
                ticks = _numbers(fields)
                if not name.startswith("cpu") or len(ticks) <= max(_IDLE):
                    damaged += 1
                    continue
                now = (block.stamp, sum(ticks), sum(ticks) - sum(ticks[place] for place in _IDLE))
                samples += _share(before.get(name), now, name.removeprefix("cpu") or "all")
                before[name] = now
        self._note(damaged)
        return self._rows(samples, "System CPU Usage", "%")

    def process_cpu(self, streams: list[tuple[str, str]]) -> CounterRows:
        """Read the CPU usage of each process as a share of the machine."""
        samples: list[Sample] = []
        damaged = 0
        for stream, process in streams:
            before: tuple[int, int, int] | None = None
            for block in self._blocks(stream):
                total, used = _machine_ticks(block.lines), _process_ticks(block.lines)
                if total is None or used is None:
                    damaged += 1
                    continue
                now = (block.stamp, total, used)
                samples += _share(before, now, f"{process} {block.name}".strip())
                before = now
        self._note(damaged)
        return self._rows(samples, "Process CPU Usage", "%")

    def system_memory(self) -> list[CounterRows]:
        """Read ``/proc/meminfo``."""
        samples: dict[str, list[Sample]] = {name: [] for name in _MEMORY_KIB.values()}
        for block in self._blocks("Memory.data"):
            for line in block.lines:
                name, _, tail = line.partition(":")
                size = _numbers(tail.split()[:1])
                if name in _MEMORY_KIB and size:
                    samples[_MEMORY_KIB[name]].append((block.stamp, float(size[0]), ""))
        return [self._rows(values, f"System Memory {name}", "KB") for name, values in samples.items()]

    def process_memory(self, streams: list[tuple[str, str]]) -> list[CounterRows]:
        """Read ``/proc/PID/statm``."""
        samples: dict[str, list[Sample]] = {name: [] for name in _PAGES}
        damaged = 0
        for stream, process in streams:
            for block in self._blocks(stream):
                pages = next(
                    (numbers for line in block.lines if len(numbers := _numbers(line.split())) >= len(_PAGES)), []
                )
                damaged += not pages
                for name, count in zip(_PAGES, pages, strict=False):
                    samples[name].append((block.stamp, float(count * _PAGE_KIB), f"{process} {block.name}".strip()))
        self._note(damaged)
        return [self._rows(values, f"Process Memory {name}", "KB") for name, values in samples.items()]

    def _blocks(self, stream: str) -> Iterator[_Block]:
        """Yield the samples of a stream; lines before the first sample are damage."""
        block: _Block | None = None
        damaged = 0
        for line in lines(self._host.streams, stream, self._host.notes):
            self._lines += 1
            key, _, value = line.partition(":")
            if key == "TimeStamp":
                if block is not None:
                    yield block
                stamp = whole(value.strip())
                damaged += stamp is None
                block = None if stamp is None else _Block(stamp)
            elif block is None:
                damaged += 1
            elif key == "ProcessName":
                block.name = value.strip()
            elif key not in ("Index", "DataLen"):
                block.lines.append(line)
        if block is not None:
            yield block
        self._note(damaged)

    def _rows(self, samples: list[Sample], counter: str, unit: str) -> CounterRows:
        stamps = np.array([stamp for stamp, _, _ in samples], np.uint64)
        good = self._host.clock.reaches(stamps)
        time_ns = self._times(np.where(good, stamps, np.uint64(0)))
        self._note(int((~good).sum()))
        index = {name: code for code, name in enumerate(dict.fromkeys(name for *_, name in samples))}
        codes = np.array([index[name] if name else -1 for *_, name in samples], np.int64)
        values = np.array([value for _, value, _ in samples], np.float64)
        return rows(time_ns[good], None, values[good], counter, unit, NameColumn.distinct(codes[good], list(index)))

    def _times(self, stamps: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        """Convert stamps of the host counter or of CLOCK_MONOTONIC_RAW to UTC nanoseconds, whichever fits the run."""
        by_counter = self._host.clock.to_ns(stamps)
        mono = self._side.host_anchor.get("clock_monotonic_raw")
        if mono is None or not len(stamps):
            return by_counter
        by_mono = stamps.astype(np.int64) - mono + self._host.clock.anchor_ns
        distances = [abs(int(times[0]) - self._host.started_ns) for times in (by_counter, by_mono)]
        return by_mono if distances[1] < distances[0] else by_counter

    def _note(self, damaged: int) -> None:
        if damaged:
            self._host.notes.warning(_SOURCE, "damaged lines or samples of processes skipped", damaged)


def _share(before: tuple[int, int, int] | None, now: tuple[int, int, int], name: str) -> list[Sample]:
    """Return the percentage of ticks used between two samples (stamp, all ticks, used ticks), if any ticks passed."""
    if before is None or now[1] <= before[1] or now[2] < before[2]:
        return []
    return [(before[0], (now[2] - before[2]) * 100 / (now[1] - before[1]), name)]


def _machine_ticks(block: list[str]) -> int | None:
    line = next((line for line in block if line.startswith("cpu")), None)
    ticks = _numbers(line.split()[1:]) if line is not None else []
    return sum(ticks) if ticks else None


def _process_ticks(block: list[str]) -> int | None:
    for line in block:
        fields = line.rpartition(") ")[2].split()
        if ") " in line and len(fields) > _STIME:
            used = _numbers([fields[_UTIME], fields[_STIME]])
            return sum(used) if used else None
    return None


def _numbers(fields: list[str]) -> list[int]:
    """Return the fields as integers; an empty list where a field is no integer."""
    parsed = [whole(field) for field in fields]
    numbers = [number for number in parsed if number is not None]
    return numbers if len(numbers) == len(fields) else []

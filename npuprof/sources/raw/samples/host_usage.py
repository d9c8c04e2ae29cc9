"""Sampled host usage: CPU, memory, disk and network, from the collector's copies of ``/proc``.

Times are as in the vendor's timeline: a usage between two samples has the time of the first. Source: raw/FORMAT.md
section 6.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from npuprof.arrays import Bools, Int64
from npuprof.sources.raw.host.reader import RawHost
from npuprof.sources.raw.metadata.clocks import parse_frequency
from npuprof.sources.raw.metadata.control_files import RecordedSide, whole_number
from npuprof.sources.raw.metadata.dictionaries import NameColumn
from npuprof.sources.raw.samples.all_processes import read_all_processes
from npuprof.sources.raw.samples.counter_rows import CounterRows, rows
from npuprof.sources.raw.samples.streams import counted_lines, number, whole

_CLOCK_TICKS = 100  # ticks of /proc per second, if info.json lacks them
_PAGE_KIB = 4
_MBIT_BYTES = 125_000
_UTIME, _STIME, _CPU = 11, 12, 36  # fields of /proc/PID/stat after the name, which may contain spaces
_MAX_CPUS = 1 << 16
_DISK_UNITS = {"B/s": 1 / 1024, "K/s": 1.0, "M/s": 1024.0, "G/s": 1024.0**2}


@dataclass
class _Block:
    """The lines after a ``time`` line."""

    stamp: int
    lines: list[str]


def read_host_usage(host: RawHost, side: RecordedSide | None) -> list[CounterRows]:
    """Read all samples of the host; `side` holds the totals for usages."""
    if side is None:
        return []
    readers = {"host_cpu": _cpu, "host_mem": _memory, "host_disk": _disk, "host_network": _network}
    parts = [part for name, read in readers.items() for part in _account(host, f"{name}.data", read(host, side))]
    return [*parts, *read_all_processes(host, side)]


def _to_utc(host: RawHost, stream: str, stamps: list[int]) -> tuple[Int64, Bools]:
    """Convert host counter values to UTC nanoseconds; return them and the mask of plausible ones."""
    counters = np.array(stamps, np.uint64)
    good = host.clock.reaches(counters)
    _note(host, stream, "impossible time stamps skipped", int((~good).sum()))
    return host.clock.to_ns(np.where(good, counters, np.uint64(0))), good


def _note(host: RawHost, stream: str, subject: str, count: int) -> None:
    if count:
        host.notes.warning(f"host {stream}", subject, count)


def _account(host: RawHost, stream: str, parts: list[CounterRows]) -> list[CounterRows]:
    """Register the lines of a stream and return its rows; a note counts damaged lines."""
    remainder = host.notes.ledger.open_rows(host.streams.account(stream))
    host.keep(stream, "counters", remainder, sum(map(len, parts)))
    return parts


def _rows(
    host: RawHost, stream: str, samples: list[tuple[int, float]], counter: str, unit: str, instances: list[str] | None
) -> CounterRows:
    time_ns, good = _to_utc(host, stream, [stamp for stamp, _ in samples])
    names: NameColumn | None = None
    if instances is not None:
        index = {name: code for code, name in enumerate(dict.fromkeys(instances))}
        names = NameColumn(np.array([index[name] for name in instances], np.int32)[good], list(index))
    return rows(time_ns[good], None, np.array([value for _, value in samples])[good], counter, unit, names)


def _blocks(host: RawHost, stream: str) -> Iterator[_Block]:
    """Yield the blocks of a stream, each after a ``time`` line; lines before the first are skipped."""
    block: _Block | None = None
    damaged = 0
    for line in counted_lines(host.streams, stream, host.notes):
        if not line.startswith("time "):
            if block is None:
                damaged += 1
            else:
                block.lines.append(line)
            continue
        if block is not None:
            yield block
        stamp = whole(line[5:].strip())
        damaged += stamp is None
        block = None if stamp is None else _Block(stamp, [])
    if block is not None:
        yield block
    _note(host, stream, "a line is damaged; skipped", damaged)


def _cpu(host: RawHost, side: RecordedSide) -> list[CounterRows]:
    """Read ``CPU Usage CPU`` by CPU and ``CPU Usage CPU Avg``, percent of the time between two samples.

    All time of a thread is counted for its last CPU, so that a CPU can exceed 100 %; such values are left out, as the
    vendor does.
    """
    ticks = whole_number(side.info.get("sysClockFreq")) or _CLOCK_TICKS
    cpus = whole_number(side.info.get("cpuNums")) or 0
    singles: list[tuple[int, float]] = []
    means: list[tuple[int, float]] = []
    names: list[str] = []
    before: tuple[int, int, dict[int, tuple[int, int]]] | None = None
    damaged = 0
    for block in _blocks(host, "host_cpu.data"):
        uptime = number(block.lines[0].split()[0]) if block.lines else None
        if uptime is None:
            damaged += 1
            continue
        threads, lost_count = _threads(block.lines[1:])
        damaged += lost_count
        now = (block.stamp, round(uptime * ticks), threads)
        passed = now[1] - before[1] if before else 0
        if before and passed > 0:
            busy = _busy(before[2], threads, passed)
            usages = {cpu: share * 100 / passed for cpu, share in busy.items() if share <= passed}
            singles += [(before[0], usage) for usage in usages.values()]
            names += [str(cpu) for cpu in usages]
            if cpus > 0:
                means.append((before[0], sum(busy.values()) * 100 / (passed * cpus)))
        before = now
    _note(host, "host_cpu.data", "a line is damaged; skipped", damaged)
    return [
        _rows(host, "host_cpu.data", singles, "CPU Usage CPU", "%", names),
        _rows(host, "host_cpu.data", means, "CPU Usage CPU Avg", "%", None),
    ]


def _threads(stats: Iterable[str]) -> tuple[dict[int, tuple[int, int]], int]:
    """Parse lines of ``/proc/PID/task/TID/stat``: used ticks and last CPU by thread, and the count of damaged lines."""
    threads: dict[int, tuple[int, int]] = {}
    damaged = 0
    for line in stats:
        head, _, tail = line.rpartition(") ")
        fields = tail.split()
        thread = whole(head.partition(" ")[0])
        numbers = [whole(fields[place]) if len(fields) > _CPU else None for place in (_UTIME, _STIME, _CPU)]
        used, system, cpu = numbers
        if thread is None or used is None or system is None or cpu is None or cpu >= _MAX_CPUS:
            damaged += 1
        else:
            threads[thread] = (used + system, cpu)
    return threads, damaged


def _busy(before: Mapping[int, tuple[int, int]], now: Mapping[int, tuple[int, int]], passed: int) -> dict[int, int]:
    """Return the ticks between two samples by CPU."""
    busy: dict[int, int] = {}
    for thread, (ticks, cpu) in now.items():
        if thread in before:
            busy[cpu] = busy.get(cpu, 0) + min(ticks - before[thread][0], passed)
    return busy


def _memory(host: RawHost, side: RecordedSide) -> list[CounterRows]:
    """Read ``Memory Usage``: the process's resident share of the machine's memory in percent."""
    total_kib = whole_number(side.info.get("memoryTotal")) or 0
    samples: list[tuple[int, float]] = []
    damaged = 0
    for line in counted_lines(host.streams, "host_mem.data", host.notes):
        fields = line.split()
        stamp = whole(fields[0])
        resident = whole(fields[2]) if len(fields) > 2 else None
        if stamp is None or resident is None:
            damaged += 1
        else:
            samples.append((stamp, resident * _PAGE_KIB * 100 / total_kib if total_kib > 0 else np.nan))
    _note(host, "host_mem.data", "a line is damaged; skipped", damaged)
    return [_rows(host, "host_mem.data", samples, "Memory Usage", "%", None)]


def _disk(host: RawHost, side: RecordedSide) -> list[CounterRows]:
    """Read ``Disk Usage`` (percent), and the read and write rates in the lines of iotop."""
    hertz = parse_frequency(side.sample.get("host_disk_freq"))
    start: int | None = None
    values: list[tuple[float, float, float]] = []
    damaged = 0
    for line in counted_lines(host.streams, "host_disk.data", host.notes):
        fields = line.split()
        if fields[0] == "start_time":
            start = whole(fields[1]) if len(fields) > 1 else None
        elif len(fields) > 1 and whole(fields[1]) is not None:
            sample = _iotop(fields)
            damaged += sample is None
            values += [sample] if sample else []
    _note(host, "host_disk.data", "a line is damaged; skipped", damaged)
    if not values:
        return []
    if start is None or hertz is None:
        host.notes.warning("host host_disk.data", "no start time or no host_disk_freq: not decoded", len(values))
        return []
    first_ns, good = _to_utc(host, "host_disk.data", [start])
    if not good[0]:
        return []
    interval = Fraction(10**9) / hertz
    time_ns = first_ns[0] + np.array([int(row * interval) for row in range(len(values))], np.int64)
    table = np.array(values)
    named = (("Disk Usage Read", "KB/s"), ("Disk Usage Write", "KB/s"), ("Disk Usage", "%"))
    return [rows(time_ns, None, table[:, column], name, unit) for column, (name, unit) in enumerate(named)]


def _iotop(fields: list[str]) -> tuple[float, float, float] | None:
    """Parse a line of iotop: KB/s read and written, and percent of time spent waiting."""
    if len(fields) < 8 or fields[5] not in _DISK_UNITS or fields[7] not in _DISK_UNITS:
        return None
    read, written = number(fields[4]), number(fields[6])
    share = number(fields[10]) if len(fields) > 10 and "unavailable" not in " ".join(fields) else 0.0
    if read is None or written is None or share is None:
        return None
    return read * _DISK_UNITS[fields[5]], written * _DISK_UNITS[fields[7]], share


def _network(host: RawHost, side: RecordedSide) -> list[CounterRows]:
    """Read ``Network Usage`` (percent of the total speed of the network cards with a known speed) and its rate.

    If no speed is known, the rate is per network card, since cards may carry the same traffic.
    """
    speeds = _speeds(side)
    usages: list[tuple[int, float]] = []
    rates: list[tuple[int, float]] = []
    cards: list[str] = []
    before: tuple[int, dict[str, int]] | None = None
    for block in _blocks(host, "host_network.data"):
        now = _network_bytes(block.lines, speeds)
        if before is not None and block.stamp > before[0]:
            changes = [(card, size - before[1][card]) for card, size in now.items() if card in before[1]]
            changes = [(card, change) for card, change in changes if change >= 0]
            seconds = (block.stamp - before[0]) * float(host.clock.ns_per_tick) / 1e9
            if not speeds:
                rates += [(before[0], change / seconds / 1024) for _, change in changes]
                cards += [card for card, _ in changes]
            elif changes:
                rate = sum(change for _, change in changes) / seconds
                usages.append((before[0], rate * 100 / sum(speeds[card] for card, _ in changes)))
                rates.append((before[0], rate / 1024))
        before = (block.stamp, now)
    if cards:
        host.notes.info(
            "host host_network.data",
            "info.json has no network card with a speed: usage in percent is unknown, and each card has its own rate",
        )
    return [
        _rows(host, "host_network.data", usages, "Network Usage", "%", None),
        _rows(host, "host_network.data", rates, "Network Usage Rate", "KB/s", cards or None),
    ]


def _speeds(side: RecordedSide) -> dict[str, int]:
    """Return the speed of every network card in bytes per second, where known."""
    cards: Any = side.info.get("netCard")
    speeds = {}
    for card in cards if isinstance(cards, list) else []:
        speed = whole_number(card.get("speed")) if isinstance(card, dict) else None
        if speed is not None and 0 < speed < 1 << 32:
            speeds[str(card.get("netCardName"))] = speed * _MBIT_BYTES
    return speeds


def _network_bytes(counters: Iterable[str], cards: Iterable[str]) -> dict[str, int]:
    """Parse lines of ``/proc/net/dev``: received and sent bytes by card; all but ``lo`` if no speed is known."""
    known_names = set(cards)
    moved = {}
    for line in counters:
        card, _, tail = line.partition(":")
        fields = tail.split()
        received, sent = (whole(fields[place]) if len(fields) > 8 else None for place in (0, 8))
        name = card.strip()
        if (name in known_names if known_names else name != "lo") and received is not None and sent is not None:
            moved[name] = received + sent
    return moved

"""Clocks of runs, and estimated offsets between them.

Every time is UTC by the clock of the run's host, which its devices follow to within a few microseconds. Runs are
assigned to hosts by host name, or else by boot time, the difference of UTC and monotonic time at the end of the
recording in ``profiler_info*.json``.

No file has the offset between two clocks. An all-reduce, all-gather, reduce-scatter, all-to-all or barrier ends on
all ranks at about the same time, from which :func:`npuprof.analysis.rank_clocks.clocks` computes it. That is an
**estimate**, only as accurate as these ends coincide, and wrong if the ranks recorded different steps.

Source: sources/RESULTS.md sections 1.1 and 2.2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from npuprof.analysis.rank_clocks import Clocks, Lead
from npuprof.sources.database.layout import find as find_database
from npuprof.sources.result_folder.description import load
from npuprof.sources.result_folder.layout import find as find_torch
from npuprof.tables.notes import Notes

MIN_COLLECTIVES = 5
_MAX_SPREAD_NS = 1_000_000  # ends that differ by more are not those of the same operators
_SAME_START_NS = 1_000_000
_DRIFT = 1e-4  # of the monotonic clock against UTC, since it is not corrected
_NS_PER_S = 1_000_000_000


@dataclass(frozen=True)
class Boot:
    """The boot time of a run's host, by its clocks at the end of the recording."""

    started_ns: int
    told_ns: int

    def fits(self, other: Boot) -> bool:
        """Return whether both may be the same boot of the same host."""
        allowed = _SAME_START_NS + abs(self.told_ns - other.told_ns) * _DRIFT
        return abs(self.started_ns - other.started_ns) <= allowed


def boot_of(path: Path) -> Boot | None:
    """Return the boot time of the host of a framework's result; None if its files lack it."""
    layout = find_torch(path) or find_database(path)
    metadata = load(layout.profiler_info, Notes()) if layout else {}
    begin, end = metadata.get("start_info"), metadata.get("end_info")
    if not isinstance(begin, dict) or not isinstance(end, dict):
        return None
    utc, monotonic = end.get("collectionTimeEnd"), end.get("MonotonicTimeEnd")
    if not isinstance(utc, int) or not isinstance(monotonic, int) or not 0 < monotonic < utc < 1 << 62:
        return None
    return Boot(utc - monotonic, utc)


def same_clocks(hosts: Sequence[str | None], boots: Sequence[Boot | None]) -> list[int | None]:
    """Return the number of each run's clock, in the order of runs; those on the same host share it, None is unknown."""
    number: list[int | None] = [None] * len(hosts)
    by_host: dict[str, int] = {}
    count = 0
    order = sorted(range(len(hosts)), key=lambda at: (boot.started_ns if (boot := boots[at]) else 0, at))
    before: int | None = None
    for at in order:
        host, boot = hosts[at], boots[at]
        if host is not None and host in by_host:
            number[at] = by_host[host]
        elif boot is not None and before is not None and _is_same(boot, boots[before], host, hosts[before]):
            number[at] = number[before]
        elif host is not None or boot is not None:
            number[at], count = count, count + 1
        if host is not None and (clock := number[at]) is not None:
            by_host[host] = clock
        before = at if boot is not None else before
    in_order = {clock: place for place, clock in enumerate(dict.fromkeys(each for each in number if each is not None))}
    return [None if each is None else in_order[each] for each in number]


@dataclass(frozen=True)
class RunClock:
    number: int | None  # equal for runs on the same host; None if unknown
    lead: Lead | None = None  # its lead over the clock of the first rank; None if unknown
    # collectives, spread_ns: basis of an estimate: number of ends compared, and their median deviation; None if there
    # is no estimate.
    collectives: int | None = None
    spread_ns: int | None = None

    @property
    def basis(self) -> str:
        """``estimate`` from collectives, ``same clock`` as a run with one or as the first run, or ``unknown``."""
        return "unknown" if self.lead is None else "same clock" if self.collectives is None else "estimate"


def run_clocks(
    hosts: Sequence[str | None],
    boots: Sequence[Boot | None],
    estimated: Clocks,
    sessions: Mapping[int, int],
) -> list[RunClock]:
    numbers = same_clocks(hosts, boots)
    clocks = [RunClock(number) for number in numbers]
    for rank, ends, spread in _connected_ranks(estimated):
        if (at := sessions.get(rank)) is not None:
            clocks[at] = RunClock(numbers[at], estimated.lead(rank), ends, spread)
    of_host = {clock.number: clock.lead for clock in reversed(clocks) if clock.lead is not None}
    if not of_host:
        of_host = {number: Lead(0) for number in numbers[:1]}
    return [
        RunClock(clock.number, of_host.get(clock.number)) if clock.lead is None and clock.number is not None else clock
        for clock in clocks
    ]


def _connected_ranks(estimated: Clocks) -> Iterator[tuple[int, int, int]]:
    """Yield rank, collectives and spread of ranks that are connected with the first one by ends that fit."""
    fit = (estimated.collectives >= MIN_COLLECTIVES) & (estimated.spreads <= _MAX_SPREAD_NS)
    first = np.flatnonzero(fit)[:1]
    connected = fit & np.isin(estimated.references, estimated.references[first])
    columns = (estimated.ranks, estimated.collectives, estimated.spreads)
    yield from zip(*(column[connected].tolist() for column in columns), strict=True)


def clock_table(ranks: Sequence[int | None], hosts: Sequence[str | None], clocks: Sequence[RunClock]) -> pd.DataFrame:
    """Return the clocks of runs as a table; see :meth:`npuprof.ProfileSet.clocks`."""
    leads = [clock.lead for clock in clocks]
    return pd.DataFrame(
        {
            "rank": _whole(ranks),
            "host": list(hosts),
            "clock": _whole([clock.number for clock in clocks]),
            "offset_ns": _whole([None if lead is None else lead.offset_ns for lead in leads]),
            "drift_ns_per_s": [float("nan") if lead is None else lead.rate * _NS_PER_S for lead in leads],
            "basis": pd.Categorical([clock.basis for clock in clocks]),
            "collectives": _whole([clock.collectives for clock in clocks]),
            "spread_ns": _whole([clock.spread_ns for clock in clocks]),
        }
    )


def _whole(values: Sequence[int | None]) -> Any:
    return pd.array([pd.NA if value is None else value for value in values], dtype="Int64")


def _is_same(boot: Boot, other: Boot | None, host: str | None, other_host: str | None) -> bool:
    named_apart = host is not None and other_host is not None and host != other_host
    return other is not None and not named_apart and boot.fits(other)

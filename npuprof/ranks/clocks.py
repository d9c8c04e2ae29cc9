"""Clocks of runs, and estimated offsets between the clocks of hosts.

Every time is UTC by the clock of the run's host. Runs of a host share its clock: their times need no correction. Runs
are assigned to hosts by host name, else by the boot time, which is the difference of UTC and monotonic time at the end
of the recording in ``profiler_info*.json``.

No file has the offset between the clocks of two hosts. An all-reduce, all-gather, reduce-scatter, all-to-all or barrier
ends on all ranks at about the same time, so the median difference of their ends is an **estimate** of the offset. It is
no more accurate than these ends coincide, and wrong if the ranks recorded different steps. It is reported, and applied
only on request.

Source: sources/RESULTS.md sections 1.1 and 2.2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd

from npuprof.notes import Notes
from npuprof.sources.database.layout import find as find_database
from npuprof.sources.result_folder.description import load
from npuprof.sources.result_folder.layout import find as find_torch

MIN_COLLECTIVES = 5
_MAX_SPREAD_NS = 1_000_000  # ends that differ by more are not those of the same operators
_SAME_START_NS = 1_000_000
_DRIFT = 1e-4  # of the monotonic clock, which nobody corrects, against UTC
_TOGETHER = r"all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|barrier"


@dataclass(frozen=True)
class Boot:
    """The boot time of a run's host, by its clocks at the end of the recording."""

    started_ns: int
    told_ns: int

    def fits(self, other: Boot) -> bool:
        """Return whether both may be the same boot of the same host."""
        allowed = _SAME_START_NS + abs(self.told_ns - other.told_ns) * _DRIFT
        return abs(self.started_ns - other.started_ns) <= allowed


@dataclass(frozen=True)
class Offset:
    """The lead of a clock over the reference: median over `collectives`, with the median deviation `spread_ns`."""

    nanoseconds: int
    collectives: int
    spread_ns: int


def boot_of(path: Path) -> Boot | None:
    """Return the boot time of a framework result's host; None if its files do not have it."""
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
    """Return the number of each run's clock; runs of a host share it, None is unknown."""
    number: list[int | None] = [None] * len(hosts)
    by_host: dict[str, int] = {}
    count = 0
    order = sorted(range(len(hosts)), key=lambda at: (boot.started_ns if (boot := boots[at]) else 0, at))
    before: int | None = None
    for at in order:
        host, boot = hosts[at], boots[at]
        if host is not None and host in by_host:
            number[at] = by_host[host]
        elif boot is not None and before is not None and _same(boot, boots[before], host, hosts[before]):
            number[at] = number[before]
        elif host is not None or boot is not None:
            number[at], count = count, count + 1
        if host is not None and (clock := number[at]) is not None:
            by_host[host] = clock
        before = at if boot is not None else before
    return number


def offsets(communication: Mapping[int, Sequence[pd.DataFrame]], reference: int) -> dict[int, Offset]:
    """Estimate the lead of clocks over a reference clock, from the table ``communication`` of each run by clock.

    A clock without collectives in common with the reference is compared by way of others; a clock without enough
    collectives that end close together has no estimate.
    """
    ends = {clock: _ends(frames) for clock, frames in communication.items()}
    known_offsets = {reference: Offset(0, 0, 0)}
    reached = [reference]
    while reached:
        known = reached.pop(0)
        for clock in sorted(set(ends) - set(known_offsets)):
            estimate = _estimate(ends[known], ends[clock])
            if estimate is not None:
                base = known_offsets[known]
                known_offsets[clock] = Offset(
                    base.nanoseconds + estimate.nanoseconds,
                    estimate.collectives,
                    base.spread_ns + estimate.spread_ns,
                )
                reached.append(clock)
    return known_offsets


def clock_table(
    ranks: Sequence[int | None],
    hosts: Sequence[str | None],
    boots: Sequence[Boot | None],
    communication: Sequence[pd.DataFrame],
) -> pd.DataFrame:
    """Return a row for each run with its clock and its offset from the first run's clock.

    Returns
    -------
    pandas.DataFrame
        rank, host, clock, offset_ns, basis (``same clock``, ``estimate`` or ``unknown``), collectives, spread_ns.
    """
    known = same_clocks(hosts, boots)
    clocks = [len(known) + row if clock is None else clock for row, clock in enumerate(known)]  # nobody else's
    by_clock: dict[int, list[pd.DataFrame]] = {}
    for clock, operators in zip(clocks, communication, strict=True):
        by_clock.setdefault(clock, []).append(operators)
    by_offset = offsets(by_clock, clocks[0]) if clocks else {}
    estimates = [by_offset.get(clock) for clock in clocks]
    frame: pd.DataFrame = pd.DataFrame(
        {
            "rank": _whole(ranks),
            "host": list(hosts),
            "clock": _whole(known),
            "offset_ns": _whole([estimate.nanoseconds if estimate else None for estimate in estimates]),
            "basis": pd.Categorical([_basis(estimate) for estimate in estimates]),
            "collectives": _whole([estimate.collectives if estimate else None for estimate in estimates]),
            "spread_ns": _whole([estimate.spread_ns if estimate else None for estimate in estimates]),
        }
    )
    return frame


def _basis(offset: Offset | None) -> str:
    if offset is None:
        return "unknown"
    return "estimate" if offset.collectives else "same clock"


def _whole(values: Sequence[int | None]) -> Any:
    return pd.array([pd.NA if value is None else value for value in values], dtype="Int64")


def _same(boot: Boot, other: Boot | None, host: str | None, other_host: str | None) -> bool:
    named_apart = host is not None and other_host is not None and host != other_host
    return other is not None and not named_apart and boot.fits(other)


def _ends(frames: Sequence[pd.DataFrame]) -> pd.Series[int]:
    """Return the latest end of each collective by name, group and occurrence."""
    parts = []
    for frame in frames:
        names = frame["name"].astype(object)
        chosen = names.astype("string").str.contains(_TOGETHER, case=False, na=False).to_numpy(np.bool_)
        rows = frame.loc[chosen, ["start_ns"]].assign(
            name=names[chosen],
            group=_shared_groups(frame.loc[chosen, "group"]),
            end=frame["start_ns"] + frame["duration_ns"],
        )
        rows = rows.sort_values("start_ns", kind="stable")
        rows["occurrence"] = rows.groupby(["name", "group"], dropna=False).cumcount()
        parts.append(rows)
    if not parts:
        return cast("pd.Series[int]", pd.Series([], dtype="int64"))
    ends: Any = pd.concat(parts).groupby(["name", "group", "occurrence"], dropna=False)["end"].max()
    return cast("pd.Series[int]", ends)


def _shared_groups(groups: pd.Series[str]) -> pd.Series[str]:
    """Keep group names with the same meaning on every rank; ``Group 0`` is each rank's first group."""
    texts = groups.astype(object)
    shared = texts.astype("string").str.fullmatch(r"\d{6,}").fillna(False).to_numpy(np.bool_)
    kept: pd.Series[str] = texts.where(shared, "")
    return kept


def _estimate(reference: pd.Series[int], other: pd.Series[int]) -> Offset | None:
    both = reference.index.intersection(other.index)
    if len(both) < MIN_COLLECTIVES:
        return None
    differences = (other.loc[both].to_numpy(np.int64) - reference.loc[both].to_numpy(np.int64)).astype(np.int64)
    middle = int(np.sort(differences)[len(differences) // 2])  # one of them: the mean of two could leave int64
    spread = int(np.median(np.abs(differences - middle)))
    return Offset(middle, len(both), spread) if spread <= _MAX_SPREAD_NS else None

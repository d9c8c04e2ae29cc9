"""Whose clock each run kept, and how far apart clocks of different hosts were, as far as the files tell.

Every time is UTC as the run's own host kept it. Runs of one host share its clock: their times fit as they are. They are
known by the host's name or, where no file tells one, by the moment at which the host was started, which
``profiler_info*.json`` implies: the difference of the UTC and the monotonic time of the recording's end.

No file tells how far the clocks of two hosts were apart. All there is are collectives: an all-reduce, an all-gather, a
reduce-scatter, an all-to-all or a barrier ends on all of its ranks at about the same time. The median difference of the
ends that two hosts recorded is therefore an **estimate**, no better than these ends coincide and wrong if the ranks did
not record the same steps. It is told, and applied only where it is asked for.

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
    """When a run's host was started, by its clocks at the end of the recording."""

    started_ns: int
    told_ns: int

    def fits(self, other: Boot) -> bool:
        """Return whether this may be the same start of the same host."""
        allowed = _SAME_START_NS + abs(self.told_ns - other.told_ns) * _DRIFT
        return abs(self.started_ns - other.started_ns) <= allowed


@dataclass(frozen=True)
class Offset:
    """How far a clock is ahead of the one that it is compared with.

    Attributes
    ----------
    nanoseconds
        What to subtract from its times.
    collectives
        How many operators this is the median of.
    spread_ns
        The median distance of their differences from it.
    """

    nanoseconds: int
    collectives: int
    spread_ns: int


def boot_of(path: Path) -> Boot | None:
    """Read when the host of a framework's result was started; None where its files do not tell."""
    layout = find_torch(path) or find_database(path)
    told = load(layout.profiler_info, Notes()) if layout else {}
    begin, end = told.get("start_info"), told.get("end_info")
    if not isinstance(begin, dict) or not isinstance(end, dict):
        return None
    utc, monotonic = end.get("collectionTimeEnd"), end.get("MonotonicTimeEnd")
    if not isinstance(utc, int) or not isinstance(monotonic, int) or not 0 < monotonic < utc < 1 << 62:
        return None
    return Boot(utc - monotonic, utc)


def same_clocks(hosts: Sequence[str | None], boots: Sequence[Boot | None]) -> list[int | None]:
    """Return the number of each run's clock, which others may share; None where nothing is known of it."""
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
        if host is not None and (found := number[at]) is not None:
            by_host[host] = found
        before = at if boot is not None else before
    return number


def offsets(communication: Mapping[int, Sequence[pd.DataFrame]], reference: int) -> dict[int, Offset]:
    """Estimate how far clocks are ahead of the reference clock.

    Parameters
    ----------
    communication
        The table ``communication`` of each run, by the number of its clock.
    reference
        The clock to compare with; one that shares no collective with it is compared by way of others.

    Returns
    -------
    An estimate for each clock that enough collectives, ending close enough together, connect with the reference.
    """
    ends = {clock: _ends(frames) for clock, frames in communication.items()}
    found = {reference: Offset(0, 0, 0)}
    reached = [reference]
    while reached:
        known = reached.pop(0)
        for clock in sorted(set(ends) - set(found)):
            estimate = _estimate(ends[known], ends[clock])
            if estimate is not None:
                base = found[known]
                found[clock] = Offset(
                    base.nanoseconds + estimate.nanoseconds,
                    estimate.collectives,
                    base.spread_ns + estimate.spread_ns,
                )
                reached.append(clock)
    return found


def clock_table(
    ranks: Sequence[int | None],
    hosts: Sequence[str | None],
    boots: Sequence[Boot | None],
    communication: Sequence[pd.DataFrame],
) -> pd.DataFrame:
    """Return whose clock each run kept and how far it was ahead of the first run's; a row for each run.

    Returns
    -------
    rank, host, clock, offset_ns, basis (``same clock``, ``estimate`` or ``unknown``), collectives, spread_ns.
    """
    known = same_clocks(hosts, boots)
    own = [len(known) + row if clock is None else clock for row, clock in enumerate(known)]  # nobody else's
    by_clock: dict[int, list[pd.DataFrame]] = {}
    for clock, operators in zip(own, communication, strict=True):
        by_clock.setdefault(clock, []).append(operators)
    found = offsets(by_clock, own[0]) if own else {}
    told = [found.get(clock) for clock in own]
    frame: pd.DataFrame = pd.DataFrame(
        {
            "rank": _whole(ranks),
            "host": list(hosts),
            "clock": _whole(known),
            "offset_ns": _whole([one.nanoseconds if one else None for one in told]),
            "basis": pd.Categorical([_basis(one) for one in told]),
            "collectives": _whole([one.collectives if one else None for one in told]),
            "spread_ns": _whole([one.spread_ns if one else None for one in told]),
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
    """Return when each collective ended by a clock, the latest of its ranks; its key is name, group and occurrence."""
    parts = []
    for frame in frames:
        names = frame["name"].astype(object)
        chosen = names.astype("string").str.contains(_TOGETHER, case=False, na=False).to_numpy(np.bool_)
        own = frame.loc[chosen, ["start_ns"]].assign(
            name=names[chosen],
            group=_shared_groups(frame.loc[chosen, "group"]),
            end=frame["start_ns"] + frame["duration_ns"],
        )
        own = own.sort_values("start_ns", kind="stable")
        own["occurrence"] = own.groupby(["name", "group"], dropna=False).cumcount()
        parts.append(own)
    if not parts:
        return cast("pd.Series[int]", pd.Series([], dtype="int64"))
    ends: Any = pd.concat(parts).groupby(["name", "group", "occurrence"], dropna=False)["end"].max()
    return cast("pd.Series[int]", ends)


def _shared_groups(groups: pd.Series[str]) -> pd.Series[str]:
    """Keep the names of groups that mean the same on every rank; ``Group 0`` is the first of a rank's own."""
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

"""Sums of the kernels of many ranks: each rank is summed where it is read, and only its sums are merged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from npuprof import progress
from npuprof.analysis.by import Key, described, group_sums, grouped
from npuprof.analysis.digests import Digests
from npuprof.analysis.host_accounting import is_of_host
from npuprof.arrays import Int64
from npuprof.files import cache
from npuprof.profiles.profile import Profile
from npuprof.ranks.entries import Entry, read_or_none
from npuprof.ranks.executors import Work, spread
from npuprof.ranks.run_list import RunList
from npuprof.ranks.tasks import Failure, Task, outcome_of
from npuprof.sources.base import Decoded
from npuprof.sources.columns.concatenation import stacked

if TYPE_CHECKING:
    from distributed import Client

_AT_ONCE = 64  # ranks whose sums are merged together, always the same ones, so that figures do not depend on chance
_MOST_FILES = 1_000  # of a run whose changes are detected
_OF_CENTROIDS = ("group", "mean", "weight")


@dataclass(frozen=True)
class KernelSums:
    """Sums of kernels, or of operators in runs without a device, by keys, which can be merged."""

    groups: pd.DataFrame  # the sums of each group; see `group_sums`
    # durations, delays: the digests of durations and of known launch delays, by row of `groups`.
    durations: Digests
    delays: Digests
    of_host: bool = False  # whether operators were summed. They are left out where other runs have kernels.

    @classmethod
    def of(cls, rows: pd.DataFrame, keys: Sequence[Key], *, of_host: bool = False) -> KernelSums:
        """Return the sums of the rows of a run, from :func:`npuprof.analysis.by.kernel_rows` or ``operator_rows``."""
        number, groups = group_sums(rows, keys)
        is_known = rows["launch_delay_ns"].notna().to_numpy(bool)
        delays = rows["launch_delay_ns"].to_numpy(np.int64, na_value=0)[is_known]
        durations = Digests.of(number, rows["duration_ns"].to_numpy(np.int64))
        return cls(groups, durations, Digests.of(number[is_known], delays), of_host)

    @classmethod
    def merged(cls, parts: Sequence[KernelSums], keys: Sequence[Key]) -> KernelSums:
        """Return the sums of the kernels of several runs, from their sums."""
        parts = [part for part in parts if len(part.groups) and not part.of_host] or parts
        if len(parts) == 1:
            return parts[0]
        rows = stacked([part.groups for part in parts])
        number, groups = grouped(rows, keys)
        first = np.unique(number, return_index=True)[1]
        counts, totals = (rows[name].to_numpy(np.int64) for name in ("count", "total_ns"))
        count, total = (_add(values, number, groups) for values in (counts, totals))
        apart = totals / np.maximum(counts, 1) - (total / np.maximum(count, 1))[number]
        least, largest = (rows[name].to_numpy(np.int64) for name in ("min_ns", "max_ns"))
        lowest, highest = least[first], largest[first]
        np.minimum.at(lowest, number, least)
        np.maximum.at(highest, number, largest)
        is_known = rows["host_ns"].notna().to_numpy(bool)
        host = _add(rows["host_ns"].to_numpy(np.int64, na_value=0), number, groups)
        merged: pd.DataFrame = rows[list(keys)].iloc[first].reset_index(drop=True)
        merged = merged.assign(
            count=count,
            total_ns=total,
            squares=np.bincount(number, rows["squares"] + counts * apart * apart, minlength=groups),
            min_ns=lowest,
            max_ns=highest,
            host_ns=pd.arrays.IntegerArray(host, np.bincount(number[is_known], minlength=groups) == 0),
        )
        numbers = np.split(number, np.cumsum([len(part.groups) for part in parts])[:-1])
        durations, delays = (
            Digests.merged([getattr(part, name) for part in parts], numbers) for name in ("durations", "delays")
        )
        return cls(merged, durations, delays, any(part.of_host for part in parts))

    def table(self) -> pd.DataFrame:
        """Return the table of :func:`npuprof.analysis.by.sums`; quantiles of more than 256 values are approximate."""
        count, delays = self.groups["count"].to_numpy(np.int64), self.delays.counts(len(self.groups))
        return described(
            self.groups,
            median_ns=_medians(self.durations, count),
            p95_ns=self.durations.values_at(count - 1 - count // 20),
            launch_delay_ns=pd.arrays.IntegerArray(_medians(self.delays, delays), delays == 0),
        )


def _add(values: Int64, number: Int64, groups: int) -> Int64:
    total = np.zeros(groups, np.int64)
    np.add.at(total, number, values)
    return total


def _medians(digests: Digests, count: Int64) -> Int64:
    low, high = digests.values_at(np.maximum(count - 1, 0) // 2), digests.values_at(count // 2)
    return low + (high - low) // 2


@dataclass(frozen=True)
class SumTask:
    """A run whose kernels are summed, with the rank that it has if its files do not say, and the keys."""

    run: Task
    rank: int | None
    keys: tuple[Key, ...]


def read_sums(tasks: Sequence[SumTask]) -> list[KernelSums | Failure]:
    """Read runs and return the sums of their kernels, or why a run could not be read."""
    return [_read(task) for task in tasks]


def lost_sums(task: SumTask, fate: str) -> Failure:
    """Return the failure of a run whose reading ended the process."""
    return Failure(f"{task.run.path} could not be read: {fate}; load it by itself to try again")


def _read(task: SumTask) -> KernelSums | Failure:
    outcome = outcome_of(task.run)
    return outcome if isinstance(outcome, Failure) else _sums_of(Profile(outcome), task.keys, task.rank)


def _sums_of(run: Profile, keys: Sequence[Key], rank: int | None) -> KernelSums:
    return KernelSums.of(run._summed_rows(keys, rank), keys, of_host=is_of_host(run.tables))


def kernel_sums(runs: RunList, keys: tuple[Key, ...]) -> KernelSums:
    """Return the sums of the kernels of all ranks, from the cache if no file has changed.

    Each unread rank is read and summed in another process or on another host, and stays unread; what cannot be read is
    a failure of its run.
    """
    entries = [entry for entry in runs.entries if not entry.is_cluster]
    state = _state(entries)
    name = f"kernels by {' '.join(keys)} of {runs.root.absolute()}"
    if state and (kept := _kept(name, state)) is not None:
        return kept
    parts = _merged_in_order(_outcomes(entries, keys, runs.client), len(entries), keys)
    nothing = Profile(Decoded())
    total = KernelSums.merged(parts or [_sums_of(nothing, keys, None)], keys)
    if state and not any(entry.problem for entry in entries) and _state(entries) == state:
        _keep(name, state, total)
    return total


def _outcomes(
    entries: Sequence[Entry], keys: tuple[Key, ...], client: Client | None
) -> Iterator[tuple[int, KernelSums | None]]:
    """Yield the position and the sums of each run; None for one that cannot be read."""
    apart = []
    for place, entry in enumerate(entries):
        if entry.outcome is None and entry.run.unpacked is None:
            apart.append(place)
        else:
            run = read_or_none(entry) if entry.outcome is None else entry.profile
            yield place, None if run is None else _sums_of(run, keys, entry.info.rank)
    runs = [entries[place].run for place in apart]
    tasks = [
        SumTask(Task(run.source.name, run.path.absolute(), entries[place].selection), entries[place].info.rank, keys)
        for place, run in zip(apart, runs, strict=True)
    ]
    work = Work(read_sums, lost_sums, "kernels of ranks")
    with progress.shown():
        for number, outcome in spread(work, tasks, [run.source.size_bytes(run.path) for run in runs], client):
            if isinstance(outcome, Failure):
                entries[apart[number]].outcome = Failure(runs[number].named(outcome.problem))
            yield apart[number], None if isinstance(outcome, Failure) else outcome


def _merged_in_order(
    outcomes: Iterator[tuple[int, KernelSums | None]], count: int, keys: Sequence[Key]
) -> list[KernelSums]:
    """Return merged sums of each 64 runs, so that at no time the sums of all runs are there."""
    pending: dict[int, dict[int, KernelSums | None]] = {}
    batches: dict[int, KernelSums] = {}
    for place, part in outcomes:
        batch = place // _AT_ONCE
        pending.setdefault(batch, {})[place] = part
        if len(pending[batch]) == min(_AT_ONCE, count - batch * _AT_ONCE):
            some = [known for _, known in sorted(pending.pop(batch).items()) if known is not None]
            if some:
                batches[batch] = KernelSums.merged(some, keys)
    return [batches[batch] for batch in sorted(batches)]


def _state(entries: Sequence[Entry]) -> str:
    """Return what changes with the files of runs; empty if their sums are not kept."""
    if any(entry.selection is not None or entry.run.unpacked is not None for entry in entries):
        return ""
    hashed = sha256()
    for entry in entries:
        path = entry.run.path
        try:
            files = [path] if path.is_file() else sorted(islice(path.rglob("*"), _MOST_FILES))
            states = [(str(file), file.stat()) for file in files]
        except OSError:
            return ""
        known = [(name, state.st_size, state.st_mtime_ns) for name, state in states]
        hashed.update(repr((entry.run.source.name, entry.info.rank, known)).encode("utf-8", "surrogateescape"))
    return hashed.hexdigest()


def _keep(name: str, state: str, total: KernelSums) -> None:
    cache.save(name, total.groups, {"state": state})
    for part, digests in (("durations", total.durations), ("delays", total.delays)):
        columns = {column: getattr(digests, column) for column in _OF_CENTROIDS}
        cache.save(f"{part} of {name}", pd.DataFrame(columns), {"state": state})


def _kept(name: str, state: str) -> KernelSums | None:
    frames = []
    for part in ("", "durations of ", "delays of "):
        kept = cache.load(f"{part}{name}")
        if kept is None or kept[1].get("state") != state:
            return None
        frames.append(kept[0])
    try:
        durations, delays = (Digests(*_centroids(frame)) for frame in frames[1:])
    except (KeyError, TypeError, ValueError):  # not in our format
        return None
    return KernelSums(frames[0], durations, delays)


def _centroids(frame: pd.DataFrame) -> tuple[Int64, Any, Int64]:
    return frame["group"].to_numpy(np.int64), frame["mean"].to_numpy(np.float64), frame["weight"].to_numpy(np.int64)

"""The runs of a set by rank and start: their facts, and how to read them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from npuprof.errors import NoSuchRankError
from npuprof.profiles.profile import Profile
from npuprof.ranks.clocks import Boot, boot_of, same_clocks
from npuprof.ranks.entries import Entry, describe, read_apart, read_entry, read_or_none
from npuprof.ranks.executors import active_client
from npuprof.ranks.one_job import refuse_several_jobs
from npuprof.ranks.parallelism import processes_for
from npuprof.ranks.rank_discovery import host_of, places_of_ranks
from npuprof.ranks.tasks import NoProcessesError
from npuprof.sources.detect import DetectedResult
from npuprof.sources.selection import Selection
from npuprof.tables.info import Info, common_cells
from npuprof.words.quantities import formatted_ranks
from npuprof.words.texts import encodable

if TYPE_CHECKING:
    from distributed import Client


class RunList:
    """The runs of a set; a row of it is a row of :attr:`npuprof.ProfileSet.info`.

    Attributes
    ----------
    root
        The directory.
    entries
        The runs by rank and start; the vendor's analyses of all ranks come last.
    problems
        Messages of the search for runs.
    """

    def __init__(
        self,
        root: Path,
        runs: Sequence[DetectedResult],
        problems: Sequence[str],
        selection: Selection | None,
        client: Client | None,
    ) -> None:
        self.root = root
        self.problems = list(problems)
        self._client, self._selection = client, selection
        self.entries = sorted((describe(run, selection) for run in runs), key=_place)
        refuse_several_jobs(root, self.entries)

    def refreshed(self, runs: Sequence[DetectedResult], problems: Sequence[str]) -> RunList:
        """Return the current runs of a directory, and reuse the runs that had ended before."""
        given = {entry.run.path: entry.run.rank for entry in self.entries if entry.run.is_rank_given}
        runs = [replace(run, rank=given[run.path], is_rank_given=True) if run.path in given else run for run in runs]
        later = RunList(self.root, runs, problems, self._selection, self._client)
        before = {entry.run.path: entry for entry in self.entries if entry.info.stopped_ns is not None}
        for entry in later.entries:
            known = before.get(entry.run.path)
            if known is not None and known.info.stopped_ns == entry.info.stopped_ns and known.profile is not None:
                entry.outcome = known.outcome
            if self.entries:
                entry.code_root, entry.chip = self.entries[0].code_root, self.entries[0].chip
        return later

    def unread(self, rows: Collection[int]) -> RunList:
        """Return the list as it was before some of its runs were read."""
        before = copy(self)
        before.entries = [
            replace(entry, outcome=None) if row in rows and entry.profile is not None else entry
            for row, entry in enumerate(self.entries)
        ]
        return before

    @property
    def client(self) -> Client | None:
        """The Dask client whose workers read parts of runs; None for this machine."""
        return self._client or active_client()

    @property
    def ranks(self) -> list[int]:
        """The ranks that have a run, ascending."""
        return sorted({entry.info.rank for entry in self.entries if entry.info.rank is not None})

    @property
    def newest(self) -> dict[int, int]:
        """The row of the newest run of each rank."""
        rows = enumerate(self.entries)
        return {entry.info.rank: row for row, entry in rows if entry.info.rank is not None and not entry.is_cluster}

    @property
    def hosts(self) -> list[str | None]:
        """The host of each row, from its files or from an analysis of all ranks."""
        places = places_of_ranks(entry.info for entry in self.entries if entry.is_cluster)
        names = (host_of(entry.known) or places.get(entry.info.rank, {}).get("host") for entry in self.entries)
        return [
            None if entry.is_cluster or not host else str(host) for entry, host in zip(self.entries, names, strict=True)
        ]

    @property
    def boots(self) -> list[Boot | None]:
        """The boot time of each row's host, without analyses of all ranks."""
        return [boot_of(entry.run.path) for entry in self.entries if not entry.is_cluster]

    @property
    def hosts_of_ranks(self) -> dict[int, int | str]:
        """The host of each rank: its name, or else the number of its clock."""
        names, boots = self.hosts, self.boots
        clocks = same_clocks(names[: len(boots)], boots)
        known = {rank: names[row] or clocks[row] for rank, row in self.newest.items()}
        return {rank: host for rank, host in known.items() if host is not None}

    @property
    def failed(self) -> dict[int | str, str]:
        """The reason of each failure, by rank, or by path if the rank is unknown."""
        return {
            self.where(row) if entry.info.rank is None else entry.info.rank: entry.problem
            for row, entry in enumerate(self.entries)
            if entry.problem
        }

    @property
    def merged_info(self) -> Info:
        """The metadata that the runs have in common."""
        facts = [entry.known for entry in self.entries]
        return Info(
            name=self.root.name,
            chip=_only({info.chip for info in facts}),
            collector=_only({info.collector for info in facts}),
            versions=_common([info.versions for info in facts]),
            options=_common([info.options for info in facts]),
            simulated=any(info.simulated for info in facts),
            cells=common_cells(info.cells for info in facts),
            examination=[
                replace(each, rank=info.rank, spans=()) for info in facts for each in info.examination
            ],  # times are those of one rank
        )

    @property
    def any_unread(self) -> bool:
        """Whether a run has no profile, analyses of all ranks aside."""
        return any(entry.profile is None for entry in self.entries if not entry.is_cluster)

    @property
    def rows_read(self) -> tuple[int, ...]:
        """The rows of runs that were read."""
        return tuple(row for row, entry in enumerate(self.entries) if entry.profile is not None)

    @property
    def profiles(self) -> dict[int, Profile]:
        """The runs that were read, by row, without analyses of all ranks."""
        rows = enumerate(self.entries)
        return {row: entry.profile for row, entry in rows if entry.profile is not None and not entry.is_cluster}

    @property
    def cluster(self) -> Profile | None:
        """The vendor's analysis of all ranks, if it can be read; the first by path if there are several."""
        profiles = (read_or_none(entry) for entry in self.entries if entry.is_cluster)
        return next((profile for profile in profiles if profile is not None), None)

    def where(self, row: int) -> str:
        """Return the path of a row below the directory, or below the folder that its archive was unpacked to."""
        run = self.entries[row].run
        root = self.root if run.unpacked is None else run.unpacked.folder
        try:
            return encodable(str(run.path.relative_to(root)))
        except ValueError:  # reached by a link
            return encodable(str(run.path))

    def table(self) -> pd.DataFrame:
        """Return the rows of :attr:`npuprof.ProfileSet.info`."""
        started = [entry.info.started_ns for entry in self.entries]
        return pd.DataFrame(
            {
                "rank": pd.array([entry.info.rank for entry in self.entries], dtype="Int64"),
                "path": [self.where(row) for row in range(len(self.entries))],
                "front_end": [entry.info.collector or entry.run.source.name for entry in self.entries],
                "source": [entry.info.source or entry.run.source.name for entry in self.entries],
                "host": self.hosts,
                "started": pd.to_datetime(pd.array(started, dtype="Int64"), unit="ns", utc=True),
                "state": [entry.state for entry in self.entries],
                "problem": [entry.problem for entry in self.entries],
            }
        )

    def of_rank(self, rank: int) -> Profile:
        """Read the newest session of a rank."""
        of_rank = [entry for entry in self.entries if entry.info.rank == rank]
        if not of_rank:
            ranks = formatted_ranks(self.ranks)
            raise NoSuchRankError(
                f"rank {rank} has no run here: "
                + (
                    f"the ranks are {ranks}"
                    if ranks
                    else "no rank is known; load_set(path, ranks=[...]) gives them, and at(row) is the run of a row"
                )
            )
        return read_entry(of_rank[-1])

    def read(self, processes: int | None = None) -> None:
        """Read all unread runs; see :meth:`npuprof.ProfileSet.read`."""
        waiting = [entry for entry in self.entries if entry.outcome is None]
        sizes = {id(entry): entry.run.source.size_bytes(entry.run.path) for entry in waiting}
        count = processes_for(list(sizes.values())) if processes is None else min(processes, len(waiting))
        if count > 1:
            waiting.sort(key=lambda entry: -sizes[id(entry)])  # the longest first, to balance the processes
            with suppress(NoProcessesError):  # the remaining runs are then read here
                read_apart(waiting, count)
        for entry in waiting:
            if entry.outcome is None:
                read_or_none(entry)

    def read_all(self) -> dict[int, Profile]:
        """Read all unread runs and return the readable ones by row, without analyses of all ranks."""
        self.read()
        return self.profiles

    def __iter__(self) -> Iterator[Profile]:
        """Read all runs and yield the readable ones, analyses of all ranks among them."""
        self.read()
        for entry in self.entries:
            if entry.profile is not None:
                yield entry.profile


def _only(words: set[str]) -> str:
    return next(iter(words)) if len(words) == 1 else ""


def _common(facts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what all runs have, with the same value."""
    first, *others = facts or [{}]
    return {name: value for name, value in first.items() if all(fact.get(name) == value for fact in others)}


def _place(entry: Entry) -> tuple[bool, bool, int, int, str]:
    rank = entry.info.rank
    return entry.is_cluster, rank is None, rank or 0, entry.info.started_ns or 0, str(entry.run.path)

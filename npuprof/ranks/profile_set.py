"""A set of profiles: the runs below a directory, one row per rank and session, read on demand."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from numbers import Integral
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from npuprof import atomic, interactive, tables
from npuprof.analysis.correlation import LAYERS
from npuprof.analysis.rank_clocks import Lead, clocks
from npuprof.analysis.rank_waits import collectives
from npuprof.errors import NoSuchRankError, NpuprofError, NpuprofWarning, OptionsError
from npuprof.exports.chrome_trace import TracedRun
from npuprof.notes import Notes
from npuprof.parameters import checked
from npuprof.profile_exports import Exports
from npuprof.profiles import Profile
from npuprof.quantities import formatted_ranks
from npuprof.ranks.answers import SetAnswers
from npuprof.ranks.clocks import Boot, RunClock, boot_of, clock_table, run_clocks, same_clocks
from npuprof.ranks.entries import (
    Entry,
    describe,
    note_other_steps,
    note_other_units,
    note_sessions,
    read,
    read_apart,
    read_or_none,
)
from npuprof.ranks.executors import active_client
from npuprof.ranks.figures import SetFigures
from npuprof.ranks.job import FEW
from npuprof.ranks.one_job import refuse_several_jobs
from npuprof.ranks.parallelism import processes_for
from npuprof.ranks.rank_discovery import (
    communicating_ranks,
    host_of,
    places_of_ranks,
    ranks_of_groups,
    referenced_ranks,
)
from npuprof.ranks.scan import Scan, Wanted, by_run, scan
from npuprof.ranks.tasks import NoProcessesError
from npuprof.ranks.together import Part, labelled, nothing, on_one_clock, together
from npuprof.sources.base import Decoded, PartName
from npuprof.sources.columns.builders import recoded
from npuprof.sources.columns.concatenation import stacked
from npuprof.sources.detect import DetectedResult
from npuprof.sources.global_ranks import MATRIX, Groups, groups_of, with_global_ranks
from npuprof.sources.selection import Selection
from npuprof.sources.vendor_matrix import vendor_matrix
from npuprof.texts import encodable, plain_lines

if TYPE_CHECKING:
    import plotly.graph_objects as go
    from distributed import Client
    from ipywidgets import Widget

    from npuprof.advice.finding import Finding
    from npuprof.analysis.rank_replay import Job
_MAX_SHOWN = 40
_JOINED = ("start_ns", "duration_ns", "op_type", "group", "count", "step")
_SMALL: tuple[PartName, ...] = ("communication", "step_times")  # tables of which a rank has a small file


@checked
class ProfileSet(SetFigures, SetAnswers, Exports):
    """The runs below a directory.

    ``runs[rank]`` is the :class:`~npuprof.profiles.Profile` of a rank, ``runs.at(row)`` the profile of a row of
    :attr:`info`; iteration yields all readable profiles, :meth:`table` stacks a table of all runs. Each run is read at
    first use; methods that need all runs read them in parallel, see :meth:`read`.

    The vendor's analysis of all ranks (``cluster_analysis_output``) is in the set too, as the last rows of :attr:`info`
    and as :attr:`cluster`. It is not a rank, and not in stacked tables, where it would count data twice.

    Times of runs on the same host need no correction. :meth:`clocks` estimates the offset between hosts.

    Parameters
    ----------
    root
        The directory.
    runs
        The runs below it.
    problems
        Messages of the search for runs.
    selection
        The selected part of each run; by default all.
    client
        A Dask client whose workers read small parts of all ranks; by default the one that is active in this process.

    Raises
    ------
    SourceError
        If traces of torch's profiler are of several jobs.
    """

    def __init__(
        self,
        root: Path,
        runs: Sequence[DetectedResult],
        problems: Sequence[str] = (),
        selection: Selection | None = None,
        client: Client | None = None,
    ) -> None:
        self.root = root
        self._problems = list(problems)
        self._client = client
        self._scans: dict[PartName, Scan | None] = {}
        self._played: tuple[int, Job | None] | None = None
        self._seen: dict[PartName, Scan] = {}  # what was noted while some columns were read
        self._columns_read: Scan | None = None  # until the job is made of them
        self._sums: tuple[list[int], pd.DataFrame] | None = None  # the matrix, and the runs that were read for it
        self._entries = sorted((describe(run, selection) for run in runs), key=_place)
        refuse_several_jobs(root, self._entries)

    @property
    def info(self) -> pd.DataFrame:
        """A row per run, by rank and start: rank, path, front_end, source, host, started, state and problem.

        `state` is ``found`` before a run is read, then ``loaded`` or ``failed``; `path` is relative to the directory.
        """
        started = [entry.info.started_ns for entry in self._entries]
        frame: pd.DataFrame = pd.DataFrame(
            {
                "rank": pd.array([entry.info.rank for entry in self._entries], dtype="Int64"),
                "path": [_below(entry.run, self.root) for entry in self._entries],
                "front_end": [entry.info.collector or entry.run.source.name for entry in self._entries],
                "source": [entry.info.source or entry.run.source.name for entry in self._entries],
                "host": self._hosts(),
                "started": pd.to_datetime(pd.array(started, dtype="Int64"), unit="ns", utc=True),
                "state": [entry.state for entry in self._entries],
                "problem": [entry.problem for entry in self._entries],
            }
        )
        return frame

    @property
    def ranks(self) -> list[int]:
        """The ranks that have a run, ascending."""
        return sorted({entry.info.rank for entry in self._entries if entry.info.rank is not None})

    @property
    def failed(self) -> dict[int | str, str]:
        """The reason of each failure, by rank, or by path if the rank is unknown; unread runs are not included."""
        return {
            _below(entry.run, self.root) if entry.info.rank is None else entry.info.rank: entry.problem
            for entry in self._entries
            if entry.problem
        }

    @property
    def cluster(self) -> Profile | None:
        """The vendor's analysis of all ranks, if it can be read; the first by path if there are several."""
        profiles = (read_or_none(entry) for entry in self._entries if entry.is_cluster)
        return next((profile for profile in profiles if profile is not None), None)

    @property
    def absent(self) -> list[int]:
        """The ranks that some file refers to, but that have no run.

        Sources are the world size, groups, higher ranks, the vendor's communication matrix, and transfers of runs that
        were read.
        """
        referenced = set().union(*(referenced_ranks(entry.info) for entry in self._entries))
        return sorted((referenced | self._summed_ranks | communicating_ranks(self._runs_read())) - set(self.ranks))

    @cached_property
    def _summed_ranks(self) -> set[int]:
        """The ranks in the vendor's communication matrices, which are read alone."""
        return ranks_of_groups(self._matrix_groups)

    @cached_property
    def _matrix_groups(self) -> Groups:
        """The groups in the vendor's communication matrices of runs with a rank."""
        return groups_of(run for run in self._with_matrix() if run.info.rank is not None)

    def _with_matrix(self) -> Iterator[Decoded | Profile]:
        """Yield each run with the vendor's communication matrix and its facts; the whole run if it was read."""
        parts = self._pieces("communication_matrix")
        for row, entry in enumerate(self._entries):
            if entry.profile is not None and not entry.is_cluster:
                yield entry.profile
            elif not entry.is_cluster:
                statistics = {MATRIX: parts[row]} if row in parts else vendor_matrix(entry.run.path)
                yield Decoded(info=entry.info, statistics=statistics)

    def _matrix(self) -> pd.DataFrame:
        """Return the vendor's sums of transfers of all ranks, with global ranks; computed once."""
        read = [row for row, entry in enumerate(self._entries) if entry.profile is not None]
        if self._sums is None or self._sums[0] != read:
            runs = list(self._with_matrix())
            alike = not read and all(run.info.rank is not None for run in runs)
            self._sums = read, _matrix_of(runs, self._matrix_groups if alike else groups_of(runs))
        return self._sums[1]

    def _operators(self) -> pd.DataFrame:
        """Return the columns of ``communication`` that answers about all ranks need, in rows of :meth:`table`.

        For unread ranks they come from small files, without operator names, which take the most memory.
        """
        unread = any(entry.profile is None for entry in self._entries if not entry.is_cluster)
        if not unread or self._runs_read() or self._scans.get("communication") is not None:
            return self.table("communication")
        scanned = self._columns_read or self._scan_parts({"communication": _JOINED})["communication"]
        self._columns_read = None
        if scanned is None:
            return self.table("communication")
        self._seen["communication"] = replace(
            scanned, frame=scanned.frame.iloc[:0].copy()
        )  # a view would keep all rows
        return self._labelled_scan(scanned, {})

    def _hosts_of_ranks(self) -> dict[int, int | str]:
        """Return the host of each rank: its name, or else the number of its clock."""
        names, boots = self._hosts(), self._boots()
        clocks = same_clocks(names[: len(boots)], boots)
        known = {rank: names[row] or clocks[row] for rank, row in self._newest().items()}
        return {rank: host for rank, host in known.items() if host is not None}

    def _boots(self) -> list[Boot | None]:
        return [boot_of(entry.run.path) for entry in self._entries if not entry.is_cluster]

    def _scan(self, part: PartName) -> Scan | None:
        """Return one part of all runs, read once from their small files; None if no run's small files have it."""
        if part not in self._scans:
            self._scans |= self._scan_parts({part: ()})
        return self._scans[part]

    def _scan_parts(self, wanted: Wanted) -> dict[PartName, Scan | None]:
        return scan(self.root, self._entries, wanted, self._client or active_client())

    def _read_small_files(self) -> None:
        """Read what answers about all ranks need of ranks that were not read, all at once."""
        if self._runs_read() or self._scans or self._played is not None:
            return
        scans = self._scan_parts({"communication": _JOINED, "step_times": (), "communication_matrix": ()})
        self._columns_read = scans.pop("communication")
        self._scans |= scans

    def _pieces(self, part: PartName) -> dict[int, pd.DataFrame]:
        """Return the rows of one part by row of :attr:`info`, for the runs whose small files have it."""
        pieces = self._scan(part)
        return {} if pieces is None else by_run(pieces)

    def _runs_read(self) -> list[Profile]:
        return [entry.profile for entry in self._entries if entry.profile is not None and not entry.is_cluster]

    @property
    def notes(self) -> pd.DataFrame:
        """Problems of the search, absent ranks, failures and repeated runs: severity, source, message, count."""
        notes = Notes()
        for problem in self._problems:
            notes.warning(self.root.name, problem)
        absent = self.absent
        for rank in absent[:_MAX_SHOWN]:
            notes.warning(f"rank {rank}", "there is no run of this rank")
        if absent[_MAX_SHOWN:]:
            notes.warning("ranks", f"there are no runs of these ranks either: {formatted_ranks(absent[_MAX_SHOWN:])}")
        clocks = {host for host in self._hosts() if host is not None}
        if len(clocks) > 1:
            notes.info(
                "clocks",
                f"the runs are of {len(clocks)} hosts, whose clocks may differ; clocks() estimates by how much, and "
                "table(name, align=True) takes it off",
            )
        for part, pieces in {**self._seen, **self._scans}.items():
            if pieces is None:
                continue
            lacking = [
                row for row, entry in enumerate(self._entries) if row not in {*pieces.rows} and not entry.is_cluster
            ]
            for row in lacking[:_MAX_SHOWN]:
                where = _below(self._entries[row].run, self.root)
                notes.warning(
                    where, f"there is no file of {part}, which other ranks have; at({row}) reads what there is"
                )
            for row, records in pieces.notes.items():
                where = _below(self._entries[row].run, self.root)
                for severity, source, message, count in records:
                    add = {"info": notes.info, "warning": notes.warning}.get(severity, notes.error)
                    add(where, f"{source}: {message}", count)
        for which, problem in self.failed.items():
            notes.error(f"rank {which}" if isinstance(which, int) else which, problem)
        note_sessions(self._entries, notes)
        note_other_steps(self._known_steps(), notes)
        note_other_units(self._entries, notes)
        return notes.to_frame()

    def _known_steps(self) -> dict[int, frozenset[int]]:
        """Return the step numbers of ranks whose steps were read."""
        scanned = self._scans.get("step_times")
        pieces = {} if scanned is None else by_run(scanned)
        known = {}
        for rank, row in self._newest().items():
            profile = self._entries[row].profile
            steps = pieces.get(row) if profile is None else profile.accounting.steps
            if steps is not None and len(numbers := steps["step"].dropna()):
                known[rank] = frozenset(numbers.astype("int64").tolist())
        return known

    def at(self, row: int) -> Profile:
        """Read the run of a row of :attr:`info`.

        Raises
        ------
        SourceError
            If the run cannot be read; :attr:`failed` then has the reason.
        OptionsError
            If the row does not exist.
        """
        if not _is_whole(row) or not -len(self) <= row < len(self):
            raise OptionsError(f"row {row!r} is not one of the {len(self)} runs: give a row of info, from 0 on")
        return read(self._entries[row])

    def read(self, processes: int | None = None) -> ProfileSet:
        """Read all unread runs and return the set; failures are in :attr:`failed`. An interrupted call can be repeated.

        Parameters
        ----------
        processes
            Number of processes, 1 for this process only. By default the number of cores, as far as the free memory
            allows, or 1 if the start of processes would take longer than reading.

        Raises
        ------
        OptionsError
            If `processes` is not a whole number of at least 1.
        """
        if processes is not None and (not _is_whole(processes) or processes < 1):
            raise OptionsError(f"processes must be a whole number of at least 1, or None, not {processes!r}")
        waiting = [entry for entry in self._entries if entry.outcome is None]
        sizes = {id(entry): entry.run.source.size_bytes(entry.run.path) for entry in waiting}
        count = processes_for(list(sizes.values())) if processes is None else min(processes, len(waiting))
        if count > 1:
            waiting.sort(key=lambda entry: -sizes[id(entry)])  # the longest first, to balance the processes
            with suppress(NoProcessesError):  # the remaining runs are then read here
                read_apart(waiting, count)
        for entry in waiting:
            if entry.outcome is None:
                read_or_none(entry)
        return self

    def clocks(self) -> pd.DataFrame:
        """Return the clock of each run, and its lead over the clock of the first rank.

        Members of a collective end together: the offsets of all ranks are fitted to all ends, by weighted least squares
        (:func:`npuprof.analysis.rank_clocks.clocks`). For a rank with several sessions, the newest counts.

        Returns
        -------
        pandas.DataFrame
            A row for each run, as in :attr:`info`: rank, host, `clock` (a number that runs of a host share, absent if
            unknown), `offset_ns` (lead over the first rank's clock in the middle of the recording, absent if unknown),
            `drift_ns_per_s` (by how much it grows; 0 unless collectives span 10 s), `basis` (``estimate``; ``same
            clock`` for a run without collectives on the host of one that has them; ``unknown``), and for an estimate
            the number of `collectives` and their `spread_ns`; see :mod:`npuprof.ranks.clocks` for its accuracy.
        """
        clocks = self._clocks()
        return clock_table(
            [entry.info.rank for entry in self._entries[: len(clocks)]], self._hosts()[: len(clocks)], clocks
        )

    def _clocks(self) -> list[RunClock]:
        """Return the clock of each row of :attr:`info`, without analyses of all ranks, which come last."""
        boots = self._boots()
        played = self._job()
        estimated = clocks(collectives(self._communication())) if played is None else played.clocks
        return run_clocks(self._hosts()[: len(boots)], boots, estimated, self._newest())

    def _newest(self) -> dict[int, int]:
        """Return the row of the newest run of each rank."""
        rows = enumerate(self._entries)
        return {entry.info.rank: row for row, entry in rows if entry.info.rank is not None and not entry.is_cluster}

    def table(self, name: str, *, align: bool = False) -> pd.DataFrame:
        """Stack a table of all readable runs, with the columns `rank`, `run`, `host` and `device_id`.

        `run` is the row of :attr:`info`. Rows of a run keep their order: row numbers, as in ``links``, are within a
        run. A host table has the device of its run, if there is only one.

        Until all runs are read (:meth:`read`), `communication` and `step_times` are taken from each rank's small files,
        where these hold them: times, names and groups are the same there, what only a timeline has (`count`,
        `data_type`) is absent.

        Parameters
        ----------
        name
            The table.
        align
            Whether to subtract the offsets of :meth:`clocks`; times without an estimate stay unchanged.

        Raises
        ------
        NpuprofError
            If the table does not exist.
        """
        if name not in tables.NAMES:
            raise NpuprofError(f"there is no table {name!r}; the tables are {', '.join(tables.NAMES)}")
        unread = any(entry.profile is None for entry in self._entries if not entry.is_cluster)
        if name not in _SMALL or not unread or (pieces := self._scan(name)) is None:
            return self._whole_table(name, align=align)
        ahead = self._clock_leads() if align else {}
        remaining = [row for row, entry in enumerate(self._entries) if row not in set(pieces.rows) and entry.profile]
        of_read = self._labelled_runs(name, remaining, ahead)
        frames = [frame for frame in (self._labelled_scan(pieces, ahead), *of_read) if len(frame)]
        return stacked(frames).sort_values("run", kind="stable", ignore_index=True) if frames else nothing(name)

    def _clock_leads(self) -> dict[int, Lead]:
        """Return the lead of the clock of each run, by row of :attr:`info`, if known."""
        return {row: clock.lead for row, clock in enumerate(self._clocks()) if clock.lead is not None}

    def _labelled_scan(self, scanned: Scan, ahead: Mapping[int, Lead]) -> pd.DataFrame:
        """Add rank and host to the rows from small files, for all runs at once."""
        runs = scanned.frame["run"].to_numpy(np.int64)
        ranks = pd.array([entry.info.rank for entry in self._entries], "Int64")
        columns: dict[str, Any] = {"rank": ranks[runs], "host": recoded(runs.astype(np.int32), self._hosts())}
        if ahead and "start_ns" in scanned.frame:
            late, rate, middle = (np.zeros(len(self._entries), kind) for kind in (np.int64, np.float64, np.int64))
            for row, lead in ahead.items():
                late[row], rate[row], middle[row] = lead.offset_ns, lead.rate, lead.middle_ns
            start = scanned.frame["start_ns"].to_numpy(np.int64)
            columns["start_ns"] = start - late[runs] - np.rint((start - middle[runs]) * rate[runs]).astype(np.int64)
        frame: pd.DataFrame = scanned.frame.assign(**columns)
        return frame

    def _whole_table(self, name: str, *, align: bool) -> pd.DataFrame:
        """Stack a table of runs that are read in full."""
        self.read()
        ahead = self._clock_leads() if align else {}
        frames = self._labelled_runs(name, range(len(self)), ahead)
        return stacked(frames) if frames else nothing(name)

    def _labelled_runs(self, name: str, rows: Sequence[int], ahead: Mapping[int, Lead]) -> list[pd.DataFrame]:
        """Return a table for each of the given runs that were read, if it has rows."""
        groups, hosts = groups_of(self._runs_read()), self._hosts()
        return [
            labelled(
                with_global_ranks(entry.profile.tables, {}, groups)[0][name],
                run=row,
                rank=entry.info.rank,
                host=hosts[row],
                devices=entry.profile.info.devices,
                ahead=ahead.get(row),
            )
            for row, entry in ((row, self._entries[row]) for row in rows)
            if entry.profile is not None and not entry.is_cluster and len(entry.profile.tables[name])
        ]

    @property
    def _table_names(self) -> Sequence[str]:
        return [*tables.NAMES, "info", "launches", "notes"]

    def _table(self, name: str) -> pd.DataFrame:
        return getattr(self, name) if name in ("info", "launches", "notes") else self.table(name)

    if not TYPE_CHECKING:  # a type checker knows the tables, and no other name

        def __getattr__(self, name: str) -> pd.DataFrame:
            """Return the table of that name for all runs; see :meth:`table`."""
            if name in tables.NAMES:
                return self.table(name)
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _read_runs(self) -> Iterator[tuple[int, Profile]]:
        """Yield the row and the profile of every readable run, without the vendor's analysis of all ranks."""
        for row, entry in enumerate(self.read()._entries):
            if entry.profile is not None and not entry.is_cluster:
                yield row, entry.profile

    def _merged_tables(self, *, apart: bool = False) -> dict[str, pd.DataFrame]:
        ahead = self._clock_leads()
        return together([Part(run, ahead.get(row)) for row, run in self._read_runs()], apart=apart)

    def _runs_to_write(self) -> list[TracedRun]:
        ahead = self._clock_leads()
        return [on_one_clock(Part(run, ahead.get(row))) for row, run in self._read_runs()]

    def to_parquet(self, path: str | PathLike[str]) -> Path:
        """Save every run below a directory, as :meth:`Profile.to_parquet` does; ``load_set`` opens it again.

        :meth:`save` is the same method. A warning names runs that cannot be read.

        Raises
        ------
        NpuprofError
            If the directory exists and is not empty, or no run can be read.
        """
        directory = atomic.empty_directory(path)
        if all(entry.profile is None for entry in self.read()._entries):
            reasons = "; ".join(f"{_below(entry.run, self.root)}: {entry.problem}" for entry in self._entries[:3])
            raise NpuprofError(f"nothing was saved in {directory}, because no run can be read ({reasons})")
        for row, entry in enumerate(self._entries):
            rank = "cluster" if entry.is_cluster else f"rank{entry.info.rank}" if entry.info.rank is not None else "run"
            if entry.profile is not None:
                entry.profile.to_parquet(directory / f"{row:04}_{rank}")
            else:
                where = _below(entry.run, self.root)
                warnings.warn(f"{where} is not saved: {entry.problem}", NpuprofWarning, stacklevel=2)
        return directory

    save = to_parquet

    def to_html(self, path: str | PathLike[str]) -> Path:
        """Write a self-contained page; return its path.

        It has the overview, figures of all ranks, the runs and the notes, and the timelines and flame graphs of single
        ranks if there are few ranks, or all were read before.
        """
        head = self.overview()._repr_html_()
        return atomic.write_text(path, self._page(self._all_figures(), head=head))

    def _all_figures(self) -> dict[str, go.Figure]:
        if len(self._entries) <= FEW:
            self.read()
        figures = {
            "Steps of all ranks": self.plot_overview(),
            "All ranks on one clock": self.plot_ranks(),
            "Pipeline": self.plot_pipeline(),
            "Communication matrix": self.plot_communication_matrix(),
            "Steps": self.plot_steps(),
        }
        if any(entry.outcome is None for entry in self._entries):
            return figures
        on_host = any(len(run.tables[name]) for _, run in self._read_runs() for name in LAYERS)
        figures["Timeline"] = self.timeline()
        figures["Flame graph"] = self.flamegraph(weight="host" if on_host else "device")
        return figures

    def _page(self, figures: Mapping[str, go.Figure], picture: str = "", *, head: str = "") -> str:
        from npuprof.exports.html import set_page_html

        del picture  # each rank has one of its own
        return set_page_html(head, self._repr_html_(), self._merged_info(), self.notes, figures)

    def _is_seen_at_once(self) -> bool:
        """Return whether small files and runs that were read suffice for an overview."""
        unread = [entry for entry in self._entries if entry.outcome is None and not entry.is_cluster]
        return not unread or bool(self._pieces("step_times") or self._pieces("communication"))

    def _ipython_display_(self) -> None:
        interactive.show_set(self)

    def explore(self, finding: Finding | None = None, *, window: tuple[int, int] | None = None) -> Widget:
        """Return the explorer of the set: each run, and figures of all ranks.

        Parameters
        ----------
        finding
            A finding of :meth:`advice` whose evidence is shown first; see :meth:`npuprof.advice.finding.Finding.show`.
        window
            Start and end of the timeline's window in epoch nanoseconds; the timeline tab is opened.
        """
        return interactive.explorer(self, finding, window)

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Profile]:
        for entry in self.read()._entries:
            if entry.profile is not None:
                yield entry.profile

    def __contains__(self, rank: object) -> bool:
        return rank in self.ranks

    def __getitem__(self, rank: int) -> Profile:
        """Read the newest session of a rank.

        Raises
        ------
        NoSuchRankError
            If the rank has no run; a KeyError.
        SourceError
            If the run of the rank cannot be read.
        """
        of_rank = [entry for entry in self._entries if entry.info.rank == rank]
        if not of_rank:
            ranks = formatted_ranks(self.ranks)
            raise NoSuchRankError(
                f"rank {rank} has no run here: "
                + (f"the ranks are {ranks}" if ranks else "no rank is known; at(row) returns the run of a row of info")
            )
        return read(of_rank[-1])

    def __repr__(self) -> str:
        shown = self.info.head(_MAX_SHOWN).to_string()
        more = f"\n... and {len(self) - _MAX_SHOWN} more" if len(self) > _MAX_SHOWN else ""
        absent = f"\nabsent ranks: {formatted_ranks(self.absent)}" if self.absent else ""
        return plain_lines(f"{len(self)} runs below {self.root}\n{shown}{more}{absent}")

    def _repr_html_(self) -> str:
        from npuprof.exports.html import framed, grid_html
        from npuprof.exports.text import Grid

        shown = self.info.head(_MAX_SHOWN)
        columns = ["path", "rank", "front_end", "source", "host", "started", "state", "problem"]
        shown = shown.assign(started=shown["started"].dt.strftime("%Y-%m-%d %H:%M:%S UTC"))[columns]
        rows = [["" if pd.isna(cell) else str(cell) for cell in row] for row in shown.itertuples(index=False)]
        title = f"{len(self)} runs below {encodable(str(self.root))}"
        more = f"<p>... and {len(self) - _MAX_SHOWN} more</p>" if len(self) > _MAX_SHOWN else ""
        absent = f"<p>absent ranks: {formatted_ranks(self.absent)}</p>" if self.absent else ""
        return framed(grid_html(Grid(title, columns, rows, 0)) + more + absent)

    def _hosts(self) -> list[str | None]:
        """Return the host of each row of `info`, from its files or from an analysis of all ranks."""
        places = places_of_ranks(entry.info for entry in self._entries if entry.is_cluster)
        names = (host_of(entry.known) or places.get(entry.info.rank, {}).get("host") for entry in self._entries)
        return [
            None if entry.is_cluster or not host else str(host)
            for entry, host in zip(self._entries, names, strict=True)
        ]


def _place(entry: Entry) -> tuple[bool, bool, int, int, str]:
    rank = entry.info.rank
    return entry.is_cluster, rank is None, rank or 0, entry.info.started_ns or 0, str(entry.run.path)


def _is_whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _below(run: DetectedResult, root: Path) -> str:
    path, root = run.path, root if run.unpacked is None else run.unpacked.folder
    try:
        return encodable(str(path.relative_to(root)))
    except ValueError:  # reached by a link
        return encodable(str(path))


def _matrix_of(runs: Sequence[Decoded | Profile], groups: Groups) -> pd.DataFrame:
    frames = [run.statistics.get(MATRIX, pd.DataFrame()) for run in runs]
    some = [frame for frame in frames if len(frame)]
    return with_global_ranks({}, {MATRIX: stacked(some)}, groups)[1][MATRIX] if some else pd.DataFrame()

"""A set of profiles: the runs below a directory, one row per rank and session, read on demand."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from numbers import Integral
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pandas as pd

from npuprof import interactive, tables
from npuprof.analysis.by import Key, checked_keys, sums
from npuprof.analysis.correlation import LAYERS
from npuprof.analysis.rank_waits import counts
from npuprof.errors import NpuprofError, NpuprofWarning, OptionsError
from npuprof.exports.chrome_trace import TracedRun
from npuprof.figures.with_fallback import with_fallback
from npuprof.files import atomic
from npuprof.parameters import checked
from npuprof.profiles.exports import Exports
from npuprof.profiles.profile import Profile
from npuprof.ranks import job, transfers
from npuprof.ranks.clocks import clock_table
from npuprof.ranks.entries import read_entry
from npuprof.ranks.job_processes import JobProcesses
from npuprof.ranks.rank_tables import RankTables
from npuprof.ranks.run_list import RunList
from npuprof.ranks.set_notes import notes_of
from npuprof.ranks.together import stacked_by_rank
from npuprof.sources.base import Decoded, size_of_files
from npuprof.sources.columns.concatenation import stacked
from npuprof.sources.detect import DetectedResult, detect
from npuprof.sources.selection import Selection
from npuprof.tables.info import Info
from npuprof.words.quantities import counted, formatted_ranks
from npuprof.words.texts import LongText

if TYPE_CHECKING:
    import plotly.graph_objects as go
    from distributed import Client
    from ipywidgets import Widget

    from npuprof.advice.finding import Finding
    from npuprof.advice.findings import Advice
    from npuprof.analysis.chip_limits import ChipLimits
    from npuprof.analysis.prediction import Prediction
    from npuprof.profiles.comparison import Comparison
    from npuprof.ranks.overview import Overview
    from npuprof.report.model import Report


_SMALL_BYTES = 64 << 20
_MOST_KINDS = 10


@checked
class ProfileSet(LongText, Exports):
    """The runs below a directory.

    ``runs[rank]`` is the :class:`~npuprof.Profile` of a rank, ``runs.at(row)`` the profile of a row of
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
    code_root
        The folder in which a rank's :meth:`npuprof.Profile.code` finds the files that its stacks name.
    chip
        The name of the chip that ran all of them; empty for the recorded ones.

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
        code_root: Path | None = None,
        chip: str = "",
    ) -> None:
        self.root = root
        self._runs = RunList(root, runs, problems, selection, client)
        for entry in self._runs.entries:
            entry.code_root, entry.chip = code_root, chip
            entry.info.chip = chip or entry.info.chip
        self._ranks = RankTables(self._runs)

    @property
    def info(self) -> pd.DataFrame:
        """A row per run, by rank and start: rank, path, front_end, source, host, started, state and problem.

        `state` is ``found`` before a run is read, then ``loaded`` or ``failed``; `path` is relative to the directory.
        """
        return self._runs.table()

    @property
    def ranks(self) -> list[int]:
        """The ranks that have a run, ascending."""
        return self._runs.ranks

    @property
    def failed(self) -> dict[int | str, str]:
        """The reason of each failure, by rank, or by path if the rank is unknown; unread runs are not included."""
        return self._runs.failed

    @property
    def cluster(self) -> Profile | None:
        """The vendor's analysis of all ranks, if it can be read; the first by path if there are several."""
        return self._runs.cluster

    @property
    def absent(self) -> list[int]:
        """The ranks that some file refers to, but that have no run.

        Sources are the world size, groups, higher ranks, the vendor's communication matrix, and transfers of runs that
        were read.
        """
        return transfers.absent_ranks(self._ranks)

    @property
    def tables(self) -> Mapping[str, pd.DataFrame]:
        """Every table of all readable runs by name, as :meth:`table` returns it."""
        return self._ranks.by_name()

    @property
    def notes(self) -> pd.DataFrame:
        """Problems of the search, absent ranks, failures and repeated runs: severity, source, message, count."""
        return notes_of(self._ranks)

    def __len__(self) -> int:
        return len(self._runs.entries)

    def __iter__(self) -> Iterator[Profile]:
        return iter(self._runs)

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
        return self._runs.of_rank(rank)

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
            raise OptionsError(
                f"row {row!r} is not one of a set of {counted(len(self), 'run')}: give a row of info, from 0 on"
            )
        return read_entry(self._runs.entries[row])

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
        self._runs.read(processes)
        return self

    def refresh(self) -> ProfileSet:
        """Search the directory again, for runs that were added or went on, and return the set.

        Processes of a job may go on when its cell has ended. Runs that had ended when they were read stay as they are.

        Raises
        ------
        SourceError
            If nothing at the path can be read.
        """
        walked = detect(self.root)
        job_of_set, problems = JobProcesses.read(self.root), [*walked.problems, *walked.left_out]
        if job_of_set is not None:
            walked.results = job_of_set.runs(walked.results)
            problems += job_of_set.problems()
        self._runs = self._runs.refreshed(walked.results, problems)
        self._ranks = RankTables(self._runs)
        return self

    def clocks(self) -> pd.DataFrame:
        """Return the clock of each run, and its lead over the clock of the first rank.

        Members of a collective end together: the offsets of all ranks are fitted to all ends, by weighted least
        squares. For a rank with several sessions, the newest counts.

        Returns
        -------
        pandas.DataFrame
            A row for each run, as in :attr:`info`: rank, host, `clock` (a number that runs of a host share, absent if
            unknown), `offset_ns` (lead over the first rank's clock in the middle of the recording, absent if unknown),
            `drift_ns_per_s` (by how much it grows; 0 unless collectives span 10 s), `basis` (``estimate``; ``same
            clock`` for a run without collectives on the host of one that has them; ``unknown``), and for an estimate
            the number of `collectives` and their `spread_ns`.
        """
        clocks = self._ranks.clocks()
        ranks = [entry.info.rank for entry in self._runs.entries[: len(clocks)]]
        return clock_table(ranks, self._runs.hosts[: len(clocks)], clocks)

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
        return self._ranks.table(name, align=align)

    def _named(self, name: str) -> pd.DataFrame:
        return self.table(name)

    def __sub__(self, other: ProfileSet | Profile) -> Comparison:
        """Return the difference of a step of these ranks and a step of `other`; ranks count as repetitions."""
        return _compare(self, other)

    def __rsub__(self, other: Profile) -> Comparison:
        return _compare(other, self)

    @property
    def launches(self) -> pd.DataFrame:
        """The launches of every run with `rank` and `run`; see :attr:`Profile.launches`."""
        frames = [
            run.launches.assign(rank=pd.array([run.info.rank] * len(run.launches), "Int64"), run=row)
            for row, run in self._runs.read_all().items()
        ]
        return stacked(frames) if frames else Profile(Decoded()).launches.assign(rank=pd.array([], "Int64"), run=0)

    def by(self, *keys: Key) -> pd.DataFrame:
        """Sum the kernels of all runs, as :meth:`Profile.by` does; ``"rank"`` may be one of the keys.

        Operators are summed only if no run has kernels.

        If more than 8 ranks were not read, each is summed in another process or on a worker of the cluster, and stays
        unread. Counts and sums are exact; quantiles of more than 256 kernels are those of a t-digest: 95 % is
        between 94 and 96 %.

        Raises
        ------
        OptionsError
            If a key is unknown or repeated, or no key is given.
        """
        from npuprof.ranks.kernel_sums import kernel_sums

        chosen = checked_keys(keys)
        if sum(entry.outcome is None for entry in self._runs.entries if not entry.is_cluster) > job.FEW:
            return kernel_sums(self._runs, chosen).table()
        runs = list(self._runs.read_all().values()) or [Profile(Decoded())]
        with_kernels = [run for run in runs if len(run.kernels)]  # operators of other runs are not added to kernels
        return sums(stacked([run._summed_rows(chosen) for run in with_kernels or runs]), chosen)

    def breakdown(self) -> pd.DataFrame:
        """Return the time of each step of each rank by part; see :meth:`npuprof.Profile.breakdown`."""
        frames = [frame for run in self._runs if len(frame := run.breakdown())]
        return (
            pd.concat(frames, ignore_index=True)
            if frames
            else pd.DataFrame(columns=["rank", "device_id", "step", "part", "cause", "duration_ns"])
        )

    def advice(self) -> Advice:
        """Return the findings of the job, about all ranks together and about single ranks, greatest gain first.

        See :meth:`npuprof.Profile.advice`; a finding with a ``rank`` has rows of that rank's table. In jobs of
        more than 8 ranks, only the ranks with the most time outside collectives in their pipeline stage are read
        completely; for the others, small files are read.

        Raises
        ------
        NpuprofError
            If no run with a rank can be read.
        """
        return self._ranks.memo.once("advice", self._advice)

    def _advice(self) -> Advice:
        from npuprof.advice.job_findings import advise_job
        from npuprof.report.advice import render_advice

        ranks = self._ranks
        whole = job.explaining(job.job_facts(ranks.unread() if self._is_large() else ranks))
        if self._is_large():  # ranks that were read otherwise would have steps of another definition
            ranks = ranks.unread(whole)
        facts = job.job_facts(ranks, whole)
        return advise_job(facts, self.explore, render=render_advice)

    def step_statistics(self) -> pd.DataFrame:
        """Compare the steps of each rank; see :meth:`npuprof.Profile.step_statistics`."""
        return stacked_by_rank(self._runs.read_all().values(), lambda run: run.step_statistics())

    def efficiency(
        self, each: Literal["shapes", "kernel"] = "shapes", *, limits: ChipLimits | None = None
    ) -> pd.DataFrame:
        """Compare kernels of each rank with the limits of its chip; see :meth:`npuprof.Profile.efficiency`.

        Parameters
        ----------
        each
            What a row stands for: all kernels of one type, shapes and data types, or one kernel.
        limits
            The limits of the chips of all ranks; by default each rank's are from its counters and the chip's name.

        Raises
        ------
        OptionsError
            If `each` is neither ``"shapes"`` nor ``"kernel"``.
        """
        return stacked_by_rank(self._runs.read_all().values(), lambda run: run.efficiency(each, limits=limits))

    def memory_peak(self) -> pd.DataFrame:
        """Return the owners of each rank's memory at its peak; see :meth:`npuprof.Profile.memory_peak`."""
        return stacked_by_rank(self._runs.read_all().values(), lambda run: run.memory_peak())

    def memory_leaks(self) -> pd.DataFrame:
        """Return the call sites of each rank whose memory grew; see :meth:`npuprof.Profile.memory_leaks`.

        ``attrs["state"]`` is ``fires`` if it is for any rank, else ``cannot tell`` if it is for any rank.
        """
        return stacked_by_rank(self._runs.read_all().values(), lambda run: run.memory_leaks())

    def waits(self) -> pd.DataFrame:
        """Return how long each rank waited in each collective, and for which rank.

        Where nobody waited for more than 0.1 ms, or three times the error of the clocks, no rank is named.

        Returns
        -------
        pandas.DataFrame
            ``rank``, ``step``, ``group``, ``k``, ``op_type``, ``start_ns`` (on the common clock), ``wait_ns``,
            ``moving_ns`` and ``absent_ns``, which add up to the duration, ``last_rank`` (the lowest of several; absent
            where nobody waited long, or ``absent_ns`` of the last recorded member is more than 0.1 ms, unless tasks
            name the rank that is not here) and ``op``.
        """
        return job.waits_of_all(self._settled()).copy()

    def blame(self, root_rank: int | None = None) -> pd.DataFrame:
        """Return the ranks whose own time causes the waits of all ranks, traced through ranks that waited in between.

        Waits in which nobody waited for more than 0.1 ms, and causes of less than 1 % of the time of any rank, are
        ``small``.

        Parameters
        ----------
        root_rank
            A rank to explain: the result then compares the activities in its own time with those of a peer.

        Returns
        -------
        pandas.DataFrame
            Without `root_rank`: ``rank``, ``cause``, ``root_rank`` and ``wait_ns``. With it: the kernels of that rank
            and of a peer, by ``op_type`` and source ``line`` (absent if not recorded): ``root_rank``,
            ``peer``, ``time_ns``, ``peer_ns`` and ``delta_ns`` per step, greatest difference first. The peer runs
            the same collectives, or those of another pipeline stage if no such rank has kernels.

        Raises
        ------
        KeyError
            If `root_rank` has no run.
        NpuprofError
            If no other rank has kernels, or no two ranks have collectives in common.
        """
        return job.blamed_ranks(self._settled()) if root_rank is None else job.kernels_beside(self._ranks, root_rank)

    def bandwidths(self) -> pd.DataFrame:
        """Return the bandwidth of each link between ranks, compared with links of the same kind.

        For ranks that were not read, the vendor's communication matrix is used. ``links`` itself is the table
        of causes and effects, as in a single run.

        Returns
        -------
        pandas.DataFrame
            ``src_rank``, ``dst_rank``, ``transport``, ``op_type``, ``size_bytes`` and ``duration_ns`` (of all
            transfers), ``gb_per_s``, ``peers`` (number of links compared, including the link itself),
            ``usual_gb_per_s`` (their median, absent for fewer than 3), ``ratio`` (to the median), and ``slow`` (below
            0.7); slowest first. Copies within a rank are left out.
        """
        from npuprof.analysis.links import links
        from npuprof.analysis.traffic import link_transfers

        parts = [link_transfers(*of_rank) for of_rank in transfers.transfers(self._ranks)]
        return links(stacked([part for part in parts if len(part)] or parts[:1] or [link_transfers({}, {})]))

    def side_by_side(self, ranks: Collection[int] | None = None) -> pd.DataFrame:
        """Return the parts of a step on several ranks, side by side.

        Parameters
        ----------
        ranks
            The ranks; by default all. For ranks that were not read, only small files and kernels are read.

        Returns
        -------
        pandas.DataFrame
            ``part`` (``step``, ``computing``, ``waiting``, ``moving``, ``communication``, ``copy``, ``idle``,
            ``outside collectives``, ``waits it causes``, ``kernels``), ``name`` (the type of kernels), ``rank``,
            ``time_ns`` (mean per step), ``median_ns`` (of these ranks) and ``delta_ns``.

        Raises
        ------
        KeyError
            If a rank has no run.
        """
        return job.side_by_side(self._settled(by_steps=True), sorted(set(self.ranks if ranks is None else ranks)))

    def pipeline(self, number: int = 0, *, step: int | None = None) -> pd.DataFrame:
        """Return the work of pipeline stages in a step.

        Parameters
        ----------
        number
            The number of the pipeline, in the order of ranks, if replicas have several.
        step
            The step; by default the longest.

        Returns
        -------
        pandas.DataFrame
            ``stage``, ``rank``, ``kind`` (``forward``, ``backward``, ``forward and backward``, ``work``, ``waiting`` or
            ``moving``), ``microbatch`` (from 0; <NA> if unknown; for ``forward and backward`` that of the forward
            pass), ``start_ns`` and ``duration_ns``.

        Raises
        ------
        NpuprofError
            If no ranks send to each other, or the pipeline or step does not exist.
        """
        return job.pipeline(self._ranks, number, step)[0]

    def overview(self) -> Overview:
        """Return the job at a glance: verdict, findings about ranks, groups, and the parts of each step of each rank.

        At most eight runs of at most 64 MB together are read, and their steps are those of :meth:`breakdown` and
        :meth:`advice`. Of more or larger ones the small files of all ranks count, whether or not these were read, so
        that each step is the vendor's; ranks without small files are read.
        """
        from npuprof.ranks.kept_overview import overview

        return overview(self._settled(by_steps=True))

    @with_fallback("steps of all ranks")
    def plot_overview(self) -> go.Figure:
        """Draw the parts of each step of each rank as heat maps, and the waits that each rank causes."""
        return self.overview().plot()

    def what_if(
        self,
        *,
        transfer: float = 1.0,
        kernel: Mapping[str, float] | None = None,
        rank: Mapping[int, float] | None = None,
        balance: Literal["stages"] | None = None,
    ) -> Prediction:
        """Predict the time of the job if parts were faster or slower, by replaying its collectives.

        Parameters
        ----------
        transfer
            Factor on the time in which data moves: 0 for infinitely fast links, 0.8 for links 25 % faster.
        kernel
            Factors by name or type of kernel, on their exposed time: ``{"Cast": 0, "MatMulV3": 0.8}``. A rank
            without kernels is reduced as much as a rank with the same collectives.
        rank
            Factors on the time of ranks outside collectives: ``{17: 0.92}``.
        balance
            ``stages`` gives every rank the mean of the times outside collectives.

        Returns
        -------
        Prediction
            See :meth:`npuprof.Profile.what_if`; ``recorded_ns`` is the time from the
            first start of a collective to the last end.

        Raises
        ------
        OptionsError
            If a name or rank is unknown, or a factor is negative.
        NpuprofError
            If the replay of the unchanged job differs from the recording by more than 1 %.
        """
        from npuprof.analysis.rank_kernels import of_ranks, saved_ns
        from npuprof.analysis.rank_replay import what_if
        from npuprof.analysis.what_if import kernel_changes, kernel_factors

        communication = self._ranks.operators()
        if not kernel:
            return what_if(communication, transfer=transfer, rank=rank, balance=balance)
        kernels = self._ranks.table("kernels")
        savings = of_ranks(kernels, kernel_factors(kernels, kernel))
        saved = partial(saved_ns, savings)
        predicted = what_if(communication, transfer=transfer, rank=rank, balance=balance, saved_ns=saved)
        return replace(predicted, changes=(*kernel_changes(kernels, kernel), *predicted.changes))

    def critical_path(self) -> pd.DataFrame:
        """Return the critical path of the job, from the first start of a collective to the last end.

        A step of :meth:`overview` also has what ranks do before their first collective and after the last.

        Returns
        -------
        pandas.DataFrame
            ``rank``, ``kind`` (``own`` or ``transfer``), ``op_type``, ``group``, ``start_ns`` and ``duration_ns``, in
            order of time; durations add up exactly to that time, as in :meth:`what_if`.
        """
        from npuprof.analysis.rank_replay import critical_path

        return critical_path(self._ranks.operators())

    @with_fallback("flame graph")
    def flamegraph(
        self,
        *,
        weight: Literal["host", "device", "count"] = "host",
        root: str | Sequence[str] = (),
        orientation: Literal["icicle", "flame"] = "icicle",
        search: str = "",
        regex: bool = False,
        max_nodes: int = 2000,
        longest_name: int = 60,
    ) -> go.Figure:
        """Draw one flame graph of all ranks: equal call paths are one frame, and their times add up over ranks.

        Parameters
        ----------
        weight, root, orientation, search, regex, max_nodes, longest_name
            As :meth:`npuprof.Profile.flamegraph` has them.
        """
        from npuprof.flame.figure import flamegraph

        return flamegraph(
            self._ranks.merged(apart=True),
            self._runs.merged_info,
            weight=weight,
            root=root,
            orientation=orientation,
            search=search,
            regex=regex,
            max_nodes=max_nodes,
            longest_name=longest_name,
        )

    @with_fallback("all ranks on one clock")
    def plot_ranks(self, *, step: int | None = None) -> go.Figure:
        """Draw the work of each rank over time, on a common clock, with the collectives that ranks waited longest in.

        Small files of ranks are enough; kernels are drawn for ranks that were read.

        Parameters
        ----------
        step
            The step; by default the longest.

        Raises
        ------
        NpuprofError
            If the step does not exist.
        """
        from npuprof.figures.rank_timeline import plot_rank_timeline

        rows = self._ranks.waits()
        if not rows["op"].duplicated().any():
            return plot_rank_timeline(rows.iloc[:0], self._runs.merged_info, window=(0, 0))
        visible_rows, window, label = job.step_window(rows, step)
        played = self._ranks.job()
        return plot_rank_timeline(
            visible_rows,
            self._runs.merged_info,
            window=window,
            kernels=self._ranks.kernel_spans(),
            counted_ops=None if played is None else counts(rows, played.clocks),
            subtitle=label,
        )

    @with_fallback("pipeline")
    def plot_pipeline(self, number: int = 0, *, step: int | None = None) -> go.Figure:
        """Draw the stages of a pipeline over a step, with the microbatch that each stage works on.

        Without a pipeline, the figure says so.

        Parameters
        ----------
        number
            The number of the pipeline, in the order of ranks, if replicas have several.
        step
            The step; by default the longest.

        Raises
        ------
        NpuprofError
            If the pipeline or step does not exist.
        """
        from npuprof.figures.pipeline import plot_stages

        work, label = job.pipeline(self._ranks, number, step)
        return plot_stages(work, self._runs.merged_info, subtitle=label)

    def save(self, path: str | PathLike[str]) -> Path:
        """Save every run below a directory, as :meth:`npuprof.Profile.save` does; ``load_set`` opens it again.

        A warning names runs that cannot be read.

        Raises
        ------
        NpuprofError
            If the directory exists and is not empty, or no run can be read.
        """
        directory = atomic.empty_directory(path)
        if all(entry.profile is None for entry in self.read()._runs.entries):
            some = enumerate(self._runs.entries[:3])
            reasons = "; ".join(f"{self._runs.where(row)}: {entry.problem}" for row, entry in some)
            raise NpuprofError(f"nothing was saved in {directory}, because no run can be read ({reasons})")
        for row, entry in enumerate(self._runs.entries):
            rank = "cluster" if entry.is_cluster else f"rank{entry.info.rank}" if entry.info.rank is not None else "run"
            if entry.profile is not None:
                entry.profile.save(directory / f"{row:04}_{rank}")
            else:
                where = self._runs.where(row)
                warnings.warn(f"{where} is not saved: {entry.problem}", NpuprofWarning, stacklevel=2)
        return directory

    def to_html(self, path: str | PathLike[str]) -> Path:
        """Write a self-contained page; return its path.

        It has the report, figures of all ranks, and the timelines and flame graphs of single ranks if there are few
        ranks, or all were read before.
        """
        return atomic.write_text(path, self._page(self._all_figures()))

    def to_markdown(self) -> str:
        """Return the report as at most 60 lines of Markdown, for an issue, a pull request or an assistant.

        See :meth:`Profile.to_markdown`. Of a set that is too large to read for it, it lists the runs.
        """
        return f"{self._described()}\n\n{self._advised_text(is_read=self._is_seen_at_once())}"

    def _described(self) -> str:
        """Return which ranks there are, as Markdown."""
        from npuprof.report.markdown import described_set

        return described_set(self._merged_info(), self.info, self.absent, self.notes)

    def _advised_text(self, first: int = 1, *, is_read: bool = True) -> str:
        """Return the findings from number `first` on, as Markdown; of runs that are no job, what they are."""
        from npuprof.report.markdown import advised, reported

        try:
            said = advised(self.advice(), first=first) if is_read else ""
        except NpuprofError:  # without ranks, runs are no job
            said = ""
        return said or reported(self._report(), [self._merged_info()])

    def _all_figures(self) -> dict[str, go.Figure]:
        if len(self._runs.entries) <= job.FEW:
            self.read()
        figures = {
            "Steps of all ranks": self.plot_overview(),
            "All ranks on one clock": self.plot_ranks(),
            "Pipeline": self.plot_pipeline(),
            "Communication matrix": self.plot_communication_matrix(),
            "Steps": self.plot_steps(),
        }
        if any(entry.outcome is None for entry in self._runs.entries):
            return figures
        on_host = any(len(run.tables[name]) for run in self._runs.read_all().values() for name in LAYERS)
        figures["Timeline"] = self.timeline()
        figures["Flame graph"] = self.flamegraph(weight="host" if on_host else "device")
        return figures

    def _page(self, figures: Mapping[str, go.Figure], picture: str = "") -> str:
        from npuprof.exports.html import page_html

        del picture  # each rank has one of its own
        return page_html(self._report(folded=True), figures)

    def _is_seen_at_once(self) -> bool:
        """Return whether small files and runs that were read suffice for an overview, or reading takes little."""
        unread = [entry for entry in self._runs.entries if entry.outcome is None and not entry.is_cluster]
        return not unread or bool(self._ranks.scans.rows_of("step_times")) or self._is_small()

    def _settled(self, *, by_steps: bool = False) -> RankTables:
        """Return tables whose answers do not depend on earlier reading.

        Small files suffice, with two exceptions: only tasks tell who waits for absent ranks, and with `by_steps` the
        steps of a small job are those of its runs, as everywhere else. For both few small runs are read.
        """
        unread = self._ranks.unread()
        entries = [entry for entry in self._runs.entries if not entry.is_cluster]
        if self._is_large() or not (by_steps or transfers.absent_ranks(unread)):
            return unread
        if sum(size_of_files(entry.run.path) for entry in entries) > _SMALL_BYTES:
            return unread
        self._runs.read()
        return self._ranks

    def _is_large(self) -> bool:
        """Return whether findings are about more ranks than are all read completely."""
        return len(self._runs.newest) > job.FEW

    def _is_small(self) -> bool:
        """Return whether reading all runs takes seconds at most."""
        unread = [entry for entry in self._runs.entries if entry.outcome is None]
        if len(self._runs.entries) > job.FEW:
            return not unread
        return sum(size_of_files(entry.run.path) for entry in unread) <= _SMALL_BYTES

    def _seen(self) -> Overview:
        """Return the overview that reports show: with findings about single ranks where all were read."""
        from npuprof.ranks import kept_overview, overview

        if self._is_small():
            self.read()

        def see() -> Overview:
            if any(entry.outcome is None for entry in self._runs.entries):
                return kept_overview.overview(self._ranks)
            try:
                advice = self.advice()
            except NpuprofError:
                advice = None
            return overview.overview(self._ranks, advice)

        return self._ranks.memo.of_state("seen", see)

    def _report(self, *, folded: bool = False) -> Report:
        """Return the report on the set; `folded` adds folded pictures and tables, which take longer."""
        from npuprof.report import ranks as said

        if not self._is_seen_at_once():
            return said.report_of_runs(self._merged_info(), self.info, self.notes, said.unread_sentence("runs.read()"))
        seen, info, notes = self._seen(), self.info, self.notes
        if seen.advice is None or (len(self.ranks) == 1 and len(self) > 1) or not seen.advice.step_ns:
            return said.report_of_runs(self._merged_info(), info, notes, seen.verdict)
        report = said.report_of_overview(seen, notes)
        if not folded:
            return report
        from npuprof.figures.drawing import figure_svg

        entries = [entry for entry in self._runs.entries if not entry.is_cluster]
        is_read = all(entry.profile is not None for entry in entries)
        links = self.bandwidths()
        has_lanes, several = len(seen.lanes) > 0, seen.advice.facts.basis.count > 1 or len(seen.ranks) > job.FEW
        return said.with_details(
            report,
            timeline=figure_svg(self.plot_ranks()) if has_lanes else "",
            heat=figure_svg(seen.plot()) if several else "",
            waits=self.blame() if has_lanes else links.iloc[:0],
            links=links[links["slow"].fillna(False).to_numpy(bool)],
            kernels=self.by("op_type")[:_MOST_KINDS] if is_read else links.iloc[:0],
            runs=info,
            notes=notes,
            numbers=said.numbers_of(seen),
        )

    def _ipython_display_(self) -> None:
        interactive.show_set(self)

    def explore(self, finding: Finding | None = None, *, window: tuple[int, int] | None = None) -> Widget:
        """Return the explorer of the set: each run, and figures of all ranks.

        Parameters
        ----------
        finding
            A finding of :meth:`advice` whose evidence is shown first; ``finding.show()`` does the same.
        window
            Start and end of the timeline's window in epoch nanoseconds; the timeline tab is opened.
        """
        return interactive.explorer(self, finding, window)

    def _merged_tables(self, *, apart: bool = False) -> dict[str, pd.DataFrame]:
        return self._ranks.merged(apart=apart)

    def _merged_info(self) -> Info:
        return self._runs.merged_info

    def _finding(self) -> str:
        unread = any(entry.outcome is None for entry in self._runs.entries if not entry.is_cluster)
        return "" if unread or not self._is_seen_at_once() else self._seen().title  # no rank is read for a title

    def _stages(self) -> Mapping[int, int]:
        try:
            return job.stages_of_ranks(self._ranks)
        except NpuprofError:  # no ranks with collectives in common
            return {}

    def _step_parts(self) -> pd.DataFrame:
        return job.step_parts(self._ranks)

    def _traffic(self) -> pd.DataFrame:
        return transfers.traffic(self._ranks)

    def _collectives(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        return transfers.times_and_packets(self._ranks)

    def _runs_to_write(self) -> list[TracedRun]:
        return self._ranks.traced_runs()

    @property
    def _table_names(self) -> Sequence[str]:
        return [*tables.NAMES, "info", "launches", "notes"]

    def _table(self, name: str) -> pd.DataFrame:
        return getattr(self, name) if name in ("info", "launches", "notes") else self.table(name)

    def _one_line(self) -> str:
        """Return the number of runs and their ranks."""
        of = f" of {counted(len(self.ranks), 'rank')} ({formatted_ranks(self.ranks)})" if self.ranks else ""
        return f"of {counted(len(self), 'run')}{of} below {self.root}: overview() and advice() tell more"

    def __str__(self) -> str:
        from npuprof.report.text import report_text

        return report_text(self._report())

    def _repr_html_(self) -> str:
        from npuprof.report.html import report_html

        interactive.keep_keys()
        return report_html(self._report(folded=True))


def _is_whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _compare(a: ProfileSet | Profile, b: ProfileSet | Profile) -> Comparison:
    from npuprof.profiles.comparison import Comparison, names_of

    first, second = ([side] if isinstance(side, Profile) else side for side in (a, b))
    names = names_of(*(side.info if isinstance(side, Profile) else side._merged_info() for side in (a, b)))
    return Comparison.of([first], [second], names)

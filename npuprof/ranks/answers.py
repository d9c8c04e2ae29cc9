"""Questions that a set of ranks answers: where steps went, who waited for whom, and how a change affects the job."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Literal

import pandas as pd

from npuprof.analysis.by import Key, checked_keys, kernel_rows, sums
from npuprof.parameters import checked
from npuprof.profile_figures import with_fallback
from npuprof.profiles import Profile
from npuprof.ranks.executors import active_client
from npuprof.ranks.job import FEW
from npuprof.ranks.members import Members
from npuprof.sources.base import Decoded
from npuprof.sources.columns.concatenation import stacked
from npuprof.sources.files.memory_limit import give_back

if TYPE_CHECKING:
    import plotly.graph_objects as go
    from distributed import Client
    from ipywidgets import Widget

    from npuprof.advice.finding import Finding
    from npuprof.advice.findings import Advice
    from npuprof.analysis.prediction import Prediction
    from npuprof.analysis.rank_replay import Job
    from npuprof.comparison import Comparison
    from npuprof.ranks.overview import Overview


@checked
class SetAnswers(Members, ABC):
    """Answers about the job that the ranks of a set ran."""

    @abstractmethod
    def __iter__(self) -> Iterator[Profile]: ...

    @abstractmethod
    def table(self, name: str, *, align: bool = False) -> pd.DataFrame:
        """Stack one table of every run."""

    @abstractmethod
    def explore(self, finding: Finding | None = None, *, window: tuple[int, int] | None = None) -> Widget:
        """Return the explorer of the set."""

    if TYPE_CHECKING:
        _played: tuple[int, Job | None] | None
        _client: Client | None

        def _rank_runs(self) -> Iterator[Profile]: ...
        def _operators(self) -> pd.DataFrame: ...

    def _communication(self) -> pd.DataFrame:
        """Return the operators of all ranks; for a rank with several sessions, those of the newest."""
        operators = self._operators()
        newest = list(self._newest().values())
        known_rows: pd.DataFrame = operators[operators["run"].isin(newest).to_numpy(bool)].reset_index(drop=True)
        return known_rows if len(known_rows) < len(operators) else operators

    def _job(self) -> Job | None:
        """Return the collectives of all ranks, ready for a replay; None if there are none."""
        from npuprof.analysis.rank_replay import job

        loaded = sum(entry.profile is not None for entry in self._entries)  # whole runs may have more
        if self._played is None or self._played[0] != loaded:
            communication = self._communication()
            is_selected = (communication["rank"].notna() & communication["group"].notna()).any()
            self._played = loaded, job(communication) if is_selected else None
            del communication
            give_back()
        return self._played[1]

    def __sub__(self, other: SetAnswers | Profile) -> Comparison:
        """Return the difference of a step of these ranks and a step of `other`; ranks count as repetitions."""
        return _compare(self, other)

    def __rsub__(self, other: Profile) -> Comparison:
        return _compare(other, self)

    @abstractmethod
    def _read_runs(self) -> Iterator[tuple[int, Profile]]: ...

    @property
    def launches(self) -> pd.DataFrame:
        """The launches of every run with `rank` and `run`; see :attr:`Profile.launches`."""
        frames = [
            run.launches.assign(rank=pd.array([run.info.rank] * len(run.launches), "Int64"), run=row)
            for row, run in self._read_runs()
        ]
        return stacked(frames) if frames else Profile(Decoded()).launches.assign(rank=pd.array([], "Int64"), run=0)

    def by(self, *keys: Key) -> pd.DataFrame:
        """Sum the kernels of all runs, as :meth:`Profile.by` does; ``"rank"`` may be one of the keys.

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
        if sum(entry.outcome is None for entry in self._entries if not entry.is_cluster) > FEW:
            return kernel_sums(self, chosen, self._client or active_client()).table()
        empty = Profile(Decoded())
        rows = [kernel_rows(run.tables, run.launches, chosen, run.info.rank) for _, run in self._read_runs()]
        return sums(stacked(rows or [kernel_rows(empty.tables, empty.launches, chosen)]), chosen)

    def breakdown(self) -> pd.DataFrame:
        """Return the time of each step of each rank by part; see :meth:`npuprof.profiles.Profile.breakdown`."""
        frames = [frame for run in self if len(frame := run.breakdown())]
        joined_rows: pd.DataFrame = (
            pd.concat(frames, ignore_index=True)
            if frames
            else pd.DataFrame(columns=["rank", "device_id", "step", "part", "cause", "duration_ns"])
        )
        return joined_rows

    def advice(self) -> Advice:
        """Return the findings of the job, about all ranks together and about single ranks, greatest gain first.

        See :meth:`npuprof.profiles.Profile.advice`; a finding with a ``rank`` has rows of that rank's table. In jobs of
        more than 8 ranks, only the ranks with the most time outside collectives in their pipeline stage are read
        completely; for the others, small files are read.

        Raises
        ------
        NpuprofError
            If no run with a rank can be read.
        """
        return self._advice

    @cached_property
    def _advice(self) -> Advice:
        from npuprof.advice.job_findings import advise_job
        from npuprof.exports.html import advice_html
        from npuprof.ranks.job import explaining, job_facts

        return advise_job(job_facts(self, explaining(job_facts(self))), self.explore, html=advice_html)

    def step_statistics(self) -> pd.DataFrame:
        """Compare the steps of each rank; see :meth:`npuprof.profiles.Profile.step_statistics`."""
        return self._stack_ranks(lambda run: run.step_statistics())

    def efficiency(self, each: Literal["shapes", "kernel"] = "shapes") -> pd.DataFrame:
        """Compare kernels of each rank with the limits of its chip; see :meth:`npuprof.profiles.Profile.efficiency`.

        Raises
        ------
        OptionsError
            If `each` is neither ``"shapes"`` nor ``"kernel"``.
        """
        return self._stack_ranks(lambda run: run.efficiency(each))

    def memory_peak(self) -> pd.DataFrame:
        """Return the owners of each rank's memory at its peak; see :meth:`npuprof.profiles.Profile.memory_peak`."""
        return self._stack_ranks(lambda run: run.memory_peak())

    def memory_leaks(self) -> pd.DataFrame:
        """Return the call sites of each rank whose memory grew; see :meth:`npuprof.profiles.Profile.memory_leaks`.

        ``attrs["state"]`` is ``fires`` if it is for any rank, else ``cannot tell`` if it is for any rank.
        """
        return self._stack_ranks(lambda run: run.memory_leaks())

    def _stack_ranks(self, table: Callable[[Profile], pd.DataFrame]) -> pd.DataFrame:
        """Stack a table of every rank with its rank as the first column; ``attrs["ranks"]`` has those of each."""
        frames, attrs = [], {}
        for run in self._rank_runs():
            frame = table(run)
            attrs[run.info.rank] = dict(frame.attrs)
            labelled = frame.drop(columns="rank", errors="ignore").reset_index(drop=True)
            labelled.attrs = {}
            labelled.insert(0, "rank", pd.array([run.info.rank] * len(labelled), "Int64"))
            frames.append(labelled)
        some = [frame for frame in frames if len(frame)] or frames[:1]
        stacked: pd.DataFrame = pd.concat(some, ignore_index=True) if some else pd.DataFrame()
        stacked.attrs["ranks"] = attrs
        states = {state["state"] for state in attrs.values() if "state" in state}
        if states:
            stacked.attrs["state"] = next(state for state in ("fires", "cannot tell", "clean") if state in states)
        return stacked

    def waits(self) -> pd.DataFrame:
        """Return how long each rank waited in each collective, and for which rank.

        See :func:`npuprof.analysis.rank_waits.waits`.
        """
        from npuprof.analysis.rank_waits import waits

        played = self._job()
        return waits(self._communication()) if played is None else played.rows.drop(columns="own_ns")

    def blame(self, root_rank: int | None = None) -> pd.DataFrame:
        """Return the ranks whose own time causes the waits of all ranks, traced through ranks that waited in between.

        See :func:`npuprof.analysis.rank_blame.blame`.

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
        if root_rank is not None:
            from npuprof.ranks.job import kernels_beside

            return kernels_beside(self, root_rank)
        return self._blame()

    def _blame(self) -> pd.DataFrame:
        from npuprof.analysis.rank_blame import blame, blame_of
        from npuprof.ranks.kept import keep, known, state_of

        state = state_of(self)
        if (kept := known(self, "blame", state, ("roots",))) is not None:
            return kept[0][0]
        played = self._job()
        roots = blame(self._communication()) if played is None else blame_of(played)
        keep(self, "blame", state, {"roots": roots}, {})
        return roots

    def bandwidths(self) -> pd.DataFrame:
        """Return the bandwidth of each link between ranks, compared with links of the same kind.

        For ranks that were not read, the vendor's communication matrix is used. See
        :func:`npuprof.analysis.links.links`; ``links`` itself is the table of causes and effects, as in a single run.
        """
        from npuprof.analysis.links import links
        from npuprof.analysis.traffic import link_transfers

        parts = [link_transfers(*transfers) for transfers in self._transfers()]
        return links(stacked([part for part in parts if len(part)] or parts[:1] or [link_transfers({}, {})]))

    def compare(self, ranks: Collection[int] | None = None) -> pd.DataFrame:
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
        from npuprof.ranks.job import compared

        return compared(self, sorted(set(self.ranks if ranks is None else ranks)))

    def pipeline(self, number: int = 0, *, step: int | None = None) -> pd.DataFrame:
        """Return the work of pipeline stages in a step; see :func:`npuprof.analysis.rank_pipeline.pipeline_work`.

        Parameters
        ----------
        number
            The number of the pipeline, in the order of ranks, if replicas have several.
        step
            The step; by default the longest.

        Raises
        ------
        NpuprofError
            If no ranks send to each other, or the pipeline or step does not exist.
        """
        return self._pipeline(number, step)[0]

    def overview(self) -> Overview:
        """Return the job at a glance: verdict, findings about ranks, groups, and the parts of each step of each rank.

        Ranks that were not read stay unread if small files suffice; otherwise all ranks are read.
        """
        from npuprof.ranks.kept_overview import overview

        return overview(self)

    @with_fallback("steps of all ranks")
    def plot_overview(self) -> go.Figure:
        """Draw the parts of each step of each rank as heat maps, and the waits that each rank causes.

        See :func:`npuprof.figures.rank_steps.plot_rank_steps`.
        """
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
            See :meth:`npuprof.profiles.Profile.what_if`; ``recorded_ns`` is the time from the
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

        communication = self._communication()
        if not kernel:
            return what_if(communication, transfer=transfer, rank=rank, balance=balance)
        kernels = self.table("kernels")
        savings = of_ranks(kernels, kernel_factors(kernels, kernel))
        saved = partial(saved_ns, savings)
        predicted = what_if(communication, transfer=transfer, rank=rank, balance=balance, saved_ns=saved)
        return replace(predicted, changes=(*kernel_changes(kernels, kernel), *predicted.changes))

    def critical_path(self) -> pd.DataFrame:
        """Return the critical path of the job; durations add up exactly to its time.

        See :func:`npuprof.analysis.rank_replay.critical_path`.
        """
        from npuprof.analysis.rank_replay import critical_path

        return critical_path(self._communication())


def _compare(a: SetAnswers | Profile, b: SetAnswers | Profile) -> Comparison:
    from npuprof.comparison import Comparison

    first, second = ([side] if isinstance(side, Profile) else side for side in (a, b))
    return Comparison.of(first, second)

"""Figures of all ranks together, as methods of a set of runs; each returns a plotly figure and shows nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

import pandas as pd

from npuprof.info import Info
from npuprof.profile_figures import lasting
from npuprof.sources.cluster.analysis import CLUSTER_ANALYSIS
from npuprof.sources.global_ranks import groups_of, with_global_ranks

if TYPE_CHECKING:
    from pathlib import Path

    import plotly.graph_objects as go

    from npuprof.profiles import Profile


class SetFigures:
    """What :class:`npuprof.ranks.profile_set.ProfileSet` draws; every run is read for it."""

    root: Path

    if TYPE_CHECKING:

        @property
        def cluster(self) -> Profile | None:
            """The vendor's analysis of all ranks."""

        def __iter__(self) -> Iterator[Profile]: ...

        def _together(self, *, apart: bool = False) -> dict[str, pd.DataFrame]: ...

    def timeline(
        self,
        *,
        start_ns: int | None = None,
        end_ns: int | None = None,
        max_slices: int = 2000,
        longest_name: int = 60,
    ) -> go.Figure:
        """Draw the timeline of all ranks, each on lanes of its own, times on the clock of the first rank.

        Lanes of the busiest threads, streams and devices are drawn, the rest folded into one lane each. How far clocks
        were apart is what :meth:`ProfileSet.clocks` estimates.

        Parameters
        ----------
        start_ns, end_ns
            Window in epoch nanoseconds.
        max_slices
            How many bars there may be; short neighbours share one.
        longest_name
            Names are cut in the middle to this many characters.

        See Also
        --------
        npuprof.timeline.figure.timeline
        """
        from npuprof.figures.fallback import LastingFigure
        from npuprof.timeline.figure import timeline
        from npuprof.timeline.svg import timeline_svg

        tables, info = self._together(), self._info()
        figure = timeline(
            tables, info, start_ns=start_ns, end_ns=end_ns, max_slices=max_slices, longest_name=longest_name
        )
        return LastingFigure(
            figure, name="timeline", picture=lambda: timeline_svg(tables, info, start_ns=start_ns, end_ns=end_ns)
        )

    @lasting("flame graph")
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
        """Draw one flame graph of all ranks: equal paths of calls are one frame, and times add up over the ranks.

        Parameters
        ----------
        weight
            Time on host threads, time of kernels on devices, or number of slices.
        root
            The frame to draw at the top: the names from the outermost call to it, or its name alone.
        orientation
            ``icicle``, callers above their callees, or ``flame``, callers below them.
        search, regex
            A part of names that stand out; whether it is a regular expression.
        max_nodes
            How many frames there may be; the smallest are folded.
        longest_name
            Names are cut in the middle to this many characters.

        See Also
        --------
        npuprof.flame.figure.flamegraph
        """
        from npuprof.flame.figure import flamegraph

        return flamegraph(
            self._together(apart=True),
            self._info(),
            weight=weight,
            root=root,
            orientation=orientation,
            search=search,
            regex=regex,
            max_nodes=max_nodes,
            longest_name=longest_name,
        )

    @lasting("memory")
    def plot_memory(self, *, max_points: int = 1_000) -> go.Figure:
        """Draw the memory of all ranks over time; see :func:`npuprof.figures.memory.plot_memory`.

        Parameters
        ----------
        max_points
            The most points of one line; its peaks and troughs are kept.
        """
        from npuprof.figures.memory import plot_memory

        return plot_memory(self._together(), self._info(), max_points=max_points)

    @lasting("counters")
    def plot_counters(self, *, counters: Sequence[str] | None = None, max_points: int = 500) -> go.Figure:
        """Draw the sampled counters of all ranks; see :func:`npuprof.figures.counters.plot_counters`.

        Parameters
        ----------
        counters
            Beginnings of counters' names, such as ``["HBM", "PCIe post"]``; the usual ones by default.
        max_points
            The most points of one line; its peaks and troughs are kept.
        """
        from npuprof.figures.counters import plot_counters

        return plot_counters(self._together(), self._info(), counters=counters, max_points=max_points)

    @lasting("steps")
    def plot_steps(self, *, max_bars: int = 240) -> go.Figure:
        """Draw where the time of each step of each rank went; see :func:`npuprof.figures.steps.plot_steps`.

        A rank without a run, or whose run has no steps, is drawn as the vendor's analysis of all ranks has it.

        Parameters
        ----------
        max_bars
            The most bars; of more steps the first, the last, the longest and the shortest ones are drawn.
        """
        from npuprof.analysis.step_parts import step_parts
        from npuprof.figures.steps import plot_step_parts

        own = [
            parts.assign(rank=pd.array([run.info.rank] * len(parts), dtype="Int64"))
            for run in self._runs()
            if len(parts := step_parts(run.tables))
        ]
        known = {rank for parts in own for rank in parts["rank"].dropna()}
        if self.cluster is not None:
            rest = step_parts(self.cluster.tables)
            own.append(rest[~rest["rank"].isin(known).to_numpy(bool)])
        parts = pd.concat(own, ignore_index=True) if own else pd.DataFrame()
        return plot_step_parts(parts, self._info(), max_bars=max_bars)

    @lasting("communication between ranks")
    def plot_communication_matrix(
        self, *, value: Literal["size", "time", "bandwidth"] = "size", max_ranks: int = 64
    ) -> go.Figure:
        """Draw what went from rank to rank; see :func:`npuprof.figures.communication.plot_traffic`.

        Each run tells by its tasks what it moved, or else by the vendor's sums; where none does, the vendor's analysis
        of all ranks is drawn. Ranks are those of the whole job, by what the runs know together; see
        :mod:`npuprof.sources.global_ranks`.

        Parameters
        ----------
        value
            What the colours mean.
        max_ranks
            The most ranks on either side, those that move most.
        """
        from npuprof.analysis.traffic import all_traffic, rank_traffic
        from npuprof.figures.communication import plot_traffic

        runs = list(self._runs())
        groups = groups_of(runs)
        parts = [rank_traffic(*with_global_ranks(run.tables, run.statistics, groups)) for run in runs]
        if not any(map(len, parts)) and self.cluster is not None:
            parts = [rank_traffic(self.cluster.tables, self.cluster.statistics)]
        return plot_traffic(all_traffic(parts), self._info(), value=value, max_ranks=max_ranks)

    def _runs(self) -> Iterator[Profile]:
        """Return the ranks' own runs: not the vendor's analyses of all of them."""
        return (run for run in self if run.info.source != CLUSTER_ANALYSIS)

    def _info(self) -> Info:
        return Info(name=self.root.name, simulated=any(run.info.simulated for run in self))

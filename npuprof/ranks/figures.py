"""Figures of all ranks together, as methods of a set of runs; each returns a plotly figure and shows nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

import pandas as pd

from npuprof.info import Info
from npuprof.profile_figures import lasting
from npuprof.sources.cluster.reading import CLUSTER_ANALYSIS
from npuprof.sources.groups import groups_of, with_global_ranks

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
        :mod:`npuprof.sources.groups`.

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
        """Give the ranks' own runs: not the vendor's analyses of all of them."""
        return (run for run in self if run.info.source != CLUSTER_ANALYSIS)

    def _info(self) -> Info:
        return Info(name=self.root.name, simulated=any(run.info.simulated for run in self))

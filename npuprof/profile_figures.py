"""The figures of a run as methods: each returns a plotly figure to restyle or show, and shows nothing by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

    from npuprof.info import Info


class ProfileFigures:
    """What :class:`npuprof.profiles.Profile` draws. A run without the data gives a figure that says how to get it."""

    tables: dict[str, pd.DataFrame]
    info: Info
    statistics: dict[str, pd.DataFrame]

    def timeline(self, **window: Any) -> go.Figure:
        """Draw the timeline; see :func:`npuprof.figures.timeline.timeline`."""
        from npuprof.figures.timeline import timeline

        return timeline(self.tables, self.info, **window)

    def flamegraph(self, **how: Any) -> go.Figure:
        """Draw the flame graph; see :func:`npuprof.figures.flamegraph.flamegraph`."""
        from npuprof.figures.flamegraph import flamegraph

        return flamegraph(self.tables, self.info, **how)

    def memory_plot(self, **how: Any) -> go.Figure:
        """Draw the memory over time; see :func:`npuprof.figures.memory.memory_plot`."""
        from npuprof.figures.memory import memory_plot

        return memory_plot(self.tables, self.info, **how)

    def communication_matrix(self, **how: Any) -> go.Figure:
        """Draw what went from rank to rank; see :func:`npuprof.figures.communication.communication_matrix`."""
        from npuprof.figures.communication import communication_matrix

        return communication_matrix(self.tables, self.info, self.statistics, **how)

    def communication_plot(self, **how: Any) -> go.Figure:
        """Draw where collectives' time went; see :func:`npuprof.figures.communication.communication_plot`."""
        from npuprof.figures.communication import communication_plot

        return communication_plot(self.tables, self.info, self.statistics, **how)

    def step_plot(self, **how: Any) -> go.Figure:
        """Draw where the time of each step went; see :func:`npuprof.figures.steps.step_plot`."""
        from npuprof.figures.steps import step_plot

        return step_plot(self.tables, self.info, **how)

    def counters_plot(self, **how: Any) -> go.Figure:
        """Draw the sampled counters; see :func:`npuprof.figures.counters.counters_plot`."""
        from npuprof.figures.counters import counters_plot

        return counters_plot(self.tables, self.info, **how)

    def roofline(self, **how: Any) -> go.Figure:
        """Draw kernels against the chip's limits; see :func:`npuprof.figures.roofline.roofline`."""
        from npuprof.figures.roofline import roofline

        return roofline(self.tables, self.info, **how)

    def kernel_detail(self, row: int) -> go.Figure:
        """Draw how busy the pipes of one kernel were; see :func:`npuprof.figures.kernel_detail.kernel_detail`."""
        from npuprof.figures.kernel_detail import kernel_detail

        return kernel_detail(self.tables, self.info, row)

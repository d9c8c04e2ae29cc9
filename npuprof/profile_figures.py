"""The figures of a run as methods: each returns a plotly figure to restyle or show, and shows nothing by itself."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

    from npuprof.info import Info

_Draws = TypeVar("_Draws", bound="Callable[..., go.Figure]")


def lasting(name: str) -> Callable[[_Draws], _Draws]:
    """Let the figure that a method gives leave its name in a saved notebook where no plotly is drawn."""

    def decorated(draw: _Draws) -> _Draws:
        @wraps(draw)
        def drawn(*arguments: Any, **options: Any) -> go.Figure:
            from npuprof.figures.fallback import LastingFigure

            return LastingFigure(draw(*arguments, **options), name=name)

        return cast("_Draws", drawn)

    return decorated


class ProfileFigures:
    """What :class:`npuprof.profiles.Profile` draws. A run without the data gives a figure that says how to get it."""

    tables: dict[str, pd.DataFrame]
    info: Info
    statistics: dict[str, pd.DataFrame]

    def timeline(self, **window: Any) -> go.Figure:
        """Draw the timeline; see :func:`npuprof.timeline.figure.timeline`.

        As the output of a cell it holds a picture besides, which shows where no plotly is drawn.
        """
        from npuprof.figures.fallback import LastingFigure
        from npuprof.timeline.figure import timeline
        from npuprof.timeline.svg import timeline_svg

        stretch = {name: window[name] for name in ("start_ns", "end_ns") if name in window}
        figure = timeline(self.tables, self.info, **window)
        return LastingFigure(figure, name="timeline", picture=lambda: timeline_svg(self.tables, self.info, **stretch))

    @lasting("flame graph")
    def flamegraph(self, **how: Any) -> go.Figure:
        """Draw the flame graph, of one step, thread or frame if asked for, with what a search finds standing out.

        Parameters
        ----------
        **how
            ``weight="host"``, ``"device"`` or ``"count"``; ``step=``, ``thread=``, ``root=`` (names from the outermost
            call inwards, or one name), ``orientation="icicle"`` or ``"flame"``, ``search=``, ``regex=``,
            ``max_nodes=``, ``longest_name=``; see :func:`npuprof.flame.figure.flamegraph`.
        """
        from npuprof.flame.figure import flamegraph

        return flamegraph(self.tables, self.info, **how)

    @lasting("memory")
    def memory_plot(self, **how: Any) -> go.Figure:
        """Draw the memory over time; see :func:`npuprof.figures.memory.memory_plot`."""
        from npuprof.figures.memory import memory_plot

        return memory_plot(self.tables, self.info, **how)

    @lasting("communication between ranks")
    def communication_matrix(self, **how: Any) -> go.Figure:
        """Draw what went from rank to rank; see :func:`npuprof.figures.communication.communication_matrix`."""
        from npuprof.figures.communication import communication_matrix

        return communication_matrix(self.tables, self.info, self.statistics, **how)

    @lasting("communication")
    def communication_plot(self, **how: Any) -> go.Figure:
        """Draw where collectives' time went; see :func:`npuprof.figures.communication.communication_plot`."""
        from npuprof.figures.communication import communication_plot

        return communication_plot(self.tables, self.info, self.statistics, **how)

    @lasting("steps")
    def step_plot(self, **how: Any) -> go.Figure:
        """Draw where the time of each step went; see :func:`npuprof.figures.steps.step_plot`."""
        from npuprof.figures.steps import step_plot

        return step_plot(self.tables, self.info, **how)

    @lasting("counters")
    def counters_plot(self, **how: Any) -> go.Figure:
        """Draw the sampled counters; see :func:`npuprof.figures.counters.counters_plot`."""
        from npuprof.figures.counters import counters_plot

        return counters_plot(self.tables, self.info, **how)

    @lasting("roofline")
    def roofline(self, **how: Any) -> go.Figure:
        """Draw kernels against the chip's limits; see :func:`npuprof.figures.roofline.roofline`."""
        from npuprof.figures.roofline import roofline

        return roofline(self.tables, self.info, **how)

    @lasting("kernel")
    def kernel_detail(self, row: int, **how: Any) -> go.Figure:
        """Draw how busy the pipes of one kernel were; see :func:`npuprof.figures.kernel_detail.kernel_detail`."""
        from npuprof.figures.kernel_detail import kernel_detail

        return kernel_detail(self.tables, self.info, row, **how)

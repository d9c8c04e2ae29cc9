"""The figures of a run as methods: each returns a plotly figure to restyle or show, and shows nothing by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Literal, ParamSpec

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

    from npuprof.analysis.chip_limits import ChipLimits
    from npuprof.info import Info

_Parameters = ParamSpec("_Parameters")


def lasting(name: str) -> Callable[[Callable[_Parameters, go.Figure]], Callable[_Parameters, go.Figure]]:
    """Return a decorator: a figure of the method leaves its name in a saved notebook where no plotly is drawn."""

    def decorated(draw: Callable[_Parameters, go.Figure]) -> Callable[_Parameters, go.Figure]:
        @wraps(draw)
        def drawn(*arguments: _Parameters.args, **options: _Parameters.kwargs) -> go.Figure:
            from npuprof.figures.fallback import LastingFigure

            return LastingFigure(draw(*arguments, **options), name=name)

        return drawn

    return decorated


class TableAttributes:
    """The tables of :data:`npuprof.tables.SCHEMA` as attributes, for editors and type checkers."""

    steps: pd.DataFrame
    python: pd.DataFrame
    operators: pd.DataFrame
    api: pd.DataFrame
    tasks: pd.DataFrame
    kernels: pd.DataFrame
    communication: pd.DataFrame
    communication_tasks: pd.DataFrame
    links: pd.DataFrame
    overlap: pd.DataFrame
    step_times: pd.DataFrame
    memory: pd.DataFrame
    allocations: pd.DataFrame
    counters: pd.DataFrame
    marks: pd.DataFrame


class ProfileFigures(TableAttributes):
    """What :class:`npuprof.profiles.Profile` draws. A run without the data gives a figure that says how to get it.

    Parameters are those of the function that draws, which explains them, without the run's own data.
    """

    tables: dict[str, pd.DataFrame]
    info: Info
    statistics: dict[str, pd.DataFrame]

    def timeline(
        self,
        *,
        start_ns: int | None = None,
        end_ns: int | None = None,
        max_slices: int = 2000,
        longest_name: int = 60,
    ) -> go.Figure:
        """Draw the timeline, or its stretch from `start_ns` to `end_ns` in more detail.

        As the output of a cell it holds a picture besides, which shows where no plotly is drawn.

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

        tables, info = self.tables, self.info
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
        step: int | None = None,
        thread: int | None = None,
        root: str | Sequence[str] = (),
        orientation: Literal["icicle", "flame"] = "icicle",
        search: str = "",
        regex: bool = False,
        max_nodes: int = 2000,
        longest_name: int = 60,
    ) -> go.Figure:
        """Draw the flame graph, of one step, thread or frame if asked for, with what a search finds standing out.

        Parameters
        ----------
        weight
            Time on host threads, time of kernels on devices, or number of slices.
        step, thread
            The step and the host thread to draw; all without them.
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
            self.tables,
            self.info,
            weight=weight,
            step=step,
            thread=thread,
            root=root,
            orientation=orientation,
            search=search,
            regex=regex,
            max_nodes=max_nodes,
            longest_name=longest_name,
        )

    @lasting("memory")
    def plot_memory(self, *, max_points: int = 1_000) -> go.Figure:
        """Draw the memory over time; see :func:`npuprof.figures.memory.plot_memory`.

        Parameters
        ----------
        max_points
            The most points of one line; its peaks and troughs are kept.
        """
        from npuprof.figures.memory import plot_memory

        return plot_memory(self.tables, self.info, max_points=max_points)

    @lasting("communication between ranks")
    def plot_communication_matrix(
        self, *, value: Literal["size", "time", "bandwidth"] = "size", max_ranks: int = 64
    ) -> go.Figure:
        """Draw what went from rank to rank; see :func:`npuprof.figures.communication.plot_traffic`.

        Parameters
        ----------
        value
            What the colours mean.
        max_ranks
            The most ranks on either side, those that move most.
        """
        from npuprof.figures.communication import plot_communication_matrix

        return plot_communication_matrix(self.tables, self.info, self.statistics, value=value, max_ranks=max_ranks)

    @lasting("communication")
    def plot_communication(self, *, max_points: int = 600) -> go.Figure:
        """Draw where collectives' time went; see :func:`npuprof.figures.communication.plot_communication`.

        Parameters
        ----------
        max_points
            The most points of one link; the slowest and fastest stay.
        """
        from npuprof.figures.communication import plot_communication

        return plot_communication(self.tables, self.info, self.statistics, max_points=max_points)

    @lasting("steps")
    def plot_steps(self, *, max_bars: int = 240) -> go.Figure:
        """Draw where the time of each step went; see :func:`npuprof.figures.steps.plot_steps`.

        Parameters
        ----------
        max_bars
            The most bars; of more steps the first, the last, the longest and the shortest ones are drawn.
        """
        from npuprof.figures.steps import plot_steps

        return plot_steps(self.tables, self.info, max_bars=max_bars)

    @lasting("counters")
    def plot_counters(self, *, counters: Sequence[str] | None = None, max_points: int = 500) -> go.Figure:
        """Draw the sampled counters; see :func:`npuprof.figures.counters.plot_counters`.

        Parameters
        ----------
        counters
            Beginnings of counters' names, such as ``["HBM", "PCIe post"]``; the usual ones by default.
        max_points
            The most points of one line; its peaks and troughs are kept.
        """
        from npuprof.figures.counters import plot_counters

        return plot_counters(self.tables, self.info, counters=counters, max_points=max_points)

    @lasting("roofline")
    def plot_roofline(self, *, limits: ChipLimits | None = None, max_points: int = 300) -> go.Figure:
        """Draw kernels against the chip's limits; see :func:`npuprof.figures.roofline.plot_roofline`.

        Parameters
        ----------
        limits
            What the chip can do; by default what is known of ``info.chip``.
        max_points
            The most points: those with the most time.
        """
        from npuprof.figures.roofline import plot_roofline

        return plot_roofline(self.tables, self.info, limits=limits, max_points=max_points)

    @lasting("kernel")
    def plot_kernel(self, row: int, *, limits: ChipLimits | None = None) -> go.Figure:
        """Draw how busy the pipes of one kernel were; see :func:`npuprof.figures.kernel_detail.plot_kernel`.

        Parameters
        ----------
        row
            Which row of ``kernels``, counted from 0.
        limits
            What the chip can do; by default what is known of ``info.chip``.
        """
        from npuprof.figures.kernel_detail import plot_kernel

        return plot_kernel(self.tables, self.info, row, limits=limits)

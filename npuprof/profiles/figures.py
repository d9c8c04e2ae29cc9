"""Figures of a profile, or of all ranks of a set, as methods: each returns a plotly figure and displays nothing."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, Literal

from npuprof.figures.with_fallback import with_fallback
from npuprof.parameters import checked
from npuprof.profiles.table_attributes import RunFacts, TableAttributes

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

    from npuprof.advice.findings import Advice
    from npuprof.analysis.chip_limits import ChipLimits
    from npuprof.report.lines import UserCode
    from npuprof.tables.info import Info


@checked
class Figures(TableAttributes):
    """The figures that a profile and a set of ranks have in common.

    Figures without data say what to collect. Each method has the parameters of the function that draws the figure,
    whose docstring describes them in full.
    """

    @abstractmethod
    def _merged_tables(self, *, apart: bool = False) -> MutableMapping[str, pd.DataFrame]:
        """Return the tables of all ranks; with `apart`, thread and device numbers are unique across ranks."""

    @abstractmethod
    def _merged_info(self) -> Info:
        """Return the metadata of the run, or of the set."""

    @abstractmethod
    def _step_parts(self) -> pd.DataFrame:
        """Return the parts of each step, for all ranks."""

    @abstractmethod
    def _traffic(self) -> pd.DataFrame:
        """Return bytes and time of the traffic between each pair of ranks."""

    @abstractmethod
    def _stages(self) -> Mapping[int, int]:
        """Return the pipeline stage of each rank; empty without a pipeline."""

    @abstractmethod
    def _finding(self) -> str:
        """Return the first sentence of the report as a title, unescaped; empty if there is none."""

    @abstractmethod
    def _collectives(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return the time of collectives by operator, and the packets by link."""

    def timeline(
        self,
        *,
        start_ns: int | None = None,
        end_ns: int | None = None,
        max_slices: int = 2000,
        longest_name: int = 60,
    ) -> go.Figure:
        """Draw the timeline, or a window of it in more detail; each rank has its own lanes.

        Saved in a notebook, the figure includes an SVG and a text for viewers without plotly. Times of all ranks are on
        the first rank's clock, with the offsets that :meth:`ProfileSet.clocks` estimates.

        Parameters
        ----------
        start_ns, end_ns
            Window in epoch nanoseconds.
        max_slices
            Maximum number of bars; short adjacent slices share a bar.
        longest_name
            Maximum length of a name; longer ones are shortened in the middle.

        See Also
        --------
        npuprof.timeline.figure.timeline
        """
        from npuprof.exports.text_figures import timeline_text
        from npuprof.figures.fallback import FigureWithFallback
        from npuprof.timeline.figure import timeline
        from npuprof.timeline.svg import timeline_svg
        from npuprof.timeline.view import Pictures

        tables, info = self._merged_tables(), self._merged_info()
        finding = self._finding() if start_ns is None and end_ns is None else ""
        pictures = Pictures(tables, start_ns, end_ns, self._stages())
        figure = timeline(
            tables,
            info,
            start_ns=start_ns,
            end_ns=end_ns,
            max_slices=max_slices,
            longest_name=longest_name,
            finding=finding,
            pictures=pictures,
        )
        return FigureWithFallback(
            figure,
            name="timeline",
            picture=lambda: timeline_svg(tables, info, finding=finding, pictures=pictures),
            text=lambda: timeline_text(tables, pictures=pictures),
        )

    @with_fallback("steps")
    def plot_steps(self, *, max_bars: int = 240) -> go.Figure:
        """Draw the breakdown of each step, for each rank.

        Parameters
        ----------
        max_bars
            Maximum number of bars; beyond that, the first, last, longest and shortest steps are drawn.

        Returns
        -------
        plotly.graph_objects.Figure
            The parts of each bar add up to the step. The subtitle says whether they come from the vendor's step trace.
        """
        from npuprof.figures.steps import plot_step_parts

        return plot_step_parts(self._step_parts(), self._merged_info(), finding=self._finding(), max_bars=max_bars)

    @with_fallback("memory")
    def plot_memory(self, *, max_points: int = 1_000) -> go.Figure:
        """Draw the memory over time.

        Parameters
        ----------
        max_points
            Maximum number of points per line; peaks and troughs are kept.

        Returns
        -------
        plotly.graph_objects.Figure
            Above, a line for each device, component and sampled size, in MiB over the timeline's time; a dot marks the
            highest allocation, with the operators of its blocks. A history without times is drawn over the numbers of
            its entries. If memory leaks, another line is the sum of the blocks that stay allocated (those of
            :meth:`Profile.memory_leaks`). Below, if any, fragmentation: reserved memory that is not allocated. Beyond
            12 components the largest are drawn. Totals of driver modules, the program and the device are hidden until
            clicked in the legend: allocators would look flat next to them.
        """
        from npuprof.figures.memory import plot_memory

        return plot_memory(self._merged_tables(), self._merged_info(), max_points=max_points)

    @with_fallback("counters")
    def plot_counters(self, *, counters: Sequence[str] | None = None, max_points: int = 500) -> go.Figure:
        """Draw the sampled counters.

        Parameters
        ----------
        counters
            Prefixes of counter names, such as ``["HBM", "PCIe post"]``; by default the most common counters.
        max_points
            Maximum number of points per line; peaks and troughs are kept.

        Returns
        -------
        plotly.graph_objects.Figure
            Origin and unit of time are those of :meth:`timeline`. A panel has at most the 8 lines with the highest mean
            and says so; a figure has at most 10 panels.
        """
        from npuprof.figures.counters import plot_counters

        return plot_counters(self._merged_tables(), self._merged_info(), counters=counters, max_points=max_points)

    @with_fallback("communication")
    def plot_communication(self, *, max_points: int = 600) -> go.Figure:
        """Draw the time of collectives and link bandwidths.

        Parameters
        ----------
        max_points
            Maximum number of points per link; the slowest and fastest are kept.

        Returns
        -------
        plotly.graph_objects.Figure
            The parts of each bar add up to the time of its operators: ``moving data``; ``waiting`` for a notification
            while no data moves; ``neither``. Beyond 24 operators, one bar has the sum of the rest.
        """
        from npuprof.figures.communication import plot_collectives

        return plot_collectives(*self._collectives(), self._merged_info(), max_points=max_points)

    @with_fallback("communication between ranks")
    def plot_communication_matrix(
        self, *, value: Literal["size", "time", "bandwidth"] = "size", max_ranks: int = 64
    ) -> go.Figure:
        """Draw the traffic between ranks.

        Ranks are global ranks. The traffic comes from the tasks of collectives, or else from the vendor's statistics.

        Parameters
        ----------
        value
            The quantity shown as colour.
        max_ranks
            Maximum number of ranks on each axis: the ranks with the most traffic are drawn.
        """
        from npuprof.figures.communication import plot_traffic

        return plot_traffic(self._traffic(), self._merged_info(), value=value, max_ranks=max_ranks)

    @with_fallback("roofline")
    def plot_roofline(self, *, limits: ChipLimits | None = None, max_points: int = 300) -> go.Figure:
        """Draw kernels against the chip's limits.

        Parameters
        ----------
        limits
            The limits of the chip; by default those known for ``info.chip``.
        max_points
            Maximum number of points: the kernels with the most time are drawn.

        Returns
        -------
        plotly.graph_objects.Figure
            Both axes are logarithmic; a point's area is its total time. Filled markers come from counters; hollow
            markers are estimates from shapes: operations by the operator's definition, and every operand moved once.
            Kernels without operations, such as copies, are left out.
        """
        from npuprof.figures.roofline import plot_roofline

        return plot_roofline(self._merged_tables(), self._merged_info(), limits=limits, max_points=max_points)


@checked
class ProfileFigures(Figures, RunFacts):
    """The figures of a :class:`npuprof.Profile`."""

    tables: MutableMapping[str, pd.DataFrame]

    @property
    @abstractmethod
    def statistics(self) -> dict[str, pd.DataFrame]:
        """The vendor's sums by name."""

    @abstractmethod
    def advice(self) -> Advice:
        """Return the findings."""

    @property
    @abstractmethod
    def _user_code(self) -> UserCode | None:
        """The user's lines with their costs; None if the run knows no line."""

    def _merged_tables(self, *, apart: bool = False) -> MutableMapping[str, pd.DataFrame]:
        del apart
        return self.tables

    def _merged_info(self) -> Info:
        return self.info

    def _stages(self) -> Mapping[int, int]:
        return {}

    def _finding(self) -> str:
        from npuprof.report.run import finding_of

        return finding_of(self.advice(), self._user_code)

    def _traffic(self) -> pd.DataFrame:
        from npuprof.analysis.traffic import rank_traffic

        return rank_traffic(self.tables, self.statistics)

    def _collectives(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        from npuprof.analysis.traffic import link_packets, operator_times

        return operator_times(self.tables, self.statistics), link_packets(self.tables, self.statistics)

    @with_fallback("flame graph")
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
        """Draw the flame graph of the run, or of a step, thread or frame; frames that match `search` are outlined.

        Parameters
        ----------
        weight
            The width of frames: host time, device time, or number of calls and kernels.
        step, thread
            The step and the host thread to draw; by default all steps and threads.
        root
            The top frame: a path of names from the outermost call, or a single name.
        orientation
            ``icicle``, callers above their callees, or ``flame``, callers below them.
        search, regex
            Part of the names to outline, and whether it is a regular expression.
        max_nodes, longest_name
            Maximum number of frames, and of characters of a name.

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

    @with_fallback("kernel")
    def plot_kernel(self, row: int, *, limits: ChipLimits | None = None) -> go.Figure:
        """Draw the pipe utilisation of one kernel.

        Parameters
        ----------
        row
            Row of ``kernels``, from 0.
        limits
            The limits of the chip; by default those known for ``info.chip``.

        Returns
        -------
        plotly.graph_objects.Figure
            A bar per pipe and kind of core, in percent of the core's cycles; without pipe metrics, a bar per recorded
            ratio. Pipes work concurrently, so bars do not add up. The roofline is drawn if operations and bytes are
            known.
        """
        from npuprof.figures.kernel_detail import plot_kernel

        return plot_kernel(self.tables, self.info, row, limits=limits)

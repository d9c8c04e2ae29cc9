"""A profile: the tables of a run, facts about it, and its figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pandas as pd

from npuprof import atomic, interactive
from npuprof import tables as schema
from npuprof.errors import NpuprofError
from npuprof.info import Info
from npuprof.notes import Notes
from npuprof.profile_exports import Exports
from npuprof.profile_figures import ProfileFigures
from npuprof.profile_replay import ProfileReplay
from npuprof.sources import saved
from npuprof.sources.base import Decoded

if TYPE_CHECKING:
    import plotly.graph_objects as go
    from ipywidgets import Widget

    from npuprof.advice.finding import Finding
    from npuprof.advice.findings import Advice
    from npuprof.analysis.accounting import Accounting
    from npuprof.analysis.by import Key
    from npuprof.analysis.chip_limits import ChipLimits
    from npuprof.analysis.summary import Summary
    from npuprof.comparison import Comparison

_PAGE_FIGURES_BYTES = 20 << 20  # a page of its own has room for every detail that the figures can show


class Profile(ProfileReplay, ProfileFigures, Exports):
    """A run: its tables as attributes (``run.kernels``), ``info``, ``notes`` and figures.

    Every table of :data:`npuprof.tables.SCHEMA` is present; a table without data is empty.

    Attributes
    ----------
    tables
        The tables by name.
    info
        Facts about the run, see :class:`npuprof.info.Info`.
    statistics
        Tables already summed by the vendor, by file name without suffix.
    """

    def __init__(self, decoded: Decoded) -> None:
        given = decoded.tables
        self.tables = {name: given[name] if name in given else schema.empty(name) for name in schema.NAMES}
        self.info: Info = decoded.info
        self.statistics = decoded.statistics
        self._notes: Notes = decoded.notes
        # Plain attributes, so that editors complete them and type checkers know them.
        self.__dict__.update(self.tables)

    @property
    def notes(self) -> pd.DataFrame:
        """Notes on what was repaired, skipped or could not be known: severity, source, message, count."""
        return self._notes.to_frame()

    @property
    def ledger(self) -> pd.DataFrame:
        """The use of each input's rows: input, rows, in_tables, used (for other rows), left_out (in notes)."""
        return self._notes.ledger.to_frame()

    @cached_property
    def summary(self) -> Summary:
        """The key figures of the run."""
        from npuprof.analysis.summary import summarise

        return summarise(self.tables, self.info)

    @cached_property
    def accounting(self) -> Accounting:
        """Each nanosecond of each step by part and cause; see :mod:`npuprof.analysis.accounting`."""
        from npuprof.analysis.accounting import account

        return account(self.tables, self.info.rank, self.info.selection)

    def breakdown(self) -> pd.DataFrame:
        """Return where the time of each step went: rank, device_id, step, part, cause and duration_ns.

        The rows of a step add up to its duration exactly; see :data:`npuprof.analysis.accounting.PARTS`.
        """
        return self.accounting.breakdown()

    def advice(self) -> Advice:
        """Return what makes a step slow, what that costs, and what to do, the greatest gain first.

        Iterate over it, take ``advice["host_bound"]``, or use ``to_frame()`` and ``to_json()``.
        """
        return self._advice

    @cached_property
    def _advice(self) -> Advice:
        from npuprof.advice.findings import advise

        return advise(self.tables, self.info, self.accounting, self.explore)

    @cached_property
    def launches(self) -> pd.DataFrame:
        """Each kernel with the operator, the CANN call and the line of Python that launched it.

        See :func:`npuprof.analysis.launches.launches` for its columns.
        """
        from npuprof.analysis.launches import launches

        return launches(self.tables)

    def step_statistics(self) -> pd.DataFrame:
        """Compare the steps: median, 95th percentile and the steps that stand out, for the step and each of its parts.

        Returns
        -------
        pandas.DataFrame
            ``rank``, ``device_id``, ``part``, ``steps``, ``median_ns``, ``p95_ns``, ``max_ns`` and ``outliers``, the
            numbers of steps; see :func:`npuprof.analysis.step_statistics.step_statistics`.
        """
        from npuprof.analysis.step_statistics import step_statistics

        return step_statistics(self.accounting)

    def by(self, *keys: Key) -> pd.DataFrame:
        """Sum the kernels up by what launched them and what they are: ``run.by("line")``, ``run.by("op", "shapes")``.

        Parameters
        ----------
        keys
            One or several, in any order: ``"line"`` and ``"module"`` of the user's code, ``"op"`` (the framework's
            operator), ``"op_type"``, ``"kernel"`` (its name), ``"shapes"`` and ``"dtypes"`` of its inputs, ``"core"``,
            ``"step"``, ``"stream"``, ``"device"`` and ``"rank"``. Backward kernels have the line of their forward pass.

        Returns
        -------
        pandas.DataFrame
            A row for each combination, the greatest total first: the keys, ``count``, ``total_ns``, ``mean_ns``,
            ``median_ns``, ``p95_ns`` and ``max_ns`` on the device, ``share`` of all kernels' time (0..1), ``host_ns``
            (the host's time in the operators that launched them) and ``launch_delay_ns`` (the median time from the call
            to the start). A kernel without a key is summed under an absent one, so totals are those of all kernels.

        Raises
        ------
        OptionsError
            If a key is unknown or repeated, or there is none.
        """
        from npuprof.analysis.by import checked_keys, kernel_rows, sums

        chosen = checked_keys(keys)
        return sums(kernel_rows(self.tables, self.launches, chosen, self.info.rank), chosen)

    def efficiency(
        self, each: Literal["shapes", "kernel"] = "shapes", *, limits: ChipLimits | None = None
    ) -> pd.DataFrame:
        """Compare what kernels computed and moved with what the chip can do.

        Parameters
        ----------
        each
            The unit of a row: all kernels of one type, shapes and data types, or one kernel.
        limits
            The limits of the chip; by default from the kernels' counters and the name in ``info.chip``.

        Returns
        -------
        pandas.DataFrame
            Operations, bytes, what was achieved a second, the time at the chip's limits and its share of the mean, what
            bounds the kernel, what was achieved of the best of the run, and a note where a figure is doubtful;
            ``attrs`` has the chip and the share of kernel time that is covered. See
            :func:`npuprof.analysis.efficiency.efficiency`.

        Raises
        ------
        OptionsError
            If `each` is neither.
        """
        from npuprof.analysis.efficiency import efficiency

        return efficiency(self.tables, self.info.chip, each=each, limits=limits)

    def memory_peak(self) -> pd.DataFrame:
        """Return who owned the memory of each device when most of it was allocated.

        Returns
        -------
        pandas.DataFrame
            ``device_id``, ``time_ns``, ``category`` (``allocated before this run``, ``temporary``, ``optimizer``,
            ``backward``, ``forward`` or ``unknown``), ``line``, ``module``, ``op``, ``blocks``, ``size_bytes`` and
            ``share``, the greatest first; sizes add up to the peak. See :mod:`npuprof.analysis.memory_peak`.
        """
        from npuprof.analysis.memory_peak import memory_peak

        return memory_peak(self.tables)

    def memory_leaks(self) -> pd.DataFrame:
        """Return the call sites whose memory grew from step to step, over at least three steps up to the last.

        Returns
        -------
        pandas.DataFrame
            ``device_id``, ``line``, ``op``, ``steps``, ``growth_bytes`` and ``bytes_per_step``; ``attrs["state"]`` is
            ``fires``, ``clean`` or ``cannot tell``, which ``attrs["why"]`` explains.
        """
        from npuprof.analysis.memory_peak import memory_leaks

        return memory_leaks(self.tables)

    def __sub__(self, other: Profile) -> Comparison:
        """Return by how much a step of this run is longer than one of `other`, and where that time lies."""
        from npuprof.comparison import Comparison

        if not isinstance(other, Profile):
            return NotImplemented
        names = (self.info.name, other.info.name)
        return Comparison.of([self], [other], names if all(names) and names[0] != names[1] else ("a", "b"))

    def explore(
        self,
        finding: Finding | None = None,
        *,
        window: tuple[int, int] | None = None,
        beside: Profile | None = None,
    ) -> Widget:
        """Return the explorer, a live view with a tab for each kind of data, for the last line of a cell.

        It needs a running kernel; for saved notebooks, use the report or :meth:`to_html`.

        Parameters
        ----------
        finding
            One of :meth:`advice`, whose evidence is shown first; see :meth:`npuprof.advice.finding.Finding.show`.
        window
            Start and end of what the timeline shows, epoch nanoseconds; it is opened then.
        beside
            Another run, whose timeline is shown below this one's and moves with it, and the difference of both.
            Ranks that ran together are aligned by their clocks, other runs by their first step.
        """
        return interactive.explorer(self, finding, window, beside)

    def to_html(self, path: str | PathLike[str]) -> Path:
        """Write a self-contained page with the summary, both figures and the notes; return its path."""
        from npuprof.exports.html import report_figures
        from npuprof.timeline.svg import timeline_svg
        from npuprof.timeline.view import Pictures

        pictures = Pictures(self.tables)
        timeline, flame = report_figures(self.tables, self.info, limit_bytes=_PAGE_FIGURES_BYTES, pictures=pictures)
        figures = {"Timeline": timeline, "Flame graph": flame}
        return atomic.write_text(path, self._page(figures, timeline_svg(self.tables, self.info, pictures=pictures)))

    @property
    def _table_names(self) -> Sequence[str]:
        return [*{**self.statistics, **self.tables, "launches": None, "notes": None}]

    def _table(self, name: str) -> pd.DataFrame:
        if name not in self._table_names:
            raise NpuprofError(f"there is no table {name!r}; the tables are {', '.join(self._table_names)}")
        if name in ("notes", "launches"):
            frame: pd.DataFrame = getattr(self, name)
            return frame
        return self.tables[name] if name in self.tables else self.statistics[name]

    def _page(self, figures: Mapping[str, go.Figure], picture: str = "") -> str:
        from npuprof.exports.html import page_html

        return page_html(self.summary, self.info, self.notes, self.advice(), figures, picture=picture)

    def to_parquet(self, path: str | PathLike[str]) -> Path:
        """Write the profile as a directory of Parquet files, which ``npuprof.load`` reads back; return its path.

        :meth:`save` is another name of it.

        Raises
        ------
        NpuprofError
            If the directory exists and is not empty.
        """
        directory = atomic.empty_directory(path)
        saved.write(directory, Decoded(self.tables, self.info, self._notes, self.statistics))
        return directory

    save = to_parquet

    def __repr__(self) -> str:
        from npuprof.exports.text import summary_text

        return summary_text(self.summary, self.info, self.notes, self.advice())

    def _repr_html_(self) -> str:
        from npuprof.exports.html import report_html

        return report_html(self.summary, self.info, self.notes, self.advice())

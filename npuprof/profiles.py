"""A profile: the tables of a run, facts about it, and its figures."""

from __future__ import annotations

from abc import abstractmethod
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
from npuprof.profile_figures import Figures, ProfileFigures
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
    from npuprof.exports.stacks import Metric

_PAGE_FIGURES_BYTES = 20 << 20  # a page of its own has room for every detail that the figures can show


class Exports(Figures):
    """The exports that a profile and a set of ranks have in common."""

    @abstractmethod
    def _page(self, figures: Mapping[str, go.Figure], picture: str = "") -> str:
        """Return a self-contained HTML page with the report and some figures."""

    def to_chrome_trace(
        self,
        path: str | PathLike[str],
        *,
        start_ns: int | None = None,
        end_ns: int | None = None,
        pretty: bool = False,
    ) -> Path:
        """Write the timeline as a Chrome trace, of all ranks, for Perfetto and others; return its path.

        Parameters
        ----------
        path
            The file; it is compressed for a name in ``.gz``.
        start_ns, end_ns
            Window in epoch nanoseconds; slices that overlap it are written whole.
        pretty
            Whether each event is on a line of its own.
        """
        from npuprof.exports import chrome_trace

        target = Path(path)
        with atomic.replacing(target, like_before=True) as file, atomic.text(file, target) as out:
            tables, info = self._merged_tables(), self._merged_info()
            chrome_trace.write(out, tables, info, start_ns=start_ns, end_ns=end_ns, pretty=pretty)
        return target

    def to_speedscope(self, path: str | PathLike[str]) -> Path:
        """Write calls, device tasks and collectives, of all ranks, as JSON for speedscope; return its path.

        A name in ``.gz`` compresses it. See :func:`npuprof.exports.speedscope.write`.
        """
        from npuprof.exports import speedscope

        target = Path(path)
        with atomic.replacing(target, like_before=True) as file, atomic.text(file, target) as out:
            speedscope.write(out, self._merged_tables(), self._merged_info())
        return target

    def to_folded_stacks(self, path: str | PathLike[str], metric: Metric = "self_cpu_time_total") -> Path:
        """Write the stacks, summed over ranks, as folded text; see :func:`npuprof.exports.stacks.folded_stacks`.

        Raises
        ------
        OptionsError
            If the metric is neither ``self_cpu_time_total`` nor ``self_npu_time_total``.
        """
        from npuprof.exports.stacks import folded_stacks

        lines = folded_stacks(self._merged_tables(apart=True), metric)
        return atomic.write_text(path, "".join(f"{line}\n" for line in lines))

    def to_memory_timeline(self, path: str | PathLike[str], device: str | None = None) -> Path:
        """Write the memory over time, of one device or all, as ``.json``, ``.json.gz`` or ``.html``.

        Raises
        ------
        OptionsError
            If the name has another suffix, or there are no samples of the device.
        """
        from npuprof.exports import memory_timeline

        tables = self._merged_tables()
        if Path(path).suffix == ".html":
            from npuprof.figures.memory import plot_memory

            selected = {**tables, "memory": memory_timeline.select(tables["memory"], device)}
            return atomic.write_text(path, self._page({"Memory": plot_memory(selected, self._merged_info())}))
        return atomic.write_text(path, memory_timeline.content(Path(path).name, tables["memory"], device))

    @abstractmethod
    def _table(self, name: str) -> pd.DataFrame:
        """Return a table by name.

        Raises
        ------
        NpuprofError
            If there is none of that name.
        """

    @property
    @abstractmethod
    def _table_names(self) -> Sequence[str]:
        """The names of all tables that :meth:`_table` returns."""

    def sql(self, query: str, *, most_rows: int = 1_000_000) -> pd.DataFrame:
        """Return what a query over the tables selects: ``run.sql("select name, duration_ns from kernels")``.

        DuckDB answers it (``pip install 'npuprof[sql]'``), with 2 GB of memory at most, and without access to files and
        the network. Nanoseconds stay exact. Tables are those of :data:`npuprof.tables.SCHEMA`, ``launches``, ``notes``
        and, of a run, :attr:`Profile.statistics`, or of a set, ``info``.

        Parameters
        ----------
        query
            One statement that only reads, in DuckDB's SQL.
        most_rows
            The most rows to return; a warning says when there are more.

        Raises
        ------
        NpuprofError
            If DuckDB is not installed.
        OptionsError
            If the query is refused, with DuckDB's reason.
        """
        from npuprof.exports.sql import select

        return select(query, self._table_names, self._table, most_rows)

    def to_csv(self, path: str | PathLike[str], table: str | pd.DataFrame) -> Path:
        """Write a table by name, or an answer such as ``run.by("line")``, as CSV; return its path.

        A name in ``.gz`` compresses it. No text is a formula to a spreadsheet: see
        :func:`npuprof.exports.spreadsheet.write_csv`.

        Raises
        ------
        NpuprofError
            If there is no table of that name.
        """
        from npuprof.exports.spreadsheet import write_csv

        target = Path(path)
        frame = self._table(table) if isinstance(table, str) else table
        with atomic.replacing(target, like_before=True) as file, atomic.text(file, target) as out:
            write_csv(out, frame)
        return target

    def to_xlsx(
        self, path: str | PathLike[str], tables: str | Sequence[str] | Mapping[str, pd.DataFrame] | None = None
    ) -> Path:
        """Write tables as an Excel workbook, by default all that have rows, and the notes; return its path.

        Answers have the names that they are given: ``run.to_xlsx("lines.xlsx", {"lines": run.by("line")})``. A number
        of more than 15 digits, as times have, is a text, because Excel would round it. See
        :func:`npuprof.exports.spreadsheet.write_xlsx`.

        Raises
        ------
        NpuprofError
            If there is no table of a name, none with rows, or openpyxl is not installed.
        """
        from npuprof.exports.spreadsheet import check_xlsx, write_xlsx

        check_xlsx()
        if not isinstance(tables, Mapping):
            names = (*schema.NAMES, "notes") if tables is None else (tables,) if isinstance(tables, str) else tables
            frames = {name: self._table(name) for name in names}
            tables = {name: frame for name, frame in frames.items() if tables is not None or len(frame)}
        target = Path(path)
        with atomic.replacing(target, like_before=True) as file:
            write_xlsx(file, tables)
        return target


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

    def explore(self, finding: Finding | None = None, *, window: tuple[int, int] | None = None) -> Widget:
        """Return the explorer, a live view with a tab for each kind of data, for the last line of a cell.

        It needs a running kernel; for saved notebooks, use the report or :meth:`to_html`.

        Parameters
        ----------
        finding
            One of :meth:`advice`, whose evidence is shown first; see :meth:`npuprof.advice.finding.Finding.show`.
        window
            Start and end of what the timeline shows, epoch nanoseconds; it is opened then.
        """
        return interactive.explorer(self, finding, window)

    def to_html(self, path: str | PathLike[str]) -> Path:
        """Write a self-contained page with the summary, both figures and the notes; return its path."""
        from npuprof.exports.html import report_figures
        from npuprof.timeline.svg import timeline_svg

        timeline, flame = report_figures(self.tables, self.info, limit_bytes=_PAGE_FIGURES_BYTES)
        figures = {"Timeline": timeline, "Flame graph": flame}
        return atomic.write_text(path, self._page(figures, timeline_svg(self.tables, self.info)))

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

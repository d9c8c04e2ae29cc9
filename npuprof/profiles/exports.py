"""The exports of a profile and of a set of ranks: pages, traces, stacks, tables and queries."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from npuprof import tables as schema
from npuprof.files import atomic
from npuprof.parameters import checked
from npuprof.profiles.figures import Figures

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from npuprof.exports.chrome_trace import TracedRun
    from npuprof.exports.stacks import SelfTime


@checked
class Exports(Figures):
    """The exports that a profile and a set of ranks have in common."""

    @abstractmethod
    def _runs_to_write(self) -> list[TracedRun]:
        """Return the run, or every run of the set with the lead of its clock."""

    @abstractmethod
    def _page(self, figures: Mapping[str, go.Figure], explorer: str = "") -> str:
        """Return a self-contained HTML page with the report, an explorer as HTML, and the given figures."""

    def to_chrome_trace(
        self,
        path: str | PathLike[str],
        *,
        start_ns: int | None = None,
        end_ns: int | None = None,
        pretty: bool = False,
    ) -> Path:
        """Write the timeline of all ranks as a Chrome trace, for Perfetto and other viewers; return its path.

        ``npuprof.load`` reads it back with every table, the facts, the notes and the vendor's sums; a trace of a set
        becomes a set. The files that the run was read from are not in it.

        Parameters
        ----------
        path
            The file; compressed if its name ends in ``.gz``.
        start_ns, end_ns
            Window in epoch nanoseconds, as for :func:`npuprof.load`: slices that overlap it are written whole, with the
            calls that launched them.
        pretty
            Whether to write each event on its own line.
        """
        from npuprof.exports import chrome_trace

        target = Path(path)
        with atomic.replacing(target, like_before=True) as file, atomic.text(file, target) as out:
            chrome_trace.write(out, self._runs_to_write(), start_ns=start_ns, end_ns=end_ns, pretty=pretty)
        return target

    def to_speedscope(self, path: str | PathLike[str]) -> Path:
        """Write calls, device tasks and collectives of all ranks as JSON for speedscope; return its path.

        The file is compressed if its name ends in ``.gz``.
        """
        from npuprof.exports import speedscope

        target = Path(path)
        with atomic.replacing(target, like_before=True) as file, atomic.text(file, target) as out:
            speedscope.write(out, self._merged_tables(), self._merged_info())
        return target

    def to_perfetto(self, path: str | PathLike[str]) -> Path:
        """Write the timeline (of a set: of all ranks) in Perfetto's own format, in whole nanoseconds; return its path.

        A name in ``.gz`` compresses it. Packets are made by Perfetto's library (``pip install 'npuprof[perfetto]'``).

        Raises
        ------
        NpuprofError
            If the library is not installed.
        """
        from npuprof.exports import perfetto_trace

        target = Path(path)
        with atomic.replacing(target, like_before=True) as file, atomic.binary(file, target) as out:
            perfetto_trace.write(out, self._runs_to_write(), self._merged_info())
        return target

    def to_folded_stacks(self, path: str | PathLike[str], weight: SelfTime = "host") -> Path:
        """Write the stacks, summed over ranks, as folded text.

        Raises
        ------
        OptionsError
            If the weight is neither ``host`` nor ``device``.
        """
        from npuprof.exports.stacks import folded_stacks

        lines = folded_stacks(self._merged_tables(apart=True), weight)
        return atomic.write_text(path, "".join(f"{line}\n" for line in lines))

    def to_memory_timeline(self, path: str | PathLike[str], device: str | None = None) -> Path:
        """Write memory over time of one device, or of all devices, as ``.json``, ``.json.gz`` or ``.html``.

        Raises
        ------
        OptionsError
            If the file name has another suffix, or the device has no samples.
        """
        from npuprof.analysis.device_words import torch_device
        from npuprof.exports import memory_timeline

        tables, info = self._merged_tables(), self._merged_info()
        kind = torch_device(info, tables)
        if Path(path).suffix == ".html":
            from npuprof.figures.memory import plot_memory

            selected = {**tables, "memory": memory_timeline.select(tables["memory"], device, kind)}
            return atomic.write_text(path, self._page({"Memory": plot_memory(selected, info)}))
        return atomic.write_text(path, memory_timeline.content(Path(path).name, tables["memory"], device, kind))

    @abstractmethod
    def _table(self, name: str) -> pd.DataFrame:
        """Return a table by name.

        Raises
        ------
        NpuprofError
            If there is no table of that name.
        """

    @property
    @abstractmethod
    def _table_names(self) -> Sequence[str]:
        """The names of all tables that :meth:`_table` returns."""

    def sql(self, query: str, *, most_rows: int = 1_000_000, timeout_s: float = 60.0) -> pd.DataFrame:
        """Query the tables with SQL: ``run.sql("select name, duration_ns from kernels")``.

        DuckDB runs the query (``pip install 'npuprof[sql]'``), with at most 2 GB of memory, and without access to files
        and the network. Nanoseconds stay exact. The tables are those of the run, ``launches``, ``notes``
        and :attr:`Profile.statistics` of a run, or ``info`` of a set; :func:`npuprof.explain` describes them.

        Parameters
        ----------
        query
            One read-only statement in DuckDB's SQL dialect.
        most_rows
            Maximum number of rows to return; a warning says if the result has more.
        timeout_s
            Maximum duration of the query in seconds.

        Raises
        ------
        NpuprofError
            If DuckDB is not installed.
        OptionsError
            If DuckDB refuses the query, with its reason, or the query takes too long.
        """
        from npuprof.exports.sql import select

        return select(query, self._table_names, self._table, most_rows, timeout_s)

    def to_csv(self, path: str | PathLike[str], table: str | pd.DataFrame) -> Path:
        """Write a table by name, or a result such as ``run.by("line")``, as CSV; return its path.

        The file is compressed if its name ends in ``.gz``. Texts are written so that a spreadsheet does not take them
        for formulas.

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
        """Write tables as an Excel workbook, by default all tables with rows and the notes; return its path.

        A mapping names results: ``run.to_xlsx("lines.xlsx", {"lines": run.by("line")})``. Numbers of more than 15
        digits, such as times, are written as text, because Excel would round them.

        Raises
        ------
        NpuprofError
            If a table does not exist, no table has rows, or openpyxl is not installed.
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

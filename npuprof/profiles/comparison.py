"""What ``a - b`` returns: the difference of two runs with its figures and exports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pandas as pd

from npuprof import interactive
from npuprof.difference.difference import Difference
from npuprof.difference.side import ComparedRun, sides
from npuprof.figures.with_fallback import with_fallback
from npuprof.files import atomic
from npuprof.lines.frames import cell_text
from npuprof.parameters import checked
from npuprof.report.run import run_name
from npuprof.tables.info import Info

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from npuprof.analysis.accounting import Accounting
    from npuprof.arrays import Int64
    from npuprof.report.model import Report

_BARS = 10


class Compared(Protocol):
    """The attributes of a profile that a comparison reads."""

    @property
    def info(self) -> Info:
        """Facts about the run."""

    @property
    def aligned(self) -> Mapping[str, pd.DataFrame]:
        """The tables of the profile, on the clock of the breakdown."""

    @property
    def accounting(self) -> Accounting:
        """The breakdown of the profile's steps."""

    def _single_rows(self) -> Int64:
        """Return the rows of its steps that are single outliers."""


def names_of(a: Info, b: Info) -> tuple[str, str]:
    """Return what to call two runs in one text: name and cell, and start, path or a letter where these are equal."""
    names = run_name(a), run_name(b)
    for tell_apart in (_cell, _start, _folder):
        if names[0] != names[1]:
            return names
        more = tell_apart(a), tell_apart(b)
        if all(more) and more[0] != more[1]:
            names = f"{names[0]}, {more[0]}", f"{names[1]}, {more[1]}"
    return names if names[0] != names[1] else (f"{names[0]}, a", f"{names[1]}, b")


def _cell(info: Info) -> str:
    return cell_text(next(iter(info.code), ""))


def _start(info: Info) -> str:
    return (
        "" if info.started_ns is None else f"{np.datetime64(info.started_ns // 1_000_000_000, 's')}".replace("T", " ")
    )


def _folder(info: Info) -> str:
    return "" if info.recording is None else info.recording.name


def _first(side: Sequence[Sequence[ComparedRun]]) -> Info:
    return next((rank.info for run in side for rank in run), Info())


@checked
class Comparison(Difference):
    """A step of run `a` minus a step of run `b`: :attr:`rows`, :attr:`significant`, figures and exports.

    In a notebook it shows how much faster a step is, why, the changed lines, and what is folded below them.
    """

    @classmethod
    def of(
        cls, a: Iterable[Iterable[Compared]], b: Iterable[Iterable[Compared]], names: tuple[str, str] | None = None
    ) -> Comparison:
        """Compare programs: each side is one run or several, and each run one rank or several.

        Without `names`, the sides are called by name and cell of their first runs.

        Raises
        ------
        NpuprofError
            If a side has no kernels, no NPU tasks and no step times.
        """
        runs = [
            [[ComparedRun(rank.aligned, rank.info, rank.accounting, rank._single_rows) for rank in run] for run in side]
            for side in (a, b)
        ]
        return cls(*sides(runs[0], runs[1]), names or names_of(*(_first(side) for side in runs)))

    @with_fallback("waterfall")
    def plot_waterfall(self, *, bars: int = _BARS) -> go.Figure:
        """Draw the change from a step of `b` to a step of `a`: the largest differences, and the rest in one bar.

        Parameters
        ----------
        bars
            The number of differences that get a bar.
        """
        from npuprof.figures.difference import plot_waterfall

        rows = self.largest(bars)
        drawn = rows.assign(title=[self.title(row) for _, row in rows.iterrows()])
        ends, names = (self.b_ns, self.a_ns), self.names
        return plot_waterfall(drawn, ends, names, self._origin, finding=self._finding, subtitle=self.basis)

    @with_fallback("flame graph")
    def plot_flamegraph(self) -> go.Figure:
        """Draw the parts of a step as wide as their time in both runs: red where `a` is slower, else blue."""
        from npuprof.figures.difference import plot_flame_difference

        subtitle = self.sentence().replace(": ", " · ", 1)
        return plot_flame_difference(self.rows, self.names, self._origin, finding=self._finding, subtitle=subtitle)

    @property
    def _finding(self) -> str:
        """The outcome and its cause, as a title."""
        reason = self._report.sentence.replace("`", "").partition(". ")[0].rstrip(".")
        return ": ".join(filter(None, [self._report.verdict, reason]))

    @property
    def _origin(self) -> Info:
        return Info(name=" - ".join(self.names), simulated=self.simulated)

    def to_html(self, path: str | PathLike[str]) -> Path:
        """Write a self-contained page with the report and both figures; return its path."""
        from npuprof.exports.html import page_html

        figures = {"Waterfall": self.plot_waterfall(), "Differential flame graph": self.plot_flamegraph()}
        return atomic.write_text(path, page_html(self._report, figures))

    def to_markdown(self) -> str:
        """Return what changed as at most 60 lines of Markdown, for an issue, a pull request or an assistant.

        Home folders, users and hosts are shortened, and names from the recordings stand as data.
        """
        from npuprof.report.markdown import compared

        return compared(self._report, [run.info for side in (self.a, self.b) for run in side.runs])

    @cached_property
    def _report(self) -> Report:
        from npuprof.report.difference import report_of_difference

        return report_of_difference(self)

    def __str__(self) -> str:
        from npuprof.report.text import report_text

        return report_text(self._report)

    def _repr_html_(self) -> str:
        from npuprof.figures.drawing import figure_svg
        from npuprof.report.difference import with_drawing
        from npuprof.report.html import report_html

        interactive.keep_keys()
        return report_html(with_drawing(self._report, figure_svg(self.plot_flamegraph())))

    def _ipython_display_(self) -> None:
        interactive.show_comparison(self)

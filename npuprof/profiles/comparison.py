"""What ``a - b`` returns: the difference of two runs with its figures and exports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pandas as pd

from npuprof import interactive
from npuprof.difference.difference import Difference
from npuprof.difference.side import ComparedRun, sides
from npuprof.figures.with_fallback import with_fallback
from npuprof.files import atomic
from npuprof.parameters import checked
from npuprof.tables.info import Info

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from npuprof.analysis.accounting import Accounting

_BARS = 10


class Compared(Protocol):
    """What a comparison reads from a profile."""

    info: Info

    @property
    def aligned(self) -> Mapping[str, pd.DataFrame]:
        """The tables of the profile, on the clock of the breakdown."""

    @property
    def accounting(self) -> Accounting:
        """The breakdown of the profile's steps."""


@checked
class Comparison(Difference):
    """A step of run `a` minus a step of run `b`: :attr:`rows`, :attr:`significant`, figures and exports.

    In a notebook it shows the difference in one sentence, its causes, a waterfall and a differential flame graph.
    """

    @classmethod
    def of(
        cls, a: Iterable[Iterable[Compared]], b: Iterable[Iterable[Compared]], names: tuple[str, str] = ("a", "b")
    ) -> Comparison:
        """Compare programs: each side is one run or several, and each run one rank or several.

        Raises
        ------
        NpuprofError
            If a side has no kernels, no NPU tasks and no step times.
        """
        runs = [
            [[ComparedRun(rank.aligned, rank.info, rank.accounting) for rank in run] for run in side] for side in (a, b)
        ]
        return cls(*sides(runs[0], runs[1]), names)

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
        return plot_waterfall(drawn, (self.b_ns, self.a_ns), self.names, self._origin, subtitle=self.basis)

    @with_fallback("flame graph")
    def plot_flamegraph(self) -> go.Figure:
        """Draw what a step consists of, as wide as its time in both runs: red where `a` is slower, else blue."""
        from npuprof.figures.difference import plot_flame_difference

        return plot_flame_difference(
            self.rows, self.names, self._origin, subtitle=self.sentence().replace(": ", " · ", 1)
        )

    @property
    def _origin(self) -> Info:
        return Info(name=" - ".join(self.names), simulated=self.simulated)

    def to_html(self, path: str | PathLike[str]) -> Path:
        """Write a self-contained page with the tables and both figures; return its path."""
        from npuprof.exports.difference import difference_page

        figures = {"Waterfall": self.plot_waterfall(), "Differential flame graph": self.plot_flamegraph()}
        return atomic.write_text(path, difference_page(self, figures))

    def _repr_html_(self) -> str:
        from npuprof.exports.difference import difference_html

        return difference_html(self)

    def _ipython_display_(self) -> None:
        interactive.show_comparison(self)

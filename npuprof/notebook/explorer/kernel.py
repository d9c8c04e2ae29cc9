"""The kernel that was chosen last, in detail: one live figure, which is where it was chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import ipywidgets as widgets

from npuprof.figures.embed import CONFIG
from npuprof.notebook.explorer.browser_events import MEASURED_CLASS, Width
from npuprof.notebook.widgets import answer_at_once

if TYPE_CHECKING:
    from collections.abc import Sequence

    import plotly.graph_objects as go

    from npuprof.profiles import Profile


_WIDEST = 760


class KernelView:
    """Shows the pipes of one kernel, and its place on the roofline, where the run has its counters.

    The figure is made for the first kernel and drawn anew for each other. It is in one tab at a time: in one that
    cannot be seen the browser would draw it without room.

    Parameters
    ----------
    run
        Whose kernels.

    Attributes
    ----------
    figure
        The live figure; None before the first kernel with counters was chosen.
    """

    def __init__(self, run: Profile) -> None:
        self._run = run
        self._row: int | None = None
        self._shown = False
        self._places: dict[str, widgets.Box] = {}
        self._measures: dict[str, Width] = {}
        self.figure: go.FigureWidget | None = None

    def place(self, title: str) -> widgets.Box:
        """Make the place of the figure in a tab.

        Parameters
        ----------
        title
            The tab's.
        """
        measure = self._measures[title] = Width(lambda _: self._fit(title))
        place = self._places[title] = widgets.Box([measure], layout={"display": "block", "width": "100%"})
        place.add_class(MEASURED_CLASS)
        return place

    def show(self, row: int | None, title: str) -> None:
        """Show a row of ``kernels`` in a tab; nothing is shown of None, or of one without counters."""
        if row != self._row:
            self._row = row
            self._shown = row is not None and self._draw(row)
        self.move(title)

    def move(self, title: str) -> None:
        """Have the figure in the tab of a title, and nowhere else; it stays where it is for a tab without a place."""
        if title not in self._places:
            return
        for other, place in self._places.items():
            here = (self.figure,) if self.figure is not None and self._shown and other == title else ()
            if place.children != (children := (self._measures[other], *here)):
                self._fit(title)
                place.children = children

    def _draw(self, row: int) -> bool:
        drawn = self._run.plot_kernel(row)
        if not drawn.data:
            return False
        if self.figure is None:
            self.figure = live(drawn)
            answer_at_once(self.figure)
        else:
            width = self.figure.layout.width
            redraw(self.figure, drawn.update_layout(width=width))
        return True

    def _fit(self, title: str) -> None:
        width = min(self._measures[title].width, _WIDEST)
        if self.figure is not None and width > 0 and width != self.figure.layout.width:
            self.figure.layout.width = width


def live(drawn: go.Figure) -> go.FigureWidget:
    """Make a live figure of a drawn one; how wide it is, is for others to say."""
    import plotly.graph_objects as go

    figure = go.FigureWidget(drawn)
    figure._config = {**CONFIG, "responsive": False}
    return figure


def redraw(figure: go.FigureWidget, drawn: go.Figure) -> None:
    """Show in a live figure what was drawn."""
    if _kinds(figure.data) != _kinds(drawn.data):
        figure.data = ()
        figure.add_traces(drawn.data)
    with figure.batch_update():
        figure.layout = drawn.layout
        for old, new in zip(figure.data, drawn.data, strict=True):
            old.update(new.to_plotly_json(), overwrite=True)


def _kinds(traces: Sequence[object]) -> list[tuple[object, object]]:
    """Return which traces can take each other's place: those of one kind on the same axes."""
    return [(getattr(one, "type", None), getattr(one, "yaxis", None)) for one in traces]

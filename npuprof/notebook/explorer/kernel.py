"""The details of the last selected kernel: one live figure, which moves to the tab of the selection."""

from __future__ import annotations

from typing import TYPE_CHECKING

import ipywidgets as widgets

from npuprof.figures.embed import CONFIG
from npuprof.notebook.explorer.browser_events import MEASURED_CLASS, Width
from npuprof.notebook.widgets import answer_at_once

if TYPE_CHECKING:
    from collections.abc import Sequence

    import plotly.graph_objects as go

    from npuprof.profiles.profile import Profile


_WIDEST = 760


class KernelView:
    """Shows the pipes of a kernel and its roofline, if the run has its counters.

    The figure is created for the first kernel and then updated. It is in one tab at a time, because the browser cannot
    lay it out in a hidden tab.

    Attributes
    ----------
    figure
        The live figure; None before the first kernel with counters.
    """

    def __init__(self, run: Profile) -> None:
        self._run = run
        self._row: int | None = None
        self._shown = False
        self._places: dict[str, widgets.Box] = {}
        self._measures: dict[str, Width] = {}
        self.figure: go.FigureWidget | None = None

    def place(self, title: str) -> widgets.Box:
        """Return the placeholder of the figure in a tab."""
        place = self._places[title] = widgets.Box([], layout={"display": "block", "width": "100%"})
        place.add_class(MEASURED_CLASS)
        return place

    def show(self, row: int | None, title: str) -> None:
        """Show a row of ``kernels`` in a tab; nothing for None or a kernel without counters."""
        if row != self._row:
            self._row = row
            self._shown = row is not None and self._draw(row)
        self.move(title)

    def move(self, title: str) -> None:
        """Move the figure to a tab; it stays if the tab has no place for it."""
        if title not in self._places:
            return
        for other, place in self._places.items():
            is_visible = self.figure is not None and self._shown and other == title
            if place.children != (children := (self._measure(title), self.figure) if is_visible else ()):
                self._fit(title)
                place.children = children

    def _measure(self, title: str) -> Width:
        if title not in self._measures:
            self._measures[title] = Width(lambda _: self._fit(title))
            answer_at_once(self._measures[title])
        return self._measures[title]

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
        width = min(self._measure(title).width, _WIDEST)
        if self.figure is not None and width > 0 and width != self.figure.layout.width:
            self.figure.layout.width = width


def live(drawn: go.Figure) -> go.FigureWidget:
    """Return a live figure."""
    from npuprof.notebook.explorer.live import LiveFigure

    figure = LiveFigure(drawn)
    figure._config = dict(CONFIG)
    return figure


def redraw(figure: go.FigureWidget, drawn: go.Figure) -> None:
    """Update a live figure in place; a new one would load plotly.js again."""
    if _kinds(figure.data) != _kinds(drawn.data):
        figure.data = ()
        figure.add_traces(drawn.data)
    with figure.batch_update():
        figure.layout = drawn.layout
        for old, new in zip(figure.data, drawn.data, strict=True):
            old.update(new.to_plotly_json(), overwrite=True)


def _kinds(traces: Sequence[object]) -> list[tuple[object, object]]:
    """Return type and axis of each trace; figures for which they are equal can be updated in place."""
    return [(getattr(trace, "type", None), getattr(trace, "yaxis", None)) for trace in traces]

"""Live figures that are drawn anew in place: each new one would bring plotly.js to the browser once more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import plotly.graph_objects as go

from npuprof.figures.embed import CONFIG

if TYPE_CHECKING:
    from collections.abc import Sequence


def live(drawn: go.Figure) -> go.FigureWidget:
    """Make a live figure of a drawn one; how wide it is, is for others to say."""
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

"""The flame graph's figure: one FigureWidget whose traces are refilled, never a new one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import plotly.graph_objects as go

from npuprof.figures.colours import FOREGROUND, MODEBAR
from npuprof.figures.embed import CONFIG
from npuprof.flame.figure import nothing
from npuprof.flame.state import FlameGraph
from npuprof.flame.view import TITLES, FlameView, amount_text, flame_view

_FRAMES, _LABELS = range(2)
_LEVEL_PIXELS = 20
_TOP_PIXELS, _BOTTOM_PIXELS = 34, 8
_SIDE_PIXELS = 4
_LEAST_LEVELS = 4
_THICKNESS = 0.94
_LABEL_PIXELS = 4.0  # from a frame's left edge to its name
_HOVER = {"bgcolor": "#20262c", "bordercolor": FOREGROUND, "font": {"color": "#f5f5f5"}}  # legible on any colour
_CURSOR = {
    "type": "rect",
    "xref": "x",
    "yref": "y",
    "line": {"color": "#0072b2", "width": 2.5},
    "fillcolor": "rgba(255,255,255,0.35)",  # the line alone would be lost on a frame of its own colour
}


class FlameFigure:
    """Shows a flame graph in one figure.

    Parameters
    ----------
    flame
        What to show.
    on_frame
        Called with the number of a frame that was clicked.

    Attributes
    ----------
    widget
        The figure.
    size_bytes
        About what the last picture took to send.
    """

    def __init__(self, flame: FlameGraph, on_frame: Callable[[int], None]) -> None:
        self._flame = flame
        self._on_frame = on_frame
        self.size_bytes = 0
        self.widget = go.FigureWidget(data=_traces(), layout=_layout())
        self.widget._config = {**CONFIG, "responsive": False, "doubleClick": False, "scrollZoom": False}
        self.widget.data[_FRAMES].on_click(self._clicked)
        self.draw()

    def fit(self, width: int) -> None:
        """Take the width of the figure's place, in pixels, as the browser tells it."""
        if width > 0:
            self._flame.resize(width - 2 * _SIDE_PIXELS)

    def draw(self) -> None:
        """Show what is looked at."""
        flame = self._flame
        picture = flame.picture()
        shown = flame_view(picture, flame.found(), flame.pixels)
        self.size_bytes = shown.size_bytes
        with self.widget.batch_update():
            self._draw_frames(shown)
            self._draw_cursor()
            layout = self.widget.layout
            levels = max(shown.levels, _LEAST_LEVELS)
            edges = [-0.5, levels - 0.5]
            layout.yaxis.range = edges if flame.orientation == "flame" else edges[::-1]
            layout.width = flame.pixels + 2 * _SIDE_PIXELS
            layout.height = _TOP_PIXELS + _BOTTOM_PIXELS + _LEVEL_PIXELS * levels
            simulated = "<b>simulated NPU</b> · " if flame.info.simulated else ""
            amount = amount_text(int(picture.frames.total[0]), picture.weight)
            layout.title.text = f"<sub>{simulated}{TITLES[picture.weight]}: {amount}</sub>"
            layout.annotations = [] if picture.frames.total[0] else [_said(nothing(picture))]

    def draw_cursor(self) -> None:
        """Show where the cursor is in the picture as it is."""
        with self.widget.batch_update():
            self._draw_cursor()

    def _draw_frames(self, shown: FlameView) -> None:
        frames, labels = self.widget.data[_FRAMES], self.widget.data[_LABELS]
        frames.y, frames.base, frames.x = shown.level, shown.left, shown.width
        frames.marker.color, frames.marker.opacity = shown.colour, shown.opacity
        frames.marker.line.color, frames.marker.line.width = shown.outline, shown.outline_width
        frames.hovertext = shown.hover
        labels.x, labels.y = shown.label_left + _LABEL_PIXELS / self._flame.pixels, shown.label_level
        labels.text, labels.textfont.color = shown.label, shown.ink

    def _draw_cursor(self) -> None:
        flame = self._flame
        frames, at = flame.picture().frames, flame.cursor
        if not at:
            self.widget.layout.shapes = []
            return
        left, level = float(frames.left[at]), int(frames.depth[at])
        right = left + int(frames.total[at]) / int(frames.total[0])
        edges = {"x0": left, "x1": right, "y0": level - _THICKNESS / 2, "y1": level + _THICKNESS / 2}
        self.widget.layout.shapes = [{**_CURSOR, **edges}]

    def _clicked(self, _trace: object, points: Any, _state: object) -> None:
        if points.point_inds:
            self._on_frame(int(points.point_inds[0]))


def _said(text: str) -> dict[str, Any]:
    return {"text": text, "showarrow": False, "x": 0.5, "y": 0.5, "xref": "paper", "yref": "paper"}


def _traces() -> list[Any]:
    frames = go.Bar(
        orientation="h",
        width=_THICKNESS,
        hovertemplate="%{hovertext}<extra></extra>",
    )
    labels = go.Scatter(mode="text", textfont={"size": 11}, hoverinfo="skip", textposition="middle right")
    return [frames, labels]


def _layout() -> dict[str, Any]:
    removed = MODEBAR["remove"]
    kept = [str(button) for button in removed] if isinstance(removed, list) else []
    return {
        "template": go.layout.Template(),
        "title": {"text": "", "x": 0.01, "xref": "container", "y": 0.99, "yanchor": "top", "yref": "container"},
        "barmode": "overlay",
        "showlegend": False,
        "margin": {"l": _SIDE_PIXELS, "r": _SIDE_PIXELS, "t": _TOP_PIXELS, "b": _BOTTOM_PIXELS},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"color": FOREGROUND, "size": 11},
        "hovermode": "closest",
        "hoverlabel": {"align": "left", "namelength": 0, **_HOVER},
        "dragmode": False,
        "modebar": {**MODEBAR, "remove": [*kept, "zoom", "pan", "zoomIn", "zoomOut", "autoScale", "resetScale"]},
        "uirevision": "same",
        "xaxis": {"visible": False, "fixedrange": True, "autorange": False, "range": [0, 1]},
        "yaxis": {"visible": False, "fixedrange": True, "autorange": False},
    }

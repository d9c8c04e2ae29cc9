"""The figure of the timeline: one FigureWidget whose traces are updated in place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import plotly.graph_objects as go

from npuprof.figures.chart import label, moment
from npuprof.figures.colours import FAINT, FAMILIES, FOREGROUND, MODEBAR
from npuprof.figures.embed import CONFIG
from npuprof.notebook.explorer.live import LiveFigure
from npuprof.timeline.state import Timeline
from npuprof.timeline.view import View

_BARS, _LABELS, _ARROWS, _FIRST_LINE = range(4)
_LINE_COLOURS = tuple(FAMILIES[key].colour for key in ("matrix", "vector", "operator", "communication", "api"))
_MOST_PIXELS, _LEAST_PIXELS, _ENOUGH_PIXELS = (
    20.0,
    12.0,
    560.0,
)  # lane heights, and the figure height above which lanes shrink
_TOP_PIXELS, _BOTTOM_PIXELS = 54, 12
_HALF_LANE = 0.48
_OUTLINE: Mapping[str, Any] = {"type": "rect", "xref": "x", "yref": "y", "line": {"color": "#d55e00", "width": 2.5}}
_MARKED: Mapping[str, Any] = {
    "type": "rect",
    "xref": "x",
    "yref": "paper",
    "fillcolor": "rgba(86,180,233,0.15)",
    "line": {"color": "#0072b2", "width": 1, "dash": "dot"},
}
_S = 1e9


class TimelineFigure:
    """Shows a timeline in a figure.

    Parameters
    ----------
    timeline
        The state to show.
    on_window, on_bar, on_range
        Called when the user changes the window (epoch nanoseconds), clicks a bar of the last view, or drags a range
        (epoch nanoseconds).

    Attributes
    ----------
    widget
        The figure.
    size_bytes
        The approximate size of the last update.
    """

    def __init__(
        self,
        timeline: Timeline,
        on_window: Callable[[int, int], None],
        on_bar: Callable[[int], None],
        on_range: Callable[[int, int], None],
    ) -> None:
        self._timeline = timeline
        self._shown_window = timeline.window
        self._on_window, self._on_bar, self._on_range = on_window, on_bar, on_range
        self.size_bytes = 0
        self.widget = LiveFigure(data=_traces(timeline), layout=self._layout())
        self.widget._config = {**CONFIG, "doubleClick": False, "scrollZoom": False}
        self.widget.layout.on_change(self._ranged, "xaxis.range")
        bars = self.widget.data[_BARS]
        bars.on_click(self._clicked)
        bars.on_selection(self._selected)
        self.draw()

    def drag(self, mode: str) -> None:
        """Set the drag mode: zoom (``zoom``), move the window (``pan``) or draw a range (``select``)."""
        self.widget.layout.dragmode = mode

    def draw(self) -> None:
        """Draw the window and the selection."""
        shown = self._timeline.view()
        self.size_bytes = shown.size_bytes
        with self.widget.batch_update():
            self._draw_bars(shown)
            self._draw_selection()
            self._draw_lines()
            self._draw_axes()

    def draw_selection(self) -> None:
        """Draw the selection only."""
        with self.widget.batch_update():
            self._draw_selection()

    def _seconds(self, time_ns: int) -> float:
        return (time_ns - self._timeline.whole[0]) / _S

    def _draw_bars(self, shown: View) -> None:
        bars, labels = self.widget.data[_BARS], self.widget.data[_LABELS]
        bars.y, bars.base, bars.x = shown.place, shown.base_s, shown.width_s
        bars.marker.color, bars.marker.opacity = shown.colour, shown.opacity
        bars.hovertext = shown.hover
        bars.selectedpoints = None
        labels.x, labels.y, labels.text, labels.textfont.color = (
            shown.label_s,
            shown.label_place,
            shown.label,
            shown.ink,
        )

    def _draw_selection(self) -> None:
        timeline = self._timeline
        shapes = []
        if timeline.marked is not None:
            shapes.append({**_MARKED, **self._extent(*timeline.marked), "y0": 0, "y1": 1})
        number = timeline.selected
        place = timeline.place_of(number) if number is not None else None
        if number is not None and place is not None:
            edges = {"y0": place - _HALF_LANE, "y1": place + _HALF_LANE}
            shapes.append({**_OUTLINE, **self._extent(*timeline.slices.span(number)), **edges})
        self.widget.layout.shapes = shapes
        x: list[float | None] = []
        y: list[float | None] = []
        for cause, effect in timeline.arrows()[0]:
            x += [self._seconds(cause.time_ns), self._seconds(effect.time_ns), None]
            y += [cause.place, effect.place, None]
        arrows = self.widget.data[_ARROWS]
        arrows.x, arrows.y = x, y

    def _extent(self, start_ns: int, end_ns: int) -> dict[str, float]:
        return {"x0": self._seconds(start_ns), "x1": self._seconds(end_ns)}

    def _draw_lines(self) -> None:
        for at in range(len(self._timeline.lines)):
            trace = self.widget.data[_FIRST_LINE + at]
            time_ns, place, value = self._timeline.line(at)
            trace.x, trace.y, trace.customdata = (time_ns - self._timeline.whole[0]) / _S, place, value

    def _draw_axes(self) -> None:
        timeline = self._timeline
        self._shown_window = timeline.window
        layout = self.widget.layout
        layout.xaxis.range = [self._seconds(edge) for edge in timeline.window]
        rows = [*timeline.rows, *timeline.line_rows]
        ticks = [label(row.title, 34) for row in rows]
        if ticks != list(layout.yaxis.ticktext or ()):
            height = max(timeline.height, 3)
            layout.yaxis.tickvals = [row.place for row in rows]
            layout.yaxis.ticktext = ticks
            layout.yaxis.range = [height - 0.3, -0.7]
            pixels = min(max(_ENOUGH_PIXELS / height, _LEAST_PIXELS), _MOST_PIXELS)
            layout.height = round(_TOP_PIXELS + _BOTTOM_PIXELS + pixels * max(height + 0.4, 6))

    def _layout(self) -> dict[str, Any]:
        simulated = "<b>simulated NPU</b> · " if self._timeline.info.simulated else ""
        begin = f"times since {moment(self._timeline.whole[0])}"
        return {
            "template": go.layout.Template(),
            "title": {
                "text": f"<sub>{simulated}{begin}</sub>",
                "x": 0.01,
                "xref": "container",
                "y": 0.99,
                "yanchor": "top",
            },
            "barmode": "overlay",
            "autosize": True,
            "showlegend": False,
            "margin": {"l": 10, "r": 14, "t": _TOP_PIXELS, "b": _BOTTOM_PIXELS},
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "font": {"color": FOREGROUND, "size": 11},
            "hovermode": "closest",
            "hoverlabel": {"align": "left", "namelength": 0},
            "dragmode": "zoom",
            "selectdirection": "h",
            "modebar": {
                **MODEBAR,
                "remove": [*_removed(), "zoom", "pan", "zoomIn", "zoomOut", "autoScale", "resetScale"],
            },
            "uirevision": "same",
            "xaxis": {
                "side": "top",
                "ticksuffix": "s",
                "exponentformat": "SI",
                "minexponent": 2,
                "nticks": 8,
                "gridcolor": FAINT,
                "zeroline": False,
                "ticks": "outside",
                "tickcolor": FAINT,
                "autorange": False,
            },
            "yaxis": {
                "fixedrange": True,
                "showgrid": False,
                "zeroline": False,
                "automargin": True,
                "autorange": False,
            },
        }

    def _ranged(self, _layout: object, window: Any) -> None:
        # Also called for changes made here, with exactly the numbers that were set.
        if window is None or len(window) != 2 or not all(isinstance(edge, int | float) for edge in window):
            return
        if not np.isfinite(window).all() or list(window) == [self._seconds(edge) for edge in self._shown_window]:
            return
        self._on_window(*(self._timeline.whole[0] + round(edge * _S) for edge in window))

    def _clicked(self, _trace: object, points: Any, _state: object) -> None:
        if points.point_inds:
            self._on_bar(int(points.point_inds[0]))

    def _selected(self, _trace: object, _points: object, selector: Any) -> None:
        drawn = getattr(selector, "xrange", None)
        if drawn:
            self._on_range(*(self._timeline.whole[0] + round(float(edge) * _S) for edge in drawn))


def _removed() -> list[str]:
    removed = MODEBAR["remove"]
    return [str(button) for button in removed] if isinstance(removed, list) else []


def _traces(timeline: Timeline) -> list[Any]:
    """Return all traces of the figure, without data."""
    bars = go.Bar(
        orientation="h",
        width=0.9,
        marker={"line": {"width": 0}},
        hovertemplate="%{hovertext}<extra></extra>",
        unselected={"marker": {"opacity": 1}},
    )
    labels = go.Scatter(mode="text", textfont={"size": 10}, hoverinfo="skip", textposition="middle center")
    arrows = go.Scatter(
        mode="lines+markers",
        line={"color": "#d55e00", "width": 1.5},
        marker={"symbol": "arrow", "size": 9, "angleref": "previous", "color": "#d55e00"},
        hoverinfo="skip",
    )
    lines = [
        go.Scatter(
            mode="lines",
            line={"color": _LINE_COLOURS[at % len(_LINE_COLOURS)], "width": 1.2, "shape": "hv"},
            hovertemplate=f"{label(line.title, 60)}<br>%{{customdata:,.6g}} {label(line.unit, 12)}<extra></extra>",
        )
        for at, line in enumerate(timeline.lines)
    ]
    return [bars, labels, arrows, *lines]

"""Any figure as a plain SVG without scripts, for viewers without plotly such as GitHub.

It draws what npuprof's figures are made of: bars, lines, points, heat maps and icicles on one or several pairs of
axes, with titles, legend and annotations. It refers to no other file; its colours are legible on white and on black.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from npuprof.arrays import Float64
from npuprof.figures.colours import FOREGROUND
from npuprof.figures.drawing.axes import CHARACTER, LONGEST_TICK, Axis, Plot, frame, lines_of, listed, plain
from npuprof.figures.drawing.shapes import bars, cells, icicle_frames, scatter

LIMIT_BYTES = 100_000
"""Maximum size of the SVG; a figure that needs more has none."""

_WIDTH, _RIGHT, _TOP, _ROW = 960, 16, 26, 15
_TITLE, _SUBTITLE = 'font-size="15" font-weight="bold"', 'font-size="11"'
_LONGEST_ENTRY, _MOST_ENTRIES = 44, 16
_NO_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def figure_svg(figure: go.Figure) -> str:
    """Draw a figure as an SVG document; empty if a part of it is not drawn here, or it would be too large."""
    whole = figure.to_plotly_json()
    traces = [trace for trace in whole["data"] if trace.get("visible", True) is True]
    if any(trace["type"] not in ("bar", "scatter", "heatmap", "icicle") for trace in traces):
        return ""
    try:
        text = _NO_XML.sub(" ", _Drawing(whole["layout"], traces).document())
    except Exception:  # noqa: BLE001 - a figure that the user has changed in any way is still shown by plotly
        return ""
    return text if len(text.encode("utf-8", "replace")) <= LIMIT_BYTES else ""


class _Drawing:
    """A figure with its axes, and the traces on each."""

    def __init__(self, layout: Mapping[str, Any], traces: Sequence[Mapping[str, Any]]) -> None:
        self._layout = layout
        self._traces = traces
        self._axes: dict[str, Axis] = {}
        self._stacks: dict[tuple[str, str, float], float] = {}
        self._shapes = [(trace, self._measure(trace)) for trace in traces if trace["type"] != "icicle"]
        for axis in self._axes.values():
            axis.settle()
        title = layout.get("title") or {}
        text = title.get("text") if isinstance(title, Mapping) else title
        self._title = lines_of(text)
        self._large = max(str(text).count("font-size"), 1)  # lines of the title
        self._height = float(layout.get("height") or 420)
        margin = layout.get("margin") or {}
        self._above, self._right = float(margin.get("t") or 0), max(float(margin.get("r") or 0), _RIGHT)
        self._entries = self._legend_entries()

    def _axis(self, trace: Mapping[str, Any], letter: str) -> Axis:
        name = str(trace.get(f"{letter}axis") or letter)
        look = self._layout.get(f"{letter}axis{name[1:]}") or {}
        shared = str(look.get("matches") or name)
        if shared != name and (other := self._layout.get(f"{letter}axis{shared[1:]}")):
            look = {**look, **{key: other[key] for key in ("range", "type") if key in other}}
        return self._axes.setdefault(name, Axis(look))

    # -- what is drawn, in values of the axes --------------------------------------------------------------

    def _measure(self, trace: Mapping[str, Any]) -> tuple[Float64, ...]:
        """Return the values of a trace, for which its axes make room."""
        x_axis, y_axis = self._axis(trace, "x"), self._axis(trace, "y")
        if trace["type"] == "bar":
            return self._measure_bars(trace, x_axis, y_axis)
        x, y = x_axis.values(trace.get("x")), y_axis.values(trace.get("y"))
        if trace["type"] == "heatmap":
            rows, columns = np.asarray(listed(trace["z"]), np.float64).shape
            x = x if len(x) else _equal_steps(trace, "x", columns)
            y = y if len(y) else _equal_steps(trace, "y", rows)
            for axis, values in ((x_axis, x), (y_axis, y)):
                half = float(np.diff(values).min()) / 2 if len(values) > 1 else 0.5
                axis.stretch(values - half, values + half)
            return x, y
        x = x if len(x) else np.arange(len(y), dtype=np.float64)
        x_axis.stretch(x)
        y_axis.stretch(y)
        return x, y

    def _measure_bars(self, trace: Mapping[str, Any], x_axis: Axis, y_axis: Axis) -> tuple[Float64, ...]:
        """Return place, beginning, end and width of each bar; stacked ones begin where those before end."""
        is_flat = trace.get("orientation") == "h"
        of_place, of_length = (y_axis, x_axis) if is_flat else (x_axis, y_axis)
        place = of_place.values(trace.get("y" if is_flat else "x"))
        length = of_length.values(trace.get("x" if is_flat else "y"))
        place = place if len(place) else np.arange(len(length), dtype=np.float64)
        base = trace.get("base")
        if base is not None:
            begin = _each(base, length)
        elif self._layout.get("barmode") in ("stack", "relative"):
            begin = np.zeros(len(length))
            for at, (where, value) in enumerate(zip(place.tolist(), length.tolist(), strict=True)):
                key = str(trace.get("xaxis")), str(trace.get("yaxis")), where
                begin[at] = self._stacks.get(key, 0.0)
                self._stacks[key] = begin[at] + (value if math.isfinite(value) else 0.0)
        else:
            begin = np.zeros(len(length))
        width = trace.get("width")
        gap = 1 - float(self._layout.get("bargap") or 0.2)
        wide = _each(gap if width is None else width, place)
        of_place.stretch(place - wide / 2, place + wide / 2)
        of_length.stretch(begin, begin + length)
        return place, begin, begin + length, wide

    # -- the document --------------------------------------------------------------------------------------

    def document(self) -> str:
        """Return the SVG document."""
        left = self._left()
        top = max(_TOP + 16 * max(len(self._title) - 1, 0) + 12, self._above)
        legend = self._legend(left)
        bottom = self._height - 34 - _ROW * legend[1]
        body = [
            f'<text x="8" y="{18 + 16 * at}" {_TITLE if at < self._large else _SUBTITLE}>{line}</text>'
            for at, line in enumerate(self._title)
        ]
        plots = self._plots(left, top, _WIDTH - left - self._right, max(bottom - top, 60.0))
        for plot in plots.values():
            body += frame(plot)
        for trace, values in self._shapes:
            plot = plots[str(trace.get("xaxis") or "x"), str(trace.get("yaxis") or "y")]
            draw = {"bar": bars, "scatter": scatter, "heatmap": cells}[trace["type"]]
            shared = self._layout.get(str(trace.get("coloraxis"))) or {}  # as heat maps beside each other have it
            body += draw(plot, {**shared, **trace}, values)
        for trace in self._traces:
            if trace["type"] == "icicle":
                body += icicle_frames(trace, (left, top, _WIDTH - left - self._right, bottom - top + 20))
        body += self._notes(plots, (left, top, _WIDTH - left - self._right, bottom - top))
        body.append(legend[0])
        label = plain(self._title[0]) if self._title else "figure"
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {self._height:.0f}" width="{_WIDTH}" '
            f'height="{self._height:.0f}" style="max-width:100%;height:auto" role="img" '
            f'aria-label="{label.replace(chr(34), "&quot;")}" font-family="system-ui,sans-serif" font-size="10" '
            f'fill="{FOREGROUND}">{"".join(body)}</svg>'
        )

    def _left(self) -> float:
        """Return the room for the ticks of the leftmost axes."""
        if not self._shapes:
            return 8.0
        texts = [text for name, axis in self._axes.items() if name[0] == "y" for _, text in axis.ticks(30)]
        longest = max((max(map(len, lines_of(text) or [""])) for text in texts), default=0)
        return 14 + CHARACTER * min(longest, LONGEST_TICK)

    def _plots(self, left: float, top: float, width: float, height: float) -> dict[tuple[str, str], Plot]:
        plots = {}
        for trace, _ in self._shapes:
            names = str(trace.get("xaxis") or "x"), str(trace.get("yaxis") or "y")
            x, y = (self._axes[name] for name in names)
            (x0, x1), (y0, y1) = (axis.look.get("domain") or (0, 1) for axis in (x, y))
            plots[names] = Plot(x, y, left + x0 * width, top + (1 - y1) * height, (x1 - x0) * width, (y1 - y0) * height)
        return plots

    def _legend_entries(self) -> list[tuple[str, str]]:
        """Return name and colour of each trace that the legend names."""
        entries: dict[str, str] = {}
        for trace in self._traces:
            marker, line = trace.get("marker") or {}, trace.get("line") or {}
            colour = marker.get("color") if trace["type"] == "bar" or "lines" not in str(trace.get("mode")) else None
            colour = colour if isinstance(colour, str) else next(iter(listed(colour)), line.get("color"))
            if trace.get("name") and trace.get("showlegend") is not False and isinstance(colour, str):
                entries.setdefault(plain(trace["name"], _LONGEST_ENTRY), colour)
        several = len(entries) > 1 and self._layout.get("showlegend") is not False
        return list(entries.items())[:_MOST_ENTRIES] if several else []

    def _legend(self, left: float) -> tuple[str, int]:
        """Return the legend, and how many rows it takes."""
        rows: list[list[tuple[float, tuple[str, str]]]] = [[]]
        x = left
        for entry in self._entries:
            wide = 28 + CHARACTER * len(html.unescape(entry[0]))
            if rows[-1] and x + wide > _WIDTH - _RIGHT:
                rows.append([])
                x = left
            rows[-1].append((x, entry))
            x += wide
        parts = []
        for number, row in enumerate(rows):
            y = self._height - 6 - _ROW * (len(rows) - number) + 4
            for x, (name, colour) in row:
                parts.append(f'<rect x="{x:.0f}" y="{y:.0f}" width="9" height="9" fill="{colour}"/>')
                parts.append(f'<text x="{x + 13:.0f}" y="{y + 8:.0f}">{name}</text>')
        return "".join(parts), len(rows) if self._entries else 0

    def _notes(self, plots: Mapping[tuple[str, str], Plot], paper: tuple[float, float, float, float]) -> Iterator[str]:
        """Yield the annotations."""
        left, top, width, height = paper
        by_axis = {name: plot for names, plot in plots.items() for name in names}
        for note in self._layout.get("annotations") or ():
            lines, x_of, y_of = lines_of(note.get("text")), str(note.get("xref")), str(note.get("yref"))
            if not lines or note.get("x") is None or note.get("y") is None:
                continue
            x = left + float(note["x"]) * width if x_of == "paper" else math.nan
            y = top + (1 - float(note["y"])) * height if y_of == "paper" else math.nan
            if x_of in by_axis:
                x = float(by_axis[x_of].across(by_axis[x_of].x.values([note["x"]]))[0])
            if y_of in by_axis:
                y = float(by_axis[y_of].down(by_axis[y_of].y.values([note["y"]]))[0])
            if not (math.isfinite(x) and math.isfinite(y)):
                continue
            x, y = x + float(note.get("xshift") or 0), y - float(note.get("yshift") or 0)
            anchor = {"left": "start", "right": "end"}.get(str(note.get("xanchor")), "middle")
            is_above = note.get("yanchor") == "bottom" and note.get("yref") == "paper"
            y = min(y - 13 * len(lines) + 7 if is_above else y, self._height - 8 - 13 * (len(lines) - 1))
            colour = (note.get("font") or {}).get("color")
            fill = f' fill="{plain(colour)}"' if colour else ""
            for at, line in enumerate(lines):
                yield f'<text x="{x:.1f}" y="{y + 13 * at + 3:.1f}" text-anchor="{anchor}"{fill}>{line}</text>'


def _equal_steps(trace: Mapping[str, Any], letter: str, count: int) -> Float64:
    """Return the positions of a heat map's cells that are given by the first one and the distance."""
    first, distance = (trace.get(name) for name in (f"{letter}0", f"d{letter}"))
    return float(first or 0) + float(1 if distance is None else distance) * np.arange(count, dtype=np.float64)


def _each(value: Any, like: Float64) -> Float64:
    """Return a number per value: the same for all, or the elements of an array."""
    return (
        np.full(len(like), value, np.float64) if isinstance(value, int | float) else np.array(listed(value), np.float64)
    )

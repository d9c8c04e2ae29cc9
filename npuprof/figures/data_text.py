"""The data of a plotly figure as text, for terminals, screen readers and viewers without plotly."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import plotly.graph_objects as go

from npuprof.arrays import Float64
from npuprof.words.quantities import counted, printable

_MOST_LINES = 40
_MOST_BARS, _MOST_FRAMES = 8, 20  # the largest of a trace
_NAME, _LINE = 48, 300
_TAG = re.compile(r"<[^>]*>|[■▪]")  # tags, and the squares of a legend


def data_text(figure: go.Figure, name: str) -> str:
    """Return the title, notes and data of a figure: the range of each trace, and its largest values."""
    notes = [_plain(note.text) for note in figure.layout.annotations if note.text]
    lines = [f"{name}: {_plain(figure.layout.title.text) or 'figure'}"]
    if len(figure.data):
        lines += [line for number, trace in enumerate(figure.data, 1) for line in _trace(figure, trace, number)]
    lines += [note for note in notes if note]
    visible_names = [printable(line, _LINE) for line in islice(lines, _MOST_LINES)]
    if len(lines) > _MOST_LINES:
        visible_names.append(f"... and {counted(len(lines) - _MOST_LINES, 'more line')}")
    return "\n".join(visible_names)


def _trace(figure: go.Figure, trace: Any, number: int) -> Iterator[str]:
    """Yield the lines of a trace; none if it has no values."""
    title = _plain(getattr(trace, "name", None)) or f"{trace.type} {number}"
    if trace.type in ("icicle", "treemap", "sunburst"):
        yield from _largest(title, _texts(trace.labels), _numbers(trace.values), "", _MOST_FRAMES)
    elif trace.type == "heatmap":
        yield _heat_map(title, trace)
    elif trace.type == "bar":
        values, names, axis = ("x", "y", "xaxis") if trace.orientation == "h" else ("y", "x", "yaxis")
        yield from _largest(title, _texts(trace[names]), _numbers(trace[values]), _unit(figure, trace, axis))
    elif trace.type in ("scatter", "scattergl") and trace.mode != "text":
        heights = _numbers(trace.y)
        if len(known := heights[np.isfinite(heights)]):
            yield f"{title}: {counted(len(known), 'point')}, {_range(known)}{_unit(figure, trace, 'yaxis')}"


def _largest(title: str, names: list[str], values: Float64, unit: str, limit: int = _MOST_BARS) -> Iterator[str]:
    """Yield the range of named values, and the largest of them."""
    rows = np.flatnonzero(np.isfinite(values))
    if not len(rows):
        return
    if len(rows) > 1:
        yield f"{title}: {len(rows)} values, {_range(values[rows])}{unit}"
    indent = "    " if len(rows) > 1 else f"{title}: "
    for row in rows[np.argsort(-np.abs(values[rows]), kind="stable")[:limit]].tolist():
        label = names[row] if row < len(names) else str(row)
        yield f"{indent}{printable(label, _NAME)}: {values[row]:,.6g}{unit}"


def _heat_map(title: str, trace: Any) -> str:
    cells = np.atleast_2d(_numbers(trace.z)) if trace.z is not None else np.zeros((0, 0))
    is_known = np.isfinite(cells)
    if not is_known.any():
        return f"{title}: {cells.shape[0]} x {cells.shape[1]} cells, no values"
    row, column = np.unravel_index(int(np.nanargmax(np.where(is_known, cells, -np.inf))), cells.shape)
    sides = [_texts(trace[axis]) for axis in ("y", "x")]
    place = " / ".join(
        names[at] if at < len(names) else str(at) for names, at in zip(sides, (int(row), int(column)), strict=True)
    )
    return f"{title}: {cells.shape[0]} x {cells.shape[1]} cells, {_range(cells[is_known])}, the highest at {place}"


def _range(values: Float64) -> str:
    low, high = float(values.min()), float(values.max())
    return f"{low:,.6g}" if low == high else f"{low:,.6g} to {high:,.6g}"


def _unit(figure: go.Figure, trace: Any, axis: str) -> str:
    """Return the suffix of an axis's ticks, or else its title in brackets."""
    which = (getattr(trace, axis, None) or axis[0]).removeprefix(axis[0])
    of = figure.layout[f"{axis}{which}"]
    if of.ticksuffix:
        return str(of.ticksuffix)
    return f" ({title})" if (title := _plain(of.title.text)) else ""


def _numbers(values: Any) -> Float64:
    """Return values as floats; NaN for values that are not numbers."""
    if values is None:
        return np.zeros(0)
    array = np.asarray(values)
    if array.dtype.kind in "iufb":
        return array.astype(np.float64)
    flat = [_number(value) for value in array.ravel().tolist()]
    return np.array(flat, np.float64).reshape(array.shape)


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return float("nan")


def _texts(values: Any) -> list[str]:
    """Return the names on a categorical axis; the levels of a multi-level axis are joined."""
    if values is None:
        return []
    array = np.asarray(values, dtype=object)
    rows = array.T.tolist() if array.ndim == 2 else [[value] for value in array.tolist()]
    return [" ".join(_plain(part) for part in row if part is not None) for row in rows]


def _plain(text: Any) -> str:
    """Return a text of a figure without tags."""
    return "" if text is None else " ".join(html.unescape(_TAG.sub(" ", str(text))).split())

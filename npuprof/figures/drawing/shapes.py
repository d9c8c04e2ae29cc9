"""Bars, lines, points, heat maps and icicles as SVG."""

from __future__ import annotations

import html
import math
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from npuprof.arrays import Float64
from npuprof.figures.colours import FAINT, FOREGROUND, ink
from npuprof.figures.drawing.axes import CHARACTER, Plot, listed, plain
from npuprof.figures.time_axis import thinned
from npuprof.words.quantities import shortened

_MOST_BARS, _MOST_POINTS, _MOST_CELLS, _MOST_FRAMES = 600, 300, 1_500, 800
_DASHES = {"dash": "6 3", "dot": "2 2", "dashdot": "6 2 2 2", "longdash": "9 3", "longdashdot": "9 2 2 2"}
_LEVEL, _LEAST_PIXELS = 20.0, 1.0  # of the frames of an icicle


def bars(plot: Plot, trace: Mapping[str, Any], values: tuple[Float64, ...]) -> Iterator[str]:
    """Yield the largest bars, with their texts where these fit, and intervals."""
    place, begin, end, wide = values
    marker = trace.get("marker") or {}
    colours, opacity = marker.get("color"), marker.get("opacity")
    texts = listed(trace.get("text")) if not isinstance(trace.get("text"), str) else []
    is_flat = trace.get("orientation") == "h"
    for at in np.sort(np.argsort(-np.abs(end - begin), kind="stable")[:_MOST_BARS]).tolist():
        sides = np.array([place[at] - wide[at] / 2, place[at] + wide[at] / 2])
        ends = np.array([begin[at], end[at]])
        x = np.sort(plot.across(ends if is_flat else sides))
        y = np.sort(plot.down(sides if is_flat else ends))
        if not (np.isfinite(x).all() and np.isfinite(y).all()) or begin[at] == end[at]:
            continue
        colour = colours if isinstance(colours, str) else listed(colours)[at] if colours is not None else FOREGROUND
        faint = opacity if isinstance(opacity, int | float) else listed(opacity)[at] if opacity is not None else 1
        box = f'x="{x[0]:.1f}" y="{y[0]:.1f}" width="{max(x[1] - x[0], 0.6):.1f}" height="{max(y[1] - y[0], 0.6):.1f}"'
        yield f'<rect {box} fill="{colour}"{"" if faint == 1 else f" opacity={chr(34)}{faint:.2f}{chr(34)}"}/>'
        text = plain(texts[at]) if at < len(texts) and texts[at] else ""
        if text and len(text) * CHARACTER < x[1] - x[0] and y[1] - y[0] > 9:
            dark = (trace.get("insidetextfont") or {}).get("color") or (ink(colour) if colour[0] == "#" else FOREGROUND)
            yield (
                f'<text x="{x.mean():.1f}" y="{y.mean() + 3.5:.1f}" text-anchor="middle" fill="{dark}">{text}</text>'
            )
    yield from _whiskers(plot, trace, place, end)


def scatter(plot: Plot, trace: Mapping[str, Any], values: tuple[Float64, ...]) -> Iterator[str]:
    """Yield lines, points and texts of a trace."""
    x, y = values
    mode, line, marker = str(trace.get("mode") or "lines"), trace.get("line") or {}, trace.get("marker") or {}
    if "lines" in mode and len(x):
        kept = (
            thinned(y, _MOST_POINTS) if len(x) > _MOST_POINTS and np.isfinite(x).all() else np.arange(min(len(x), 4000))
        )
        path, pen = [], "M"
        for px, py in zip(plot.across(x[kept]).tolist(), plot.down(y[kept]).tolist(), strict=True):
            if not (math.isfinite(px) and math.isfinite(py)):
                pen = "M"
                continue
            path.append(
                f"H{px:.1f}V{py:.1f}" if pen == "L" and line.get("shape") == "hv" else f"{pen}{px:.1f} {py:.1f}"
            )
            pen = "L"
        dash = f' stroke-dasharray="{_DASHES[line["dash"]]}"' if line.get("dash") in _DASHES else ""
        yield (
            f'<path d="{"".join(path)}" fill="none" stroke="{line.get("color") or FOREGROUND}" '
            f'stroke-width="{line.get("width") or 1.5}"{dash}/>'
        )
    colours = marker.get("color")
    texts = listed(trace.get("text")) if not isinstance(trace.get("text"), str) else []
    for at in range(min(len(x), _MOST_POINTS)):
        px, py = float(plot.across(x[at : at + 1])[0]), float(plot.down(y[at : at + 1])[0])
        if not (math.isfinite(px) and math.isfinite(py)):
            continue
        if "markers" in mode:
            colour = colours if isinstance(colours, str) else listed(colours)[at] if colours is not None else FOREGROUND
            size = marker.get("size")
            radius = (size if isinstance(size, int | float) else listed(size)[at] if size is not None else 6) / 2
            yield f'<circle cx="{px:.1f}" cy="{py:.1f}" r="{radius:.1f}" fill="{colour}"/>'
        if "text" in mode and at < len(texts) and texts[at]:
            side = str(_of(trace.get("textposition"), at) or "middle center")
            anchor = "start" if side.endswith("right") else "end" if side.endswith("left") else "middle"
            high = py - 8 if side.startswith("top") else py + 12 if side.startswith("bottom") else py + 3.5
            fill = _of((trace.get("textfont") or {}).get("color"), at)
            look = f'text-anchor="{anchor}" xml:space="preserve"' + (f' fill="{plain(fill)}"' if fill else "")
            yield f'<text x="{px:.1f}" y="{high:.1f}" {look}>{plain(texts[at])}</text>'


def _of(value: Any, at: int) -> Any:
    """Return an option of a point: of all points, or one of a list."""
    return value if value is None or isinstance(value, str) else listed(value)[at]


def _whiskers(plot: Plot, trace: Mapping[str, Any], place: Float64, end: Float64) -> Iterator[str]:
    error = trace.get("error_x") or {}
    highs, lows = listed(error.get("array")), listed(error.get("arrayminus"))
    for at, (high, low) in enumerate(zip(highs, lows or highs, strict=True)):
        if (not high and not low) or high is None:
            continue
        x = plot.across(np.array([end[at] - float(low or 0), end[at] + float(high)]))
        y = float(plot.down(place[at : at + 1])[0])
        if np.isfinite(x).all() and math.isfinite(y):
            ends = "".join(f"M{end:.1f} {y - 3:.1f}v6" for end in x.tolist())
            yield f'<path d="M{x[0]:.1f} {y:.1f}H{x[1]:.1f}{ends}" stroke="{FOREGROUND}"/>'


def cells(plot: Plot, trace: Mapping[str, Any], values: tuple[Float64, ...]) -> Iterator[str]:
    """Yield the cells of a heat map, equal ones as one; of many, each that is drawn stands for its neighbours."""
    x, y = values
    z = np.asarray(listed(trace["z"]), np.float64)
    known = z[np.isfinite(z)]
    if not len(known):
        return
    low, high = (
        next((float(trace[key]) for key in (f"z{end}", f"c{end}") if trace.get(key) is not None), float(extreme))
        for end, extreme in (("min", known.min()), ("max", known.max()))
    )
    scale = [(float(at), str(colour)) for at, colour in trace.get("colorscale") or ((0, "#9398a0"), (1, "#308060"))]
    skip = max(1, math.ceil(z.size / _MOST_CELLS))
    down = max(1, min(skip, math.ceil(len(y) / 64)))
    across = max(1, math.ceil(skip / down))
    wide = float(np.diff(x).min()) / 2 if len(x) > 1 else 0.5
    tall = float(np.diff(y).min()) / 2 if len(y) > 1 else 0.5
    for row in range(0, len(y), down):
        ends = np.sort(plot.down(np.array([y[row] - tall, y[min(row + down, len(y)) - 1] + tall])))
        beside: list[tuple[str, int, int]] = []  # the colour, the first and the last column of cells that look the same
        for column in range(0, len(x), across):
            if not math.isfinite(value := z[row, column]):
                continue
            colour = _mixed(scale, min(max((value - low) / (high - low or 1.0), 0.0), 1.0))
            right = min(column + across, len(x)) - 1
            if beside and beside[-1][0] == colour and beside[-1][2] == column - 1:
                beside[-1] = colour, beside[-1][1], right
            else:
                beside.append((colour, column, right))
        for colour, first, last in beside:
            sides = np.sort(plot.across(np.array([x[first] - wide, x[last] + wide])))
            size = f'width="{sides[1] - sides[0]:.1f}" height="{ends[1] - ends[0]:.1f}"'
            yield f'<rect x="{sides[0]:.1f}" y="{ends[0]:.1f}" {size} fill="{colour}"/>'
    yield from _cell_texts(plot, trace, x, y)


def _cell_texts(plot: Plot, trace: Mapping[str, Any], x: Float64, y: Float64) -> Iterator[str]:
    """Yield the texts of cells; there are none unless the heat map has few."""
    texts = listed(trace.get("text")) if trace.get("texttemplate") else []
    for row, line in enumerate(texts):
        for column, text in enumerate(listed(line)):
            if text:
                across, down = plot.across(x[column : column + 1])[0], plot.down(y[row : row + 1])[0]
                place = f'x="{across:.1f}" y="{down + 3.5:.1f}" text-anchor="middle"'
                outline = 'stroke="#000000" stroke-opacity=".35" paint-order="stroke"'
                yield f'<text {place} fill="#ffffff" {outline}>{plain(text)}</text>'


def _mixed(scale: Sequence[tuple[float, str]], part: float) -> str:
    """Return the colour of a scale at a part of it."""
    after = next((at for at, (place, _) in enumerate(scale) if place >= part), len(scale) - 1)
    (begin, first), (end, last) = scale[max(after - 1, 0)], scale[after]
    share = (part - begin) / (end - begin) if end > begin else 0.0
    mixed = [low + (high - low) * share for low, high in zip(_rgba(first), _rgba(last), strict=True)]
    opacity = "" if mixed[3] > 0.99 else f",{mixed[3]:.2f}"
    return f"rgb{'a' if opacity else ''}({mixed[0]:.0f},{mixed[1]:.0f},{mixed[2]:.0f}{opacity})"


def _rgba(colour: str) -> list[float]:
    if colour.startswith("#"):
        return [*(float(int(colour[at : at + 2], 16)) for at in (1, 3, 5)), 1.0]
    numbers = [float(number) for number in re.findall(r"\d*\.?\d+", colour)]
    return [*numbers, 1.0][:4]


def icicle_frames(trace: Mapping[str, Any], place: tuple[float, float, float, float]) -> Iterator[str]:
    """Yield the frames of an icicle whose values include those of their children, the root on top."""
    ids, parents, values = (listed(trace[key]) for key in ("ids", "parents", "values"))
    labels, colours = listed(trace["labels"]), listed((trace.get("marker") or {}).get("colors") or ())
    children: dict[str, list[int]] = {}
    for at, parent in enumerate(parents):
        children.setdefault(parent, []).append(at)
    left, top, width, height = place
    whole = sum(float(values[at]) for at in children.get("", ())) or 1.0
    levels = int(height // _LEVEL)
    waiting = deque([("", left, 0)])
    drawn = 0
    while waiting and drawn < _MOST_FRAMES:
        parent, x, level = waiting.popleft()
        for at in children.get(parent, ()):
            wide = float(values[at]) / whole * width
            if wide >= _LEAST_PIXELS and level < levels:
                drawn += 1
                yield _icicle_frame(labels[at], colours[at] if colours else FAINT, x, top + level * _LEVEL, wide)
                waiting.append((ids[at], x, level + 1))
            x += wide


def _icicle_frame(name: object, colour: str, x: float, y: float, wide: float) -> str:
    box = (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(wide - 0.6, 0.6):.1f}" height="{_LEVEL - 1:.0f}" fill="{colour}"/>'
    )
    room = int((wide - 6) / CHARACTER)
    if room < 3:
        return box
    text = html.escape(shortened(html.unescape(str(name)), room), quote=False)
    fill = ink(colour) if colour.startswith("#") else FOREGROUND
    return f'{box}<text x="{x + 3:.1f}" y="{y + 13:.1f}" fill="{fill}">{text}</text>'

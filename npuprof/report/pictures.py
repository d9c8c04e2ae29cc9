"""The small pictures of a report as SVG documents: a bar of parts, bars of steps, lanes of a strip.

They stand in ``img`` elements, which survive where notebooks drop styles and SVG elements, so they cannot follow the
theme: all colours have a contrast of 3 to white and to dark backgrounds, and text stands on a fill of its own.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from html import escape

import numpy as np

from npuprof.figures.colours import ACTIVITIES, FASTER, PARTS, SLOWER, ink
from npuprof.report.model import Bar, Lane, Look, Part, Segment, Steps

LOOKS: Mapping[Look, str] = {
    **ACTIVITIES,
    **PARTS,
    "line": "#727982",
    "idle_line": PARTS["idle"],
    "wait_line": PARTS["waiting"],
    "rest": "#68877a",
    "outlier": SLOWER,
    "faster": FASTER,
    "slower": SLOWER,
}
"""Colours by what they stand for."""

LANE_PX, BAR_PX, STEPS_PX, WATERFALL_PX = 18, 10, 26, 14
"""Heights of the pictures."""

_NARROW_PX = 560  # of a strip in a narrow window: a label must fit there
_CHARACTER_PX = 6.6  # of 11 px text, at most on average
_BREAK = 0.7  # of the longest bar: changes that begin beyond it are drawn on an axis that does not begin at 0
_LEAST = 0.0006  # of a lane: shorter pieces of one look are joined
_MOST_BARS = 30
_STEP_PX = 5


def picture(svg: str) -> str:
    """Return an SVG document as a data URI."""
    return f"data:image/svg+xml;base64,{b64encode(svg.encode('utf-8', 'replace')).decode()}"


def parts_svg(parts: Sequence[Part]) -> str:
    """Return parts of a whole as one bar."""
    whole, at, drawn = max(sum(part.time_ns for part in parts), 1), 0, []
    for part in parts:
        drawn.append(_rectangle(at / whole, (at + part.time_ns) / whole, BAR_PX, LOOKS[part.look]))
        at += part.time_ns
    return _document(BAR_PX, drawn)


def lane_svg(lane: Lane, length_ns: int) -> str:
    """Return the segments of a lane; labels stand where they fit a narrow window."""
    whole, drawn = max(length_ns, 1), []
    for segment in _drawn(lane.segments, whole):
        begin, end = segment.start_ns / whole, segment.end_ns / whole
        colour = LOOKS[segment.look]
        drawn.append(_rectangle(begin, end, LANE_PX, colour))
        most = int(((end - begin) * _NARROW_PX - 8) / _CHARACTER_PX)
        text = segment.label if len(segment.label) <= most else segment.label.partition(" ")[0]
        if text and len(text) <= most:
            drawn.append(f'<text x="{100 * begin:.2f}%" dx="5" y="13" fill="{ink(colour)}">{escape(text)}</text>')
    return _document(LANE_PX, drawn)


def reach(bars: Sequence[Bar]) -> tuple[int, int]:
    """Return where the axis of a waterfall begins and ends; it begins at 0 unless that would hide the changes."""
    ends = [time for bar in bars if not bar.is_whole for time in (bar.start_ns, bar.end_ns)]
    low, high = min(ends, default=0), max([time for bar in bars for time in (bar.start_ns, bar.end_ns)], default=1)
    return (max(low - (high - low) // 2, 0) if low > _BREAK * high else 0), max(high, 1)


def waterfall_svg(bar: Bar, begin: int, end: int) -> str:
    """Return a bar of a waterfall; the whole ones are broken where the axis does not begin at 0."""
    whole = max(end - begin, 1)
    first, last = sorted((max(time, begin) - begin) / whole for time in (bar.start_ns, bar.end_ns))
    drawn = [_rectangle(first, max(last, first + 0.003), WATERFALL_PX - 2, LOOKS[bar.look])]
    if bar.is_whole and begin:
        drawn.append(f'<path d="M14 0l-6 {WATERFALL_PX}M20 0l-6 {WATERFALL_PX}" stroke="#fff" stroke-width="2"/>')
    return _document(WATERFALL_PX, drawn)


def steps_svg(steps: Steps) -> tuple[str, int]:
    """Return a bar per step and its width in pixels; many steps share bars, each as high as its longest step."""
    times = np.asarray(steps.times_ns, np.float64)
    edges = np.unique(np.linspace(0, len(times), min(len(times), _MOST_BARS) + 1).astype(np.int64))[:-1]
    heights = np.maximum.reduceat(times, edges)
    is_outlier = np.logical_or.reduceat(np.asarray(steps.is_outlier, np.bool_), edges)
    heights = np.maximum(np.round(STEPS_PX * heights / max(float(heights.max()), 1)), 1).astype(np.int64)
    width = (_STEP_PX + 2) * len(heights)
    drawn = [
        f'<rect x="{(_STEP_PX + 2) * at}" y="{STEPS_PX - height}" width="{_STEP_PX}" height="{height}" '
        f'fill="{LOOKS["outlier" if outlier else "line"]}"/>'
        for at, (height, outlier) in enumerate(zip(heights.tolist(), is_outlier.tolist(), strict=True))
    ]
    return _document(STEPS_PX, drawn, str(width)), width


def _drawn(segments: Sequence[Segment], whole: int) -> list[Segment]:
    """Join short neighbours of one look, so that a lane has as many pieces as can be seen."""
    joined: list[Segment] = []
    for segment in segments:
        last = joined[-1] if joined else None
        if last is None or segment.look != last.look or segment.start_ns - last.end_ns >= _LEAST * whole:
            joined.append(segment)
            continue
        shorter, longer = sorted((last, segment), key=lambda piece: piece.end_ns - piece.start_ns)
        if shorter.end_ns - shorter.start_ns >= 4 * _LEAST * whole:
            joined.append(segment)
        else:
            joined[-1] = Segment(last.start_ns, max(segment.end_ns, last.end_ns), last.look, longer.label)
    return joined


def _rectangle(begin: float, end: float, height: int, colour: str) -> str:
    width = max(100 * (end - begin), 0.05)
    return f'<rect x="{100 * begin:.2f}%" width="{width:.2f}%" height="{height}" fill="{colour}"/>'


def _document(height: int, drawn: Sequence[str], width: str = "100%") -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'font-family="system-ui,DejaVu Sans,sans-serif" font-size="11">{"".join(drawn)}</svg>'
    )

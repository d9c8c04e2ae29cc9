"""The timeline and the flame graph as plain text, for terminals, screen readers and viewers without figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd

from npuprof.arrays import Float64
from npuprof.flame.fold import Root, fold
from npuprof.flame.scope import Scope
from npuprof.flame.tree import MergedCalls, Weight, merged_calls
from npuprof.flame.view import TITLES, DrawnFlames
from npuprof.timeline.view import DrawnTimeline, Pictures
from npuprof.words.quantities import count, counted, duration, printable, share
from npuprof.words.texts import plain_line

_COLUMNS = 60
_BARS = 2_000
_FRAMES = 40
_TITLE, _LONGEST_TITLE, _NAME = 24, 40, 48
_LEAST_OF_TITLE = 5  # of a last part that is cut
_HEIGHTS = " ▁▂▃▄▅▆▇█"


def timeline_text(
    tables: Mapping[str, pd.DataFrame],
    *,
    start_ns: int | None = None,
    end_ns: int | None = None,
    pictures: Pictures | None = None,
) -> str:
    """Return the timeline, or a window of it, with a line per track; the height of a column is its busy share.

    `pictures` are those of the window if another view has computed them already.
    """
    pictures = pictures or Pictures(tables, start_ns, end_ns)
    drawn = pictures.of(_BARS)
    if drawn is None:
        where = "run" if pictures.start_ns is pictures.end_ns is None else "window"
        return f"timeline: {pictures.left_out or f'no slices in this {where}'}"
    begin, span = drawn.opened[0] - drawn.first_ns, drawn.opened[1] - drawn.opened[0]
    since = f" from {duration(begin)} on" if begin else ""
    head = f"timeline: {duration(span)}{since}, {duration(span // _COLUMNS)} per column, as high as its busy share"
    rows = [(_title(title), strip, text) for title, strip, text in (*_tracks(drawn, span), *_counters(drawn, span))]
    width = max((len(title) for title, _, _ in rows), default=0)
    lines = [f"{title:<{max(width, _TITLE)}} |{strip}| {text}" for title, strip, text in rows]
    return "\n".join(line.rstrip() for line in [head, *lines])


def _tracks(drawn: DrawnTimeline, span: int) -> Iterator[tuple[str, str, str]]:
    """Yield title, strip and words of each track, which includes the lanes below its first one, such as callees."""
    bars, titles = drawn.bars, [lane.title for lane in drawn.lanes]
    track = np.cumsum([bool(title) for title in titles])[bars.lane]
    names = drawn.slices.names(bars.row)
    edges = drawn.opened[0] - drawn.first_ns + np.arange(_COLUMNS + 1) * (span / _COLUMNS)
    for number, title in enumerate((title for title in titles if title), 1):
        rows = np.flatnonzero(track == number)
        if not len(rows):
            continue
        starts, ends = (moments[rows, None] - drawn.first_ns for moments in (bars.start_ns, bars.end_ns))
        inside = np.minimum(ends, edges[1:]) - np.maximum(starts, edges[:-1])
        part = bars.busy_ns[rows, None] / np.maximum(ends - starts, 1)
        busy = (np.maximum(inside, 0) * part).sum(axis=0) / (span / _COLUMNS)
        longest = rows[int(np.argmax(bars.longest_ns[rows]))]
        most = f"{printable(names[longest], _NAME)} {duration(int(bars.longest_ns[longest]))}"
        slices = int(bars.count[rows].sum())
        yield title, _strip(busy), f"{counted(slices, 'slice')}, longest {most}"


def _counters(drawn: DrawnTimeline, span: int) -> Iterator[tuple[str, str, str]]:
    for number, line in enumerate(drawn.tracks):
        _, times, _, values = drawn.track(number)
        is_shown = (times >= drawn.opened[0]) & (times <= drawn.opened[1])
        since, values = (times - drawn.opened[0])[is_shown], values[is_shown]
        if not len(values):
            continue
        ends = (np.arange(_COLUMNS) + 1) * (span / _COLUMNS)
        highest = values[np.maximum(np.searchsorted(since, ends) - 1, 0)].astype(np.float64)
        column = np.clip(since * _COLUMNS // span, 0, _COLUMNS - 1)
        np.maximum.at(highest, column, values)
        yield line.title, _strip(highest / max(line.top, 1)), f"at most {values.max(initial=0):,.0f}"


def _strip(heights: Float64) -> str:
    # A column is blank only where the track has nothing at all, however little is there.
    levels = np.where(heights > 0, np.clip(np.rint(heights * (len(_HEIGHTS) - 1)), 1, len(_HEIGHTS) - 1), 0)
    return "".join(_HEIGHTS[level] for level in levels.astype(np.int64).tolist())


def _title(title: str) -> str:
    """Return the title of a track, where it is long without the beginning of its last part: kind and rank stay."""
    shown = plain_line(title)
    head, dot, last = shown.rpartition(" · ")
    room = _LONGEST_TITLE - len(head) - len(dot)
    if len(shown) <= _LONGEST_TITLE or room < _LEAST_OF_TITLE:
        return printable(shown, _LONGEST_TITLE)
    return f"{head}{dot}…{last[1 - room :]}"


def flamegraph_text(tables: Mapping[str, pd.DataFrame], weight: Weight, calls: MergedCalls | None = None) -> str:
    """Return the widest frames of the flame graph with their shares, each below its caller.

    `calls` are the merged calls of the tables, where they are known already.
    """
    calls = merged_calls(tables) if calls is None else calls
    sums = calls.whole(tables)
    frames = fold(calls, sums[weight], Root(), _FRAMES)
    graph = DrawnFlames(calls, sums, weight, Scope(), Root(), frames)
    whole = int(frames.total[0])
    if not whole:
        return f"flame graph: no {TITLES[weight]} in this run"
    write = count if weight == "count" else duration
    lines = [f"flame graph: {write(whole)} of {TITLES[weight]}, callees below their callers"]
    waiting = frames.below(0).tolist()[::-1]
    while waiting:
        frame = waiting.pop()
        total, indent = int(frames.total[frame]), "  " * (int(frames.depth[frame]) - 1)
        name = printable(graph.name(frame), _NAME)
        lines.append(f"{share(total, whole):>8}  {write(total):>9}  {indent}{name}")
        waiting += frames.below(frame).tolist()[::-1]
    return "\n".join(lines)

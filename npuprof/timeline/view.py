"""Bars of a window as figures draw them: places, colours, labels and hover texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pandas as pd

from npuprof.arrays import Float64, Int64
from npuprof.figures.chart import label
from npuprof.figures.colours import shade
from npuprof.sources.files.memory_limit import left_out
from npuprof.timeline.counter_tracks import CounterLine, queue_lines
from npuprof.timeline.lane_packing import Bars, Lane
from npuprof.timeline.layers import layers
from npuprof.timeline.level_of_detail import WindowIndex
from npuprof.timeline.opening import opening
from npuprof.timeline.slices import TABLES, Slices
from npuprof.words.quantities import counted
from npuprof.words.quantities import duration as duration_text

_BYTES_PER_SLICE = 200  # 146 were measured at the peak
_MOST_BYTES = 200_000
_NAME_LENGTHS = (60, 32, 16, 6)
_FACT_LENGTH = 90


@dataclass(frozen=True)
class Looks:
    """Names (of the longest slice, not escaped), colour families, colours and opacity of bars."""

    names: list[str]
    families: list[str]
    colours: list[str]
    opacity: Float64


def looks(bars: Bars, slices: Slices) -> Looks:
    """Return names and colours of bars, whose rows are slice numbers."""
    names, families = slices.names(bars.row), slices.families(bars.row)
    pairs = list(zip(families, names, strict=True))
    shades = {pair: shade(*pair) for pair in set(pairs)}
    share = np.minimum(bars.busy_ns / np.maximum(bars.end_ns - bars.start_ns, 1), 1.0)
    opacity = np.where(bars.count > 1, (0.35 + 0.65 * share).round(2), 1.0)
    return Looks(names, families, [shades[pair] for pair in pairs], opacity)


def hover_texts(
    bars: Bars,
    names: list[str],
    slices: Slices,
    first_ns: int,
    *,
    lengths: tuple[int, ...] = _NAME_LENGTHS,
    most_facts: int | None = None,
) -> list[str]:
    """Return a text for each bar: name and time, and as many facts on the longest slices as fit.

    Names are cut to the first of `lengths` at which all texts fit; `most_facts` limits the facts per slice.
    """
    for longest in lengths:
        labels = {name: label(name or None, longest) for name in set(names)}
        starts, ends, counts, busy, longest_ns = (
            values.tolist()
            for values in (bars.start_ns - first_ns, bars.end_ns - first_ns, bars.count, bars.busy_ns, bars.longest_ns)
        )
        rows = zip(map(labels.__getitem__, names), starts, ends, counts, busy, longest_ns, strict=True)
        texts = [_text(*row) for row in rows]
        remaining = _MOST_BYTES - sum(len(text.encode("utf-8", "surrogatepass")) + 3 for text in texts)
        if remaining >= 0:
            break
    single = np.flatnonzero(bars.count == 1)
    single = single[np.argsort(-bars.longest_ns[single], kind="stable")]
    for at, facts in zip(single.tolist(), slices.facts(bars.row[single]), strict=True):
        more = "".join(f"<br>{label(fact, min(_FACT_LENGTH, 2 * longest))}" for fact in facts[:most_facts])
        remaining -= len(more.encode("utf-8", "surrogatepass"))
        if remaining < 0:
            break
        texts[at] += more
    return texts


def _text(name: str, start_ns: int, end_ns: int, count: int, busy_ns: int, longest_ns: int) -> str:
    start, longest = f"at {duration_text(start_ns)}", duration_text(longest_ns)
    if count == 1:
        return f"<b>{name}</b><br>{longest}, {start}"
    return (
        f"<b>{counted(count, 'slice')}</b><br>{duration_text(busy_ns)} in {duration_text(end_ns - start_ns)}, {start}"
        f"<br>longest: {name}, {longest}"
    )


TRACK_HEIGHT = 2.0
"""Height of a counter track, in lanes."""

_NAMED_BARS = 100  # only the widest bars show a name: text is what makes a picture slow
_FACTS = 1  # facts per slice, which are shapes; a saved notebook has no room for stacks


@dataclass(frozen=True)
class DrawnTimeline:
    """Bars on lanes and their window in epoch nanoseconds; bars may extend beyond the window.

    A figure, drawing or text opens on `opened`: the window, or of a whole run the steps or the work of the device.
    """

    lanes: list[Lane]
    bars: Bars
    slices: Slices
    first_ns: int
    last_ns: int
    opened: tuple[int, int]
    tracks: list[CounterLine] = field(default_factory=list)

    @property
    def height(self) -> float:
        """The bottom of the last track, in lanes."""
        return self.lanes[-1].place + 1 + TRACK_HEIGHT * len(self.tracks)

    def track(self, at: int) -> tuple[float, Int64, Float64, Float64]:
        """Return the upper edge of a counter track, and the times, positions and values of its samples in a window."""
        line = self.tracks[at]
        times, values = line.within(self.first_ns, self.last_ns)
        top = self.lanes[-1].place + 1 + TRACK_HEIGHT * at
        bottom = top + TRACK_HEIGHT - 0.5
        return top, times, bottom - (bottom - top) * values / line.top, values

    @property
    def places(self) -> list[float]:
        """The vertical position of each bar."""
        return [self.lanes[lane].place for lane in self.bars.lane.tolist()]

    @property
    def shared(self) -> tuple[int, int] | None:
        """The number of slices and of bars; None if each slice has its own bar."""
        count, bars = int(self.bars.count.sum()), len(self.bars)
        return None if count == bars else (count, bars)

    def looks(self) -> Looks:
        """Return names, colours and opacity of the bars."""
        return looks(self.bars, self.slices)

    def labels(self, names: list[str], longest: int) -> list[str]:
        """Return the escaped name of each single-slice bar among the widest, and an empty text for the other bars."""
        length = np.where(self.bars.count == 1, self.bars.end_ns - self.bars.start_ns, -1)
        widest = np.argsort(-length, kind="stable")[:_NAMED_BARS]
        texts = [""] * len(names)
        for at in widest[length[widest] >= 0].tolist():
            texts[at] = label(names[at], longest)
        return texts

    def hover(self, names: list[str], longest: int) -> list[str]:
        """Return the hover text of each bar."""
        return hover_texts(self.bars, names, self.slices, self.first_ns, lengths=(longest,), most_facts=_FACTS)


class Pictures:
    """The bars of a window at any level of detail; a figure, a drawing and a text share the common computations.

    Attributes
    ----------
    tables
        Those of the run.
    start_ns, end_ns
        The window in epoch nanoseconds; None where it is not limited.
    stages
        The pipeline stage of each rank.
    """

    def __init__(
        self,
        tables: Mapping[str, pd.DataFrame],
        start_ns: int | None = None,
        end_ns: int | None = None,
        stages: Mapping[int, int] | None = None,
    ) -> None:
        self.tables = tables
        self.stages = stages
        self.start_ns, self.end_ns = start_ns, end_ns
        self._by_number: dict[int, DrawnTimeline] = {}

    @cached_property
    def left_out(self) -> str:
        """Why there are no bars, and how to have them, where memory does not suffice; empty otherwise."""
        rows = sum(self._count(self.tables[name]) for name in TABLES if name in self.tables)
        return left_out("slices are", rows * _BYTES_PER_SLICE)

    def _count(self, table: pd.DataFrame) -> int:
        """Return the number of a table's slices that touch the window."""
        if self.start_ns is None and self.end_ns is None:
            return len(table)
        starts = table["start_ns"].to_numpy(np.int64)
        low = np.iinfo(np.int64).min if self.start_ns is None else self.start_ns
        high = np.iinfo(np.int64).max if self.end_ns is None else self.end_ns
        return int(((starts <= high) & (starts + table["duration_ns"].to_numpy(np.int64) >= low)).sum())

    def of(self, limit: int) -> DrawnTimeline | None:
        """Return at most `limit` bars where the lanes allow; None if none touches the window, or it is too large."""
        if self.left_out or self._index.span is None:
            return None
        if limit not in self._by_number:
            self._by_number[limit] = self._drawn(limit, *self._index.span)
        return self._by_number[limit]

    def _drawn(self, limit: int, first: int, last: int) -> DrawnTimeline:
        bars = self._index.within(first, last, pixels=None, most=max(limit, len(self._index.lanes)))
        first = first if self.start_ns is None else self.start_ns
        last = last if self.end_ns is None else self.end_ns
        tracks = [line for line in self._lines if line.time_ns[0] <= last and line.time_ns[-1] >= first]
        opened = first, max(last, first + 1)
        if self.start_ns is None and self.end_ns is None:
            opened = opening(self.tables, opened)
        return DrawnTimeline(self._index.lanes, bars, self._slices, first, last, opened, tracks)

    @cached_property
    def _slices(self) -> Slices:
        return Slices(self.tables, self.stages)

    @cached_property
    def _index(self) -> WindowIndex:
        parts = (layer.within(self.start_ns, self.end_ns) for layer in layers(self._slices))
        return WindowIndex([part for part in parts if len(part.slices)])

    @cached_property
    def _lines(self) -> list[CounterLine]:
        return list(queue_lines(self.tables))

"""The state of a timeline view: window, selection, matches; a widget only displays it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pandas as pd

from npuprof.arrays import Int64
from npuprof.info import Info
from npuprof.observable import Observed
from npuprof.timeline.counter_tracks import Line, lines, queue_lines
from npuprof.timeline.flows import Arrows, Relations
from npuprof.timeline.lane_packing import Bars
from npuprof.timeline.layers import Group, groups
from npuprof.timeline.level_of_detail import WindowIndex
from npuprof.timeline.range_summary import Readout, readout
from npuprof.timeline.slices import Matches, Slices, search
from npuprof.timeline.view import View, view

_LEAST_NS = 20
_PAN = 0.25
_AROUND = 2.0  # how much of a window a slice that is looked at leaves free, in parts of the slice
_LINE_HEIGHT = 2.0
_GAP = 0.45


@dataclass(frozen=True)
class Row:
    """A titled lane or track on the axis, downwards from 0; the title is not escaped."""

    place: float
    title: str


@dataclass(frozen=True)
class Point:
    """An end of an arrow."""

    time_ns: int
    place: float


class Timeline(Observed):
    """The timeline of a run as the user sees it.

    Attributes
    ----------
    groups
        The groups of lanes.
    lines
        The counter tracks below them.
    whole
        From the first slice to the last, epoch nanoseconds; times are shown relative to its start.
    window
        The visible range.
    pixels
        The width of the view.
    selected
        Number of the selected slice, if any.
    marked
        A range that the user selected, if any.
    matches
        The matches of the current search, if any.
    """

    def __init__(self, tables: Mapping[str, pd.DataFrame], info: Info) -> None:
        super().__init__()
        self.info = info
        self.tables = tables
        self.slices = Slices(tables)
        self.groups: list[Group] = groups(self.slices)
        drawn = [layer for group in self.groups for layer in group.layers]
        group_of = [at for at, group in enumerate(self.groups) for _ in group.layers]
        self._index = WindowIndex(drawn)
        self._group_of_lane = np.array([group_of[lane.layer] for lane in self._index.lanes], np.int64)
        self.lines: list[Line] = [*queue_lines(tables), *lines(tables["counters"])]
        self.relations = Relations(tables, self.slices)
        self.whole = self._whole()
        self.window = self.whole
        self.pixels = 1200
        self.selected: int | None = None
        self.marked: tuple[int, int] | None = None
        self.matches: Matches | None = None
        self._match = -1
        self._related: tuple[int, Arrows] | None = None
        self._found: Int64 = np.zeros(0, np.int64)
        self._hidden: set[str] = set()
        self._shown = Bars.joined([])

    def _whole(self) -> tuple[int, int]:
        spans = [self._index.span] if self._index.span else []
        spans += [(int(line.time_ns[0]), int(line.time_ns[-1])) for line in self.lines]
        if not spans:
            return 0, _LEAST_NS
        start = min(span[0] for span in spans)
        return start, max(*(span[1] for span in spans), start + _LEAST_NS)

    @property
    def empty(self) -> bool:
        """Whether there is neither a slice nor a counter."""
        return not self._index.lanes and not self.lines

    # What there is to see

    def bars(self) -> Bars:
        """Return the bars of the window and of a margin on both sides, for moves of the window."""
        start, end = self.window
        margin = (end - start) // 4
        return self._index.within(start - margin, end + margin, pixels=self.pixels * 3 // 2, shown=self._lanes_shown)

    def view(self) -> View:
        """Return the drawn bars of the window, in the numbering of :meth:`select_bar`."""
        self._shown = bars = self.bars()
        lit = None if self.matches is None else self._index.held(bars, self._found) > 0
        return view(
            bars,
            self._places,
            self.slices,
            self.window,
            first_ns=self.whole[0],
            pixels=self.pixels,
            lit=lit,
        )

    @property
    def rows(self) -> list[Row]:
        """The titled lanes."""
        shown = self._lanes_shown
        return [
            Row(float(self._places[at]), lane.title)
            for at, lane in enumerate(self._index.lanes)
            if lane.title and shown[at]
        ]

    @property
    def line_rows(self) -> list[Row]:
        """The position of the upper edge of each counter track, and its title."""
        top = self._lanes_height
        return [Row(top + at * (_LINE_HEIGHT + _GAP), line.title) for at, line in enumerate(self.lines)]

    @property
    def height(self) -> float:
        """The bottom of lanes and counter tracks."""
        return self._lanes_height + len(self.lines) * (_LINE_HEIGHT + _GAP)

    def line(self, at: int) -> tuple[Int64, npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return a counter track in the window: times, positions on the axis, and values."""
        track = self.lines[at]
        time_ns, value = track.within(*self.window)
        return time_ns, self.line_rows[at].place + _LINE_HEIGHT * (1 - np.clip(value / track.top, 0, 1)), value

    def readout(self) -> Readout:
        """Return the summary of the marked or else the visible range."""
        return readout(self.tables, *(self.marked or self.window))

    def arrows(self) -> tuple[list[tuple[Point, Point]], Arrows]:
        """Return the arrows of the selected slice, and the positions of arrows with two visible ends."""
        if self.selected is None:
            return [], Arrows((), more=False)
        if self._related is None or self._related[0] != self.selected:
            self._related = self.selected, self.relations.of(self.selected)
        arrows = self._related[1]
        drawn = []
        for arrow in arrows.arrows:
            places = self.place_of(arrow.cause), self.place_of(arrow.effect)
            if places[0] is not None and places[1] is not None:
                (start, end), (effect, _) = self.slices.span(arrow.cause), self.slices.span(arrow.effect)
                drawn.append((Point(max(start, min(end, effect)), places[0]), Point(effect, places[1])))
        return drawn, arrows

    def place_of(self, number: int) -> float | None:
        """Return the position of a slice's lane; None for a hidden one."""
        element = self._element(number)
        lane = self._index.lane_of(element) if element >= 0 else -1
        return float(self._places[lane]) if lane >= 0 and self._lanes_shown[lane] else None

    # What is looked at

    def show(self, start_ns: int, end_ns: int) -> None:
        """Make a range visible, within the run and the limits of zoom."""
        low, high = min(start_ns, end_ns), max(start_ns, end_ns)
        span = self.whole[1] - self.whole[0]
        length = min(max(high - low, _LEAST_NS), span + span // 10)
        middle = low + (high - low) // 2
        spare = max(span // 20, 1)
        start = max(min(middle - length // 2, self.whole[1] + spare - length), self.whole[0] - spare)
        self.window = start, start + length
        self._tell()

    def show_all(self) -> None:
        """Make the whole run visible."""
        self.show(*self.whole)

    def zoom(self, factor: float, centre_ns: int | None = None) -> None:
        """Scale the window by `factor`, around a moment or its middle."""
        start, end = self.window
        centre = start + (end - start) // 2 if centre_ns is None else centre_ns
        self.show(centre - round((centre - start) * factor), centre + round((end - centre) * factor))

    def pan(self, part: float) -> None:
        """Move the window by a part of its length, to the left for negative parts."""
        start, end = self.window
        shift = round((end - start) * part)
        self.show(start + shift, end + shift)

    def zoom_to_selection(self) -> None:
        """Show the marked range, or the selected slice with a margin; else the whole run."""
        if self.marked is not None:
            self.show(*self.marked)
        elif self.selected is not None:
            start, end = self.slices.span(self.selected)
            around = max(round((end - start) * _AROUND / 2), _LEAST_NS)
            self.show(start - around, end + around)
        else:
            self.show_all()

    def mark(self, start_ns: int, end_ns: int) -> None:
        """Mark a range, for its summary."""
        self.marked = min(start_ns, end_ns), max(start_ns, end_ns)
        self._tell()

    def hide(self, titles: set[str]) -> None:
        """Hide the groups of these titles, and show all others."""
        self._hidden = set(titles)
        self.__dict__.pop("_lanes_shown", None)
        self.__dict__.pop("_placing", None)
        self._tell()

    # What is selected

    def select(self, number: int | None) -> None:
        """Select a slice, and bring it into the window; None clears the selection."""
        self.selected, self.marked = number, None
        if number is not None:
            start, end = self.slices.span(number)
            if end < self.window[0] or start > self.window[1]:
                length = self.window[1] - self.window[0]
                middle = start + min(end - start, length) // 2
                self.show(middle - length // 2, middle + length - length // 2)
                return
        self._tell()

    def select_bar(self, at: int) -> None:
        """Select the slice of a bar of the last view, or mark the range of several slices."""
        if not 0 <= at < len(self._shown):
            return
        bars = self._shown
        if bars.count[at] == 1:
            self.select(int(bars.row[at]))
        else:
            self.selected = None
            self.mark(int(bars.start_ns[at]), int(bars.end_ns[at]))

    def step(self, by: int) -> None:
        """Select the previous (-1) or next (+1) slice of the lane; without a selection, move the window."""
        element = self._element(self.selected) if self.selected is not None else -1
        if element < 0:
            self.pan(_PAN * by)
        else:
            self.select(self._index.slice_at(self._index.beside(element, by)))

    def step_to_cause(self) -> None:
        """Select the cause of the selected slice, if it has one."""
        if self.selected is not None and (cause := self.relations.caller(self.selected)) is not None:
            self.select(cause)

    def step_to_effect(self) -> None:
        """Select the first effect of the selected slice, if it has one."""
        if self.selected is not None and (effect := self.relations.callee(self.selected)) is not None:
            self.select(effect)

    def clear(self) -> None:
        """Clear selection and search."""
        self.selected = self.marked = self.matches = None
        self._match = -1
        self._tell()

    # What is searched for

    def search(self, text: str, *, regex: bool = False) -> int:
        """Search slices by name, fade all others, and return the number of matches; an empty text ends the search.

        Raises
        ------
        OptionsError
            If the regular expression is invalid.
        """
        matches = search(self.slices, text, regex=regex, hidden=self._tasks_not_drawn) if text else None
        self._light(matches)
        return 0 if matches is None else len(matches)

    def light_up(self, table: str, rows: Int64, text: str) -> None:
        """Highlight rows of a table as if `text` were a search for them."""
        frame = self.tables[table]
        rows = np.asarray(rows, np.int64)
        start = frame["start_ns"].to_numpy()[rows]
        order = np.argsort(start, kind="stable")
        total = int(frame["duration_ns"].to_numpy()[rows].sum())
        self._light(Matches(text, rows[order] + self.slices.first[table], start[order], total))

    def next_match(self, by: int = 1) -> int | None:
        """Select the next (+1) or previous (-1) match; return its index, or None without matches.

        The first match is the nearest after the selected slice or the window's start.
        """
        if self.matches is None or not len(self.matches):
            return None
        if self._match < 0:
            begin = self.window[0] if self.selected is None else self.slices.span(self.selected)[0]
            at = int(np.searchsorted(self.matches.start_ns, begin, side="left"))
            self._match = at if by > 0 else at - 1
        else:
            self._match += by
        self._match %= len(self.matches)
        self.select(int(self.matches.slices[self._match]))
        return self._match

    def _light(self, matches: Matches | None) -> None:
        self.matches, self._match = matches, -1
        self._found = self._index.elements_of(matches.slices) if matches is not None else np.zeros(0, np.int64)
        self._tell()

    def _element(self, number: int) -> int:
        element = self._index.element_of(number)
        if element >= 0:
            return element
        # It is folded with others: on the last lane of one of its layer's tracks.
        layer = self._layer_of(number)
        if layer < 0:
            return -1
        lanes = [at for at, lane in enumerate(self._index.lanes) if lane.layer == layer]
        return self._index.holding(lanes[::-1], *self.slices.span(number))

    def _layer_of(self, number: int) -> int:
        drawn = (rows for group in self.groups for rows in group.layers)
        return next((at for at, rows in enumerate(drawn) if bool((rows.slices == number).any())), -1)

    @cached_property
    def _tasks_not_drawn(self) -> Int64:
        tasks = np.ones(len(self.tables["tasks"]), bool)
        first = self.slices.first["tasks"]
        for group in self.groups:
            for rows in group.layers:
                mine = rows.slices[(rows.slices >= first) & (rows.slices < first + len(tasks))]
                tasks[mine - first] = False
        return np.flatnonzero(tasks)

    @cached_property
    def _lanes_shown(self) -> npt.NDArray[np.bool_]:
        hidden = [at for at, group in enumerate(self.groups) if group.title in self._hidden]
        return ~np.isin(self._group_of_lane, hidden)

    @property
    def _places(self) -> npt.NDArray[np.float64]:
        return self._placing[0]

    @property
    def _lanes_height(self) -> float:
        return self._placing[1]

    @cached_property
    def _placing(self) -> tuple[npt.NDArray[np.float64], float]:
        """The position of each lane without gaps for hidden groups, and the bottom of the last."""
        places, place, layer = np.zeros(len(self._index.lanes)), 0.0, -1
        for at, lane in enumerate(self._index.lanes):
            if not self._lanes_shown[at]:
                continue
            place += _GAP * (layer not in (-1, lane.layer))
            layer = lane.layer
            places[at] = place
            place += 1
        return places, place + _GAP

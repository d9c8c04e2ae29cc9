"""The state of a timeline that is looked at: window, selection, matches; a widget only shows it."""

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
from npuprof.timeline.counter_tracks import Line, lines
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
    """A lane or a line as the axis shows it: its place, downwards from 0, and its title (not escaped)."""

    place: float
    title: str


@dataclass(frozen=True)
class Point:
    """Where an arrow begins or ends."""

    time_ns: int
    place: float


class Timeline(Observed):
    """What of a run is looked at, and what there is to see.

    Parameters
    ----------
    tables
        Every table of the schema by name.
    info
        What is known of the run.

    Attributes
    ----------
    groups
        The groups of lanes that the run has.
    lines
        The counters that are drawn below them.
    whole
        The stretch from the first slice to the last, epoch nanoseconds; times are shown since its start.
    window
        What is visible.
    pixels
        How wide the picture is.
    selected
        Number of the selected slice; None if none is.
    marked
        A range that was chosen by hand; None if none was.
    matches
        What the last search found; None without one.
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
        self.lines: list[Line] = lines(tables["counters"])
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
        """Whether there is nothing to see at all."""
        return not self._index.lanes and not self.lines

    # What there is to see

    def bars(self) -> Bars:
        """Find the bars of the window and a little on either side of it, to be there while it is moved."""
        start, end = self.window
        margin = (end - start) // 4
        return self._index.within(start - margin, end + margin, pixels=self.pixels * 3 // 2, shown=self._lanes_shown)

    def view(self) -> View:
        """Return how the bars of the window look; those are what :meth:`select_bar` counts."""
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
        """The lanes that the axis names."""
        shown = self._lanes_shown
        return [
            Row(float(self._places[at]), lane.title)
            for at, lane in enumerate(self._index.lanes)
            if lane.title and shown[at]
        ]

    @property
    def line_rows(self) -> list[Row]:
        """Where the lines lie: the place of each one's upper edge, and its title."""
        top = self._lanes_height
        return [Row(top + at * (_LINE_HEIGHT + _GAP), line.title) for at, line in enumerate(self.lines)]

    @property
    def height(self) -> float:
        """How far down the lanes and lines reach."""
        return self._lanes_height + len(self.lines) * (_LINE_HEIGHT + _GAP)

    def line(self, at: int) -> tuple[Int64, npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return one line in the window: times, places on the axis, and values."""
        one = self.lines[at]
        time_ns, value = one.within(*self.window)
        return time_ns, self.line_rows[at].place + _LINE_HEIGHT * (1 - np.clip(value / one.top, 0, 1)), value

    def readout(self) -> Readout:
        """Sum up what was marked, or else what is visible."""
        return readout(self.tables, *(self.marked or self.window))

    def arrows(self) -> tuple[list[tuple[Point, Point]], Arrows]:
        """Return the arrows of the selected slice, and where those are drawn whose ends both are."""
        if self.selected is None:
            return [], Arrows((), more=False)
        if self._related is None or self._related[0] != self.selected:
            self._related = self.selected, self.relations.of(self.selected)
        found = self._related[1]
        drawn = []
        for arrow in found.arrows:
            places = self.place_of(arrow.cause), self.place_of(arrow.effect)
            if places[0] is not None and places[1] is not None:
                (start, end), (effect, _) = self.slices.span(arrow.cause), self.slices.span(arrow.effect)
                drawn.append((Point(max(start, min(end, effect)), places[0]), Point(effect, places[1])))
        return drawn, found

    def place_of(self, number: int) -> float | None:
        """Return the place on the axis of a slice's lane; None where it is hidden or not drawn."""
        element = self._element(number)
        lane = self._index.lane_of(element) if element >= 0 else -1
        return float(self._places[lane]) if lane >= 0 and self._lanes_shown[lane] else None

    # What is looked at

    def show(self, start_ns: int, end_ns: int) -> None:
        """Make a window visible; it is kept within the run, and as long as it can be shown."""
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
        """Show `factor` times as much, around a moment or the window's middle."""
        start, end = self.window
        centre = start + (end - start) // 2 if centre_ns is None else centre_ns
        self.show(centre - round((centre - start) * factor), centre + round((end - centre) * factor))

    def pan(self, part: float) -> None:
        """Move the window by a part of its length; to the left if it is negative."""
        start, end = self.window
        shift = round((end - start) * part)
        self.show(start + shift, end + shift)

    def zoom_to_selection(self) -> None:
        """Show what is marked, or the selected slice with a little around it; else the whole run."""
        if self.marked is not None:
            self.show(*self.marked)
        elif self.selected is not None:
            start, end = self.slices.span(self.selected)
            around = max(round((end - start) * _AROUND / 2), _LEAST_NS)
            self.show(start - around, end + around)
        else:
            self.show_all()

    def mark(self, start_ns: int, end_ns: int) -> None:
        """Choose a range to be summed up."""
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
        """Select a slice, and bring it into the window; None selects none."""
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
        """Select what a bar of the last view stands for: its slice, or the stretch of time of several."""
        if not 0 <= at < len(self._shown):
            return
        bars = self._shown
        if bars.count[at] == 1:
            self.select(int(bars.row[at]))
        else:
            self.selected = None
            self.mark(int(bars.start_ns[at]), int(bars.end_ns[at]))

    def step(self, by: int) -> None:
        """Select the slice before (-1) or after (+1) the selected one on its lane; without one, move the window."""
        element = self._element(self.selected) if self.selected is not None else -1
        if element < 0:
            self.pan(_PAN * by)
        else:
            self.select(self._index.slice_at(self._index.beside(element, by)))

    def step_to_cause(self) -> None:
        """Select the cause of the selected slice, if it has one."""
        if self.selected is not None and (found := self.relations.caller(self.selected)) is not None:
            self.select(found)

    def step_to_effect(self) -> None:
        """Select the first effect of the selected slice, if it has one."""
        if self.selected is not None and (found := self.relations.callee(self.selected)) is not None:
            self.select(found)

    def clear(self) -> None:
        """Select nothing, and forget the matches."""
        self.selected = self.marked = self.matches = None
        self._match = -1
        self._tell()

    # What is searched for

    def search(self, text: str, *, regex: bool = False) -> int:
        """Find slices by name, pale all others, and give how many there are; an empty text ends the search.

        Raises
        ------
        OptionsError
            If the regular expression cannot be read.
        """
        matches = search(self.slices, text, regex=regex, hidden=self._tasks_not_drawn) if text else None
        self._light(matches)
        return 0 if matches is None else len(matches)

    def light_up(self, table: str, rows: Int64, text: str) -> None:
        """Highlight slices as if they had been searched for: those of a row of another view, called `text`."""
        frame = self.tables[table]
        rows = np.asarray(rows, np.int64)
        start = frame["start_ns"].to_numpy()[rows]
        order = np.argsort(start, kind="stable")
        total = int(frame["duration_ns"].to_numpy()[rows].sum())
        self._light(Matches(text, rows[order] + self.slices.first[table], start[order], total))

    def next_match(self, by: int = 1) -> int | None:
        """Select the next (+1) or previous (-1) match; give its place among them, from 0, or None if there are none.

        The first one is the nearest from the selected slice or the window's start on.
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
        """Where each lane lies when hidden groups leave no gaps, and how far down the last one reaches."""
        places, place, layer = np.zeros(len(self._index.lanes)), 0.0, -1
        for at, lane in enumerate(self._index.lanes):
            if not self._lanes_shown[at]:
                continue
            place += _GAP * (layer not in (-1, lane.layer))
            layer = lane.layer
            places[at] = place
            place += 1
        return places, place + _GAP

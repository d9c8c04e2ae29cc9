"""The state of a timeline view: window, selection and matches; widgets only display it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from npuprof.analysis.accounting import account
from npuprof.analysis.device_clocks import apart
from npuprof.arrays import Int64
from npuprof.sources.files.memory_limit import left_out
from npuprof.tables.info import Info, Selected
from npuprof.timeline.columns import Columns, columns
from npuprof.timeline.counter_tracks import CounterLine, lines, memory_lines, queue_lines, totals
from npuprof.timeline.flows import Arrows, Relations
from npuprof.timeline.jumps import Jumps
from npuprof.timeline.labels import Labels
from npuprof.timeline.lane_packing import Bars, Lane
from npuprof.timeline.layers import Group, groups
from npuprof.timeline.level_of_detail import WindowIndex
from npuprof.timeline.observable import Observable
from npuprof.timeline.opening import opening
from npuprof.timeline.overview import PartsByColumn, overview
from npuprof.timeline.range_summary import RangeSummary, summary
from npuprof.timeline.slices import TABLES, Matches, Slices, search

_BYTES, _SAVED_BYTES = 200, 300  # a slice, of the index, and of what is saved: half was measured at the peak
_LEAST_NS = 20
_MARGIN = 2.0  # margin around a slice that is zoomed to, as a multiple of its duration
_TOO_SHORT = 100  # a slice shorter than this fraction (1/100) of the window is too narrow to see
_ZOOM_OUT = 20  # width of the window around a slice that was too narrow, as a multiple of its duration
_NEAR = 20  # the window around the cursor is at most this fraction (1/20) of the run
_MOST_COLUMNS = 24_000
_OVERVIEW_COLUMNS = 1000


@dataclass(frozen=True)
class Row:
    """A lane: its number and title, not escaped; the title is empty below the first lane of a track."""

    lane: int
    title: str


@dataclass(frozen=True)
class Answer:
    """The bars of a window."""

    # start_ns, end_ns: the window, epoch nanoseconds.
    start_ns: int
    end_ns: int
    columns: Columns  # the bars
    exact: bool  # whether no bars are shared, so that a narrower window shows no more


class Timeline(Observable):
    """The timeline of a run as the user sees it.

    Attributes
    ----------
    groups
        The groups of lanes.
    rows
        The lanes of each group.
    lines
        The counter tracks, below the groups, then the sums of counters of the same kind.
    labels
        The names of slices as numbers.
    whole
        From the first slice or sample to the last, epoch nanoseconds.
    origin
        The time that all times are shown relative to: the first slice, as in all figures, or else the first sample.
    window
        The visible range; at first the steps, or the work of the device.
    selected
        Number of the selected slice, if any.
    marked
        A range that the user selected, if any.
    matches
        The matches of the current search, if any.
    left_out
        Why the timeline has no slices, and how to have them, where memory does not suffice; empty otherwise.
    cursor
        A moment that the user pointed at, if any.
    """

    def __init__(
        self,
        tables: Mapping[str, pd.DataFrame],
        info: Info,
        aligned: Mapping[str, pd.DataFrame] | None = None,
        stages: Mapping[int, int] | None = None,
        *,
        is_saved: bool = False,
    ) -> None:
        super().__init__()
        self.info = info
        rows = sum(len(tables[name]) for name in TABLES if name in tables)
        self.left_out = left_out("slices are", rows * (_BYTES + _SAVED_BYTES * is_saved))
        if self.left_out:
            tables = {name: table.iloc[:0] for name, table in tables.items()}
            aligned = None
        self.tables = tables
        self._aligned = tables if aligned is None else aligned  # causes of idle time need the host's clock
        self.slices = Slices(tables, stages)
        self.labels = Labels(self.slices)
        self.groups: list[Group] = groups(self.slices)
        visible_layers = [layer for group in self.groups for layer in group.layers]
        group_of = [at for at, group in enumerate(self.groups) for _ in group.layers]
        self._index = WindowIndex(visible_layers)
        self.rows: list[list[Row]] = [[] for _ in self.groups]
        for number, lane in enumerate(self._index.lanes):
            self.rows[group_of[lane.layer]].append(Row(number, lane.title))
        each = [*queue_lines(tables), *memory_lines(tables["memory"]), *lines(tables["counters"])]
        self.lines: list[CounterLine] = [*each, *totals(each)]
        self.relations = Relations(tables, self.slices)
        self.whole = self._whole()
        self.origin = self._index.span[0] if self._index.span else self.whole[0]
        self.window = opening(tables, self.whole)
        self.selected: int | None = None
        self.marked: tuple[int, int] | None = None
        self.cursor: int | None = None
        self.matches: Matches | None = None
        self._match = -1
        self._related: tuple[int, Arrows] | None = None
        self._matched: Int64 = np.zeros(0, np.int64)

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

    # Content of windows

    def answer(self, start_ns: int, end_ns: int, pixels: int, lanes: Sequence[int] | None = None) -> Answer:
        """Return the bars of a window drawn `pixels` wide, on the given lanes or on all."""
        shown = None
        if lanes is not None:
            shown = np.zeros(len(self._index.lanes), bool)
            shown[[lane for lane in lanes if 0 <= lane < len(shown)]] = True
        most = max(_MOST_COLUMNS, len(self._index.lanes))
        bars = self._index.within(start_ns, end_ns, pixels=pixels, most=most, shown=shown)
        lit = None if self.matches is None else self._index.held(bars, self._matched) > 0
        exact = len(bars) == self._index.elements_within(start_ns, end_ns, shown)
        return Answer(start_ns, end_ns, columns(bars, self.labels, self.origin, lit), exact)

    @property
    def gaps(self) -> list[tuple[int, int]]:
        """The longest gaps between tasks of a device, longest first."""
        return self._jumps.gaps

    @property
    def lanes(self) -> list[Lane]:
        """The lanes of all groups."""
        return self._index.lanes

    def bars(self, most: int | None = None) -> Bars:
        """Return all slices as bars: each its own where they do not overlap, or at most `most` that they share."""
        return self._index.elements if most is None else self._index.within(*self.whole, pixels=None, most=most)

    def before(self, number: int) -> int | None:
        """Return the slice before another one on its lane; None for the first one."""
        element = self._element(number)
        before = self._index.beside(element, -1) if element >= 0 else element
        return None if before == element else self._index.slice_at(before)

    def lanes_of_slices(self) -> Int64:
        """Return the lane of each slice, -1 for those that are not drawn."""
        lanes = self._index.lanes_of_slices(self.slices.count)
        layers = [layer for group in self.groups for layer in group.layers]
        for at, layer in enumerate(layers):
            hidden = layer.slices[lanes[layer.slices] < 0]  # they overlap others, and share a bar with them
            if len(hidden):
                start = layer.column("start_ns")[lanes[layer.slices] < 0]
                lanes[hidden] = self._index.lanes_holding(at, start)
        return lanes

    def overview(self, start_ns: int, end_ns: int) -> PartsByColumn:
        """Return the device activity in a window."""
        return overview(self.tables, start_ns, end_ns, _OVERVIEW_COLUMNS)

    def summary(self, start_ns: int, end_ns: int) -> RangeSummary:
        """Return the summary of a range: slices by name and by lane, and device activity."""
        bounds: Selected = {"start_ns": start_ns, "end_ns": end_ns}
        parts = account(self._aligned, None, bounds, apart(self.info.clocks), examination=self.info.examination)
        return summary(self.tables, self.groups, start_ns, end_ns, parts)

    def arrows(self) -> Arrows:
        """Return the causes and effects of the selected slice."""
        if self.selected is None:
            return Arrows((), more=False)
        if self._related is None or self._related[0] != self.selected:
            self._related = self.selected, self.relations.of(self.selected)
        return self._related[1]

    def lane_of(self, number: int) -> int | None:
        """Return the lane of a slice; None if it is not drawn."""
        element = self._element(number)
        return self._index.lane_of(element) if element >= 0 else None

    # Window and marked range

    def show(self, start_ns: int, end_ns: int) -> None:
        """Show a range; the window stays within the run and the limits of zoom."""
        low, high = min(start_ns, end_ns), max(start_ns, end_ns)
        span = self.whole[1] - self.whole[0]
        length = min(max(high - low, _LEAST_NS), span + span // 10)
        middle = low + (high - low) // 2
        spare = max(span // 20, 1)
        start = max(min(middle - length // 2, self.whole[1] + spare - length), self.whole[0] - spare)
        self.window = start, start + length
        self._notify()

    def show_all(self) -> None:
        """Show the whole run."""
        self.show(*self.whole)

    def zoom_to_selection(self) -> None:
        """Zoom to the marked range, or to the selected slice with a margin, or else to the whole run."""
        if self.marked is not None:
            self.show(*self.marked)
        elif self.selected is not None:
            start, end = self.slices.span(self.selected)
            margin = max(round((end - start) * _MARGIN / 2), _LEAST_NS)
            self.show(start - margin, end + margin)
        else:
            self.show_all()

    def point_at(self, moment_ns: int | None) -> None:
        """Put the cursor at a time and show it, zoomed in to at most a twentieth of the run; None removes it."""
        self.cursor = moment_ns
        if moment_ns is None:
            self._notify()
            return
        length = self.window[1] - self.window[0]
        if length > (near := max((self.whole[1] - self.whole[0]) // _NEAR, _LEAST_NS)):
            self.show(moment_ns - near // 2, moment_ns + near - near // 2)
        elif self.window[0] <= moment_ns <= self.window[1]:
            self._notify()
        else:
            self.show(moment_ns - length // 2, moment_ns + length - length // 2)

    def mark(self, start_ns: int, end_ns: int) -> None:
        """Mark a range, for which the view shows the summary."""
        self.marked = min(start_ns, end_ns), max(start_ns, end_ns)
        self._notify()

    # Selection

    def select(self, number: int | None) -> None:
        """Select a slice and scroll to it; None clears the selection."""
        self.selected, self.marked = number, None
        if number is not None:
            start, end = self.slices.span(number)
            if end < self.window[0] or start > self.window[1]:
                length = self.window[1] - self.window[0]
                middle = start + min(end - start, length) // 2
                self.show(middle - length // 2, middle + length - length // 2)
                return
        self._notify()

    def reveal(self, number: int) -> None:
        """Select a slice and scroll to it, zooming in if it is too narrow to see."""
        self.selected, self.marked = number, None
        start, end = self.slices.span(number)
        low, high = self.window
        length = high - low
        if (end - start) * _TOO_SHORT < length:
            length = max((end - start) * _ZOOM_OUT, _LEAST_NS)
        if length == high - low and low <= start and end <= high:
            self._notify()
            return
        middle = start + min(end - start, length) // 2
        self.show(middle - length // 2, middle + length - length // 2)

    def step(self, by: int) -> None:
        """Select the previous (-1) or next (+1) slice on the lane of the selected slice."""
        element = self._element(self.selected) if self.selected is not None else -1
        if element >= 0:
            self.select(self._index.slice_at(self._index.beside(element, by)))

    def step_to_cause(self) -> None:
        """Select the cause of the selected slice, if it has one."""
        if self.selected is not None and (cause := self.relations.caller(self.selected)) is not None:
            self.select(cause)

    def step_to_effect(self) -> None:
        """Select the first effect of the selected slice, if it has one."""
        if self.selected is not None and (effect := self.relations.callee(self.selected)) is not None:
            self.select(effect)

    def jump(self, to: str) -> str:
        """Jump to the longest kernel, the longest gap of a device, a slice of the same name, or a step.

        Parameters
        ----------
        to
            ``kernel`` or ``gap``, when repeated the next shorter one; ``same`` or ``same before``; ``step`` or
            ``step before``.
        """
        if to == "kernel":
            if (number := self._jumps.kernel(self.selected)) is None:
                return "the run has no kernels"
            self.reveal(number)
        elif to == "gap":
            if (gap := self._jumps.gap(self.marked)) is None:
                return "the device has no gap between two of its tasks"
            self._zoom_to(*gap)
        elif to in ("step", "step before"):
            if (window := self._jumps.step(self.window, 1 if to == "step" else -1)) is None:
                return "there is no further step"
            self.show(*window)
        elif to in ("same", "same before"):
            if self.selected is None:
                return "select a slice first"
            if (number := self._jumps.same(self.selected, 1 if to == "same" else -1)) is None:
                return "there is no further slice of that name"
            self.reveal(number)
        return ""

    def _zoom_to(self, start_ns: int, end_ns: int) -> None:
        """Mark a range and zoom to it with a margin."""
        self.selected, self.marked = None, (start_ns, end_ns)
        margin = max((end_ns - start_ns) // 2, _LEAST_NS)
        self.show(start_ns - margin, end_ns + margin)

    @cached_property
    def _jumps(self) -> Jumps:
        return Jumps(self.tables, self.slices)

    def clear(self) -> None:
        """Clear selection, marked range, cursor and search."""
        self.selected = self.marked = self.matches = self.cursor = None
        self._match = -1
        self._notify()

    # Search

    def search(self, text: str, *, regex: bool = False) -> int:
        """Search slices by name, fade all others and return the number of matches; an empty text clears the search."""
        matches = search(self.slices, text, regex=regex, hidden=self._tasks_not_drawn) if text else None
        self._set_matches(matches)
        return 0 if matches is None else len(matches)

    def light_up(self, rows: Mapping[str, Int64], text: str) -> None:
        """Highlight rows of tables as the matches of a search for `text`; nothing where the slices are left out."""
        if self.left_out:
            return
        numbers, starts, total = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], 0
        for table, some in rows.items():
            frame = self.tables[table]
            starts.append(frame["start_ns"].to_numpy(np.int64)[some])
            numbers.append(np.asarray(some, np.int64) + self.slices.first[table])
            total += int(frame["duration_ns"].to_numpy(np.int64)[some].sum())
        start = np.concatenate(starts)
        order = np.argsort(start, kind="stable")
        self._set_matches(Matches(text, np.concatenate(numbers)[order], start[order], total))

    def rows_of_matches(self) -> dict[str, Int64] | None:
        """Return the rows of the matches by table, ascending; None if nothing is searched for."""
        if self.matches is None:
            return None
        return {table: np.sort(rows) for table, _, rows in self.slices.by_table(self.matches.slices)}

    def next_match(self, by: int = 1) -> int | None:
        """Select the next (+1) or previous (-1) match and return its index; None without matches.

        The search starts at the selected slice, or else at the start of the window.
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
        self.reveal(int(self.matches.slices[self._match]))
        return self._match

    def _set_matches(self, matches: Matches | None) -> None:
        self.matches, self._match = matches, -1
        self._matched = self._index.elements_of(matches.slices) if matches is not None else np.zeros(0, np.int64)
        self._notify()

    def _element(self, number: int) -> int:
        element = self._index.element_of(number)
        if element >= 0:
            return element
        # The slice is folded into another slice's element, on the last lane of one of the layer's tracks.
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

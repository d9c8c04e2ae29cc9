"""The explorer of a run: a tab for each view, built when it is first opened."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from html import escape
from typing import TYPE_CHECKING
from uuid import uuid4

import ipywidgets as widgets
import numpy as np
import numpy.typing as npt

from npuprof.analysis.step_windows import run_window
from npuprof.notebook.explorer.code import TITLE as CODE
from npuprof.notebook.explorer.code import CodeView
from npuprof.notebook.explorer.kernel import KernelView
from npuprof.notebook.explorer.texts import STYLE
from npuprof.notebook.widgets import answer_at_once, close_all, explorer_box
from npuprof.profiles.selection import SelectedRows
from npuprof.timeline.allocation_marks import allocating, lifetime
from npuprof.timeline.own_tracks import with_tracks
from npuprof.timeline.slices import Matches
from npuprof.timeline.state import Timeline

if TYPE_CHECKING:
    import pandas as pd

    from npuprof.advice.finding import Finding
    from npuprof.browser.saved_run import SavedRun
    from npuprof.profiles.profile import Profile


_TIMELINE = "Timeline"


@dataclass(frozen=True)
class Tab:
    """A tab of the explorer."""

    title: str  # its label
    # Whether a run has data for it; asked when the explorer is built, so it must be quick.
    has_data: Callable[[Explorer], bool]
    build: Callable[[Explorer], widgets.Widget]  # builds the widget when the tab is first opened


class Explorer:
    """Shows all views of a run.

    Parameters
    ----------
    saved_bytes
        The size of what a saved notebook holds of the run, to be explored without a kernel; 0 for nothing.

    Attributes
    ----------
    kernel
        The details of the last selected kernel.
    identifier
        What its views in a page know each other by.
    held
        What the output of a notebook holds of the run, once it is made.
    on_held
        Called when it is made.
    """

    def __init__(
        self,
        run: Profile,
        tabs: Sequence[Tab],
        beside: Profile | None = None,
        saved_bytes: int = 0,
        tracks: Mapping[str, pd.DataFrame] | None = None,
    ) -> None:
        self._tables = with_tracks(run.tables, tracks) if tracks else run.tables
        self.run: Profile = run
        self.beside = beside
        self.kernel = KernelView(run)
        self.identifier = uuid4().hex
        self.held: SavedRun | None = None
        self.on_held: list[Callable[[], None]] = []
        self._is_showing = False
        self._taken: tuple[tuple[int, int] | None, Matches | None] = None, None
        builds = {tab.title: partial(tab.build, self) for tab in tabs if tab.has_data(self)}
        self._tabs = LazyTabs(builds, self.kernel.move)
        saved = partial(self._saved, saved_bytes) if saved_bytes else None
        self._box = explorer_box(self._tabs.widget, run.info, saved)

    @property
    def widget(self) -> widgets.Widget:
        """The widget to display; shows the timeline unless another tab was opened."""
        if self._tabs.opened is None:
            self.open(_TIMELINE if _TIMELINE in self.titles else self.titles[0])
        return self._box

    def _saved(self, limit_bytes: int) -> str:
        """Return the run, and the one beside it, as HTML that can be explored without a kernel."""
        from npuprof.exports.explorer import explorers, saved_explorer

        run = self.run
        if self.beside is not None:
            return explorers(run, self.beside, limit_bytes=limit_bytes, timeline=self.timeline)
        saved = saved_explorer(
            self.timeline,
            run.advice(),
            run.critical_path,
            limit_bytes=limit_bytes,
            annotations=run.annotations,
        )
        self.held = saved.run
        for tell in self.on_held:
            tell()
        return saved.html

    @cached_property
    def timeline(self) -> Timeline:
        """The state of the timeline, built on first use; it shows the selection of the run."""
        timeline = Timeline(self._tables, self.run.info, self.run.aligned)
        self._show_selected(timeline, self.run._selection.selected)
        timeline.listen(lambda: self._take_selected(timeline))
        self.run._selection.followers.append(lambda selected: self._show_selected(timeline, selected))
        return timeline

    @property
    def origin_ns(self) -> int:
        """The moment that times in tables count from: the timeline's, or the start of a run that it cannot show."""
        if self.timeline.origin:
            return self.timeline.origin
        span, allocated = run_window(self.run.tables), self.run.allocations["allocated_ns"].dropna()
        first = span[0] if span is not None else int(allocated.min()) if len(allocated) else 0
        return self.run.info.started_ns or first

    def _take_selected(self, timeline: Timeline) -> None:
        """Make the marked slices of the timeline the selection of the run."""
        if self._is_showing or self._taken == (timeline.marked, timeline.matches):
            return
        self._taken = timeline.marked, timeline.matches
        start, end = timeline.marked or (None, None)
        text = "" if timeline.matches is None else timeline.matches.text
        with self._showing():  # this timeline shows it already
            self.run._choose(SelectedRows(start, end, self._rows_of_run(timeline.rows_of_matches()), text))

    def _rows_of_run(self, rows: Mapping[str, npt.NDArray[np.int64]] | None) -> dict[str, npt.NDArray[np.int64]] | None:
        """Leave out the rows of the user's own tracks, which the run does not have."""
        if rows is None:
            return None
        kept = {table: some[some < len(self.run.tables[table])] for table, some in rows.items()}
        return {table: some for table, some in kept.items() if len(some)}

    def _show_selected(self, timeline: Timeline, selected: SelectedRows) -> None:
        if self._is_showing:
            return
        with self._showing():
            if selected.rows is not None:
                timeline.light_up(selected.rows, selected.text or "a selection")
            elif timeline.matches is not None:
                timeline.search("")
            if selected.start_ns is not None or selected.end_ns is not None:
                low, high = timeline.whole
                timeline.mark(
                    *(
                        bound if bound is not None else edge
                        for bound, edge in ((selected.start_ns, low), (selected.end_ns, high))
                    )
                )
            elif timeline.marked is not None:
                timeline.select(timeline.selected)
            self._taken = timeline.marked, timeline.matches

    @contextmanager
    def _showing(self) -> Iterator[None]:
        """Ignore selections while the timeline is updated by code."""
        self._is_showing, before = True, self._is_showing
        try:
            yield
        finally:
            self._is_showing = before

    @cached_property
    def code(self) -> CodeView:
        """The view of the user's code, built on first use."""
        return CodeView(self.run, self.timeline, self.light_up, lambda: self.open(_TIMELINE), self.identifier)

    def show_line(self, line: int) -> None:
        """Open the code at a line, by its row among the costs of lines."""
        self.code.show_line(line)
        self.open(CODE)

    @property
    def titles(self) -> list[str]:
        """The titles of the run's tabs."""
        return self._tabs.titles

    def open(self, title: str) -> None:
        """Bring a tab to the front; raise a ValueError if the run has no such tab."""
        self._tabs.open(title)

    def light_up(self, table: str, rows: npt.NDArray[np.int64]) -> None:
        """Highlight rows of a table in the timeline and scroll to the first.

        Memory blocks are not slices: the operators that allocated them are highlighted, and their lifetime is marked.
        """
        timeline = self.timeline
        life = None
        if table == "allocations":
            life = lifetime(self.run.allocations, rows, timeline.whole[1])
            table, rows = "operators", allocating(self.run.tables, rows)
        timeline.clear()
        if len(rows):
            timeline.light_up({table: rows}, f"rows of {table}")
            timeline.next_match()
        if life is not None:
            timeline.mark(*life)
        self.open(_TIMELINE)

    def show_moment(self, moment_ns: int) -> None:
        """Move the timeline's cursor to a time, and open the timeline there."""
        self.timeline.point_at(moment_ns)
        self.open(_TIMELINE)

    def open_at(self, finding: Finding) -> None:
        """Show the evidence of a finding: highlight its rows in the timeline, with the costliest one in the centre.

        Rows that the timeline does not draw are shown in the tab of their table.
        """
        rows, numbers = finding.rows.index.to_numpy(np.int64), self.timeline.slices.first
        if not len(rows) or finding.table not in numbers or self.timeline.left_out:
            self.open(next((title for title in self.titles if title.lower() == finding.table), self.titles[0]))
            return
        self.light_up(finding.table, rows)
        self.timeline.select(numbers[finding.table] + int(rows[np.argmax(finding.costs())]))
        self.timeline.zoom_to_selection()

    def show_longest(self, rows: npt.NDArray[np.int64], title: str) -> None:
        """Show the longest of the given rows of ``kernels`` in detail, in the tab `title`."""
        longest = rows[np.argmax(self.run.kernels["duration_ns"].to_numpy(np.int64)[rows])] if len(rows) else None
        self.kernel.show(None if longest is None else int(longest), title)


def following(explorer: Explorer, build: Callable[[SelectedRows], widgets.Widget]) -> widgets.Widget:
    """Return a view that is built again whenever the selection of the run changes."""
    place = widgets.VBox([], layout={"width": "100%"})

    def show(selected: SelectedRows) -> None:
        former, place.children = place.children, (build(selected),)
        answer_at_once(place)
        for view in former:
            close_all(view)

    show(explorer.run._selection.selected)
    explorer.run._selection.followers.append(show)
    return place


class LazyTabs:
    """Tabs whose contents are built when they are first opened; none is open at first.

    Attributes
    ----------
    opened
        The title of the tab that was opened last, if any.
    titles
        The titles, in order.
    widget
        The widget to display.
    """

    def __init__(
        self, builds: Mapping[str, Callable[[], widgets.Widget]], on_open: Callable[[str], None] = lambda _: None
    ) -> None:
        self._builds = dict(builds)
        self._on_open = on_open
        self._built: set[str] = set()
        self.opened: str | None = None
        self.titles = list(builds)
        wide = widgets.Layout(width="100%")  # one for all: each is a message to the page
        self._places = [widgets.VBox([], layout=wide) for _ in self.titles]
        self._tab = widgets.Tab(self._places, titles=self.titles, selected_index=0)
        self._tab.observe(lambda change: self._open(change["new"]), "selected_index")
        self.widget = widgets.VBox([widgets.HTML(STYLE), self._tab], layout=wide)
        self.widget.add_class("npuprof-explorer")
        answer_at_once(self.widget)

    def open(self, title: str) -> None:
        """Bring a tab to the front; raise a ValueError if there is no such tab."""
        self._tab.selected_index = index = self.titles.index(title)
        self._open(index)  # a tab in front from the beginning is not a change

    def _open(self, index: int | None) -> None:
        if index is None:
            return
        title, place = self.titles[index], self._places[index]
        self.opened = title
        self._on_open(title)
        if title in self._built:
            return
        self._built.add(title)
        try:
            part = self._builds[title]()
        except Exception as error:  # noqa: BLE001 - shown in the tab; the other tabs still work
            text = f"npuprof: this view could not be made: {type(error).__name__}: {error}"
            part = widgets.HTML(f"<pre>{escape(text)}</pre>")
        place.children = (part,)
        answer_at_once(part)

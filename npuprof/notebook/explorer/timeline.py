"""The timeline as widgets: buttons, search, figure, range summary and selection."""

from __future__ import annotations

import threading
from html import escape

import ipywidgets as widgets

from npuprof.errors import OptionsError
from npuprof.notebook.explorer.browser_events import CONTAINER_CLASS, SCROLLED_CLASS, Keys
from npuprof.notebook.explorer.controls import Debounced, button, search_fields, side_by_side
from npuprof.notebook.explorer.figure import TimelineFigure
from npuprof.notebook.explorer.kernel import KernelView
from npuprof.notebook.explorer.texts import legend_html, matches_text, readout_html, selection_html
from npuprof.timeline.keyboard import CLOSER, FARTHER, SHIFT, press
from npuprof.timeline.slices import Matches
from npuprof.timeline.state import Timeline

_SETTLED_S = 0.06  # delay between the last change and the redraw
_QUIET_S = 0.25  # delay before the range is summed up
_WHEEL_PIXELS = 300.0  # wheel movement that halves or doubles the visible range

_TITLE = "Timeline"

_DRAGS = (("zoom", "zoom"), ("move", "pan"), ("measure", "select"))
_DRAG_TIPS = ("show the range that is drawn", "move what is shown", "sum up the range that is drawn")


class TimelineView:
    """Shows a timeline and applies the user's actions to it.

    Parameters
    ----------
    timeline
        The state; others may change it too.
    kernel
        Shows a selected kernel in detail.

    Attributes
    ----------
    widget
        The widget to display.
    figure
        The figure in it.
    """

    def __init__(self, timeline: Timeline, kernel: KernelView | None = None) -> None:
        self._timeline = timeline
        self._kernel = kernel
        self._lock = threading.RLock()  # widget messages may arrive on several threads
        self._drawn: tuple[tuple[int, int], float] | None = None
        self._drawn_matches: Matches | None = None
        self._place: int | None = None
        self.figure = TimelineFigure(timeline, timeline.show, timeline.select_bar, timeline.mark)
        self._redraw = Debounced(self._draw, _SETTLED_S)
        self._sum = Debounced(self._sum_up, _QUIET_S)
        self._readout, self._selection = widgets.HTML(), widgets.HTML()
        self._found = widgets.HTML()
        self.widget = self._box()
        timeline.listen(self._changed)
        self._sum_up()
        self._selection.value = selection_html(timeline)

    def _box(self) -> widgets.Widget:
        timeline = self._timeline
        keys = Keys(self._key, self._wheel, self._resized)
        buttons = [
            button("Zoom in", "W: show half as much", lambda: timeline.zoom(CLOSER)),
            button("Zoom out", "S: show twice as much", lambda: timeline.zoom(FARTHER)),
            button("◀ Move", "A: move to the left", lambda: timeline.pan(-SHIFT)),
            button("Move ▶", "D: move to the right", lambda: timeline.pan(SHIFT)),
            button("Selection", "F: show the selection or the measured range", timeline.zoom_to_selection),
            button("All", "0: show the whole run", timeline.show_all),
        ]
        drag = widgets.ToggleButtons(options=_DRAGS, style={"button_width": "auto"}, tooltips=_DRAG_TIPS)
        drag.observe(lambda change: self.figure.drag(change["new"]), "value")
        scrolled = widgets.Box([keys, self.figure.widget], layout={"display": "block", "width": "100%"})
        scrolled.add_class(SCROLLED_CLASS)
        left = widgets.VBox([self._readout, *([self._kernel.place(_TITLE)] if self._kernel is not None else [])])
        panes = side_by_side([left, self._selection])
        panes.layout.align_items = "flex-start"
        for pane in (left, self._selection):
            pane.layout = widgets.Layout(flex="1 1 380px", min_width="0")
        rows = [side_by_side([*buttons, widgets.Label("Drag to"), drag]), side_by_side(self._search_controls())]
        if len(timeline.groups) > 1:
            rows.append(side_by_side(self._group_controls()))
        box = widgets.VBox([*rows, widgets.HTML(legend_html()), scrolled, panes])
        box.add_class(CONTAINER_CLASS)
        return box

    def _search_controls(self) -> list[widgets.Widget]:
        text, regex = search_fields(self._search)
        previous = button("Previous", "P: the match before", lambda: self._walk(-1))
        following = button("Next", "N: the next match", lambda: self._walk(1))
        return [text, regex, previous, following, self._found]

    def _search(self, text: str, regex: bool) -> None:
        self._place = None
        try:
            self._timeline.search(text, regex=regex)
        except OptionsError as error:
            self._found.value = ""
            self._say(str(error))
        else:
            self._walk(1)

    def _group_controls(self) -> list[widgets.Widget]:
        toggles = [
            widgets.ToggleButton(
                value=True, description=group.title, layout={"width": "auto"}, tooltip=f"Show {group.title}"
            )
            for group in self._timeline.groups
        ]

        def hide(_: object) -> None:
            self._timeline.hide({toggle.description for toggle in toggles if not toggle.value})

        for toggle in toggles:
            toggle.observe(hide, "value")
        return [widgets.Label("Show"), *toggles]

    def _walk(self, by: int) -> None:
        self._place = self._timeline.next_match(by)
        self._say(matches_text(self._timeline, self._place))

    def _say(self, text: str) -> None:
        self._found.value = f'<span role="status">{escape(text)}</span>'

    def _key(self, key: str, at: float | None) -> None:
        if key in ("w", "s") and at is not None:
            self._timeline.zoom(CLOSER if key == "w" else FARTHER, self._moment(at))
        elif key in ("n", "p"):
            self._walk(1 if key == "n" else -1)
        else:
            press(self._timeline, key)

    def _wheel(self, turned: float, at: float | None) -> None:
        factor = 2.0 ** min(max(turned / _WHEEL_PIXELS, -3.0), 3.0)
        self._timeline.zoom(factor, None if at is None else self._moment(at))

    def _moment(self, at: float) -> int:
        start, end = self._timeline.window
        return start + round((end - start) * min(max(at, 0.0), 1.0))

    def _resized(self, width: int) -> None:
        if width > 0:
            self._timeline.pixels = min(max(width, 200), 8_000)
            self._drawn = None
            self._redraw.ask()

    def _changed(self) -> None:
        self._redraw.ask()
        self._sum.ask()

    def _draw(self) -> None:
        with self._lock:
            self._show()

    def _show(self) -> None:
        timeline = self._timeline
        look = (timeline.window, timeline.height)
        if look != self._drawn or timeline.matches is not self._drawn_matches:
            self._drawn, self._drawn_matches = look, timeline.matches
            self.figure.draw()
        else:
            self.figure.draw_selection()
        self._selection.value = selection_html(timeline)
        if self._kernel is not None:
            table, row = timeline.slices.row(timeline.selected) if timeline.selected is not None else ("", 0)
            self._kernel.show(row if table == "kernels" else None, _TITLE)
        if timeline.matches is None:
            self._found.value = ""

    def _sum_up(self) -> None:
        with self._lock:
            self._readout.value = readout_html(self._timeline.readout(), marked=self._timeline.marked is not None)

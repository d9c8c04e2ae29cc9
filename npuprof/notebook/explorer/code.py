"""The user's code in the explorer: a line chooses its kernels, and a slice of the timeline its line."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import anywidget
import ipywidgets as widgets
import numpy as np
import traitlets

from npuprof.arrays import Int64
from npuprof.browser.tables import kind_of
from npuprof.lines.frames import line_text
from npuprof.notebook.explorer.controls import button
from npuprof.notebook.widgets import answer_at_once
from npuprof.words.quantities import counted, printable

if TYPE_CHECKING:
    from npuprof.notebook.explorer.table import Show
    from npuprof.profiles.profile import Profile
    from npuprof.timeline.state import Timeline

TITLE = "Code"
_LAUNCHED = ("kernels", "operators", "api")
_NOUNS = {"kernels": "kernel", "operators": "operator", "api": "call"}
_LONGEST_NAME = 120
_HINT = "Click a line: its kernels are highlighted in the timeline, and listed here."


class CodeWidget(anywidget.AnyWidget):
    """Shows code, reports the row of a line that is clicked, and highlights the line of a row."""

    _esm = (Path(__file__).parent / "code.js").read_text(encoding="utf-8")
    html = traitlets.Unicode("").tag(sync=True)
    row = traitlets.Int(-1).tag(sync=True)

    def __init__(self, html: str, on_click: Callable[[int], None]) -> None:
        super().__init__(html=html)
        self._on_click = on_click
        self.on_msg(self._receive)

    def _receive(self, _: object, content: object, __: object) -> None:
        row = content.get("row") if isinstance(content, dict) else None
        if isinstance(row, int) and not isinstance(row, bool):
            self._on_click(row)


class CodeView:
    """The code of a run, and the rows of the chosen line.

    Attributes
    ----------
    widget
        The widget to display.
    code
        The widget with the code.
    """

    def __init__(
        self, run: Profile, timeline: Timeline, show: Show, open_timeline: Callable[[], None], explorer: str = ""
    ) -> None:
        self._run = run
        self._timeline = timeline
        self._show = show
        self._open_timeline = open_timeline
        self._explorer = explorer
        self._annotated = run.code()
        self._lines = run.advice().facts.code_lines
        self.code = CodeWidget(self._annotated.html(clickable=True), self.choose)
        self._label = widgets.HTML(f"<span class='faint'>{_HINT}</span>")
        self._rows = widgets.VBox([], layout={"width": "100%"})
        self.widget = widgets.VBox([self.code, self._label, self._rows], layout={"width": "100%"})
        if timeline.selected is not None:
            self.show_line(line_of_slice(run, timeline, timeline.selected))

    def choose(self, row: int) -> None:
        """Highlight in the timeline, and list, the kernels of a shown line, or else its operators or calls."""
        line = self._annotated.cost_row(row)
        self.code.row = row
        table, rows = next(
            ((table, rows) for table in _LAUNCHED if len(rows := self._rows_of(table, line))), ("kernels", _NOTHING)
        )
        what = counted(len(rows), _NOUNS[table])
        self._timeline.clear()
        if not len(rows):
            self._label.value = "<span class='faint'>This line launched nothing.</span>"
            self._rows.children = ()
            return
        self._timeline.light_up({table: rows}, f"{table} of a line")
        self._timeline.next_match()
        named = escape(printable(line_text(*self._lines.place(line)), _LONGEST_NAME))
        self._label.value = f"<span class='faint'>{what} of {named}, highlighted in the timeline:</span>"
        self._rows.children = (
            button("Open the timeline", f"The {what} in the timeline", self._open_timeline),
            *self._listed(table, rows),
        )
        answer_at_once(self._rows)

    def show_line(self, line: int) -> None:
        """Highlight a line, by its row among the costs; nothing for -1."""
        if line >= 0:
            self.code.row = self._annotated.shown_row(line)

    def _rows_of(self, table: str, line: int) -> Int64:
        if line < 0:
            return _NOTHING
        every = np.arange(len(self._run.tables[table]), dtype=np.int64)
        return np.flatnonzero(self._lines.of_rows(table, every) == line)

    def _listed(self, table: str, rows: Int64) -> tuple[widgets.Widget, ...]:
        from npuprof.notebook.explorer.table import TableView

        kind = kind_of(table)
        if kind is None:
            return ()
        origin_ns, explorer = self._timeline.origin, self._explorer
        view = TableView(self._run, kind, origin_ns=origin_ns, show=self._show, listed=rows, explorer=explorer)
        return (view.widget,)


class LineButton:
    """A button below the timeline that opens the code at the line of the selected slice; hidden without one.

    Attributes
    ----------
    widget
        The widget to display.
    """

    def __init__(self, run: Profile, timeline: Timeline, show: Callable[[int], None]) -> None:
        self._run = run
        self._timeline = timeline
        self._selected: int | None = None
        self._line = -1
        self.widget = button("", "Show the line of the selected slice in the code", lambda: show(self._line))
        self.widget.layout.display = "none"
        timeline.listen(self._follow)

    def _follow(self) -> None:
        selected = self._timeline.selected
        if selected == self._selected:
            return
        self._selected = selected
        self._line = -1 if selected is None else line_of_slice(self._run, self._timeline, selected)
        if self._line >= 0:
            self.widget.description = line_text(*self._run.advice().facts.code_lines.place(self._line))
        self.widget.layout.display = "" if self._line >= 0 else "none"


def line_of_slice(run: Profile, timeline: Timeline, number: int) -> int:
    """Return the row among the costs of lines for a slice of the timeline, -1 for none."""
    table, row = timeline.slices.row(number)
    if table not in ("python", *_LAUNCHED):
        return -1
    return int(run.advice().facts.code_lines.of_rows(table, np.array([row]))[0])


_NOTHING = np.zeros(0, np.int64)

"""A table in the notebook: answers a page for the rows that the saved data of the run does not hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pandas as pd

from npuprof.analysis.filters import MOMENTS
from npuprof.analysis.table_view import View, code, members, rows
from npuprof.arrays import Int64
from npuprof.browser.tables import GridTable, described
from npuprof.errors import OptionsError
from npuprof.notebook.explorer.canvas import CanvasPlace, CanvasWidget, Message, answering
from npuprof.notebook.explorer.requests import known_of, whole_in
from npuprof.profiles.selection import SelectedRows
from npuprof.timeline.slices import column_text
from npuprof.words.quantities import printable

if TYPE_CHECKING:
    from npuprof.profiles.profile import Profile

Show: TypeAlias = Callable[[str, Int64], None]
"""Shows rows in the timeline: the name of the table, and the row numbers."""
Choose: TypeAlias = Callable[[Int64], None]
"""Called with the numbers of the selected rows, ascending."""

_MOST_ROWS = 1_000  # of an answer
_MOST_LIT = 100_000  # maximum number of rows to highlight in the timeline
_LONGEST_TEXT = 300
_EXACT = 2**53  # whole numbers that a page can hold


class TableView:
    """Answers a page that shows a table; a page with its own data asks only for missing rows.

    Attributes
    ----------
    widget
        The widget to display.
    canvas
        The widget of the page in it.
    """

    def __init__(
        self,
        run: Profile,
        kind: GridTable,
        *,
        origin_ns: int = 0,
        show: Show | None = None,
        choose: Choose | None = None,
        listed: Int64 | None = None,
        selected: Callable[[], SelectedRows] = SelectedRows,
        explorer: str = "",
    ) -> None:
        self._frame = run.tables[kind.table].reset_index(drop=True)
        self._kind, self._origin_ns = kind, origin_ns
        self._show, self._choose = show, choose
        self._listed, self._selected, self._explorer = listed, selected, explorer
        self._last: tuple[View, Int64 | None, tuple[pd.DataFrame, dict[str, str]]] | None = None
        self._receive = answering(
            lambda: self.canvas,
            {"rows": self._send_rows, "code": self._send_code, "show": self._show_rows, "choice": self._choose_rows},
        )
        self.widget = CanvasPlace(self._make)

    def _make(self) -> CanvasWidget:
        listed = self._listed
        setup = {
            "view": "table",
            "explorer": self._explorer,
            "table": described(self._kind, self._frame),
            "shows": self._show is not None,
            "tells": self._choose is not None,
            "part": listed is not None,
            "rows": None if listed is None or len(listed) > _MOST_LIT else listed.tolist(),
        }
        self.canvas = CanvasWidget(setup, {}, self._receive)
        return self.canvas

    def follow(self, selected: SelectedRows) -> None:
        """Show in pages that another part of the run is selected."""
        self.canvas.say("selected", {"selected": not selected.is_all})

    def _part(self) -> Int64 | None:
        """Return the rows of the table that are listed, None for all."""
        if self._listed is not None:
            return self._listed
        of_tables = self._selected().rows
        return None if of_tables is None else of_tables.get(self._kind.table, np.zeros(0, np.int64))

    def _view(self, asked: Message) -> View:
        """Return the requested columns that the table has."""
        view = View(self._kind.table, tuple(_texts(asked.get("group"))))
        if view.group not in self._kind.groups or not set(view.group) <= set(self._frame.columns):
            view = replace(view, group=())
        names = view.all_columns or tuple(map(str, self._frame.columns))
        return replace(
            view,
            where=tuple((name, text) for name, text in _pairs(asked.get("where"), str) if name in names),
            sort=tuple((name, descends) for name, descends in _pairs(asked.get("sort"), bool) if name in names),
            columns=tuple(name for name in _texts(asked.get("columns")) if name in names),
        )

    def _find(self, view: View) -> tuple[pd.DataFrame, dict[str, str]]:
        """Return all rows of a view with all columns, and why filters were left out, by column."""
        view, part = replace(view, columns=()), self._part()
        if self._last is not None and self._last[0] == view and self._last[1] is part:
            return self._last[2]  # another page of the same rows
        frame = self._frame if part is None else self._frame.iloc[part]
        errors: dict[str, str] = {}
        for name, text in view.where:
            try:
                rows(replace(view, where=((name, text),), sort=()), frame.iloc[:0], self._origin_ns)
            except OptionsError as error:
                errors[name] = str(error)
        kept = tuple(pair for pair in view.where if pair[0] not in errors)
        try:
            matching = rows(replace(view, where=kept), frame, self._origin_ns)
        except OptionsError as error:  # a regular expression that takes too long
            errors |= {name: str(error) for name, _ in kept}
            matching = rows(replace(view, where=()), frame, self._origin_ns)
        self._last = view, part, (matching, errors)
        return matching, errors

    def _send_rows(self, asked: Message) -> None:
        view = self._view(asked)
        matching, errors = self._find(view)
        first, count = (max(whole_in(asked.get(name)) or 0, 0) for name in ("first", "count"))
        page = matching.iloc[first : first + min(count, _MOST_ROWS)]
        values = [[_value(value, name, self._origin_ns) for value in page[name].tolist()] for name in view.columns]
        answer = {"total": len(matching), "errors": errors, "rows": [list(row) for row in zip(*values, strict=True)]}
        self.canvas.say("rows", {**known_of(asked), **answer})

    def _send_code(self, asked: Message) -> None:
        view = self._view(asked)
        _, errors = self._find(view)
        view = replace(view, where=tuple(pair for pair in view.where if pair[0] not in errors))
        run = "run" if self._part() is None else "run.selection"
        self.canvas.say("code", {**known_of(asked), "text": code(view, self._frame, self._origin_ns, run=run)})

    def _meant(self, asked: Message) -> Int64:
        """Return the rows of the table that a page means: by their numbers, or by their places in a view."""
        numbers = asked.get("numbers")
        if isinstance(numbers, list):
            known = (whole_in(number) for number in numbers)
            meant = np.array([number for number in known if number is not None], np.int64)
            return np.unique(meant[(meant >= 0) & (meant < len(self._frame))])
        view, part, places = self._view(asked), self._part(), asked.get("places")
        matching, errors = self._find(view)
        view = replace(view, where=tuple(pair for pair in view.where if pair[0] not in errors))
        frame = self._frame if part is None else self._frame.iloc[part]
        groups = [
            members(view, frame, matching.iloc[place], self._origin_ns)
            for place in (places if isinstance(places, list) else [])[:_MOST_ROWS]
            if isinstance(place, int) and 0 <= place < len(matching)
        ]
        return np.unique(np.concatenate(groups)) if groups else np.zeros(0, np.int64)

    def _show_rows(self, asked: Message) -> None:
        meant, text = self._meant(asked), ""
        if self._show is not None and len(meant):
            self._show(self._kind.table, meant[:_MOST_LIT])
            more = f", the first {_MOST_LIT:,}" if len(meant) > _MOST_LIT else ""
            text = f"{len(meant):,} {self._kind.noun}{more} shown in the timeline"
        self.canvas.say("show", {**known_of(asked), "text": text})

    def _choose_rows(self, asked: Message) -> None:
        if self._choose is not None:
            self._choose(self._meant(asked))


def _texts(value: object) -> list[str]:
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []


def _pairs(value: object, kind: type) -> list[tuple[str, Any]]:
    pairs = value if isinstance(value, list) else []
    return [
        (pair[0], pair[1])
        for pair in pairs
        if isinstance(pair, Sequence) and len(pair) == 2 and isinstance(pair[0], str) and isinstance(pair[1], kind)
    ]


def _value(value: Any, column: str, origin_ns: int) -> Any:
    """Return a value as JSON has it: moments count from the origin, and numbers that a page cannot hold are texts."""
    if value is None or (pd.api.types.is_scalar(value) and pd.isna(value)):
        return None
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        number = value - origin_ns if column in MOMENTS else value
        return number if abs(number) < _EXACT else column_text(column, value)
    if isinstance(value, float) and np.isfinite(value):
        return value
    return printable(column_text(column, value), _LONGEST_TEXT)

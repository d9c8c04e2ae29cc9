"""The state of a table's grid, which answers requests page by page, and the cell texts. Without widgets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from npuprof import quantities
from npuprof.analysis import filters
from npuprof.analysis.filters import MOMENTS
from npuprof.analysis.table_view import View, code, members, rows
from npuprof.errors import OptionsError
from npuprof.notebook.grid.widget import Action, Heading, Message, Order, Page
from npuprof.schema import SCHEMA

_LONGEST = 300


def texts(frame: pd.DataFrame, column: str, origin_ns: int) -> list[str]:
    """Return the formatted values of a column; times are relative to `origin_ns`, and absent values are dashes."""
    return [_text(value, column, origin_ns) for value in _values(frame[column])]


def is_numeric(frame: pd.DataFrame, column: str) -> bool:
    """Return whether a column holds quantities."""
    dtype = frame[column].dtype
    return bool(pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_bool_dtype(dtype))


def _values(series: pd.Series[Any]) -> Iterable[Any]:
    # Series.tolist() converts Int64 with absent values to objects, never to floats.
    return series.tolist()


def _text(value: Any, column: str, origin_ns: int) -> str:
    if value is None or (pd.api.types.is_scalar(value) and pd.isna(value)):
        return quantities.ABSENT
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        if column in MOMENTS:
            return moment(value - origin_ns)
        if column.endswith("_ns"):
            return quantities.duration(value)
        if column.endswith("_bytes"):
            return quantities.size(value)
        return quantities.count(value) if column == "count" else str(value)
    if isinstance(value, float):
        return f"{100 * value:.1f} %" if column == "share" else f"{value:,.4g}"
    return quantities.printable(str(value), _LONGEST)


def moment(since_ns: int) -> str:
    """Return a time since the start of the run in seconds, with all nanoseconds: ``1.234 567 890 s``."""
    sign = "-" if since_ns < 0 else ""
    seconds, remainder = divmod(abs(since_ns), 1_000_000_000)
    digits = f"{remainder:09d}"
    return f"{sign}{seconds:,}.{digits[:3]} {digits[3:6]} {digits[6:]} s"


PAGE_ROWS = 50
_MOST_LIT = 100_000  # maximum number of rows to highlight in the timeline

Show: TypeAlias = Callable[[str, npt.NDArray[np.int64]], None]
"""Shows rows in the timeline: the name of the table, and the row numbers."""
Choose: TypeAlias = Callable[[npt.NDArray[np.int64]], None]
"""Called with the numbers of the selected rows, ascending."""


@dataclass(frozen=True)
class GridTable:
    """A table that has a grid.

    Attributes
    ----------
    table, title, noun
        Its name in a profile, its title, and the noun for its rows.
    groups
        The ways to group its rows, each a tuple of columns; the first is shown first.
    """

    table: str
    title: str
    noun: str
    groups: tuple[tuple[str, ...], ...]


KINDS: tuple[GridTable, ...] = (
    GridTable("operators", "Operators", "operators", (("name",), ("name", "input_shapes"), ("thread_id",), ("step",))),
    GridTable(
        "kernels",
        "Kernels",
        "kernels",
        (("name", "op_type"), ("op_type",), ("core",), ("op_type", "input_shapes"), ("stream_id",), ("step",)),
    ),
    GridTable("api", "API", "calls", (("name", "level"), ("level",), ("thread_id",))),
    GridTable("communication", "Communication", "operators", (("op_type",), ("group",), ("name",), ("step",))),
    GridTable("marks", "Marks", "markers", (("message",), ("domain",), ("thread_id",))),
    GridTable("allocations", "Allocations", "blocks", (("name",), ("device_id",), ("stream",))),
)
"""The tables with a grid, in order."""


class TableController:
    """The state of a table's grid.

    Parameters
    ----------
    kind, frame
        The kind of table, and the table.
    origin_ns
        The start of the run, to which times are relative.
    show
        Shows rows in the timeline, or None.
    choose
        Called with the selected rows, or None.
    """

    def __init__(
        self,
        kind: GridTable,
        frame: pd.DataFrame,
        origin_ns: int = 0,
        show: Show | None = None,
        choose: Choose | None = None,
    ) -> None:
        self.kind = kind
        self._frame = frame.reset_index(drop=True)
        self._origin_ns = origin_ns
        self._show = show
        self._choose = choose
        present = [str(name) for name in frame.columns if frame[name].notna().any()]
        # The naming columns come first.
        self._present = tuple(sorted(present, key=lambda name: name not in kind.groups[0]))
        self._groups = [group for group in kind.groups if set(group) <= set(present)] + [()]
        self._page = 0
        self._note = ""
        self._errors: dict[str, str] = {}
        self._typed: dict[str, str] = {}
        self._view = self._fresh(self._groups[0])
        self._rows = rows(replace(self._view, columns=()), self._frame, origin_ns)

    @property
    def view(self) -> View:
        """The current view of the table, as in :mod:`npuprof.analysis.table_view`."""
        return self._view

    @property
    def code(self) -> str:
        """The pandas expression for the shown frame."""
        return code(self._view, self._frame, self._origin_ns)

    def rows(self) -> pd.DataFrame:
        """Return the complete shown frame, in order."""
        visible_rows: pd.DataFrame = self._rows[list(self._view.columns)]
        return visible_rows

    def answer(self, question: Message) -> None:
        """Handle a request of the grid; a malformed request has no effect, an invalid filter is shown on the page."""
        asked = {
            "sort": self._sort,
            "filter": self._filter,
            "group": self._group,
            "column": self._column,
            "page": self._turn,
            "action": self._act,
            "choice": self._select,
        }.get(str(question.get("kind")))
        if asked != self._select:
            self._note = ""
        if asked is not None:
            with suppress(KeyError, TypeError, ValueError, IndexError):  # not sent by the grid's script
                asked(question)

    def page(self) -> Page:
        """Return the current page."""
        offset = self._page * PAGE_ROWS
        part = self._rows.iloc[offset : offset + PAGE_ROWS]
        columns = [texts(part, name, self._origin_ns) for name in self._view.columns]
        groups = [f"grouped by {', '.join(group)}" if group else f"single {self.kind.noun}" for group in self._groups]
        return Page(
            label=self.kind.title,
            columns=[self._heading(name) for name in self._view.columns],
            rows=list(zip(*columns, strict=True)),
            ids=list(range(offset, offset + len(part))),
            total=len(self._rows),
            offset=offset,
            size=PAGE_ROWS,
            noun="groups" if self._view.group else self.kind.noun,
            empty="no rows match the filters" if self._view.where else "no rows",
            groups=groups,
            group=self._groups.index(self._view.group),
            choices=[{"name": name, "shown": name in self._view.columns} for name in self._all],
            actions=self._actions(),
            sortable=True,
            filterable=True,
            tells_choice=self._choose is not None,
            note="; ".join([*self._errors.values(), *([self._note] if self._note else [])]),
            code=self.code,
        )

    @property
    def _all(self) -> tuple[str, ...]:
        return self._view.all_columns or self._present

    def _fresh(self, group: tuple[str, ...]) -> View:
        view = View(self.kind.table, group, columns=self._present)
        first = view.sums[0] if group else "start_ns" if "start_ns" in self._present else ""
        sort = ((first, bool(group)),) if first else ()
        return replace(view, sort=sort, columns=view.all_columns or self._present or tuple(self._frame.columns))

    def _change(self, view: View) -> None:
        # All columns, so that showing another column does not query the table again.
        self._rows = rows(replace(view, columns=()), self._frame, self._origin_ns)
        self._view = view
        self._page = 0

    def _sort(self, question: Message) -> None:
        column, order = str(question["column"]), str(question["order"])
        others = tuple(pair for pair in self._view.sort if pair[0] != column) if question.get("add") else ()
        added = ((column, order == "descending"),) if order in ("ascending", "descending") else ()
        if column in self._all:
            self._change(replace(self._view, sort=(*others, *added)))

    def _filter(self, question: Message) -> None:
        column, text = str(question["column"]), str(question["text"])
        if column not in self._all:
            return
        self._typed[column] = text
        self._errors.pop(column, None)
        kept = tuple(pair for pair in self._view.where if pair[0] != column)
        try:
            self._change(replace(self._view, where=(*kept, (column, text)) if text.strip() else kept))
        except OptionsError as error:
            self._errors[column] = str(error)

    def _group(self, question: Message) -> None:
        number = int(question["group"])
        if not 0 <= number < len(self._groups):
            return
        fresh = self._fresh(self._groups[number])
        known_names = set(fresh.columns)
        # Groups and rows have different columns: keep the filters of columns that stay.
        where = tuple(pair for pair in self._view.where if pair[0] in known_names)
        self._typed = {column: text for column, text in self._typed.items() if column in known_names}
        self._errors = {column: text for column, text in self._errors.items() if column in known_names}
        self._change(replace(fresh, where=where))

    def _column(self, question: Message) -> None:
        column, is_visible = str(question["column"]), bool(question["shown"])
        kept_names = {*self._view.columns} - {column} | ({column} if is_visible else set())
        columns = tuple(name for name in self._all if name in kept_names)
        if columns:  # an empty selection would mean all columns
            self._view = replace(self._view, columns=columns)
        else:
            self._note = "the last column stays"

    def _turn(self, question: Message) -> None:
        last = max(0, (len(self._rows) - 1) // PAGE_ROWS)
        self._page = min(max(int(question["page"]), 0), last)

    def _act(self, question: Message) -> None:
        if question["action"] != "timeline" or self._show is None:
            return
        numbers = self._members(question)
        if len(numbers):
            self._show(self.kind.table, numbers[:_MOST_LIT])
            more = f", the first {_MOST_LIT:,}" if len(numbers) > _MOST_LIT else ""
            self._note = f"{len(numbers):,} {self.kind.noun}{more} shown in the timeline"

    def _select(self, question: Message) -> None:
        if self._choose is not None:
            self._choose(self._members(question))

    def _members(self, question: Message) -> npt.NDArray[np.int64]:
        """Return the table rows that belong to the selected rows of the page."""
        chosen = [int(number) for number in question["rows"]][:PAGE_ROWS]
        groups = [
            members(self._view, self._frame, self._rows.iloc[number], self._origin_ns)
            for number in chosen
            if 0 <= number < len(self._rows)
        ]
        return np.unique(np.concatenate(groups)) if groups else np.zeros(0, np.int64)

    def _actions(self) -> tuple[Action, ...]:
        if self._show is None:
            return ()
        hint = "Show the slices of the selected rows in the timeline (Enter)"
        return (Action("timeline", "Show in timeline", hint, 1, PAGE_ROWS),)

    def _heading(self, name: str) -> Heading:
        orders: Mapping[str, Order] = {
            column: "descending" if descending else "ascending" for column, descending in self._view.sort
        }
        numeric = is_numeric(self._rows, name)
        typed = self._typed.get(name, "")
        example = _example(name, numeric)
        return Heading(
            name=name,
            title=title_of(name),
            numeric=numeric,
            sort=orders.get(name, "none"),
            filter=typed,
            error=name in self._errors,
            example=example,
            hint=f"{_NUMBER_HINT} {example}" if numeric else _TEXT_HINT,
            meaning=SCHEMA[self.kind.table].meaning_of(name),
        )


_NUMBER_HINT = "A number, > < >= <= = != with one, low..high, or several joined by and: for example"
_TEXT_HINT = "A part of the text, = or != and the whole text, or /a regular expression/ (/.../i in any case)"


def title_of(column: str) -> str:
    """Return the title of a column, without its unit."""
    for unit in ("_ns", "_bytes"):
        if column.endswith(unit):
            return column.removesuffix(unit).replace("_", " ")
    return column.replace("_", " ")


def _example(column: str, numeric: bool) -> str:
    if not numeric:
        return "text or /regex/"
    if column in filters.MOMENTS:
        return "> 1.5 s"
    if column.endswith("_ns"):
        return "> 100 us"
    if column.endswith("_bytes"):
        return "> 1 MiB"
    return "> 5 %" if column == "share" else "> 10"

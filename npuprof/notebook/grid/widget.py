"""A grid in the browser whose rows the kernel makes: formatted cells, and the requests that the browser can send.

A custom widget, because existing grids do not fit: itables sends all rows, or a sample, to the browser; buckaroo takes
over the display of every DataFrame on import and needs fastparquet; ipydatagrid can request rows from the kernel, but
draws on a canvas, which neither screen readers nor tests can read, depends on bqplot, and was last released in 2024.
This grid is an HTML table of one page and needs only anywidget, like plotly's live figures. Tables of a run have it
too, with a model in the browser (``browser/scripts/rows.js``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeAlias

import anywidget
import traitlets

from npuprof.browser.script import grid_script, grid_style
from npuprof.notebook.keys import keep_keys

Message: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True)
class Heading:
    """A column of a page."""

    # name, title: its name and its label.
    name: str
    title: str
    numeric: bool = False  # whether its cells are right-aligned quantities


@dataclass(frozen=True)
class Action:
    """A button above the rows."""

    # name, label, hint: its name in requests, its label, and its tooltip.
    name: str
    label: str
    hint: str = ""
    # least, most: the allowed number of selected rows.
    least: int = 1
    most: int = 1


@dataclass(frozen=True)
class Page:
    """A page of a table."""

    # label, noun, empty: the title of the table, the noun for its rows, and the text for an empty table.
    label: str
    # columns, rows, ids: the headings, the cell texts, and the number that identifies each row.
    columns: Sequence[Heading]
    rows: Sequence[Sequence[str]]
    ids: Sequence[int]
    # total, offset, size: the number of all rows, the position of the first row, and the rows per page.
    total: int
    offset: int = 0
    size: int = 50
    noun: str = "rows"
    empty: str = "no rows"
    actions: Sequence[Action] = field(default_factory=tuple)  # the buttons

    def to_dict(self) -> dict[str, Any]:
        """Return the page as JSON-serializable values."""
        return asdict(self)


class GridWidget(anywidget.AnyWidget):
    """Shows a page and passes requests on."""

    _esm = grid_script()
    _css = grid_style()
    page = traitlets.Dict().tag(sync=True)

    def __init__(self, page: Page, answer: Callable[[Message], None]) -> None:
        keep_keys()
        super().__init__(page=page.to_dict())
        self._answer = answer
        self.on_msg(self._asked)

    def show(self, page: Page) -> None:
        """Show another page."""
        self.page = page.to_dict()

    def _asked(self, _: Any, content: object, __: Any) -> None:
        if isinstance(content, dict):
            self._answer(content)

"""The widget of a :class:`npuprof.notebook.grid.widget.Page`.

A widget of our own, because each of the known grids lacks something that the tables need. itables sends all rows to the
browser, or a sample of them. buckaroo makes itself the display of every DataFrame when it is imported and brings
fastparquet along. ipydatagrid, which can ask the kernel for rows, draws on a canvas, where neither a screen reader nor
a test can read a cell, depends on bqplot, and was last released in 2024. This one is an HTML table of at most one page,
and needs anywidget only, which plotly's live figures need as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

import anywidget
import traitlets

Order: TypeAlias = Literal["none", "ascending", "descending"]
Message: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True)
class Heading:
    """A column of a page.

    Attributes
    ----------
    name, title
        What questions call it, and what the reader sees.
    numeric
        Whether its texts are quantities, aligned at the right.
    sort
        How the rows are sorted by it.
    filter, error
        What was typed to choose rows by it, and whether that could not be understood.
    example, hint
        What may be typed.
    """

    name: str
    title: str
    numeric: bool = False
    sort: Order = "none"
    filter: str = ""
    error: bool = False
    example: str = ""
    hint: str = ""


@dataclass(frozen=True)
class Action:
    """A button above the rows, for as many chosen ones as it takes.

    Attributes
    ----------
    name, label, hint
        What its message calls it, what stands on it, and what it does.
    least, most
        How many rows must be chosen.
    """

    name: str
    label: str
    hint: str = ""
    least: int = 1
    most: int = 1


@dataclass(frozen=True)
class Page:
    """One page.

    Attributes
    ----------
    label, noun, empty
        What the table holds; what its rows are; what stands there when it has none.
    columns, rows, ids
        Headings; texts, as many in each row as there are headings; the number that each row is chosen by.
    total, offset, size
        Rows in all, the first one's place, and how many a page holds.
    selected
        Rows to choose; those chosen before stay where it is empty.
    groups, group
        Ways to group rows, and the present one's place.
    choices
        Columns that can be shown: name, and whether it is.
    actions
        Buttons.
    sortable, filterable
        Whether there are such controls.
    tells_choice
        Whether the kernel is told which rows are chosen.
    note
        What there is to say.
    code
        The line that makes the same frame; empty when there is none.
    """

    label: str
    columns: Sequence[Heading]
    rows: Sequence[Sequence[str]]
    ids: Sequence[int]
    total: int
    offset: int = 0
    size: int = 50
    noun: str = "rows"
    empty: str = "no rows"
    selected: Sequence[int] = ()
    groups: Sequence[str] = ()
    group: int = 0
    choices: Sequence[Mapping[str, Any]] = ()
    actions: Sequence[Action] = field(default_factory=tuple)
    sortable: bool = False
    filterable: bool = False
    tells_choice: bool = False
    note: str = ""
    code: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON can hold."""
        return asdict(self)


_HERE = Path(__file__).parent


class GridWidget(anywidget.AnyWidget):
    """Shows a page and passes on what is asked.

    Parameters
    ----------
    page
        What to show first.
    answer
        Called with each question of the browser; shows its answer with :meth:`show`. What the browser sends is
        checked by it.
    """

    _esm = (_HERE / "grid.js").read_text(encoding="utf-8")
    _css = (_HERE / "grid.css").read_text(encoding="utf-8")
    page = traitlets.Dict().tag(sync=True)

    def __init__(self, page: Page, answer: Callable[[Message], None]) -> None:
        super().__init__(page=page.to_dict())
        self._answer = answer
        self.on_msg(self._asked)

    def show(self, page: Page) -> None:
        """Show another page in the place of the present one."""
        self.page = page.to_dict()

    def _asked(self, _: Any, content: object, __: Any) -> None:
        if isinstance(content, dict):
            self._answer(content)

"""What the browser is given of a table: one page of finished texts, and what can be asked of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

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

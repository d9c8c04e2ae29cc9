"""A small table of texts, as reports show it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from npuprof.words.quantities import ABSENT


@dataclass(frozen=True)
class Grid:
    """A small table of formatted text, with `numeric` right-aligned columns at its right; absent texts are dashes."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    numeric: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", [tuple(cell or ABSENT for cell in row) for row in self.rows])

"""A small table of texts, as reports show it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Grid:
    """A small table of formatted text, with `numeric` right-aligned columns at its right."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    numeric: int

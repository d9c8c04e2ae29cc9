"""What a damaged result lacks, as its notes tell: lines to show below the title, and the figures that depend on it."""

from __future__ import annotations

import re
from collections.abc import Collection

import pandas as pd

from npuprof.quantities import counted
from npuprof.schema import SCHEMA

MOST_LINES = 3
"""Maximum number of lines on what is missing; the notes have all of them."""

INCOMPLETE = "incomplete"
"""The mark of a figure whose rows are not all there."""

# The words in which notes tell of lost rows: those of Notes.leave_out, and of checks that compare what was read.
_LOSS = re.compile(
    r"counts and sums of (?P<sums>[^;]+?) are too low|\brows of (?P<rows>[^;:]+?) are\b"
    r"|its end is incomplete|the file was cut|\bare lost\b"
)
_WORD = re.compile(r"\w+")

_OF_FIGURES = {
    "computing": ("kernels", "tasks"),
    "communication alone": ("communication", "communication_tasks", "tasks"),
    "device idle": ("kernels", "tasks", "communication"),
    "kernels": ("kernels",),
    "memory peak": ("memory", "allocations"),
    "mean step": ("steps",),
}


def _losses(notes: pd.DataFrame) -> list[tuple[str, str, int, re.Match[str]]]:
    """Return source, message, count and words of the warnings that tell of lost rows."""
    warnings = notes[(notes["severity"] == "warning").to_numpy(bool)]
    columns = (warnings[name].tolist() for name in ("source", "message", "count"))
    return [
        (str(source), str(message), int(count), match)
        for source, message, count in zip(*columns, strict=True)
        if (match := _LOSS.search(str(message))) is not None
    ]


def damage_lines(notes: pd.DataFrame) -> list[str]:
    """Return what is missing in a result, those that say how much first."""
    losses = sorted(_losses(notes), key=lambda loss: not (loss[2] > 1 or any(mark.isdigit() for mark in loss[1])))
    lines = [
        f"Incomplete: {source}: {message}{f' ({count:,} times)' if count > 1 else ''}"
        for source, message, count, _ in losses[:MOST_LINES]
    ]
    more = len(losses) - len(lines)
    return [*lines, f"{counted(more, 'more note')} on what is missing below"] if more else lines


def damaged_tables(notes: pd.DataFrame) -> frozenset[str]:
    """Return the tables that lack rows: all of them where a note does not name any."""
    tables: set[str] = set()
    for _, _, _, match in _losses(notes):
        named = set(_WORD.findall(match["sums"] or match["rows"] or "")) & SCHEMA.keys()
        tables |= named or SCHEMA.keys()
    return frozenset(tables)


def marked(figures: list[tuple[str, str]], damaged: Collection[str]) -> list[tuple[str, str]]:
    """Return figures by name, with a mark on those that depend on a table that lacks rows."""
    return [
        (name, f"{value}, {INCOMPLETE}" if _depends(name, damaged) and any(map(str.isdigit, value)) else value)
        for name, value in figures
    ]


def _depends(name: str, damaged: Collection[str]) -> bool:
    tables = ("api",) if name.endswith(" calls") else _OF_FIGURES.get(name, ())
    return any(table in damaged for table in tables)


def headline_mark(damaged: Collection[str]) -> str:
    """Return what follows the headline of a step whose device time lacks rows."""
    return f" ({INCOMPLETE})" if _depends("device idle", damaged) else ""

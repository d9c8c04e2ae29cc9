"""A run as plain text: for a terminal, and beside the HTML of a notebook's report."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

import pandas as pd

from npuprof.analysis.summary import Summary
from npuprof.exports.facts import SIMULATED, Grid, grids, key_figures, note_rows, origin
from npuprof.info import Info
from npuprof.quantities import printable

_LONGEST_CELL = 48
_LONGEST_LINE = 300
_MOST_NOTES = 20


def summary_text(summary: Summary, info: Info, notes: pd.DataFrame) -> str:
    """Write the key figures, the longest kernels and the notes of a run.

    Parameters
    ----------
    summary, info
        What to write.
    notes
        The notes' table: ``severity, source, message, count``.

    Returns
    -------
    str
        Lines without a trailing newline. Columns are aligned as a terminal shows them, wide characters
        included; control characters of names are spaces.
    """
    simulated = [SIMULATED] if info.simulated else []
    lines = [printable(" · ".join(["npuprof", *([info.name] if info.name else []), *simulated]), _LONGEST_LINE)]
    if known := origin(info):
        lines.append(printable(" · ".join(known), _LONGEST_LINE))
    if info.failed:
        lines.append(printable(f"The profiled code raised {info.failed}", _LONGEST_LINE))
    lines += ["", *_aligned([(f"{name}:", value) for name, value in key_figures(summary)], 1)]
    for grid in grids(summary):
        lines += ["", *_table(grid)]
    if len(notes):
        lines += ["", f"Notes ({len(notes):,})"]
        lines += [
            printable(f"  {severity}: {source}: {message}", _LONGEST_LINE)
            for severity, source, message in note_rows(notes, _MOST_NOTES)
        ]
        if len(notes) > _MOST_NOTES:
            lines.append(f"  and {len(notes) - _MOST_NOTES:,} more in run.notes")
    return "\n".join(line.rstrip() for line in lines)


def _table(grid: Grid) -> list[str]:
    body = _aligned([grid.headings, *grid.rows], grid.numeric)
    return [grid.title, body[0], "─" * max(_width(line) for line in body), *body[1:]]


def _aligned(rows: Sequence[Sequence[str]], numeric: int) -> list[str]:
    """Pad cells to their column's width; the last `numeric` columns to the right."""
    cells = [[printable(cell, _LONGEST_CELL) for cell in row] for row in rows]
    widths = [max(map(_width, column)) for column in zip(*cells, strict=True)]
    first_numeric = len(widths) - numeric
    return [
        "  ".join(
            " " * (width - _width(cell)) + cell if column >= first_numeric else cell + " " * (width - _width(cell))
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in cells
    ]


def _width(text: str) -> int:
    """Count the columns that a terminal gives a text."""
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    marks = sum(unicodedata.combining(character) > 0 for character in text)
    return len(text) + wide - marks

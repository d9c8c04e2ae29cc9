"""Tables as Markdown: names quoted and bounded, times with their units, never cut."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from numbers import Number
from typing import Any

import numpy as np
import pandas as pd

from npuprof.words.names import markdown, quoted
from npuprof.words.quantities import ABSENT, count, duration, share, size

_LONGEST = 96


def rows_of(frame: pd.DataFrame, columns: Mapping[str, str], most: int, of: str) -> list[str]:
    """Return the first rows of a frame as a table: `columns` are headings by column; and how many are left out."""
    known = {name: heading for name, heading in columns.items() if name in frame and frame[name].notna().any()}
    lines = [f"| {' | '.join(known.values())} |", f"|{'---|' * len(known)}"]
    for row in frame[list(known)].head(most).itertuples(index=False):
        cells = [_form(name)(value) for name, value in zip(known, row, strict=True)]
        lines.append(f"| {' | '.join(cells)} |")
    left = len(frame) - most
    return [*lines, *([f"{left:,} more of {len(frame):,} {of}: ask with more `rows`"] if left > 0 else [])]


def exact(frame: pd.DataFrame) -> list[str]:
    """Return all rows of an answer of SQL as a table, with exact numbers."""
    names = [quoted(name) or "-" for name in frame.columns]
    lines = [f"| {' | '.join(names)} |", f"|{'---|' * len(names)}"]
    return [*lines, *(f"| {' | '.join(map(_plain, row))} |" for row in frame.itertuples(index=False, name=None))]


def _plain(value: Any) -> str:
    if value is None or value is pd.NA or (isinstance(value, float) and value != value):
        return ABSENT
    return str(value) if isinstance(value, (Number, np.bool_)) else quoted(value, 400)


def _form(name: str) -> Callable[[Any], str]:
    def shown(value: Any) -> str:
        if pd.isna(value):
            return ABSENT
        if name.endswith("_ns"):
            return duration(int(value))
        if name.endswith("_bytes"):
            return size(int(value))
        if name in ("share", "efficiency", "of_best"):
            return share(round(float(value) * 10**9), 10**9)
        if isinstance(value, str):
            return markdown(value) if name in _OURS else quoted(value, _LONGEST)
        return count(int(value))

    return shown


_OURS = {"part", "cause", "collect", "bound", "what"}  # words of npuprof, not of a recording

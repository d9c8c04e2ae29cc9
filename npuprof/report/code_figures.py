"""The columns of figures beside the lines of code."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

from npuprof.words.quantities import count, duration, size

MEASURES = ("device_ns", "idle_ns", "host_ns", "launches", "operators", "peak_bytes")
"""The costs of a line, in the order of their columns."""

_HEADINGS = {
    "device_ns": "device",
    "idle_ns": "idle",
    "host_ns": "host",
    "launches": "launches",
    "operators": "operators",
    "peak_bytes": "memory",
}
_LEAST_CODE = 48  # columns of code beside all figures


class FigureColumns:
    """The figures of the costs that lines have, as text and as HTML.

    Where there is little room, ``notebook/keys.py`` has the figures that no bar shows change places with the code.

    Parameters
    ----------
    costs
        The costs of all lines, the last row of which has no line.
    drawn
        The costs that bars show.
    """

    def __init__(self, costs: pd.DataFrame, drawn: Sequence[str]) -> None:
        shown = [name for name in MEASURES if int(costs[name].iloc[:-1].fillna(0).sum())]
        self._names = [name for name in shown if name != "operators" or "host_ns" in drawn]
        self._first = sum(name in drawn for name in self._names)
        sums = costs[self._names].sum()
        self._widths = [
            max(len(_HEADINGS[name]), *(len(_figure(name, value)) for value in [*costs[name], sums[name]]))
            for name in self._names
        ]

    def text(self, costs: pd.Series[Any] | None = None) -> str:
        """Return the figures of a line, or the headings."""
        return " ".join(self._padded(costs))

    def html(self, costs: pd.Series[Any] | None = None) -> str:
        """Return the figures of a line, or the headings, those that no bar shows as an element of their own."""
        padded = self._padded(costs)
        more = "".join(f" {figure}" for figure in padded[self._first :])
        aside = f'<span class="npuprof-more">{html.escape(more)}</span>' if more else ""
        return html.escape(" ".join(padded[: self._first])) + aside

    def room(self, rows: Iterable[tuple[pd.Series[Any], int]], before: int, bar_px: int) -> str:
        """Return as properties how much room lines take, the figures that no bar shows, and what follows the figures.

        Parameters
        ----------
        rows
            The costs and the length of the code of each line.
        before
            Columns between the figures and the code.
        bar_px
            The width of bars.
        """
        more = self._names[self._first :]
        lengths = [(int(row[more].fillna(0).sum()), code) for row, code in rows]
        longest = max((code for costs, code in lengths if costs), default=0)
        whole = len(self.text()) + before + min(max((code for _, code in lengths), default=0), _LEAST_CODE)
        columns = sum(width + 1 for width in self._widths[self._first :])
        return (
            f"--npuprof-all:calc({whole}ch + {bar_px}px);--npuprof-more:{columns}ch;"
            f"--npuprof-rest:calc({before + longest}ch + {bar_px}px)"
        )

    def _padded(self, costs: pd.Series[Any] | None) -> list[str]:
        texts = [_HEADINGS[name] if costs is None else _figure(name, costs[name]) for name in self._names]
        return [text.rjust(width) for text, width in zip(texts, self._widths, strict=True)]


def _figure(name: str, value: Any) -> str:
    number = 0 if pd.isna(value) else int(value)
    if not number:
        return ""
    return duration(number) if name.endswith("_ns") else size(number) if name.endswith("_bytes") else count(number)

"""The widgets of what is open below the panel: a run in its explorer, or two runs side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from npuprof import quantities
from npuprof.analysis import comparison
from npuprof.notebook.grid.page import Heading, Page
from npuprof.notebook.grid.widget import GridWidget
from npuprof.notebook.panel.state import Opened

if TYPE_CHECKING:
    from npuprof.profiles import Profile

_MOST_COMPARED = 30


def opened_view(opened: Opened) -> list[Any]:
    """Make the widgets of what is open."""
    if opened.of_set is not None:
        return [opened.of_set.explore()]
    if len(opened.runs) == 2:
        return _compared(*opened.runs)
    return [run.explore() for run in opened.runs]


def _compared(before: Profile, after: Profile) -> list[Any]:
    figures = comparison.key_figures(before.summary, after.summary)
    kernels = comparison.kernels(before.kernels, after.kernels)
    return [
        _grid("Times of both runs", figures, "figures"),
        _grid("Kernels, the greatest change first", kernels.head(_MOST_COMPARED), f"of {len(kernels):,} kernels"),
    ]


def _grid(label: str, frame: pd.DataFrame, noun: str) -> GridWidget:
    texts = [[_text(value, str(name)) for value in frame[name].tolist()] for name in frame.columns]
    columns = [
        Heading(str(name), str(name).removesuffix("_ns").replace("_", " "), numeric=place > 0)
        for place, name in enumerate(frame.columns)
    ]
    rows = list(zip(*texts, strict=True))
    page = Page(label, columns, rows, list(range(len(rows))), len(rows), size=max(len(rows), 1), noun=noun)
    return GridWidget(page, lambda _: None)


def _text(value: Any, name: str) -> str:
    if pd.isna(value):
        return quantities.ABSENT
    if name.endswith("_ns"):
        sign = "+" if name == "difference_ns" and value > 0 else ""
        return sign + quantities.duration(int(value))
    return str(value) if isinstance(value, str) else quantities.count(int(value))

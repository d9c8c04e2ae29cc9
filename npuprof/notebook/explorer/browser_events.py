"""The width of a box in pixels, which plotly does not report."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import anywidget
import traitlets

MEASURED_CLASS = "npuprof-measured"
"""Class of the box that is measured; the widget is in it."""


class Width(anywidget.AnyWidget):
    """Reports the width of its box in pixels; invisible.

    Plotly figures follow the window only, and notifying all of them would blank those that are being drawn.
    """

    _esm = (Path(__file__).parent / "width.js").read_text(encoding="utf-8")
    width = traitlets.Int(0).tag(sync=True)

    def __init__(self, on_width: Callable[[int], None]) -> None:
        super().__init__()
        self.observe(lambda change: on_width(int(change["new"])), "width")

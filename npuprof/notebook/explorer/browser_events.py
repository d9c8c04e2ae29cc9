"""Events of a figure in the page: the width of its box in pixels, and clicks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import anywidget
import traitlets

_HERE = Path(__file__).parent
MEASURED_CLASS = "npuprof-measured"
"""Class of the box that is measured; the widget is in it."""


class Width(anywidget.AnyWidget):
    """Reports the width of its box in pixels; invisible.

    Plotly figures follow the window's size only, and resizing all of them would blank those that are being drawn.
    """

    _esm = (_HERE / "width.js").read_text(encoding="utf-8")
    width = traitlets.Int(0).tag(sync=True)

    def __init__(self, on_width: Callable[[int], None]) -> None:
        super().__init__()
        self.observe(lambda change: on_width(int(change["new"])), "width")


_FARTHEST = 2**53  # also refuses NaN
CLICKED_CLASS = "npuprof-clicked"
"""Class of the box with the figure; the widget is in it."""


class Clicks(anywidget.AnyWidget):
    """Reports the x coordinate of a clicked point of the figure in its box; invisible.

    The front end draws the figure and loads plotly.js once for all figures; a live figure would load it again.
    """

    _esm = (_HERE / "clicks.js").read_text(encoding="utf-8")

    def __init__(self, on_click: Callable[[float], None]) -> None:
        super().__init__()
        self._on_click = on_click
        self.on_msg(self._receive)

    def _receive(self, _: object, content: object, __: object) -> None:
        place = content.get("x") if isinstance(content, dict) else None
        if isinstance(place, int | float) and not isinstance(place, bool) and abs(place) < _FARTHEST:
            self._on_click(place)

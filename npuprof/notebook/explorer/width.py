"""How wide a box is in the browser: a figure that is told so is drawn right at once, whenever and wherever it is shown.

Plotly's figures follow the window alone. Telling all of them that it had changed would leave those blank that are
being drawn at that moment.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import anywidget
import traitlets

MEASURED_CLASS = "npuprof-measured"
"""Class of the box that is measured; the widget is in it."""


class Width(anywidget.AnyWidget):
    """An invisible widget that tells the width of the box around it.

    Parameters
    ----------
    on_width
        Called with the width in pixels when it changes.
    """

    _esm = (Path(__file__).parent / "width.js").read_text(encoding="utf-8")
    width = traitlets.Int(0).tag(sync=True)

    def __init__(self, on_width: Callable[[int], None]) -> None:
        super().__init__()
        self.observe(lambda change: on_width(int(change["new"])), "width")

"""Browser events that plotly does not report: keys, and widths in pixels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import anywidget
import traitlets

FLAME_CLASS = "npuprof-flame"
"""Class of the box whose keys are listened to; the script makes it one that can be focused."""

FLAME_SCROLLED_CLASS = "npuprof-flame-scrolled"
"""Class of the box that the figure is scrolled in, whose width it takes."""


class FlameKeys(anywidget.AnyWidget):
    """Reports keys in its box, and scrolls to the root; invisible.

    Parameters
    ----------
    on_key
        Called with the key.
    on_width
        Called with the figure's available width in pixels when it changes.
    """

    _esm = (Path(__file__).parent / "flame_keys.js").read_text(encoding="utf-8")
    width = traitlets.Int(0).tag(sync=True)
    at_bottom = traitlets.Bool(default_value=False).tag(sync=True)
    pictures = traitlets.Int(0).tag(sync=True)

    def __init__(self, on_key: Callable[[str], None], on_width: Callable[[int], None]) -> None:
        super().__init__()
        self._on_key = on_key
        self.on_msg(self._receive)
        self.observe(lambda change: on_width(int(change["new"])), "width")

    def show_root(self, *, at_bottom: bool) -> None:
        """Scroll to the root of a new picture."""
        self.at_bottom = at_bottom
        self.pictures += 1

    def _receive(self, _widget: object, content: Mapping[str, Any], _buffers: object) -> None:
        """Handle a message of the script; ignore others."""
        if content.get("kind") == "key" and isinstance(key := content.get("key"), str):
            self._on_key(key)


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

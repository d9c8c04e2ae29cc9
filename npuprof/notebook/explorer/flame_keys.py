"""What the browser alone knows of the flame graph: keys pressed in it, and its width."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import anywidget
import traitlets

CONTAINER_CLASS = "npuprof-flame"
"""Class of the box whose keys are listened to; the script makes it one that can be focused."""

SCROLLED_CLASS = "npuprof-flame-scrolled"
"""Class of the box that the figure is scrolled in, whose width it takes."""


class FlameKeys(anywidget.AnyWidget):
    """An invisible widget that hears keys in the box around it, and scrolls to the root.

    Parameters
    ----------
    on_key
        Called with a key's name.
    on_width
        Called with the width of the figure's place in pixels when it changes.
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
        """Scroll to where the root of a new picture is."""
        self.at_bottom = at_bottom
        self.pictures += 1

    def _receive(self, _widget: object, content: Mapping[str, Any], _buffers: object) -> None:
        """Take a message of the browser; anything else than what the script sends is let pass."""
        if content.get("kind") == "key" and isinstance(key := content.get("key"), str):
            self._on_key(key)

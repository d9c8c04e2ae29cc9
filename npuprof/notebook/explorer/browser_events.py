"""What the browser alone knows of the timeline: keys pressed in it, the wheel, its width, how far it is scrolled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import anywidget
import traitlets

CONTAINER_CLASS = "npuprof-timeline"
"""Class of the box whose keys are listened to; the script makes it one that can be focused."""


SCROLLED_CLASS = "npuprof-scrolled"
"""Class of the box that scrolls where there are many lanes; the widget is its first child, the figure the second."""


class Keys(anywidget.AnyWidget):
    """A widget that hears keys and the wheel in the box around it, and is its time axis when that has scrolled away.

    It copies the figure's own axis: another figure would bring plotly.js to the browser once more, and lie beside the
    first one by the pixels that plotly gives to the names of lanes.

    Parameters
    ----------
    on_key
        Called with a key's name and where the pointer is over the picture, 0 at its left edge and 1 at its right
        one; None if it is not there.
    on_wheel
        Called with how far the wheel was turned (pixels, positive towards the user) and where the pointer is.
    on_width
        Called with the picture's width in pixels when it changes.
    """

    _esm = (Path(__file__).parent / "keys.js").read_text(encoding="utf-8")
    width = traitlets.Int(0).tag(sync=True)

    def __init__(
        self,
        on_key: Callable[[str, float | None], None],
        on_wheel: Callable[[float, float | None], None],
        on_width: Callable[[int], None],
    ) -> None:
        super().__init__()
        self.add_class("npuprof-axis")
        self._on_key, self._on_wheel = on_key, on_wheel
        self.on_msg(self._receive)
        self.observe(lambda change: on_width(int(change["new"])), "width")

    def _receive(self, _widget: object, content: Mapping[str, Any], _buffers: object) -> None:
        """Take a message of the browser; anything else than what the script sends is let pass."""
        at = content.get("at")
        place = float(at) if isinstance(at, int | float) else None
        if content.get("kind") == "key" and isinstance(key := content.get("key"), str):
            self._on_key(key, place)
        elif content.get("kind") == "wheel" and isinstance(turned := content.get("turned"), int | float):
            self._on_wheel(float(turned), place)


FLAME_CLASS = "npuprof-flame"
"""Class of the box whose keys are listened to; the script makes it one that can be focused."""

FLAME_SCROLLED_CLASS = "npuprof-flame-scrolled"
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

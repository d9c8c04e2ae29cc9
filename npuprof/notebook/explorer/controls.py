"""Controls shared by the views of the explorer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ipywidgets as widgets


def button(description: str, tooltip: str, action: Callable[[], Any]) -> widgets.Button:
    """Return a button as wide as its label."""
    button = widgets.Button(description=description, tooltip=tooltip, layout={"width": "auto"})
    button.on_click(lambda _: action())
    return button


def side_by_side(children: Sequence[widgets.Widget]) -> widgets.Widget:
    """Return a row of controls that wraps if it is too narrow."""
    return widgets.HBox(list(children), layout={"flex_flow": "row wrap", "align_items": "center", "width": "100%"})

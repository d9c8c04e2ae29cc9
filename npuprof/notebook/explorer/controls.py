"""Controls that the views of the explorer share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ipywidgets as widgets


def button(description: str, tooltip: str, action: Callable[[], Any]) -> widgets.Button:
    """Make a button as wide as its words."""
    made = widgets.Button(description=description, tooltip=tooltip, layout={"width": "auto"})
    made.on_click(lambda _: action())
    return made


def side_by_side(children: Sequence[widgets.Widget]) -> widgets.Widget:
    """Put controls side by side, and below each other where it is too narrow for that."""
    return widgets.HBox(list(children), layout={"flex_flow": "row wrap", "align_items": "center", "width": "100%"})


def search_fields(search: Callable[[str, bool], Any]) -> tuple[widgets.Text, widgets.Checkbox]:
    """Make the field of a search and the choice of a regular expression.

    Parameters
    ----------
    search
        Called with both when either has changed.
    """
    text = widgets.Text(
        description="Search",
        placeholder="part of a name",
        continuous_update=False,
        layout={"width": "280px"},
        style={"description_width": "auto"},
    )
    regex = widgets.Checkbox(description="regular expression", indent=False, layout={"width": "auto"})
    for field in (text, regex):
        field.observe(lambda _: search(text.value, regex.value), "value")
    return text, regex

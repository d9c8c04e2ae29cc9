"""Controls shared by the views of the explorer, and debounced callbacks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import ipywidgets as widgets


def button(description: str, tooltip: str, action: Callable[[], Any]) -> widgets.Button:
    """Return a button as wide as its label."""
    made = widgets.Button(description=description, tooltip=tooltip, layout={"width": "auto"})
    made.on_click(lambda _: action())
    return made


def side_by_side(children: Sequence[widgets.Widget]) -> widgets.Widget:
    """Return a row of controls that wraps if it is too narrow."""
    return widgets.HBox(list(children), layout={"flex_flow": "row wrap", "align_items": "center", "width": "100%"})


def search_fields(search: Callable[[str, bool], Any]) -> tuple[widgets.Text, widgets.Checkbox]:
    """Return a search field and its regular-expression checkbox; `search` is called with both on a change."""
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


class Debounced:
    """A debounced callback: the first call after a pause runs at once, a burst of calls runs once at its end.

    `seconds` is the delay after the last call of a burst. Without a running event loop, every call runs at once.
    """

    def __init__(self, work: Callable[[], None], seconds: float) -> None:
        self._work = work
        self._seconds = seconds
        self._waiting: asyncio.TimerHandle | None = None
        self._rested_s = float("-inf")  # loop time from which the callback runs at once

    def ask(self) -> None:
        """Schedule the callback."""
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._work()
        else:
            wait = self._seconds if loop.time() < self._rested_s else 0.0
            self._rested_s = loop.time() + 3 * self._seconds
            self._waiting = loop.call_later(wait, self._do)

    def _do(self) -> None:
        self._waiting = None
        self._work()

"""Controls that the views of the explorer share."""

from __future__ import annotations

import asyncio
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


class Later:
    """Does one thing, soon, however often it is asked for meanwhile; at once if it was not asked for of late.

    Parameters
    ----------
    work
        What to do.
    seconds
        How long to wait after it was last asked for. Without a running event loop it is done at once.
    """

    def __init__(self, work: Callable[[], None], seconds: float) -> None:
        self._work = work
        self._seconds = seconds
        self._waiting: asyncio.TimerHandle | None = None
        self._rested_s = float("-inf")  # the loop's time from which on it is done at once

    def ask(self) -> None:
        """Ask for the work."""
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

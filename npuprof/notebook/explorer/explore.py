"""The explorer of one run: a tab for each view, made when it is first opened."""

from __future__ import annotations

from functools import cached_property
from html import escape
from typing import TYPE_CHECKING

import ipywidgets as widgets
import numpy as np
import numpy.typing as npt

from npuprof.explorer.timeline import Timeline
from npuprof.notebook.explorer.tabs import Tab, tabs_of
from npuprof.notebook.explorer.texts import STYLE

if TYPE_CHECKING:
    from npuprof.profiles import Profile

_TIMELINE = "Timeline"


class Explorer:
    """Shows all views of a run.

    Parameters
    ----------
    run
        The run.

    Attributes
    ----------
    run
        The same.
    widget
        What to display.
    """

    def __init__(self, run: Profile) -> None:
        self.run: Profile = run
        self._tabs: list[Tab] = tabs_of(self)
        self._places = [widgets.VBox([], layout={"width": "100%"}) for _ in self._tabs]
        self._built: set[int] = set()
        self._tab = widgets.Tab(self._places, titles=[tab.title for tab in self._tabs])
        self._tab.observe(lambda change: self._open(change["new"]), "selected_index")
        self.widget = widgets.VBox([widgets.HTML(STYLE), self._tab], layout={"width": "100%"})
        self.widget.add_class("npuprof-explorer")
        self._tab.selected_index = 0
        self._open(0)

    @cached_property
    def timeline(self) -> Timeline:
        """The state of the timeline, made when it is first needed."""
        return Timeline(self.run.tables, self.run.info)

    @property
    def titles(self) -> list[str]:
        """The titles of the tabs that the run has."""
        return [tab.title for tab in self._tabs]

    def open(self, title: str) -> None:
        """Bring a tab to the front.

        Raises
        ------
        ValueError
            If the run has no such tab.
        """
        self._tab.selected_index = self.titles.index(title)

    def light_up(self, table: str, rows: npt.NDArray[np.int64]) -> None:
        """Let rows of a table stand out in the timeline, with the first of them in the window, and show it."""
        self.timeline.light_up(table, rows, f"rows of {table}")
        self.timeline.next_match()
        self.open(_TIMELINE)

    def _open(self, index: int | None) -> None:
        """Make what a tab holds, if it is not there; what goes wrong is told in its place."""
        if index is None or index in self._built:
            return
        self._built.add(index)
        try:
            part = self._tabs[index].build(self)
        except Exception as error:  # noqa: BLE001 - the other tabs are of use all the same; told
            text = f"npuprof: this view could not be made: {type(error).__name__}: {error}"
            part = widgets.HTML(f"<pre>{escape(text)}</pre>")
        self._places[index].children = (part,)


def explore(run: Profile) -> widgets.Widget:
    """Make the explorer of a run; the cell shows it as its value."""
    return Explorer(run).widget

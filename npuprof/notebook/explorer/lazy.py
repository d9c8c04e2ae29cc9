"""Tabs whose contents are made when they are first opened."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape

import ipywidgets as widgets

from npuprof.notebook.comms import answer_at_once
from npuprof.notebook.explorer.texts import STYLE


class LazyTabs:
    """Shows tabs, the first one at once.

    Parameters
    ----------
    builds
        What makes each tab's contents, by its title; what goes wrong there is told in the tab.
    opened
        Called with the title of each tab that is opened, before its contents are made.

    Attributes
    ----------
    titles
        The titles, in order.
    widget
        What to display.
    """

    def __init__(
        self, builds: Mapping[str, Callable[[], widgets.Widget]], opened: Callable[[str], None] = lambda _: None
    ) -> None:
        self._builds = dict(builds)
        self._opened = opened
        self._built: set[str] = set()
        self.titles = list(builds)
        self._places = [widgets.VBox([], layout={"width": "100%"}) for _ in self.titles]
        self._tab = widgets.Tab(self._places, titles=self.titles, selected_index=0)
        self._tab.observe(lambda change: self._open(change["new"]), "selected_index")
        self.widget = widgets.VBox([widgets.HTML(STYLE), self._tab], layout={"width": "100%"})
        self.widget.add_class("npuprof-explorer")
        self._open(0)
        answer_at_once(self.widget)

    def open(self, title: str) -> None:
        """Bring a tab to the front.

        Raises
        ------
        ValueError
            If there is no such tab.
        """
        self._tab.selected_index = self.titles.index(title)

    def _open(self, index: int | None) -> None:
        if index is None:
            return
        title, place = self.titles[index], self._places[index]
        self._opened(title)
        if title in self._built:
            return
        self._built.add(title)
        waiting = widgets.HTML("<span class='faint'>one moment …</span>")
        place.children = (waiting,)
        try:
            part = self._builds[title]()
        except Exception as error:  # noqa: BLE001 - the other tabs are of use all the same; told
            text = f"npuprof: this view could not be made: {type(error).__name__}: {error}"
            part = widgets.HTML(f"<pre>{escape(text)}</pre>")
        place.children = (part,)
        waiting.close()
        answer_at_once(part)

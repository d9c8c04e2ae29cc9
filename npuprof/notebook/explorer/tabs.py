"""The tabs of the explorer: what each is called, whether a run has something for it, and how it is made.

Another part of the notebook adds a tab of its own, or takes the place of one, with :func:`register`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import ipywidgets as widgets

from npuprof.notebook.explorer import parts

if TYPE_CHECKING:
    from npuprof.notebook.explorer.explore import Explorer


@dataclass(frozen=True)
class Tab:
    """A tab of the explorer.

    Attributes
    ----------
    title
        What it is called.
    has_data
        Whether a run has something to show in it; asked when the explorer is made, so it must be quick.
    build
        Makes the widget when the tab is first opened; is given the explorer, which knows the run and its timeline.
    """

    title: str
    has_data: Callable[[Explorer], bool]
    build: Callable[[Explorer], widgets.Widget]


def _rows(*tables: str) -> Callable[[Explorer], bool]:
    return lambda explorer: any(len(explorer.run.tables[name]) for name in tables)


def _always(_: Explorer) -> bool:
    return True


_SLICES = ("steps", "marks", "python", "operators", "api", "kernels", "tasks", "communication")

_TABS: list[Tab] = [
    Tab("Overview", _always, parts.overview),
    Tab("Timeline", _rows(*_SLICES, "counters"), parts.timeline),
    Tab("Flame graph", _rows("python", "operators", "api", "kernels"), parts.flame_graph),
    Tab("Operators", _rows("operators"), parts.table("operators")),
    Tab("Kernels", _rows("kernels"), parts.kernels),
    Tab("API", _rows("api"), parts.table("api")),
    Tab("Memory", _rows("memory", "allocations"), parts.memory),
    Tab("Communication", _rows("communication", "communication_tasks"), parts.communication),
    Tab("Steps", _rows("steps", "step_times"), parts.figure("step_plot")),
    Tab("Counters", _rows("counters"), parts.figure("counters_plot")),
    Tab("Marks", _rows("marks"), parts.table("marks")),
    Tab("Notes", lambda explorer: bool(len(explorer.run.notes)), parts.notes),
]


def register(tab: Tab) -> None:
    """Add a tab behind the others, or in the place of the one of its title, to explorers that are made from now on."""
    for at, other in enumerate(_TABS):
        if other.title == tab.title:
            _TABS[at] = tab
            return
    _TABS.append(tab)


def tabs_of(explorer: Explorer) -> list[Tab]:
    """Give the tabs that have something to show."""
    return [tab for tab in _TABS if tab.has_data(explorer)]

"""The tabs of the explorer: what each is called, whether a run has something for it, and how it is made.

Another part of the notebook adds a tab of its own, or takes the place of one, with :func:`register`.
"""

from __future__ import annotations

from collections.abc import Callable

from npuprof.notebook.explorer import tab_contents
from npuprof.notebook.explorer.explorer import Explorer, Tab
from npuprof.profiles import Profile


def _rows(*tables: str) -> Callable[[Explorer], bool]:
    return lambda explorer: any(len(explorer.run.tables[name]) for name in tables)


def _always(_: Explorer) -> bool:
    return True


_SLICES = ("steps", "marks", "python", "operators", "api", "kernels", "tasks", "communication")

_TABS: list[Tab] = [
    Tab("Overview", _always, tab_contents.overview),
    Tab("Timeline", _rows(*_SLICES, "counters"), tab_contents.timeline),
    Tab("Flame graph", _rows("python", "operators", "api", "kernels"), tab_contents.flame_graph),
    Tab("Operators", _rows("operators"), tab_contents.table("operators")),
    Tab("Kernels", _rows("kernels"), tab_contents.kernels),
    Tab("API", _rows("api"), tab_contents.table("api")),
    Tab("Memory", _rows("memory", "allocations"), tab_contents.memory),
    Tab("Communication", _rows("communication", "communication_tasks"), tab_contents.communication),
    Tab("Steps", _rows("steps", "step_times"), tab_contents.figure("plot_steps")),
    Tab("Counters", _rows("counters"), tab_contents.figure("plot_counters")),
    Tab("Marks", _rows("marks"), tab_contents.table("marks")),
    Tab("Notes", lambda explorer: bool(len(explorer.run.notes)), tab_contents.notes),
]


def register(tab: Tab) -> None:
    """Add a tab behind the others, or in the place of the one of its title, to explorers that are made from now on."""
    for at, other in enumerate(_TABS):
        if other.title == tab.title:
            _TABS[at] = tab
            return
    _TABS.append(tab)


def explorer_of(run: Profile) -> Explorer:
    """Build the explorer of a run, with every tab for which it has data."""
    return Explorer(run, _TABS)

"""Where the rooms below the notebook reach it: they show and open things in it, and work without it.

Each function imports the notebook when it is called.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ipywidgets import Widget


def explorer(*shown: Any) -> Widget:
    """Return the explorer of a run or a set; the arguments are those of :func:`npuprof.notebook.views.explore`."""
    from npuprof.notebook.views import explore

    return explore(*shown)


def show_set(runs: Any) -> None:
    """Show the overview of a :class:`npuprof.ProfileSet` below the running cell."""
    from npuprof.notebook import report

    report.show_set(runs)


def show_comparison(comparison: Any) -> None:
    """Show a :class:`npuprof.Comparison` below the running cell."""
    from npuprof.notebook import report

    report.show_comparison(comparison)


def cell_display() -> Any:
    """Return a :class:`npuprof.progress.Display` below the running cell; None outside of a kernel."""
    from npuprof.notebook import progress

    return progress.cell_display()


def keep_keys() -> None:
    """Keep keys that are pressed in npuprof's outputs from the notebook; no effect outside of a kernel."""
    with suppress(Exception):  # an output is shown in any case
        if (ipython := sys.modules.get("IPython")) is not None and hasattr(ipython.get_ipython(), "kernel"):
            from npuprof.notebook import keys

            keys.keep_keys()


def finish_imports() -> None:
    """Wait for the imports that the notebook does on a thread."""
    if (preloading := sys.modules.get("npuprof.notebook.preloading")) is not None:
        preloading.finish()

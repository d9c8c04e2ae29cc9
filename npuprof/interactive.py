"""Hooks for functions of the notebook, set when the package is imported.

They let a profile open its explorer, and progress appear below a cell, without importing the notebook package.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ipywidgets import Widget

explorer: Callable[..., Widget]
"""Return the explorer of a :class:`npuprof.Profile` or :class:`npuprof.ProfileSet`.

The explorer opens at the evidence of a :class:`npuprof.advice.finding.Finding` or a timeline window, if given; a
fourth argument is another run to show below it.
"""

cell_display: Callable[[], Any]
"""Return a :class:`npuprof.progress.Display` below the running cell; None outside of a kernel."""

show_comparison: Callable[[Any], None]
"""Show a :class:`npuprof.profiles.comparison.Comparison` below the running cell."""

keep_keys: Callable[[], None]
"""Keep keys that are pressed in npuprof's outputs from the notebook; no effect outside of a kernel."""

finish_imports: Callable[[], None]
"""Wait until what the notebook imports on a thread is imported."""

show_set: Callable[[Any], None]
"""Show the overview of a :class:`npuprof.ProfileSet` below the running cell."""

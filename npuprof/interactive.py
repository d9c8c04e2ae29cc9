"""Hooks for functions of the notebook, set when the package is imported.

With them, a profile opens its explorer and progress is shown below a cell without importing the notebook.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ipywidgets import Widget

explorer: Callable[..., Widget]
"""Return the explorer of a :class:`npuprof.profiles.Profile` or :class:`npuprof.ranks.profile_set.ProfileSet`.

It opens at the evidence of a :class:`npuprof.advice.finding.Finding`, or a window of the timeline, if one is given; a
fourth argument is another run to show beside it.
"""

cell_display: Callable[[], Any]
"""Return a :class:`npuprof.progress.Display` under the running cell; None where no kernel runs this code."""

show_comparison: Callable[[Any], None]
"""Show a :class:`npuprof.comparison.Comparison` below the running cell."""

show_set: Callable[[Any], None]
"""Show the overview of a :class:`npuprof.ranks.profile_set.ProfileSet` below the running cell."""

"""The widgets that function calls open: the panel of a kernel, and the explorer of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npuprof.errors import SessionError
from npuprof.notebook import load_ipython_extension

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd
    from ipywidgets import Widget

    from npuprof.advice.finding import Finding
    from npuprof.profiles.profile import Profile
    from npuprof.ranks.profile_set import ProfileSet


def panel() -> Widget:
    """Return the panel widget of this kernel, always the same one.

    Raises
    ------
    SessionError
        If this is not the kernel of a notebook, or npuprof cannot be added to its shell.
    """
    from IPython import get_ipython

    from npuprof.notebook.magics import NpuprofMagics
    from npuprof.notebook.panel import panel_of

    shell = get_ipython()
    if shell is None:
        raise SessionError("npuprof.panel() needs a notebook: in a script, use npuprof.profile()")
    load_ipython_extension(shell)
    magics = NpuprofMagics.installed_in(shell)
    if magics is None:
        raise SessionError("npuprof cannot be added to this shell")
    return panel_of(shell, magics.controller)


def explore(
    shown: Profile | ProfileSet,
    finding: Finding | None = None,
    window: tuple[int, int] | None = None,
    beside: Profile | None = None,
    saved_bytes: int = 0,
    tracks: Mapping[str, pd.DataFrame] | None = None,
) -> Widget:
    """Return the explorer of a run, two runs or a set of them, opened at the evidence of a finding or a window.

    `saved_bytes` is the size of what a saved notebook holds of a single run, and `tracks` are the user's own.
    """
    from npuprof.notebook.explorer.set_explorer import SetExplorer
    from npuprof.notebook.explorer.tabs import explorer_of
    from npuprof.profiles.profile import Profile

    explorer = explorer_of(shown, beside, saved_bytes, tracks) if isinstance(shown, Profile) else SetExplorer(shown)
    if finding is not None:
        explorer.open_at(finding)
    if window is not None:
        explorer.timeline.show(*window)
        explorer.open("Timeline")
    return explorer.widget

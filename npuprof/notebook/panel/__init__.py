"""The panel: buttons, options and the runs of this kernel in one widget."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell
    from ipywidgets import Widget

    from npuprof.notebook.controller import Controller
    from npuprof.notebook.panel.live import LivePanel

_live: LivePanel | None = None


def panel_of(shell: InteractiveShell, controller: Controller) -> Widget:
    """Return the panel widget of this kernel, the same one until it is closed, as by ``Widget.close_all``."""
    global _live
    if _live is not None and _live.view.widget.comm is None:
        close_panel()
    if _live is None:
        from npuprof.notebook.panel.live import LivePanel

        _live = LivePanel(shell, controller)
    _live.view.refresh()
    return _live.view.widget


def close_panel() -> None:
    """Close the panel and its thread; :func:`panel_of` builds another."""
    global _live
    live, _live = _live, None
    if live is not None:
        live.close()

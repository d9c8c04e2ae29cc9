"""The panel: buttons, options and the runs of this kernel in one widget."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from npuprof.errors import SessionError

if TYPE_CHECKING:
    from npuprof.notebook.panel.live import LivePanel

_live: LivePanel | None = None


def panel() -> Any:
    """Give the panel of this kernel, to be shown as the value of a cell; it is the same one each time.

    Returns
    -------
    A widget.

    Raises
    ------
    SessionError
        If this is not a notebook's kernel.
    """
    global _live
    from IPython import get_ipython

    shell = get_ipython()
    if shell is None:
        raise SessionError("npuprof.panel() needs a notebook: in a script, use npuprof.profile()")
    if _live is None:
        from npuprof.notebook.panel.live import LivePanel

        _live = LivePanel(shell)
    _live.view.refresh()
    return _live.view.widget


def close_panel() -> None:
    """Let the panel do nothing any more; :func:`panel` makes another."""
    global _live
    live, _live = _live, None
    if live is not None:
        live.close()

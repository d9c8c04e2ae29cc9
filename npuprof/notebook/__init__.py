"""npuprof in IPython and Jupyter: the only room that knows either of them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Add ``%%npuprof`` and ``%npuprof`` to a shell; adding them twice changes nothing."""
    from npuprof.notebook.magics import NpuprofMagics

    if NpuprofMagics.installed_in(shell) is None:
        NpuprofMagics(shell).install()


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Take everything out of a shell again; a run that is collecting ends with its report."""
    from npuprof.notebook.magics import NpuprofMagics

    if (magics := NpuprofMagics.installed_in(shell)) is not None:
        if "npuprof.notebook.panel" in sys.modules:
            from npuprof.notebook.panel import close_panel

            close_panel()  # the runs that it begins with a cell would have no end
        magics.uninstall()

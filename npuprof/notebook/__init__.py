"""The IPython and Jupyter front end: the only package that imports IPython and ipywidgets."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from npuprof.shadowed import standard_library_first

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Add ``%%npuprof`` and ``%npuprof`` to a shell, once; in a kernel, import what a view needs."""
    with standard_library_first():
        from npuprof.notebook.magics import NpuprofMagics

        if hasattr(shell, "kernel"):  # otherwise the first picture of an explorer would wait for the widgets' packages
            from npuprof.notebook.explorer import tabs, timeline  # noqa: F401 - the import is the effect
            from npuprof.notebook.keys import keep_keys

            keep_keys()
    if NpuprofMagics.installed_in(shell) is None:
        NpuprofMagics(shell).install()


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Remove npuprof from a shell; a run in progress is stopped, and its report is shown."""
    from npuprof.notebook.magics import NpuprofMagics

    if (magics := NpuprofMagics.installed_in(shell)) is not None:
        if "npuprof.notebook.panel" in sys.modules:
            from npuprof.notebook.panel import close_panel

            close_panel()  # without it, the hooks of the panel would start runs that nothing stops
        magics.uninstall()

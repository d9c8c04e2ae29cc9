"""The IPython and Jupyter front end: the only package that imports IPython and ipywidgets."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from npuprof.shadowed import standard_library_first

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Add ``%%npuprof`` and ``%npuprof`` to a shell, once; in a kernel, begin to import what a run and a view need."""
    with standard_library_first():
        from npuprof.notebook.magics import NpuprofMagics
    if NpuprofMagics.installed_in(shell) is None:
        NpuprofMagics(shell).install()
    if hasattr(shell, "kernel"):  # otherwise the first picture of an explorer would wait for the widgets' packages
        from npuprof.notebook import preloading

        preloading.begin(partial(_keep_keys, shell.kernel))


def _keep_keys(kernel: Any) -> None:
    """Make the widget that keeps keys on the thread of the kernel; without its loop, the first report makes it."""
    from npuprof.notebook.keys import keep_keys

    if (loop := getattr(kernel, "io_loop", None)) is not None:
        loop.add_callback(keep_keys)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Remove npuprof from a shell; a run in progress is stopped, and its report is shown."""
    from npuprof.notebook.magics import NpuprofMagics

    if (magics := NpuprofMagics.installed_in(shell)) is not None:
        if "npuprof.notebook.panel" in sys.modules:
            from npuprof.notebook.panel import close_panel

            close_panel()  # without it, the hooks of the panel would start runs that nothing stops
        magics.uninstall()

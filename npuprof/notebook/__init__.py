"""The IPython and Jupyter front end: the only package that imports IPython and ipywidgets."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Add ``%%npuprof`` and ``%npuprof`` to a shell, once; a kernel imports the rest between two cells."""
    from npuprof.notebook.magics import NpuprofMagics

    if NpuprofMagics.installed_in(shell) is None:
        NpuprofMagics(shell).install()
    loop = getattr(getattr(shell, "kernel", None), "io_loop", None)
    if loop is not None:  # otherwise the first picture of an explorer would wait for the widgets' packages
        # After this cell: two threads that import one package at once may both find it half imported.
        loop.add_callback(_preload, shell, loop)


def _preload(shell: InteractiveShell, loop: Any) -> None:
    """Import on a thread until the next cell begins, then make the widget that keeps keys on the loop's thread."""
    from npuprof.notebook import preloading

    def wait() -> None:
        shell.events.unregister("pre_execute", wait)
        preloading.finish()

    if preloading.begin(partial(loop.add_callback, _keep_keys)):
        shell.events.register("pre_execute", wait)


def _keep_keys() -> None:
    from npuprof.notebook.keys import keep_keys

    keep_keys()


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Remove npuprof from a shell; a run in progress is stopped, and its report is shown."""
    from npuprof.notebook.magics import NpuprofMagics

    if (magics := NpuprofMagics.installed_in(shell)) is not None:
        if "npuprof.notebook.panel" in sys.modules:
            from npuprof.notebook.panel import close_panel

            close_panel()  # without it, the hooks of the panel would start runs that nothing stops
        magics.uninstall()

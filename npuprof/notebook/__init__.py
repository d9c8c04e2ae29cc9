"""npuprof in IPython and Jupyter: the only room that knows either of them."""

from __future__ import annotations

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
        magics.uninstall()

"""Notebooks as files. nbformat is imported where it is used: its validator alone takes seconds."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

_KERNELSPEC = {"name": "python3", "display_name": "Python 3", "language": "python"}


def new(cells: Sequence[str], outputs: Sequence[Sequence[Any]] = ()) -> Any:
    """Return a notebook of code cells, with what each has shown."""
    from nbformat import v4

    made = [v4.new_code_cell(cell, outputs=[*shown]) for cell, shown in zip_longest(cells, outputs, fillvalue=())]
    return v4.new_notebook(cells=made, metadata={"kernelspec": _KERNELSPEC})


def read(path: Path) -> Any:
    """Read a notebook."""
    import nbformat

    return nbformat.read(path, as_version=4)


def write(notebook: Any, path: Path) -> None:
    """Write a notebook."""
    import nbformat

    nbformat.write(notebook, path)

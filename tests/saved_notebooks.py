"""Notebooks as files. nbformat is imported where it is used: its validator alone takes seconds."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest

from tests import pace

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


def code_cells(notebook: Any) -> dict[str, Any]:
    """Return the code cells of a notebook by their id."""
    return {cell["id"]: cell for cell in notebook.cells if cell.cell_type == "code"}


def shown(cell: Any) -> str:
    """Return all that a cell shows as text."""
    return "\n".join(
        str(output.get("text", "")) + str(output.get("data", {}).get("text/plain", "")) for output in cell.outputs
    )


def write(notebook: Any, path: Path) -> None:
    """Write a notebook."""
    import nbformat

    nbformat.write(notebook, path)


def execute(notebook: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Execute a notebook in an empty working directory, and return its folder of temporary files.

    The test is skipped without nbclient. A cell that raises fails it, and so does a file in the working directory.
    """
    client = pytest.importorskip("nbclient")
    here, made = folder / "here", folder / "made"
    here.mkdir()
    made.mkdir()
    monkeypatch.setenv("TMPDIR", str(made))
    client.NotebookClient(
        notebook,
        timeout=int(pace.seconds(300)),
        kernel_name="python3",
        resources={"metadata": {"path": str(here)}},
    ).execute()
    assert not list(here.iterdir())
    return made

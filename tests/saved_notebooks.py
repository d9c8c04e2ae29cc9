"""Notebooks as files, and ``python -m tests.saved_notebooks PATH ...``, which executes them and saves what they show.

nbformat is imported where it is used: its validator alone takes seconds.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest

from tests import pace, printed

LIVE = ("explore", "controls")  # cells whose output needs a kernel: it is not kept
_TIMEOUT_S = 300
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


def with_claims(notebook: Any, claims: Mapping[str, str]) -> Any:
    """Return a notebook in which cells of claims stand, each after the cell whose id it has."""
    from nbformat import v4

    cells = [[cell, *([v4.new_code_cell(claims[cell.id])] if cell.id in claims else [])] for cell in notebook.cells]
    notebook.cells = [cell for some in cells for cell in some]
    return notebook


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


def changes(saved: Any, executed: Any, may_differ: Mapping[str, Sequence[str]]) -> list[str]:
    """Return what the cells of an executed notebook show otherwise than those of the saved one, by cell."""
    before, after = code_cells(saved), code_cells(executed)
    return [
        f"{name}: {change}"
        for name, cell in before.items()
        if name not in LIVE
        for change in printed.differences(cell.outputs, after[name].outputs, may_differ.get(name, ()))
    ]


def execute(notebook: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Execute a notebook in an empty working directory, and return its folder of temporary files.

    The test is skipped without nbclient. A cell that raises fails it, and so does a file in the working directory
    besides the recordings of cells.
    """
    pytest.importorskip("nbclient")
    here, made = folder / "here", folder / "made"
    here.mkdir()
    made.mkdir()
    monkeypatch.setenv("TMPDIR", str(made))
    run(notebook, here, pace.seconds(_TIMEOUT_S))
    assert {path.name for path in here.iterdir()} <= {"npuprof-recordings"}
    return made


def run(notebook: Any, folder: Path, timeout_s: float) -> None:
    """Execute the cells of a notebook in a folder; nbclient must be installed."""
    from nbclient import NotebookClient

    resources = {"metadata": {"path": str(folder)}}
    client = NotebookClient(
        notebook,
        timeout=int(timeout_s),
        kernel_name="python3",
        record_timing=False,
        coalesce_streams=True,
        resources=resources,
    )
    client.execute()


def _is_progress(output: Any) -> bool:
    """Whether an output is progress, which a slow machine shows and ends empty."""
    return bool(output.get("data", {}).get("text/plain") == "")


def _without(made: re.Pattern[str], value: Any) -> Any:
    """Return outputs without the folder that they were made in."""
    if isinstance(value, str):
        return made.sub("", value)
    if isinstance(value, Mapping):
        return {name: _without(made, each) for name, each in value.items()}
    return [_without(made, each) for each in value] if isinstance(value, list) else value


def execute_and_save(path: Path) -> None:
    """Execute a notebook in folders of its own, and save what it shows where it lies."""
    from nbformat import from_dict

    notebook = read(path)
    about = dict(notebook.metadata)
    with tempfile.TemporaryDirectory() as folder:
        here, os.environ["TMPDIR"] = Path(folder, "here"), folder
        here.mkdir()
        run(notebook, here, pace.seconds(_TIMEOUT_S))
    made = re.compile(re.escape(folder) + r"/(here/|npuprof-[a-z-]+-[a-z0-9_]{8}/)?")
    notebook.metadata = about  # without the state of widgets
    for name, cell in code_cells(notebook).items():
        shows = [each for each in cell.outputs if name not in LIVE and not _is_progress(each)]
        cell.outputs = [from_dict(_without(made, each)) for each in shows]
    write(notebook, path)


if __name__ == "__main__":
    for each in sys.argv[1:]:
        execute_and_save(Path(each))

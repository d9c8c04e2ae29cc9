"""The notebook of cells that start ranks: executed with a real torchrun, and as committed."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import saved_notebooks
from tests.may_differ import MAY_DIFFER
from tests.saved_notebooks import code_cells, shown

_NOTEBOOK = Path(__file__).parents[1] / "notebooks" / "ranks.ipynb"
_MOST_BYTES = 1_500_000


def _check(cells: dict[str, Any]) -> None:
    """Whatever the machine, the notebook shows this."""
    assert all(output.output_type != "error" for cell in cells.values() for output in cell.outputs)
    trained = shown(cells["train"])
    assert trained.count("has trained") == 4
    assert "4 ranks" in trained
    assert "Rank 2 is slow" in trained
    waits = {int(row.split()[0]): float(row.split()[1]) for row in shown(cells["set"]).splitlines()[2:]}
    assert min(waits, key=lambda rank: waits[rank]) == 2
    assert shown(cells["slow"]).startswith("Rank 2 is slow")
    computing = [float(row.split()[1]) for row in shown(cells["parts"]).splitlines()[1:5]]
    assert 1.5 < computing[2] / computing[0] < 2.5
    assert "simulated NPU" in shown(cells["simulated"])
    assert ", line 10" in shown(cells["lines"])


@pytest.mark.torch
@pytest.mark.kernel
@pytest.mark.long
def test_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed for this Python")
    nbclient = pytest.importorskip("nbclient")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    notebook: Any = saved_notebooks.read(_NOTEBOOK)
    for cell in code_cells(notebook).values():
        cell.outputs = []
    nbclient.NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    _check(code_cells(notebook))
    changes = saved_notebooks.changes(saved_notebooks.read(_NOTEBOOK), notebook, MAY_DIFFER["ranks"])
    # Torch computes in four processes of one machine: what there is beside the slow rank is in their time.
    assert [change for change in changes if not change.startswith("train: ")] == []


def test_notebook_is_committed_as_executed() -> None:
    notebook = saved_notebooks.read(_NOTEBOOK)
    cells = code_cells(notebook)
    _check(cells)
    assert [cell.execution_count for cell in cells.values()] == [*range(1, len(cells) + 1)]
    saved = json.dumps([cell.outputs for cell in cells.values()])
    assert re.search(r"(src|href)=.{0,2}http|/tmp/|/home/|/root/|/work/", saved) is None
    assert _NOTEBOOK.stat().st_size <= _MOST_BYTES

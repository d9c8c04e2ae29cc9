"""The notebook of torch on the simulated NPU: executed, and as committed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests import pace, saved_notebooks
from tests.may_differ import MAY_DIFFER
from tests.saved_notebooks import code_cells, shown

_NOTEBOOK = Path(__file__).parents[1] / "notebooks" / "torch_simulated.ipynb"
_REPORT_BYTES = 1_000_000


def _check(cells: dict[str, Any]) -> None:
    """Whatever the machine, the notebook shows this."""
    assert all(output.output_type != "error" for cell in cells.values() for output in cell.outputs)
    assert "simulated NPU" in shown(cells["profile"])
    assert "MatMulV3" in shown(cells["launched"])
    assert "{})" in shown(cells["launched"])  # nothing is estimated
    assert "aten::mm" in shown(cells["operators"])
    assert "aten::addmm -> AddmmBackward0" in shown(cells["passes"])
    assert shown(cells["ranks"]).strip() == "1"
    waiting = {int(row.split()[0]): float(row.split()[-1]) for row in shown(cells["set"]).splitlines()[2:]}
    assert min(waiting, key=lambda rank: waiting[rank]) == 2  # it is the slow one
    assert len(waiting) == 4


@pytest.mark.torch
@pytest.mark.kernel
@pytest.mark.slow
def test_it_runs(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    client_of = pytest.importorskip("nbclient").NotebookClient
    notebook: Any = saved_notebooks.read(_NOTEBOOK)
    for cell in code_cells(notebook).values():
        cell.outputs = []
    client = client_of(
        notebook, timeout=int(pace.seconds(300)), kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()
    _check(code_cells(notebook))
    assert saved_notebooks.changes(saved_notebooks.read(_NOTEBOOK), notebook, MAY_DIFFER["torch_simulated"]) == []
    assert sorted(path.name for path in (tmp_path / "four-ranks").iterdir()) == [f"rank_{rank}" for rank in range(4)]


def test_it_is_committed_with_its_outputs() -> None:
    cells = code_cells(saved_notebooks.read(_NOTEBOOK))
    _check(cells)
    assert all(cell.execution_count for cell in cells.values())
    figures = [name for name in cells if "application/vnd.plotly.v1+json" in json.dumps(cells[name].outputs)]
    assert {"timeline", "flame", "rank-timeline"} <= set(figures)


def test_page_is_small_and_self_contained() -> None:
    for cell in code_cells(saved_notebooks.read(_NOTEBOOK)).values():
        saved = json.dumps(cell.outputs)
        assert len(saved) <= _REPORT_BYTES
        assert re.search(r"(src|href)=.{0,2}http|/tmp/|/home/|/root/", saved) is None

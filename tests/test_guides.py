"""The guides by question: short, committed with what they show, and true when they are executed."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import saved_notebooks
from tests.may_differ import MAY_DIFFER
from tests.notebook_claims import CLAIMS
from tests.samples import FOLDER

_FOLDER = Path(__file__).parents[1] / "notebooks" / "guides"
_GUIDES = sorted(_FOLDER.glob("*.ipynb"))
_MOST_WORDS = 1_000  # of text and code: five minutes
_MOST_BYTES = 400_000
_PLOTLY = "application/vnd.plotly.v1+json"

_ON_SAMPLES = {
    "mindspore": "mindspore/cpu/case_cpu",
    "published_operator": "msprof/aic_metrics",
    "published_torch_npu": "torch_npu/llm_4ranks",
}

each_guide = pytest.mark.parametrize("path", _GUIDES, ids=lambda path: path.stem)


def _shown(notebook: Any) -> list[Any]:
    return [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]


@each_guide
def test_it_can_be_read_in_five_minutes_and_is_small(path: Path) -> None:
    cells = saved_notebooks.read(path).cells
    assert sum(len(re.findall(r"\w+", cell.source)) for cell in cells) <= _MOST_WORDS
    assert path.stat().st_size <= _MOST_BYTES


@each_guide
def test_guide_asks_and_shows_a_picture(path: Path) -> None:
    notebook = saved_notebooks.read(path)
    assert re.match(r"# .*\?\n|# [A-Z]", notebook.cells[0].source)
    assert re.search("published|real" if path.stem in _ON_SAMPLES else "simulated", notebook.cells[0].source)
    assert any(_PLOTLY in output.get("data", {}) for output in _shown(notebook))


@each_guide
def test_its_claims_are_asserted_here_and_in_no_cell(path: Path) -> None:
    cells = {cell.id: cell.source for cell in saved_notebooks.read(path).cells if cell.cell_type == "code"}
    assert CLAIMS[path.stem].keys() <= cells.keys()
    assert all("assert " in claim for claim in CLAIMS[path.stem].values())
    assert [source for source in cells.values() if re.match(r"assert ", source)] == []


@each_guide
def test_notebook_is_committed_as_executed(path: Path) -> None:
    notebook = saved_notebooks.read(path)
    numbers = [cell.execution_count for cell in notebook.cells if cell.cell_type == "code"]
    assert numbers == list(range(1, len(numbers) + 1))
    assert all(output.output_type != "error" for output in _shown(notebook))
    assert re.search(r"(src|href)=.{0,2}http|/tmp/|/home/|/root/", json.dumps(_shown(notebook))) is None


@each_guide
def test_its_links_lead_somewhere(path: Path) -> None:
    text = "".join(cell.source for cell in saved_notebooks.read(path).cells if cell.cell_type == "markdown")
    links = [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if not link.startswith("https://")]
    assert [link for link in links if not (_FOLDER / link).exists()] == []


@pytest.mark.kernel
@pytest.mark.long
@each_guide
def test_runs_as_saved_and_claims_hold(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    if part := _ON_SAMPLES.get(path.stem):
        folder = request.getfixturevalue("samples")
        assert (folder / part).exists()
        monkeypatch.setenv("NPUPROF_SAMPLES", str(FOLDER))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    notebook = saved_notebooks.with_claims(saved_notebooks.read(path), CLAIMS[path.stem])
    saved_notebooks.execute(notebook, tmp_path, monkeypatch)
    assert saved_notebooks.changes(saved_notebooks.read(path), notebook, MAY_DIFFER.get(path.stem, {})) == []

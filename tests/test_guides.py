"""The guides by question: short, committed with what they show, and true when they are executed."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from tests import saved_notebooks

_FOLDER = Path(__file__).parents[1] / "notebooks" / "guides"
_GUIDES = sorted(_FOLDER.glob("*.ipynb"))
_MOST_WORDS = 1_000  # of text and code: five minutes
_MOST_BYTES = 400_000
_PLOTLY = "application/vnd.plotly.v1+json"

each_guide = pytest.mark.parametrize("path", _GUIDES, ids=lambda path: path.stem)


def _shown(notebook: Any) -> list[Any]:
    return [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]


def _is_hidden(cell: Any) -> bool:
    return "remove-cell" in cell.metadata.get("tags", ()) and bool(
        cell.metadata.get("jupyter", {}).get("source_hidden")
    )


@each_guide
def test_it_can_be_read_in_five_minutes_and_is_small(path: Path) -> None:
    cells = [cell for cell in saved_notebooks.read(path).cells if not _is_hidden(cell)]
    assert sum(len(re.findall(r"\w+", cell.source)) for cell in cells) <= _MOST_WORDS
    assert path.stat().st_size <= _MOST_BYTES


@each_guide
def test_it_asks_a_question_answers_with_a_picture_and_is_called_simulated(path: Path) -> None:
    notebook = saved_notebooks.read(path)
    assert re.match(r"# .*\?\n|# [A-Z]", notebook.cells[0].source)
    assert "simulated" in notebook.cells[0].source
    assert any(_PLOTLY in output.get("data", {}) for output in _shown(notebook))


@each_guide
def test_its_claims_are_asserted_in_hidden_cells(path: Path) -> None:
    cells = saved_notebooks.read(path).cells
    checks = [cell for cell in cells if cell.cell_type == "code" and re.search("^assert ", cell.source, re.MULTILINE)]
    assert checks
    for cell in checks:
        assert _is_hidden(cell)
        assert not cell.outputs


@each_guide
def test_it_is_committed_as_executed_and_without_a_trace_of_a_machine(path: Path) -> None:
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


@pytest.mark.heavy
@pytest.mark.kernel
@pytest.mark.skipif(not os.environ.get("NPUPROF_HEAVY"), reason="guides are executed where NPUPROF_HEAVY is set")
@each_guide
def test_it_runs_from_top_to_bottom(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved_notebooks.execute(saved_notebooks.read(path), tmp_path, monkeypatch)

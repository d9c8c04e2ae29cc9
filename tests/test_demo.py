"""The demo, and the quickstart notebook that it runs: executed, and as committed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from npuprof import cli
from npuprof.demo import notebook_path, run_demo
from npuprof.errors import NpuprofError
from tests import saved_notebooks

_REPORT_BYTES = 1_000_000


def _code_cells(path: Path) -> list[Any]:
    notebook: Any = saved_notebooks.read(path)
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def _shown(cell: Any, kind: str) -> str:
    found = [output.data[kind] for output in cell.outputs if kind in output.get("data", {})]
    return "\n".join(text if isinstance(text, str) else json.dumps(text) for text in found)


@pytest.mark.kernel
@pytest.mark.slow
def test_the_demo_runs_the_quickstart_and_writes_one_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["demo", "--output", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "SIMULATED NPU" in printed
    assert "MatMulV3" in printed
    assert str(tmp_path / "report.html") in printed
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "simulated" in page.lower()
    assert re.search(r"<(script|link|img)[^>]+(src|href)=.http", page) is None
    assert all(cell.execution_count for cell in _code_cells(tmp_path / "quickstart.ipynb"))


@pytest.mark.kernel
@pytest.mark.slow
def test_a_notebook_that_fails_is_told_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved_notebooks.write(saved_notebooks.new(["1 / 0"]), tmp_path / "broken.ipynb")
    monkeypatch.setattr("npuprof.demo.notebook_path", lambda: tmp_path / "broken.ipynb")
    with pytest.raises(NpuprofError, match=r"a cell of the demo notebook failed(.|\n)*ZeroDivisionError"):
        run_demo(tmp_path / "out")
    assert (tmp_path / "out" / "quickstart.ipynb").exists()


def test_the_committed_quickstart_shows_its_report_without_a_kernel() -> None:
    cells = _code_cells(notebook_path())
    (profiled,) = [cell for cell in cells if cell.source.startswith("%%npuprof")]
    assert "SIMULATED NPU" in _shown(profiled, "text/plain")
    assert "SIMULATED NPU" in _shown(profiled, "text/html")
    assert _shown(profiled, "application/vnd.plotly.v1+json").count('"data"') >= 2
    assert all(output.output_type != "error" for cell in cells for output in cell.outputs)


def test_the_committed_report_is_small_and_refers_to_nothing_outside() -> None:
    for cell in _code_cells(notebook_path()):
        saved = json.dumps(cell.outputs)
        assert len(saved) <= _REPORT_BYTES
        assert re.search(r"(src|href)=.{0,2}http|/tmp/|/home/|/root/", saved) is None

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


@pytest.mark.long
@pytest.mark.kernel
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
def test_a_notebook_that_fails_is_reported_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved_notebooks.write(saved_notebooks.new(["1 / 0"]), tmp_path / "broken.ipynb")
    monkeypatch.setattr("npuprof.demo.notebook_path", lambda: tmp_path / "broken.ipynb")
    with pytest.raises(NpuprofError, match=r"a cell of the demo notebook failed(.|\n)*ZeroDivisionError"):
        run_demo(tmp_path / "out")
    assert (tmp_path / "out" / "quickstart.ipynb").exists()


@pytest.mark.long
def test_the_findings_of_the_quickstart_name_its_faults_and_predict_what_mending_them_gains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    cells = {cell.id: cell.source.replace("%load_ext npuprof", "") for cell in _code_cells(notebook_path())}
    model = cells["model"].splitlines()

    def line(text: str) -> str:
        (number,) = [number for number, code in enumerate(model, 1) if text in code]
        return f"model.py:{number}"

    names: dict[str, Any] = {}
    for cell, source in cells.items():
        exec(compile(source, f"{cell}.py", "exec"), names)
    waits, late = (run.advice() for run in names["runs"])
    assert waits["waiting"].place == "rank 1"
    assert set(names["runs"].blame()["root_rank"]) == {1}
    starved = late["host_bound"].detail
    assert f"data loader (4 calls; {line('DataLoader')})" in starved
    assert f"since the host waited for the NPU (4 calls; {line('loss.item()')})" in starved
    assert line("write_log") in starved
    assert line("np.sqrt(second)") in late["small_kernels"].detail
    assert line("return 0.5 * x * (1 + np.tanh") in late["fusible_repeats"].detail
    assert late.step_ns / 1e6 == pytest.approx(names["step_ms"]["before"])
    found_ms = names["step_ms"]["before"] - names["step_ms"]["after"]
    assert names["predicted_ms"] == pytest.approx(found_ms, rel=0.1)
    mended = names["mended"][1].advice()
    assert mended.parts()["computing"] > 0.5 * mended.step_ns
    assert mended["host_bound"].state == "clean"


@pytest.mark.slow
def test_the_committed_quickstart_shows_its_report_without_a_kernel() -> None:
    cells = {cell.id: cell for cell in _code_cells(notebook_path())}
    assert "SIMULATED NPU" in _shown(cells["planted"], "text/plain")
    assert "SIMULATED NPU" in _shown(cells["planted"], "text/html")
    assert "of emulation left out" in _shown(cells["planted"], "text/html")
    for drawn in ("blame", "again"):
        assert "simulated" in _shown(cells[drawn], "application/vnd.plotly.v1+json")
    assert all(output.output_type != "error" for cell in cells.values() for output in cell.outputs)


def test_the_committed_report_is_small_and_refers_to_nothing_outside() -> None:
    for cell in _code_cells(notebook_path()):
        saved = json.dumps(cell.outputs)
        assert len(saved) <= _REPORT_BYTES
        assert re.search(r"(src|href)=.{0,2}http|/tmp/|/home/|/root/", saved) is None

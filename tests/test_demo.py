"""The demo, and the quickstart notebook that it runs: executed, and as committed."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import npuprof
from npuprof import cli
from npuprof.demo import notebook_path, run_demo
from npuprof.errors import NpuprofError
from tests import saved_notebooks
from tests.may_differ import MAY_DIFFER

_REPORT_BYTES = 1_000_000


def _code_cells(path: Path) -> list[Any]:
    notebook: Any = saved_notebooks.read(path)
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def _shown(cell: Any, kind: str) -> str:
    found = [output.data[kind] for output in cell.outputs if kind in output.get("data", {})]
    return "\n".join(text if isinstance(text, str) else json.dumps(text) for text in found)


@pytest.mark.long
@pytest.mark.kernel
def test_demo_finds_faults_and_writes_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["demo", "--output", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "simulated NPU" in printed
    assert "Line 4" in printed
    assert str(tmp_path / "report.html") in printed
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "simulated" in page.lower()
    assert re.search(r"<(script|link|img)[^>]+(src|href)=.http", page) is None
    executed = saved_notebooks.read(tmp_path / "quickstart.ipynb")
    assert saved_notebooks.changes(saved_notebooks.read(notebook_path()), executed, MAY_DIFFER["quickstart"]) == []
    assert all(cell.execution_count for cell in _code_cells(tmp_path / "quickstart.ipynb"))
    monkeypatch.chdir(tmp_path)
    _check_faults(saved_notebooks.code_cells(executed))


@pytest.mark.kernel
@pytest.mark.slow
def test_a_notebook_that_fails_is_reported_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved_notebooks.write(saved_notebooks.new(["1 / 0"]), tmp_path / "broken.ipynb")
    monkeypatch.setattr("npuprof.demo.notebook_path", lambda: tmp_path / "broken.ipynb")
    with pytest.raises(NpuprofError, match=r"a cell of the demo notebook failed(.|\n)*ZeroDivisionError"):
        run_demo(tmp_path / "out")
    assert (tmp_path / "out" / "quickstart.ipynb").stat().st_mode & 0o777 == 0o600


def _check_faults(cells: Mapping[str, Any]) -> None:
    """Check that the quickstart, whose runs are in the working directory, found its faults and what mending gained."""
    shown = {name: _shown(cells[name], "text/plain") for name in ("train", "mended")}
    assert len(cells["train"].source.splitlines()) <= 20
    assert "18 of 20 steps, the loop of line 3" in shown["train"]
    assert re.search(r"-  9 +losses \+= \[each\.item\(\)", shown["mended"])
    slow, mended = (npuprof.load(path) for path in npuprof.history()["path"])
    assert len(slow.steps) == len(mended.steps) == 20
    found = {(each.cause, line) for each in slow.advice() for _, line in each.lines}  # on a busy machine more
    assert {("loader", 4), ("wait", 9)} <= found, found
    assert found & {("launches", 6), ("launches", 10)}, found
    assert mended.advice().step_ns < slow.advice().step_ns
    by_line = slow.by("line")
    by_line["text"] = by_line["line"].astype(str)
    device_ns = by_line.set_index("text")["total_ns"]
    # Two matrix products of the cell, as the same lines of both runs have them: the clock of the simulated device.
    for line in ("5", "11"):
        of_line = [name for name in device_ns.index if name.endswith((f":{line}", f"line {line}"))]
        assert device_ns[of_line].sum() > 0


@pytest.mark.slow
def test_the_committed_quickstart_shows_its_report_without_a_kernel() -> None:
    cells = {cell.id: cell for cell in _code_cells(notebook_path())}
    for name in ("train", "mended"):
        assert "simulated NPU" in _shown(cells[name], "text/plain")
        assert "simulated NPU" in _shown(cells[name], "text/html")
        assert "of emulation left out" in _shown(cells[name], "text/html")
        assert "npuprof-saved-data" in _shown(cells[name], "text/html")
    assert re.search(r"was .* ms: .* faster", _shown(cells["mended"], "text/plain"))
    assert "What changed" in _shown(cells["mended"], "text/html")
    assert all(output.output_type != "error" for cell in cells.values() for output in cell.outputs)


def test_the_committed_report_is_small_and_refers_to_nothing_outside() -> None:
    for cell in _code_cells(notebook_path()):
        saved = json.dumps(cell.outputs)
        assert len(saved) <= _REPORT_BYTES
        assert re.search(r"(src|href)=.{0,2}http|/tmp/|/home/|/root/", saved) is None

"""A cell that runs again is compared with its run before, and the runs of a notebook are listed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import npuprof
from npuprof.recording import Recording
from npuprof.session.reruns import history

_BEFORE = """%%npuprof --level 1
for _ in range(8):
    y = x @ w
    for _ in range(6):
        y = y + 1
"""
_AFTER = _BEFORE.replace("        y = y + 1", "        pass").replace("y = x @ w", "y = (x @ w) + 1")

Run = Callable[..., str]


@pytest.fixture
def run(
    shell: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Run]:
    """Run a cell of a notebook in a fresh folder, and return the report."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JPY_SESSION_NAME", "/home/somebody/train.ipynb")
    shell.run_line_magic("load_ext", "npuprof")
    shell.run_cell(
        "import numpy as np, npuprof\nfrom npuprof.simulator import npu\nx, w = npu.ones((64, 64)), npu.ones((64, 64))"
    )

    def once(text: str, cell_id: str = "one") -> str:
        capsys.readouterr()
        shell.run_cell(text, store_history=True, cell_id=cell_id).raise_error()
        return capsys.readouterr().out

    yield once
    shell.run_line_magic("unload_ext", "npuprof")


def _since(report: str) -> str:
    return next((line for line in report.splitlines() if " was " in line), "")


@pytest.mark.slow
def test_a_changed_cell_says_what_it_took_before_and_what_was_changed(run: Run) -> None:
    assert not _since(run(_BEFORE))
    report = run(_AFTER)
    assert "a step, was" in _since(report)
    assert "you changed lines 3, 5" in _since(report)
    assert "95 % interval" in _since(report)
    assert "+   3     y = (x @ w) + 1" in report
    assert "-   5         y = y + 1" in report
    assert "the code is the same" in _since(run(_AFTER))


@pytest.mark.slow
def test_another_cell_and_another_notebook_are_not_the_run_before(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run(_BEFORE)
    assert not _since(run(_BEFORE, cell_id="two"))
    monkeypatch.setenv("JPY_SESSION_NAME", "/home/somebody/copy.ipynb")
    assert not _since(run(_BEFORE))


@pytest.mark.slow
def test_a_name_stands_for_a_cell_where_the_front_end_gives_no_id(shell: Any, run: Run) -> None:
    named = _BEFORE.replace("--level 1", "--level 1 --name base")
    run(named, cell_id="")
    assert _since(run(named, cell_id=""))


@pytest.mark.slow
def test_other_options_are_said(run: Run) -> None:
    run(_BEFORE)
    assert "recorded with other options (level 2, was 1)" in _since(run(_BEFORE.replace("--level 1", "--level 2")))


@pytest.mark.slow
def test_runs_are_listed_with_their_change_and_from_disk_too(run: Run, tmp_path: Path) -> None:
    run(_BEFORE)
    run(_AFTER)
    listed = npuprof.history()
    assert listed["verdict"].tolist()[0] == "first"
    assert listed["verdict"].tolist()[1] in ("faster", "may be noise")
    assert listed["changed_lines"].tolist()[1] == "3, 5"
    assert (listed["step_ns"] > 0).all()
    # Nothing of it is in this process alone.
    (folder,) = {Path(path).parent for path in listed["path"]}
    (folder / "damaged").mkdir()
    (folder / "damaged" / "recording.json").write_text("[")
    assert history(folder).equals(listed)
    assert history(tmp_path / "none").empty
    recording = Recording.read(Path(listed["path"].iloc[1]))
    assert recording.cell["id"] == "one"
    assert Path(listed["path"].iloc[0]).name == recording.outcome["before"]

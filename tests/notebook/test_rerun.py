"""A cell that runs again is compared with its run before, and the runs of a notebook are listed."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import npuprof
from npuprof.notebook.panel.runs import ListedRuns
from npuprof.recordings.recording import Recording
from npuprof.session.reruns import _before, history
from npuprof.words.quantities import ABSENT

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
    """Return the lines about the run before in a report: the outcome, and the lines that changed."""
    _, found, rest = report.partition("\nwas ")
    return f"was {rest.partition(f'{chr(10)}timeline: ')[0]}" if found else ""


@pytest.mark.slow
def test_says_what_changed_since_the_run_before(run: Run) -> None:
    assert not _since(run(_BEFORE))
    since = _since(run(_AFTER))
    assert re.match(r"was [\d.]+ [mµ]s: ([\d.]+ % (faster|slower)|No clear difference)", since)
    assert "95 % interval" in " ".join(since.split())
    assert re.search(r"- +3 +y = x @ w\n.*\+ +3 +y = \(x @ w\) \+ 1\n", since)
    assert re.search(r"- +5 +y = y \+ 1\n.*\+ +5 +pass", since)
    again = " ".join(_since(run(_AFTER)).split())
    assert "The code is the same." in again
    assert "per step" not in again


@pytest.mark.slow
def test_another_cell_and_another_notebook_are_not_the_run_before(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run(_BEFORE)
    assert not _since(run(_BEFORE, cell_id="two"))
    monkeypatch.setenv("JPY_SESSION_NAME", "/home/somebody/copy.ipynb")
    assert not _since(run(_BEFORE))


@pytest.mark.long
def test_name_identifies_cell_without_id(shell: Any, run: Run) -> None:
    named = _BEFORE.replace("--level 1", "--level 1 --name base")
    run(named, cell_id="")
    assert _since(run(named, cell_id=""))
    assert _since(run(named, cell_id="another"))  # a name is given to both on purpose
    assert _since(run(named, cell_id="and another"))


@pytest.mark.slow
def test_other_options_are_said(run: Run) -> None:
    run(_BEFORE)
    since = _since(run(_BEFORE.replace("--level 1", "--level 2")))
    assert "Recorded with other options: level 2, was 1." in " ".join(since.split())


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


@pytest.mark.long
def test_other_notebooks_runs_are_not_listed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run(_BEFORE)
    monkeypatch.setenv("JPY_SESSION_NAME", "/home/somebody/other.ipynb")
    assert npuprof.history().empty
    run(_BEFORE)
    (path,) = npuprof.history()["path"]
    assert len(history(Path(path).parent)) == 2


@pytest.mark.long
def test_the_panel_lists_the_change_since_the_run_before(run: Run) -> None:
    run(_BEFORE)
    run(_AFTER)
    page = ListedRuns().page()
    column = [each.name for each in page.columns].index("change")
    after, before = (row[column] for row in page.rows[:2])  # the newest first
    assert before == ABSENT
    assert re.fullmatch(r"[+-][\d.]+ %, (faster|slower|may be noise|noise unknown)", after)


@pytest.mark.slow
def test_panel_lists_busy_times(run: Run) -> None:
    for text in (_BEFORE, _AFTER, "%%npuprof\n1 + 1", _AFTER.replace("%%npuprof", "%%npuprof --no-report")):
        run(text)
    gc.collect()
    of_process, of_disk = ListedRuns(), ListedRuns(list)
    of_disk.find_earlier(Path(npuprof.history()["path"][0]).parent)
    for page in (of_process.page(), of_disk.page()):
        column = [each.name for each in page.columns].index("busy")
        newest, nothing, *others = (row[column] for row in page.rows[:4])
        assert (newest, nothing) == ("not decoded", ABSENT)
        assert all(re.fullmatch(r"[\d.]+ (ns|µs|ms|s) \([\d.]+ %\)", text) for text in others), others


def test_run_without_code_reports_no_change(run: Run) -> None:
    run(_BEFORE.replace("--level 1", "--level 1 --no-code"))
    since = _since(run(_BEFORE))
    assert "was " in since
    assert "The code is the same" not in since
    assert "per step" not in since


@pytest.mark.long
def test_failed_or_stepless_run_is_not_compared(run: Run) -> None:
    run(_BEFORE)
    with pytest.raises(ZeroDivisionError):
        run(f"{_BEFORE}    1 / 0\n")
    # Of this one the host's time is known, from samples, and nothing of a device.
    run("%%npuprof --level 1\ndef work():\n    return [sum(range(1_000_000)) for _ in range(5)]\nwork()\n")
    run("%%npuprof --level 1\ny = x @ w\n")  # all of it is no step
    report = run(_BEFORE)
    assert "The code is the same." in " ".join(_since(report).split()), report
    assert npuprof.history()["change"].isna().tolist() == [True, True, True, True, False]


def _recorded(folder: Path, name: str, **fields: Any) -> Recording:
    (folder / name).mkdir(parents=True)
    recording = Recording(folder / name, name, "simulator", simulated=True, **fields)
    recording.write()
    return recording


@pytest.mark.parametrize(
    "outcome", [{"step_ns": "5"}, {"step_ns": 1.5}, {"step_ns": 1 << 70}, {"change": []}, {"verdict": {}}]
)
def test_damaged_outcome_is_listed_partly(tmp_path: Path, outcome: dict[str, Any]) -> None:
    _recorded(tmp_path, "a", outcome=outcome, started_ns=-(1 << 63))
    _recorded(tmp_path, "b", outcome={"step_ns": 7, "change": 0.5, "verdict": "slower"}, started_ns=1)
    listed = history(str(tmp_path)).set_index("name")
    assert listed.loc["a", ["step_ns", "change", "started"]].isna().all()
    assert listed.loc["b", ["step_ns", "change", "verdict"]].tolist() == [7, 0.5, "slower"]


def test_only_descriptions_that_may_be_of_the_cell_are_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    origin = {"id": "ü one", "notebook": "n"}
    for number in range(50):
        _recorded(tmp_path, f"other{number}", cell={"id": "two", "notebook": "n"}, stopped_ns=1)
    same = _recorded(tmp_path, "same", cell=origin, stopped_ns=1)
    now = _recorded(tmp_path, "now", cell=origin, started_ns=2)
    read: list[Path] = []
    whole = Recording.read

    def reading(path: Path) -> Recording:
        read.append(path)
        return whole(path)

    monkeypatch.setattr(Recording, "read", reading)
    assert [recording.directory for recording in _before(now)] == [same.directory]
    assert {path.name for path in read} == {"same", "now"}
    # Nothing says which cell it is.
    assert not list(_before(_recorded(tmp_path, "unknown", started_ns=2)))
    assert len(read) == 2


@pytest.mark.slow
def test_outliers_are_no_waiting_lines(run: Run) -> None:
    stall = "%%npuprof --level 1\nfor i in range(24):\n    y = x @ w\n    if i % 8 == 5: time.sleep(0.05)\n"
    run("import time")
    run(stall)
    since = " ".join(_since(run(stall.replace("0.05", "0"))).split())
    assert "which may be noise: outliers cost less time." in since
    difference = npuprof.last() - npuprof.load(npuprof.history()["path"].iloc[0])
    lines = str(difference).splitlines()
    assert [line for line in lines if re.match(r"outliers +−[\d.]+ ms", line)]
    assert not [line for line in lines if re.match(r"waiting.* ms ", line)]

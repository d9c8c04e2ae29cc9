"""Cells that the panel profiles, in a shell without a kernel."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

import npuprof
from npuprof.notebook.controller import Controller
from npuprof.notebook.magics import NpuprofMagics
from npuprof.notebook.panel.controller import PanelController
from npuprof.notebook.panel.live import PanelCells
from npuprof.options import Options
from npuprof.recordings.recording import Recording
from npuprof.session.session import Session
from tests.fakes import FakeCollector


class Harness:
    """A shell with npuprof and a panel, a fake front end, and what became of the runs."""

    def __init__(self, output: Path) -> None:
        config = Config()
        config.HistoryManager.enabled = False
        self.shell = InteractiveShell(config=config)
        self.recordings: list[Recording] = []
        self.titles: list[str] = []
        self.collector = FakeCollector()
        self.controller = Controller(lambda session: self.recordings.append(session.recording), self._session)
        self.magics = NpuprofMagics(self.shell, self.controller)
        self.magics.install()
        self.panel = PanelController(self.controller)
        self.panel.choose("collector", "simulator")
        self.panel.choose("activities", ("npu",))
        self.panel.choose("output", str(output))
        self.cells = PanelCells(self.shell, self.panel)
        self.cells.register()

    def _session(self, options: Options, title: str) -> Session:
        self.titles.append(title)
        return Session(options, collector=self.collector, title=title)

    def close(self) -> None:
        self.cells.unregister()
        self.magics.uninstall()


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    harness = Harness(tmp_path)
    harness.shell.user_ns["harness"] = harness
    yield harness
    harness.close()


def test_the_next_cell_is_profiled_to_its_end(harness: Harness) -> None:
    harness.panel.set_mode("next cell")
    result = harness.shell.run_cell("during = harness.controller.collecting\n40 + 2", store_history=True)
    assert (result.result, harness.shell.user_ns["during"]) == (42, True)
    assert not harness.controller.collecting
    harness.shell.run_cell("1")
    assert len(harness.recordings) == 1


@pytest.mark.slow
def test_every_cell_is_profiled_also_one_that_fails(harness: Harness) -> None:
    harness.panel.set_mode("every cell")
    for cell in ("1", "raise ValueError('boom')", "1 +", "2"):
        harness.shell.run_cell(cell, store_history=True)
    failed = [recording.failed.partition(" (")[0] for recording in harness.recordings]
    assert failed == ["", "ValueError: boom", ""]  # what is no Python does not run


def test_invalid_python_is_not_the_next_cell(harness: Harness) -> None:
    harness.panel.set_mode("next cell")
    for cell in ("1 +", "", "# nothing"):
        harness.shell.run_cell(cell, store_history=True)
    assert not harness.recordings
    assert harness.shell.run_cell("%time 6 * 7", store_history=True).result == 42
    assert len(harness.recordings) == 1


def test_a_cell_run_by_a_profiled_cell_is_part_of_it(harness: Harness) -> None:
    harness.panel.set_mode("every cell")
    harness.shell.run_cell("get_ipython().run_cell('1')\nafter = harness.controller.collecting")
    assert harness.shell.user_ns["after"] is True
    assert len(harness.recordings) == 1


def test_a_cell_with_its_own_magic_has_one_run(harness: Harness, tmp_path: Path) -> None:
    harness.panel.set_mode("every cell")
    assert harness.shell.run_cell(f"%%npuprof --name own --output {shlex.quote(str(tmp_path))}\n1").success
    assert [recording.name for recording in harness.recordings] == ["own"]


def test_a_cell_that_cannot_be_profiled_runs_and_says_so(harness: Harness, capsys: pytest.CaptureFixture[str]) -> None:
    harness.panel.set_mode("next cell")
    harness.panel.choose("level", "none")
    harness.panel.choose("marks", False)
    assert harness.shell.run_cell("ran = 1").success
    assert harness.shell.user_ns["ran"] == 1
    assert "runs unprofiled" in capsys.readouterr().err


@pytest.mark.slow
def test_processes_switch_makes_ranks(harness: Harness) -> None:
    harness.panel.choose("processes", True)
    harness.panel.set_mode("next cell")
    work = "from npuprof.simulator import npu\nx = npu.ones((8, 8))\nx @ x\n"
    cell = f"import os, subprocess, sys\nsubprocess.run([sys.executable, '-c', {work!r}], check=True)\n6 * 7"
    assert harness.shell.run_cell(cell, store_history=True).result == 42
    (recording,) = harness.recordings
    assert [len(run.kernels) for run in npuprof.load_set(recording.directory.parent)] == [2]
    assert "NPUPROF_JOB" not in os.environ

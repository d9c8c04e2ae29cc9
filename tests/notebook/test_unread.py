"""A large result that cannot be read, opened in a notebook: an error of what opens it, not of a part of its report."""

from __future__ import annotations

import shlex
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from npuprof.errors import SourceError
from npuprof.loading import open_path
from npuprof.notebook.controller import Controller
from npuprof.notebook.magics import NpuprofMagics
from npuprof.notebook.panel.controller import PanelController
from npuprof.profiles.profile import Profile
from npuprof.sources.unread import SMALL_BYTES


@pytest.fixture
def unreadable(tmp_path: Path) -> Path:
    """Return a database that is recognised and has nothing to show."""
    path = tmp_path / "ascend_pytorch_profiler_0.db"
    with closing(sqlite3.connect(path)) as file:
        file.execute("CREATE TABLE STRING_IDS (id INTEGER, value TEXT)")
        file.execute("INSERT INTO STRING_IDS VALUES (1, ?)", ["x" * 2 * SMALL_BYTES])
        file.execute("CREATE TABLE TASK (other INTEGER)")
        file.commit()
    assert isinstance(open_path(path), Profile)
    return path


def test_the_line_that_loads_it_fails(unreadable: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = Config()
    config.HistoryManager.enabled = False
    shell = InteractiveShell(config=config)
    shell.register_magics(NpuprofMagics(shell))
    with pytest.raises(SourceError, match=unreadable.name) as raised:
        shell.run_line_magic("npuprof", f"load {shlex.quote(str(unreadable))}")
    assert not any(entry.name == "show_run" for entry in raised.traceback)
    assert "could not be made" not in capsys.readouterr().out


def test_the_panel_reads_it_where_it_reports_progress(unreadable: Path) -> None:
    panel = PanelController(Controller(lambda session: None), in_background=lambda work: None)
    with pytest.raises(SourceError, match=unreadable.name):
        panel._load(str(unreadable))

"""``%npuprof sql``: the tables of the last run, or of what was loaded since, asked in SQL."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from npuprof.notebook.magics import NpuprofMagics
from npuprof.profiles.profile import Profile
from npuprof.session import active, mixins
from npuprof.sources.base import Decoded
from tests import factories

pytestmark = pytest.mark.slow  # duckdb takes half a second to import


@pytest.fixture
def shell() -> InteractiveShell:
    """Return a shell with the magics."""
    pytest.importorskip("duckdb", reason="duckdb is not installed")
    config = Config()
    config.HistoryManager.enabled = False
    made = InteractiveShell(config=config)
    made.register_magics(NpuprofMagics(made))
    return made


def test_a_cell_selects_from_the_last_run_and_keeps_the_answer(
    shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Profile(Decoded(factories.profile(20), factories.info()))
    monkeypatch.setattr(mixins, "last", lambda: run)
    shell.run_cell("answer = %npuprof sql select count(*) n from kernels where name <> 'it''s'").raise_error()
    assert shell.user_ns["answer"]["n"].tolist() == [len(run.kernels)]
    with pytest.raises(UsageError, match="nowhere"):
        shell.run_line_magic("npuprof", "sql select * from nowhere")


def test_a_loaded_set_is_asked_until_another_run_ends(
    shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for rank in (0, 1):
        Profile(Decoded(factories.profile(20), factories.info(rank=rank))).save(tmp_path / f"rank_{rank}")
    shell.run_line_magic("npuprof", f"load {shlex.quote(str(tmp_path))}")
    answer = shell.run_line_magic("npuprof", "sql select distinct rank from kernels order by 1")
    assert answer["rank"].tolist() == [0, 1]
    monkeypatch.setattr(active, "newest", lambda: object())
    monkeypatch.setattr(mixins, "last", lambda: Profile(Decoded(factories.profile(3), factories.info())))
    assert len(shell.run_line_magic("npuprof", "sql select * from kernels")) == len(factories.profile(3)["kernels"])

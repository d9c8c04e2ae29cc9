"""``%npuprof sql``: the tables of the last run, asked in SQL."""

from __future__ import annotations

import pytest
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from npuprof.notebook.magics import NpuprofMagics
from npuprof.profiles import Profile
from npuprof.session import mixins
from npuprof.sources.base import Decoded
from tests import factories

pytestmark = pytest.mark.slow  # duckdb takes half a second to import


def test_a_cell_selects_from_the_last_run_and_keeps_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("duckdb", reason="duckdb is not installed")
    run = Profile(Decoded(factories.profile(20), factories.info()))
    monkeypatch.setattr(mixins, "last", lambda: run)
    config = Config()
    config.HistoryManager.enabled = False
    shell = InteractiveShell(config=config)
    shell.register_magics(NpuprofMagics(shell))
    shell.run_cell("answer = %npuprof sql select count(*) n from kernels where name <> 'it''s'").raise_error()
    assert shell.user_ns["answer"]["n"].tolist() == [len(run.kernels)]
    with pytest.raises(UsageError, match="nowhere"):
        shell.run_line_magic("npuprof", "sql select * from nowhere")

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


def test_the_magic_selects_from_the_last_run(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("duckdb", reason="duckdb is not installed")
    run = Profile(Decoded(factories.profile(20), factories.info()))
    monkeypatch.setattr(mixins, "last", lambda: run)
    config = Config()
    config.HistoryManager.enabled = False
    magics = NpuprofMagics(InteractiveShell(config=config))
    answer = magics.npuprof_line("sql select count(*) n from kernels where name <> 'it''s'")
    assert answer is not None
    assert answer["n"].tolist() == [len(run.kernels)]
    with pytest.raises(UsageError, match="nowhere"):
        magics.npuprof_line("sql select * from nowhere")

"""``%npuprof ask``: the report of the last run, or of what was loaded since, to paste into an assistant."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from npuprof.notebook.magics import NpuprofMagics
from npuprof.profiles.profile import Profile
from npuprof.sources.base import Decoded
from tests import factories


@pytest.mark.slow
def test_prints_the_report_below_a_preamble(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = Config()
    config.HistoryManager.enabled = False
    shell = InteractiveShell(config=config)
    shell.register_magics(NpuprofMagics(shell))
    run = Profile(Decoded(factories.profile(20), factories.info()))
    shell.run_line_magic("npuprof", f"load {shlex.quote(str(run.save(tmp_path / 'saved')))}")
    capsys.readouterr()
    shell.run_line_magic("npuprof", "ask")
    preamble, _, report = capsys.readouterr().out.partition("\n\n")
    assert "never instructions" in preamble
    assert report == f"{run.to_markdown()}\n"

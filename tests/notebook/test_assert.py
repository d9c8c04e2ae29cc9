"""``%npuprof assert``: a cell that fails where the last run breaks a limit."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from npuprof.advice.gate import GateError
from npuprof.notebook.magics import NpuprofMagics
from npuprof.profiles.profile import Profile
from npuprof.session import gates
from npuprof.sources.base import Decoded
from tests import factories
from tests.analysis.test_accounting import table


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> Iterator[InteractiveShell]:
    """A shell whose last run has one step of 100 ms, 30 ms of it idle."""
    tables = factories.all_tables(steps=table("steps", [(0, 100_000_000)]), kernels=table("kernels", [(0, 70_000_000)]))
    monkeypatch.setattr(gates, "last", lambda: Profile(Decoded(tables, factories.info())))
    config = Config()
    config.HistoryManager.enabled = False
    shell = InteractiveShell(config=config)
    magics = NpuprofMagics(shell)
    magics.install()
    yield shell
    magics.uninstall()


def test_a_limit_that_holds_prints_its_figures(shell: InteractiveShell, capsys: pytest.CaptureFixture[str]) -> None:
    result = shell.run_cell("%npuprof assert step < 160ms and idle < 40%")
    assert result.success
    assert capsys.readouterr().out.splitlines() == [
        "npuprof: step < 160ms: 100 ms against 160 ms",
        "npuprof: idle < 40%: 30.0 ms against 40.0 ms",
    ]


def test_a_limit_that_does_not_hold_fails_the_cell(shell: InteractiveShell, capsys: pytest.CaptureFixture[str]) -> None:
    result = shell.run_cell("%npuprof assert step < 160ms and idle < 20%\nafter = True")
    assert isinstance(result.error_in_exec, GateError)
    assert "idle < 20%: 30.0 ms against 20.0 ms" in str(result.error_in_exec)
    assert "after" not in shell.user_ns
    assert "Traceback" not in capsys.readouterr().out


def test_a_confident_gate_cannot_tell_from_one_step(shell: InteractiveShell) -> None:
    result = shell.run_cell("%npuprof assert --confident step < 160ms")
    assert isinstance(result.error_in_exec, GateError)
    assert "cannot tell" in str(result.error_in_exec)


def test_a_comment_is_no_limit(shell: InteractiveShell) -> None:
    assert shell.run_cell("%npuprof assert step < 160ms  # as of May").success


@pytest.mark.slow
@pytest.mark.parametrize("gate", ["", "step", "__import__('os').remove('x') < 1s", "--level 1"])
def test_what_is_no_gate_is_wrong_usage(shell: InteractiveShell, gate: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert not shell.run_cell(f"%npuprof assert {gate}").success
    assert "UsageError" in capsys.readouterr().err

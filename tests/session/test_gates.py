"""Gates over the runs of this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from npuprof.advice.gate import GateError
from npuprof.errors import OptionsError, SessionError
from npuprof.profiles.profile import Profile
from npuprof.session import gates
from npuprof.sources.base import Decoded
from tests import factories
from tests.analysis.test_accounting import table


def run(step_ns: int) -> Profile:
    """A run of one step, half of which is idle."""
    tables = factories.all_tables(steps=table("steps", [(0, step_ns)]), kernels=table("kernels", [(0, step_ns // 2)]))
    return Profile(Decoded(tables, factories.info()))


Runs = Callable[..., None]


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> Runs:
    """Lets some runs be those of the process: profiles that it holds, or directories to read again."""

    def let(*runs: Profile | Path) -> None:
        known = [
            SimpleNamespace(profile=one, directory=None)
            if isinstance(one, Profile)
            else SimpleNamespace(profile=None, directory=one)
            for one in runs
        ]
        monkeypatch.setattr(gates, "ended_runs", lambda: known)
        monkeypatch.setattr(gates, "last", lambda: runs[-1])

    return let


@pytest.mark.slow
def test_a_gate_compares_the_last_run(ended: Runs) -> None:
    ended(run(100_000_000), run(200_000_000))
    assert [one.holds for one in gates.require("step <= 200ms and idle <= 50% and last == step")] == [True] * 3
    with pytest.raises(GateError, match=r"step < 160ms: 200 ms against 160 ms"):
        gates.require("step < 160ms")
    with pytest.raises(OptionsError, match="no gate"):
        gates.require("step <")


@pytest.mark.slow
def test_best_step_counts_reread_runs(ended: Runs, tmp_path: Path) -> None:
    saved = run(100_000_000).save(tmp_path / "saved")
    ended(saved, tmp_path / "deleted", run(300_000_000), run(104_000_000))
    assert gates.require("last <= best * 1.05")
    with pytest.raises(GateError, match=r"104 ms against 103 ms"):
        gates.require("last <= best * 1.03")


def test_a_run_without_device_time_cannot_be_compared(ended: Runs) -> None:
    ended(Profile(Decoded(factories.all_tables(), factories.info())))
    with pytest.raises(SessionError, match="nothing to check: profile the NPU"):
        gates.require("step < 1s")

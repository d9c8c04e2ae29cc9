"""A run as it would be after a change: every row is where a machine with that change would have had it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import npuprof
from npuprof.errors import OptionsError
from npuprof.profiles.profile import Profile
from tests.analysis.test_replay import _ZERO, _steps, times
from tests.budget import examples
from tests.played import Do, Machine, changed, scaled


def _spans(run: Profile, table: str) -> list[tuple[Any, ...]]:
    columns = ["start_ns", "duration_ns", "name"]
    return sorted(run.tables[table][columns].astype({"name": str}).itertuples(index=False, name=None))


@pytest.mark.slow
@settings(max_examples=examples(15))
@given(_steps, st.booleans())
def test_kernels_are_where_a_machine_with_faster_kernels_has_them(steps: list[list[Do]], queue: bool) -> None:
    recorded = Machine(queue=queue).run(steps)
    faster = Machine(queue=queue).run(changed(steps, scaled({"MatMul": 0.5})))
    ghost = recorded.replayed(kernel={"MatMul": 0.5})
    assert times(ghost) == times(faster)
    assert _spans(ghost, "kernels") == _spans(faster, "kernels")
    unchanged = recorded.replayed()
    for table in ("steps", "python", "operators", "api", "kernels"):
        for column in ("start_ns", "duration_ns"):
            assert unchanged.tables[table][column].tolist() == recorded.tables[table][column].tolist()


@pytest.mark.slow
@settings(max_examples=examples(15))
@given(_steps, st.booleans())
def test_kernels_are_where_a_machine_with_a_faster_host_has_them(steps: list[list[Do]], queue: bool) -> None:
    recorded = Machine(queue=queue).run(steps)
    faster = Machine(queue=queue).run(
        changed(steps, lambda one: None if one.name == "DataLoader" or one.what == "compile" else one)
    )
    ghost = recorded.replayed(cause=_ZERO)
    assert times(ghost) == times(faster)
    assert _spans(ghost, "kernels") == _spans(faster, "kernels")


def test_change_names_it_and_unknown_is_refused() -> None:
    run = Machine().run([[Do("launch", "MatMul", 5, 20), Do("sync", host=1)]])
    ghost = run.replayed(kernel={"MatMul": 0})
    assert "as it would be: kernel 'MatMul' x 0: 1 kernel (replayed, not recorded)" in (ghost.info.name or "")
    assert ghost.kernels["duration_ns"].tolist() == [0]
    with pytest.raises(OptionsError, match="there is no kernel 'Nothing'"):
        run.replayed(kernel={"Nothing": 0})


@pytest.mark.slow
@pytest.mark.parametrize("name", ["torch_npu/text/level1/rank0_ascend_pt", "kineto/two_ranks/rank-0.json.gz"])
def test_steps_of_real_runs_take_what_is_predicted(samples: Path, name: str) -> None:
    run = npuprof.load(samples / name)
    assert isinstance(run, Profile)
    ghost = run.replayed(part={"computing": 0.5})
    for table in ("python", "operators", "api", "kernels"):
        assert len(ghost.tables[table]) == len(run.tables[table])
        assert (pd.to_numeric(ghost.tables[table]["duration_ns"]) >= 0).all()
    shorter_ns = run.steps["duration_ns"].sum() - ghost.steps["duration_ns"].sum()
    gains = run.what_if(part={"computing": 0.5}).steps["gain_ns"]
    assert abs(int(shorter_ns) - int(gains.sum())) <= 1_000

"""Time between steps: a part of every step, of every view, and a finding."""

from __future__ import annotations

import pandas as pd
import pytest

from npuprof.advice.gate import figures as gate_figures
from npuprof.advice.gate import require
from npuprof.analysis.rank_steps import ranks_by_step
from npuprof.figures.steps import plot_step_parts
from npuprof.profiles.profile import Profile
from npuprof.sources.base import Decoded
from tests import factories
from tests.analysis.test_accounting import table

_WORK, _GAP, _STEPS = 8_000_000, 22_000_000, 5


def run_of(gap_ns: int, *, marks: bool = True, steps: int = _STEPS) -> Profile:
    """A loop of steps of 8 ms, each a kernel from its start to its end, with a data loader between them."""
    starts = [number * (_WORK + gap_ns) for number in range(steps)]
    kernels = pd.concat([table("kernels", [(start, _WORK)], step=step) for step, start in enumerate(starts)])
    launches = [(start - 1000, 500) for start in starts]
    loads = [(start + _WORK + 1000, gap_ns - 3000) for start in starts[:-1] if gap_ns]
    tables = factories.all_tables(
        kernels=kernels.reset_index(drop=True).astype({"name": "category"}),
        operators=table("operators", loads, name="enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"),
        api=table("api", launches, name="aclrtLaunchKernel"),
        **({"steps": table("steps", [(start, _WORK) for start in starts])} if marks else {}),
    )
    return Profile(Decoded(tables, factories.info()))


@pytest.mark.parametrize("marks", [True, False], ids=["marks", "kernels"])
def test_waiting_loop_is_told_everywhere(*, marks: bool) -> None:
    run = run_of(_GAP, marks=marks)
    advice = run.advice()
    assert advice.step_ns == _WORK + _GAP
    assert advice.parts() == {
        "computing": _WORK, "waiting": 0, "moving": 0, "communication": 0, "copy": 0, "idle": 0, "between_steps": _GAP,
        "not_recorded": 0,
    }  # fmt: skip
    assert "between steps 73.3 %" in str(advice)
    (found, *_) = advice.fired
    assert (found.rule, found.cause) == ("between_steps", "loader")
    assert _GAP - 3_000 <= found.cost_ns == found.gain_hi_ns <= _GAP
    assert "DataLoader workers" in found.action
    assert require("between_steps > 70% and idle < 1%", gate_figures(advice))
    of_last = run.breakdown().query("step == 4")
    assert of_last["part"].tolist() == ["computing"]
    drawn = {bar.name: max(bar.x) for bar in plot_step_parts(run.accounting.by_part(), run.info).data}
    assert drawn["between steps"] == 22


def test_a_difference_has_a_row_for_the_time_between_steps() -> None:
    difference = run_of(_GAP) - run_of(4_000)
    assert difference.delta_ns == _GAP - 4_000
    top = difference.rows[difference.rows["depth"] == 0].set_index("part")
    assert top["delta_ns"].to_dict() == {"computing": 0, "between_steps": _GAP - 4_000}
    below = difference.rows[(difference.rows["depth"] == 1) & (difference.rows["part"] == "between_steps")]
    assert below.loc[below["delta_ns"].idxmax(), "name"] == "dataloader"
    assert "loader" in str(difference)


def test_mixed_marks_give_one_idle_row() -> None:
    difference = run_of(_GAP) - run_of(_GAP, marks=False)
    top = difference.rows[difference.rows["depth"] == 0].set_index("part")
    assert top["a_ns"].to_dict() == top["b_ns"].to_dict() == {"computing": _WORK, "idle": _GAP}


def test_steps_that_follow_each_other_at_once_have_no_such_finding() -> None:
    advice = run_of(0).advice()
    assert (advice["between_steps"].state, advice["between_steps"].cost_ns) == ("clean", 0)


def test_ranks_have_their_time_between_steps() -> None:
    runs = [run_of(gap) for gap in (0, _GAP)]
    parts = [run.accounting.by_part()["between_steps"].tolist() for run in runs]
    assert parts == [[0] * _STEPS, [*[_GAP] * (_STEPS - 1), 0]]


def test_mixed_steps_count_idle_time_together() -> None:
    of_rank = [
        run_of(_GAP, marks=marks).accounting.by_part().assign(rank=rank) for rank, marks in enumerate((True, False))
    ]
    steps = ranks_by_step(pd.concat(of_rank, ignore_index=True))
    closed = steps[steps["step"] < _STEPS - 1]
    assert set(closed["idle_ns"]) == {_GAP}
    assert not steps["between_steps_ns"].any()
    alike = ranks_by_step(pd.concat([of_rank[0], of_rank[0].assign(rank=1)], ignore_index=True))
    assert set(alike["between_steps_ns"]) == {_GAP, 0}


def test_isolated_steps_are_called_so() -> None:
    starts = [0, 40_000_000, 80_000_000]
    kernels = table("kernels", [(start, _WORK) for start in starts])
    steps = table("steps", [(start, _WORK) for start in starts]).assign(step=pd.array([3, 5, 9], "Int64"))
    run = Profile(Decoded(factories.all_tables(steps=steps, kernels=kernels), factories.info()))
    assert run.advice().headline() == "8.00 ms a step (mean of 2 steps, none of them followed by the next one)"
    assert "followed" not in run_of(_GAP).advice().headline()
    assert "followed" not in run_of(_GAP, steps=1).advice().headline()

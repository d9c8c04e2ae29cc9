"""Which step is recorded."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npuprof.errors import OptionsError
from npuprof.session.schedule import ProfilerAction, schedule

_LETTERS = {
    ProfilerAction.NONE: ".",
    ProfilerAction.WARMUP: "w",
    ProfilerAction.RECORD: "r",
    ProfilerAction.RECORD_AND_SAVE: "S",
}


@pytest.mark.parametrize(
    ("how", "actions"),
    [
        ({"wait": 0, "active": 1}, "SSSS"),
        ({"wait": 1, "active": 2}, ".rS.rS"),
        ({"wait": 1, "warmup": 1, "active": 2, "repeat": 2, "skip_first": 1}, "..wrS.wrS..."),
        ({"wait": 0, "warmup": 0, "active": 1, "repeat": 1, "skip_first": 1}, ".S...."),
        ({"wait": 2, "active": 1, "repeat": 1, "skip_first": 1, "skip_first_wait": 1}, ".S..."),
        ({"wait": 2, "active": 1, "repeat": 2, "skip_first_wait": 1}, "S..S..."),
    ],
)
def test_the_actions_of_the_steps(how: dict[str, Any], actions: str) -> None:
    plan = schedule(**how)
    assert "".join(_LETTERS[plan(step)] for step in range(len(actions))) == actions


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ({"wait": -1, "active": 1}, "wait .* at least 0"),
        ({"wait": 0, "active": 0}, "active .* at least 1"),
        ({"wait": 0, "active": True}, "active"),
        ({"wait": 0.5, "active": 1}, "whole number"),
        ({"wait": 0, "active": 1, "skip_first_wait": 2}, "0 or 1"),
    ],
)
def test_numbers_that_make_no_schedule_are_refused(how: dict[str, Any], reason: str) -> None:
    with pytest.raises(OptionsError, match=reason):
        schedule(**how)


_NUMBERS = {
    "wait": st.integers(0, 5),
    "warmup": st.integers(0, 5),
    "active": st.integers(1, 5),
    "repeat": st.integers(1, 4),
    "skip_first": st.integers(0, 5),
    "skip_first_wait": st.integers(0, 1),
}


@pytest.mark.slow
@given(st.fixed_dictionaries(_NUMBERS))
def test_each_cycle_records_its_active_steps_and_saves_once(how: dict[str, int]) -> None:
    plan = schedule(**how)
    actions = [plan(step) for step in range(plan.needed_steps + 10)]
    assert actions.count(ProfilerAction.RECORD_AND_SAVE) == how["repeat"]
    assert actions.count(ProfilerAction.RECORD) == how["repeat"] * (how["active"] - 1)
    assert actions.count(ProfilerAction.WARMUP) == how["repeat"] * how["warmup"]
    assert actions[plan.needed_steps - 1] == ProfilerAction.RECORD_AND_SAVE
    assert set(actions[plan.needed_steps :]) == {ProfilerAction.NONE}

"""Gates over the figures of a step."""

from __future__ import annotations

from contextlib import suppress
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npuprof.advice.findings import advise
from npuprof.advice.gate import Figure, GateError, check, figures, require
from npuprof.analysis.accounting import IDLE, PARTS, account
from npuprof.analysis.host_accounting import ACTIVITY_LABELS, HOST
from npuprof.errors import NpuprofError, OptionsError
from npuprof.tables.info import Info
from tests import factories
from tests.analysis.test_accounting import table


def named(**times: int | list[int]) -> dict[str, Figure]:
    """Return figures of one rank: the times of its steps, or of its only one."""
    tables = {name: np.array([each if isinstance(each, list) else [each]], np.float64) for name, each in times.items()}
    return {
        name: Figure(int(table.mean()), table, "best" if name == "best" else "last") for name, table in tables.items()
    }


NAMES = named(step=200_000_000, idle=50_000_000, last=210_000_000, best=200_000_000)


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("step < 200ms", [False]),
        ("step <= 200ms", [True]),
        ("step == 0.2 s and idle < 30%", [True, True]),
        ("idle<25%", [False]),
        ("idle >= 25 %", [True]),
        ("last <= best * 1.05", [True]),
        ("last <= 1.04 * best", [False]),
        ("200000us > idle and idle != 0ns", [True, True]),
        ("idle ≤ 0.001 min and step = 2e8 ns", [True, True]),
        ("last<=best*1.05", [True]),
    ],
)
def test_comparisons_of_times_and_shares(text: str, holds: list[bool]) -> None:
    assert [one.holds for one in check(text, NAMES)] == holds


def test_a_gate_that_fails_has_its_figures() -> None:
    with pytest.raises(GateError, match=r"idle < 20%: 50.0 ms against 40.0 ms$"):
        require("step < 1s and idle < 20%", NAMES)
    assert issubclass(GateError, AssertionError)
    assert len(require("step < 1s and idle < 50%", NAMES)) == 2


@pytest.mark.parametrize(
    "text",
    [
        "",
        "step",
        "step < ",
        "step < 5",
        "step < idle < 2s",
        "step < 1s or idle < 2s",
        "step < 1s and",
        "step < idle * best",
        "step < * 2",
        "__import__('os')",
        "step.real < 1s",
        "step < 1.2.3s",
        "step < 1s" + " " * 2_000,
        f"step * {' * '.join(['9' * 18] * 40)} < 1s",
        "stop < 1s",
        "step ~ 1s",
        "step < 1 MiB",
        "step < '1s'",
    ],
)
def test_what_is_no_gate_is_refused(text: str) -> None:
    with pytest.raises(OptionsError):
        check(text, NAMES)


def test_breakdown_names_parts_and_idle() -> None:
    run = factories.all_tables(
        steps=table("steps", [(0, 100), (100, 100)]), kernels=table("kernels", [(10, 20), (110, 30)])
    )
    accounting = account(run)
    names = {name: figure.ns for name, figure in figures(advise(run, Info(), accounting)).items()}
    assert {"step", "idle", *PARTS} - {HOST} == set(names)
    parts = accounting.breakdown().query("step == 0").groupby("part", observed=True)["duration_ns"].sum()
    assert {part: names[part] for part in parts.index} == parts.to_dict()
    assert names["idle"] == sum(names[part] for part in IDLE) == 80
    assert names["between_steps"] == 0


def test_host_work_has_names_without_device() -> None:
    operators = table("operators", [(10, 40)], name="Optimizer.step#SGD.step")
    run = factories.all_tables(steps=table("steps", [(0, 100)]), operators=operators)
    names = figures(advise(run, Info(), account(run)))
    assert {"step", "idle", *PARTS, *ACTIVITY_LABELS} - {HOST} == set(names)
    assert {name: figure.ns for name, figure in names.items() if figure.ns} == {
        "step": 100,
        "optimizer": 40,
        "unexplained": 60,
    }
    assert [one.holds for one in check("optimizer <= 40% and backward < 1ns", names)] == [True, True]


NOISY = named(step=[100, 104, 96, 101, 99], idle=[50, 53, 47, 50, 50], best=[100, 104, 96, 101, 99])


def test_a_gate_shows_the_interval_of_its_mean() -> None:
    (limit,) = check("step < 98ns", NOISY)
    assert limit.left_between_ns is not None
    low, high = limit.left_between_ns
    assert low < 98 < 100 < high
    assert str(limit) == f"step < 98ns: 100 ns (95 % interval {low} ns to {high} ns) against 98 ns"
    assert check("step < 98ns", NAMES)[0].left_between_ns is None  # one step tells nothing


@pytest.mark.parametrize(
    ("text", "surely_fails"),
    [
        ("step < 98ns", False),  # the interval holds 98
        ("step < 80ns", True),
        ("step > 120ns", True),
        ("step == 130ns", True),
        ("step < 130ns", False),
        ("idle < 40%", True),
        ("idle < 49.9%", False),
        ("idle < 48.5%", True),  # step and idle vary together, which their difference does not
        ("step <= best * 0.99", False),
        ("step <= best * 0.8", True),
        ("2ns < 1ns", True),
        ("step < 5us", None),
    ],
)
def test_confident_gate_needs_the_whole_interval(text: str, surely_fails: bool | None) -> None:
    names = NAMES if surely_fails is None else NOISY
    assert check(text, names)[0].surely_fails is surely_fails
    if surely_fails is False:
        assert require(text, names, confident=True)
    else:
        message = "cannot tell, since one step says nothing" if surely_fails is None else "the gate does not hold"
        with pytest.raises(GateError, match=message):
            require(text, names, confident=True)


def test_mean_step_has_parts_the_median_lacks() -> None:
    marks = [(0, 100), (100, 100), (200, 100), (300, 101), (401, 100)]
    kernels = table("kernels", [(0, 100), (100, 100), (200, 100), (350, 51), (401, 100)])
    run = factories.all_tables(steps=table("steps", marks), kernels=kernels)
    found = advise(run, Info(), account(run))
    names = figures(found)
    assert names["idle_head"].ns in (16, 17)  # of 0, 0 and 50: all parts are rounded so that they add up
    assert names["idle"].ns == found.parts()["idle"]
    assert sum(found.parts().values()) == found.step_ns == names["step"].ns


def test_an_unknown_name_lists_those_there_are() -> None:
    with pytest.raises(OptionsError, match="knows no 'stop'; its names are step, idle, last, best"):
        check("stop < 1s", NAMES)


@pytest.mark.slow
@given(st.integers(0, 10**15), st.integers(0, 10**6), st.sampled_from(["ns", "us", "ms"]))
def test_times_are_compared_exactly(step_ns: int, limit: int, unit: str) -> None:
    (one,) = check(f"step < {limit}{unit}", {"step": Figure(step_ns, np.array([[float(step_ns)]]))})
    limit_ns = limit * {"ns": 1, "us": 1_000, "ms": 1_000_000}[unit]
    assert (one.left_ns, one.right_ns, one.holds) == (Fraction(step_ns), Fraction(limit_ns), step_ns < limit_ns)


@pytest.mark.slow
@given(st.text(max_size=60))
def test_any_text_is_a_gate_or_refused(text: str) -> None:
    with suppress(NpuprofError):
        assert check(text, NAMES)

"""Of a run without a device, every nanosecond of a step has one thing that the host did."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npuprof import tables
from npuprof.advice.findings import advise
from npuprof.analysis.accounting import BETWEEN_STEPS, account
from npuprof.analysis.device_words import OF_DEVICE
from npuprof.analysis.host_accounting import ACTIVITIES, ACTIVITY_LABELS, HOST, is_of_host
from npuprof.analysis.idle_causes import UNEXPLAINED
from npuprof.tables.info import Info
from tests import factories
from tests.analysis.test_accounting import by_step, innermost, moments, table

# The activity that a row is of, from the one that comes first to the last.
_OF_NAME = (
    ("dataloader", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "operators"),
    ("python_gc", "GC", "marks"),
    ("optimizer", "Optimizer.step#AdamW.step", "marks"),
    ("optimizer", "Optimizer.zero_grad#SGD.zero_grad", "operators"),
    ("backward", "autograd::engine::evaluate_function: MmBackward0", "operators"),
    ("forward", "nn.Module: Linear_0", "python"),
    ("other_operators", "aten::mm", "operators"),
    ("communication", "c10d::allreduce_", "operators"),
    ("communication", "gloo:all_reduce", "marks"),
    ("python", "train.py(3): step", "python"),
)
_rows = st.lists(
    st.tuples(st.sampled_from(_OF_NAME), st.integers(0, 300), st.integers(0, 60), st.integers(1, 3)), max_size=14
)
_windows = st.lists(st.tuples(st.integers(0, 350), st.integers(0, 200)), min_size=1, max_size=4)


def host_rows(rows: list[tuple[tuple[str, str, str], int, int, int]]) -> dict[str, pd.DataFrame]:
    frames: dict[str, pd.DataFrame] = {}
    for name in ("operators", "python", "marks"):
        own = [(text, start, length, thread) for (_, text, of), start, length, thread in rows if of == name]
        frame = table(name, [(start, length) for _, start, length, _ in own], **({"thread_id": 1} if own else {}))
        texts = [text for text, *_ in own]
        frame["message" if name == "marks" else "name"] = pd.Categorical(texts, list(dict.fromkeys(texts)))
        frame["thread_id"] = np.array([thread for *_, thread in own], np.int64)
        frames[name] = tables.sort_by_time(frame)
    return factories.all_tables(**frames)


@given(_windows, _rows)
def test_each_moment_counts_for_the_first_activity_on_any_thread(
    windows: list[tuple[int, int]], rows: list[tuple[tuple[str, str, str], int, int, int]]
) -> None:
    """GIVEN rows of several threads THEN the activities of each step add up to it, and none counts a moment twice."""
    run = host_rows(rows) | {"steps": table("steps", windows)}
    result = account(run)
    if not (len(run["operators"]) or len(run["python"])):
        assert not len(result.intervals)
        return
    told = by_step(result)
    assert result.of_host == any(part == HOST for _, part, _ in told)
    assert {part for _, part, _ in told} <= {HOST, BETWEEN_STEPS}
    order = [activity.name for activity in ACTIVITIES]
    for step, own in enumerate(innermost(windows)):
        left = set(own)
        expected = {}
        for activity in order:
            of_it = moments([(start, length) for (name, *_), start, length, _ in rows if name == activity]) & left
            left -= of_it
            expected[activity] = len(of_it)
        expected[UNEXPLAINED] = len(left)
        assert {name: told.get((step, HOST, name), 0) for name in expected} == expected
        assert sum(expected.values()) == len(own)


def test_each_activity_has_a_label() -> None:
    assert list(ACTIVITY_LABELS) == [*(activity.name for activity in ACTIVITIES), UNEXPLAINED]


@pytest.mark.parametrize("name", OF_DEVICE)
def test_run_with_device_rows_is_no_host_run(name: str) -> None:
    run = host_rows([(_OF_NAME[6], 0, 10, 1)])
    assert is_of_host(run)
    run[name] = tables.empty(name).reindex([0])
    assert not is_of_host(run)


def test_headline_says_the_host_ran_alone() -> None:
    names = [_OF_NAME[2], _OF_NAME[6], _OF_NAME[9]]
    run = host_rows([(names[0], 0, 50, 1), (names[1], 10, 70, 1), (names[2], 0, 100, 1)])
    advice = advise(run, Info(), account(run))
    assert advice.headline() == "100 ns in all (the run has no steps, no device was recorded, Python stacks recorded)"
    assert {name: time for name, time in advice.parts().items() if time} == {
        "optimizer": 50,
        "other_operators": 30,
        "python": 20,
    }

"""Calls and returns become calls with their callers, as a replayed stack has them."""

from __future__ import annotations

from itertools import pairwise

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.budget import examples
from tests.sources.framework.conftest import Reader
from tests.sources.framework.writer import C_CALL, C_RETURN, CALL, MAIN, RETURN, WORKER, Framework, small, utc

Row = tuple[int, int, int, int, int]


def replayed(moments: list[tuple[int, int, int, int]]) -> list[Row]:
    """Replay stacks one moment at a time: start, end, key, thread and depth of each call."""
    stacks: dict[int, list[tuple[int, int]]] = {}
    ends = {thread: max(time for time, _, _, other in moments if other == thread) for _, _, _, thread in moments}
    rows = []
    for time, key, tag, thread in sorted(moments, key=lambda moment: moment[0]):
        stack = stacks.setdefault(thread, [])
        if tag in (CALL, C_CALL):
            stack.append((time, key))
        elif stack:
            start, called = stack.pop()
            rows.append((start, time, called, thread, len(stack)))
    for thread, stack in stacks.items():
        rows += [(start, ends[thread], key, thread, depth) for depth, (start, key) in enumerate(stack)]
    return sorted(rows)


def rows_of(python: pd.DataFrame) -> list[Row]:
    keys = [int(name.split()[1]) for name in python["name"]]
    ends = python["start_ns"] + python["duration_ns"]
    columns = (python["start_ns"] - utc(0), ends - utc(0), keys, python["thread_id"], python["depth"])
    return sorted(zip(*(list(map(int, column)) for column in columns), strict=True))


@pytest.mark.slow
@settings(
    max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture]
)  # each example has a folder of its own
@given(
    st.lists(
        st.tuples(
            st.integers(0, 60),
            st.integers(1, 3),
            st.sampled_from([CALL, RETURN, C_CALL, C_RETURN]),
            st.sampled_from([MAIN, WORKER, 7]),
        ),
        max_size=60,
    )
)
def test_any_calls_and_returns_are_matched_as_a_stack_would(
    read: Reader, moments: list[tuple[int, int, int, int]]
) -> None:
    run = Framework()
    for moment in moments:
        run.moment(*moment)
    python = read(run).tables["python"]
    assert rows_of(python) == replayed(moments)
    # AND each call lies within its parent, one level further in
    inner = python[python["parent_id"].notna()]
    outer = python.loc[inner["parent_id"].astype("int64")]
    assert (python["parent_id"].isna() == (python["depth"] == 0)).all()
    assert (outer["depth"].to_numpy() + 1 == inner["depth"].to_numpy()).all()
    assert (outer["thread_id"].to_numpy() == inner["thread_id"].to_numpy()).all()
    assert (outer["start_ns"].to_numpy() <= inner["start_ns"].to_numpy()).all()
    ends = python["start_ns"] + python["duration_ns"]
    assert (ends[outer.index].to_numpy() >= ends[inner.index].to_numpy()).all()


def test_calls_have_names_callers_and_depths(read: Reader) -> None:
    python = read(small()).tables["python"]
    assert python[["name", "start_ns", "duration_ns", "depth"]].to_numpy(object).tolist() == [
        ["train.py(1): <module>", utc(50), 250, 0],  # still running at the end
        ["nn.Module: Linear_0", utc(100), 200, 1],
        ["<built-in method mm>", utc(110), 10, 2],
    ]
    assert python["id"].tolist() == [0, 1, 2]
    assert python["parent_id"].tolist() == [pd.NA, 0, 1]


def test_modules_are_numbered_in_call_order(read: Reader) -> None:
    run = Framework()
    for key, name in ((1, "Linear######30"), (2, "Linear######20"), (3, "ReLU######10")):
        run.function(key, name)
    for time, key in enumerate((2, 1, 3, 2)):
        run.moment(10 * time, key, CALL)
        run.moment(10 * time + 5, key, RETURN)
    assert read(run).tables["python"]["name"].tolist() == [
        "nn.Module: Linear_0",
        "nn.Module: Linear_1",
        "nn.Module: ReLU_0",
        "nn.Module: Linear_0",
    ]


def test_a_return_without_a_call_and_an_unknown_tag_are_reported(read: Reader) -> None:
    run = Framework()
    run.moment(5, 1, RETURN)
    run.moment(6, 1, 77)
    run.moment(10, 2, CALL)
    decoded = read(run)
    assert rows_of(decoded.tables["python"]) == [(10, 10, 2, MAIN, 0)]
    assert len(decoded.notes) == 2


def test_the_last_record_may_be_cut_off(read: Reader) -> None:
    run = small()
    del run.files["torch.python_tracer_func"][-1:]
    notes = read(run).notes.to_frame()
    assert notes["message"].tolist() == ["the last record is cut off: 32 of 33 bytes"]


def test_siblings_at_one_moment_keep_their_order(read: Reader) -> None:
    run = Framework()
    for key in (1, 2, 3):
        run.moment(10, key, CALL)
        run.moment(10, key, RETURN)
    python = read(run).tables["python"]
    assert all(before < after for before, after in pairwise(python["id"].tolist()))
    assert python["name"].tolist() == ["function 1", "function 2", "function 3"]
    assert python["depth"].tolist() == [0, 0, 0]

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npuprof import tables
from npuprof.errors import OptionsError
from npuprof.flame.scope import Scope, scoped, steps, threads
from npuprof.flame.tree import COLUMNS, PathWeights, Weight, merged_calls
from tests import factories
from tests.budget import examples


def test_steps_add_up_to_the_run() -> None:
    run = factories.profile(60)
    calls = merged_calls(run)
    whole = calls.whole(run)

    parts = [scoped(calls, run, Scope(step=step)) for step in steps(run)]

    for weight in COLUMNS:
        own = np.sum([part[weight].exclusive for part in parts], axis=0)
        outside = whole[weight].exclusive - own
        # The run's Python calls begin a microsecond before its first step and end one after its last.
        assert outside.sum() == {"host": 2_000, "device": 0, "count": 4}[weight]


def test_host_threads_add_up_to_the_run() -> None:
    run = factories.profile(60)
    calls = merged_calls(run)

    parts = [scoped(calls, run, Scope(thread=thread)) for thread in threads(run)]

    for weight in COLUMNS:
        assert (np.sum([part[weight].exclusive for part in parts], axis=0) == calls.whole(run)[weight].exclusive).all()


def test_call_counts_only_within_the_step() -> None:
    api = _api([(0, 100, "outer", 1), (30, 40, "inner", 1)])
    run = factories.all_tables(api=api, steps=_steps([(1, 0, 50), (2, 50, 50)]))

    assert _own(run, Scope(step=1), "host") == {"outer": 30, "inner": 20}
    assert _own(run, Scope(step=2), "host") == {"outer": 30, "inner": 20}
    assert _own(run, Scope(step=1), "count") == {"outer": 1, "inner": 1}
    assert _own(run, Scope(step=2), "count") == {"outer": 0, "inner": 0}


def test_steps_of_several_devices_count_once() -> None:
    run = factories.all_tables(api=_api([(0, 100, "a", 1)]), steps=_steps([(1, 10, 50), (1, 20, 50), (1, 80, 5)]))

    assert _own(run, Scope(step=1), "host") == {"a": 65}


def test_kernel_belongs_to_its_recorded_step() -> None:
    kernels = factories.profile(3)["kernels"].assign(
        step=pd.array([2, None, None], dtype="Int64"), start_ns=[70, 70, 20], duration_ns=[1, 10, 100]
    )
    run = factories.all_tables(
        api=_api([(0, 5, "launch", 1)]),
        kernels=kernels,
        links=_links([("api_task", "api", 0, "kernels", 1)]),
        steps=_steps([(1, 0, 50), (2, 50, 50)]),
    )
    calls = merged_calls(run)

    assert scoped(calls, run, Scope(step=1))["device"].exclusive.sum() == 110
    assert scoped(calls, run, Scope(step=2))["device"].exclusive.sum() == 1


def test_steps_known_from_kernels_alone_are_offered() -> None:
    kernels = factories.profile(2)["kernels"].assign(step=pd.array([7, None], dtype="Int64"))
    run = factories.all_tables(kernels=kernels)

    assert steps(run) == [7]
    assert scoped(merged_calls(run), run, Scope(step=7))["count"].exclusive.sum() == 1


@pytest.mark.slow
def test_what_a_queue_launched_counts_for_both_threads() -> None:
    operators = _operators([(0, 10, "add", 1), (2, 3, "Enqueue", 1), (20, 10, "Dequeue", 2)])
    run = factories.all_tables(
        operators=operators,
        api=_api([(22, 5, "launch", 2)]),
        kernels=factories.profile(1)["kernels"],
        links=_links([("enqueue", "operators", 1, "operators", 2), ("api_task", "api", 0, "kernels", 0)]),
    )

    for thread in (1, 2):
        assert sum(_own(run, Scope(thread=thread), "device").values()) == run["kernels"]["duration_ns"].sum()
    assert _own(run, Scope(thread=1), "host") == {
        "add": 7,
        "Enqueue": 3,
        "Dequeue": 0,
        "launch": 0,
        "MatMulV3_ND_FP16": 0,
    }
    assert _own(run, Scope(thread=2), "host")["Dequeue"] == 5


def test_a_step_of_a_thread_is_both() -> None:
    run = factories.profile(60)
    calls = merged_calls(run)

    both = scoped(calls, run, Scope(step=1, thread=101))["count"]

    operators = run["operators"]
    begun = operators[(operators["thread_id"] == 101) & operators["start_ns"].between(*_span(run["steps"], 1))]
    assert both.exclusive.sum() == 3 * len(begun)


def test_missing_parts_are_refused() -> None:
    run = factories.profile(60)
    calls = merged_calls(run)

    with pytest.raises(OptionsError, match="no step 9; it has 0, 1, 2"):
        scoped(calls, run, Scope(step=9))
    with pytest.raises(OptionsError, match="no thread 9; it has 100, 101"):
        scoped(calls, run, Scope(thread=9))
    empty = factories.all_tables()
    with pytest.raises(OptionsError, match="it has none"):
        scoped(merged_calls(empty), empty, Scope(step=0))


spans = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 30), st.sampled_from("abc"), st.integers(1, 2)), max_size=20
)


@pytest.mark.slow
@settings(max_examples=examples(60))
@given(spans, st.integers(1, 59))
def test_any_calls_split_at_a_moment_keep_their_time(calls_given: list[tuple[int, int, str, int]], at: int) -> None:
    run = factories.all_tables(api=_api(calls_given), steps=_steps([(1, 0, at), (2, at, 200)]))
    calls = merged_calls(run)

    parts = [scoped(calls, run, Scope(step=step)) for step in (1, 2)]

    whole = calls.whole(run)
    assert (parts[0]["count"].exclusive + parts[1]["count"].exclusive == whole["count"].exclusive).all()
    assert (
        parts[0]["host"].exclusive + parts[1]["host"].exclusive >= whole["host"].exclusive
    ).all()  # equal where calls do not cross
    for sums in parts:
        _balanced(sums["host"], calls.parent)


def _balanced(sums: PathWeights, parents: np.ndarray) -> None:
    expected = sums.exclusive.copy()
    for row in range(len(parents) - 1, -1, -1):
        if parents[row] >= 0:
            expected[parents[row]] += expected[row]
    assert (sums.exclusive >= 0).all()
    assert (sums.total == expected).all()


def _own(run: dict[str, pd.DataFrame], scope: Scope, weight: Weight) -> dict[str, int]:
    calls = merged_calls(run)
    own = scoped(calls, run, scope)[weight].exclusive
    return {calls.name(path): int(own[path]) for path in range(len(calls))}


def _span(steps_table: pd.DataFrame, number: int) -> tuple[int, int]:
    row = steps_table[steps_table["step"] == number].iloc[0]
    return int(row["start_ns"]), int(row["start_ns"] + row["duration_ns"]) - 1


def _host(rows: Sequence[tuple[int, int, str, int]]) -> dict[str, object]:
    start, duration, name, thread = ([row[i] for row in rows] for i in range(4))
    return {
        "start_ns": np.array(start, np.int64),
        "duration_ns": np.array(duration, np.int64),
        "name": pd.Series(name, dtype="object"),
        "thread_id": np.array(thread, np.int64),
    }


def _api(rows: Sequence[tuple[int, int, str, int]]) -> pd.DataFrame:
    return tables.build("api", _host(rows))


def _operators(rows: Sequence[tuple[int, int, str, int]]) -> pd.DataFrame:
    return tables.build("operators", {**_host(rows), "id": np.arange(len(rows))})


def _steps(rows: Sequence[tuple[int, int, int]]) -> pd.DataFrame:
    step, start, duration = (np.array([row[i] for row in rows], np.int64) for i in range(3))
    return tables.build("steps", {"step": step, "start_ns": start, "duration_ns": duration})


def _links(rows: Sequence[tuple[str, str, int, str, int]]) -> pd.DataFrame:
    keys = ("kind", "source_table", "source_row", "target_table", "target_row")
    columns = {key: pd.Series([row[i] for row in rows], dtype="object") for i, key in enumerate(keys)}
    for key in ("source_row", "target_row"):
        columns[key] = columns[key].astype("int64")
    return tables.build("links", columns)


@pytest.mark.parametrize(("low", "high"), [(0, 1_000), (10, 60), (35, 36), (100, 100)])
@pytest.mark.parametrize("rows", [None, {"api": np.array([1]), "kernels": np.array([0])}, {}])
def test_ranges_count_only_within_bounds(
    low: int, high: int, rows: dict[str, np.ndarray[tuple[int], np.dtype[np.int64]]] | None
) -> None:
    calls = [(0, 100, "outer", 1), (30, 40, "inner", 1)]
    kernels = factories.profile(2)["kernels"].assign(
        start_ns=np.array([5, 50]), duration_ns=np.array([20, 30]), connection_id=pd.array([None, None], "Int64")
    )
    run = factories.all_tables(api=_api(calls), kernels=kernels)
    merged = merged_calls(run)
    sums = scoped(merged, run, Scope(), (low, high), rows)

    def inside(start: int, length: int) -> int:
        return max(min(start + length, high) - max(start, low), 0)

    outer, inner = (inside(start, length) for start, length, _, _ in calls)
    on_device = [inside(start, length) for start, length in ((5, 20), (50, 30))]
    if rows is None:
        assert sums["host"].exclusive.sum() == outer
        assert sums["device"].exclusive.sum() == sum(on_device)
    elif rows:
        assert sums["host"].exclusive.sum() == inner
        assert sums["device"].exclusive.sum() == on_device[0]
        assert sums["count"].exclusive.sum() == sum(one > 0 for one in (inner, on_device[0]))
    else:
        assert all(not sums[weight].exclusive.any() for weight in COLUMNS)

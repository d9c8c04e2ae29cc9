"""Parts of steps add up to the step."""

from __future__ import annotations

import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from npuprof import tables
from npuprof.analysis.overlap import breakdown
from npuprof.analysis.step_parts import COMPUTED, PARTS, VENDOR, step_parts
from tests import factories

_spans = st.lists(st.tuples(st.integers(0, 400), st.integers(0, 60)), max_size=25)


def spans(pairs: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    starts = np.array([start for start, _ in pairs], np.int64)
    return starts, starts + np.array([length for _, length in pairs], np.int64)


def overlap(computing: list[tuple[int, int]], communication: list[tuple[int, int]], device: int) -> pd.DataFrame:
    parts = []
    for kind, (starts, ends) in breakdown(spans(computing), spans(communication)).items():
        parts.append(pd.DataFrame({"start_ns": starts, "duration_ns": ends - starts, "kind": kind}))
    joined = pd.concat(parts, ignore_index=True)
    return tables.build(
        "overlap",
        {
            "start_ns": joined["start_ns"].to_numpy(np.int64),
            "duration_ns": joined["duration_ns"].to_numpy(np.int64),
            "device_id": np.full(len(joined), device),
            "kind": joined["kind"].tolist(),
        },
    )


def collectives(pairs: list[tuple[int, int]], op_type: str) -> pd.DataFrame:
    starts, ends = spans(pairs)
    return tables.build(
        "communication",
        {
            "start_ns": starts,
            "duration_ns": ends - starts,
            "device_id": np.zeros(len(pairs), np.int64),
            "name": [op_type] * len(pairs),
            "op_type": [op_type] * len(pairs),
        },
    )


def steps(pairs: list[tuple[int, int]]) -> pd.DataFrame:
    starts, ends = spans(pairs)
    return tables.build("steps", {"step": np.arange(len(pairs)), "start_ns": starts, "duration_ns": ends - starts})


def covered(pairs: list[tuple[int, int]], window: tuple[int, int]) -> set[int]:
    inside = {moment for start, length in pairs for moment in range(start, start + length)}
    return inside & set(range(window[0], sum(window)))


@given(_spans, _spans, _spans, st.lists(st.tuples(st.integers(0, 450), st.integers(0, 200)), min_size=1, max_size=5))
def test_parts_sum_to_the_step_and_count_each_nanosecond_once(
    computing: list[tuple[int, int]],
    reduces: list[tuple[int, int]],
    receives: list[tuple[int, int]],
    windows: list[tuple[int, int]],
) -> None:
    run = factories.all_tables(
        steps=steps(windows),
        overlap=overlap(computing, reduces + receives, 0),
        communication=pd.concat(
            [
                collectives(some, name)
                for some, name in ((reduces, "hcom_allReduce_"), (receives, "hcom_receive_"))
                if some or not reduces + receives
            ]
        ),
    )
    parts = step_parts(run)
    if not len(run["overlap"]):
        assert not len(parts)
        return
    assert (parts[list(PARTS)].sum(axis=1) == parts["total_ns"]).all()
    assert (parts[list(PARTS)] >= 0).all().all()
    assert set(parts["basis"]) == {COMPUTED}
    by_step = parts.set_index("step")
    for number, window in enumerate(windows):
        row = by_step.loc[number]
        busy, alone = covered(computing, window), covered(reduces + receives, window)
        waiting = covered(receives, window) - busy
        assert row["total_ns"] == window[1]
        assert row["computing_ns"] == len(busy)
        assert row["bubble_ns"] == len(waiting)
        assert row["communication_ns"] == len(alone - busy - waiting)


def test_the_vendors_breakdown_is_taken_where_there_is_one() -> None:
    vendor = tables.build(
        "step_times",
        {
            "step": pd.array([7], "Int64"),
            "device_id": pd.array([0], "Int64"),
            "computing_ns": pd.array([50], "Int64"),
            "communication_not_overlapped_ns": pd.array([30], "Int64"),
            "free_ns": pd.array([20], "Int64"),
            "bubble_ns": pd.array([10], "Int64"),
        },
    )
    (row,) = step_parts(factories.profile(20) | {"step_times": vendor}).to_dict("records")
    assert (row["step"], row["basis"], row["total_ns"]) == (7, VENDOR, 100)
    assert [row[name] for name in PARTS] == [50, 20, 10, 20]


def test_a_stage_of_a_cluster_is_not_added_to_its_ranks() -> None:
    vendor = tables.build(
        "step_times",
        {
            "computing_ns": pd.array([50, 60], "Int64"),
            "communication_not_overlapped_ns": pd.array([1, 1], "Int64"),
            "free_ns": pd.array([1, 1], "Int64"),
            "kind": pd.Categorical(["rank", "stage"]),
            "rank": pd.array([3, None], "Int64"),
        },
    )
    parts = step_parts(factories.all_tables(step_times=vendor))
    assert parts["rank"].tolist() == [3]


def test_a_run_without_steps_has_no_parts() -> None:
    assert not len(step_parts(factories.all_tables()))
    assert not len(step_parts(factories.profile(20) | {"steps": tables.empty("steps")}))

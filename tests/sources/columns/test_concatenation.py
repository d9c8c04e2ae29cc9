"""Tables under each other: names united, absent columns, and row numbers that follow their rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npuprof import tables
from npuprof.sources.columns.concatenation import merged, stacked


def _tasks(starts: list[int], name: str) -> pd.DataFrame:
    count = len(starts)
    columns = {
        "start_ns": np.array(starts, np.int64),
        "duration_ns": np.ones(count, np.int64),
        "device_id": np.zeros(count, np.int64),
        "name": pd.Categorical([name] * count),
    }
    return tables.build("tasks", columns)


def _api(starts: list[int], name: str) -> pd.DataFrame:
    columns = {
        "start_ns": np.array(starts, np.int64),
        "duration_ns": np.ones(len(starts), np.int64),
        "name": pd.Categorical([name] * len(starts)),
        "thread_id": np.zeros(len(starts), np.int64),
    }
    return tables.build("api", columns)


def _links(rows: list[tuple[int, int]]) -> pd.DataFrame:
    return tables.build(
        "links",
        {
            "kind": pd.Categorical(["api_task"] * len(rows)),
            "source_table": pd.Categorical(["api"] * len(rows)),
            "source_row": np.array([row for row, _ in rows], np.int64),
            "target_table": pd.Categorical(["tasks"] * len(rows)),
            "target_row": np.array([row for _, row in rows], np.int64),
        },
    )


def test_columns_that_a_frame_lacks_are_absent_in_its_rows() -> None:
    whole = stacked([_tasks([1], "a").assign(copied=np.array([7])), _tasks([2], "b")])
    tables.check("tasks", whole)
    assert whole["name"].tolist() == ["a", "b"]
    assert whole["copied"].tolist() == [7, pd.NA]


_COLUMNS: dict[str, tuple[Any, list[Any]]] = {
    "int64": (np.array([1, 2], np.int64), [1, 2]),
    "Int64": (pd.array([3, pd.NA], dtype="Int64"), [3, None]),
    "float64": (np.array([0.5, np.nan]), [0.5, None]),
    "object": (pd.Series(["a", None], dtype=object), ["a", None]),
    "nowhere": (None, [None, None]),
}


@pytest.mark.parametrize("first", _COLUMNS)
@pytest.mark.parametrize("second", _COLUMNS)
def test_columns_of_any_two_kinds_are_stacked_without_a_loss(first: str, second: str) -> None:
    columns = [_COLUMNS[first], _COLUMNS[second]]
    frames = [
        pd.DataFrame({"start_ns": [0, 1]}) if values is None else pd.DataFrame({"start_ns": [0, 1], "x": values})
        for values, _ in columns
    ]
    whole = stacked(frames)
    if first == second == "nowhere":
        assert "x" not in whole
        return
    assert [None if pd.isna(value) else value for value in whole["x"]] == columns[0][1] + columns[1][1]
    kinds = {first, second}
    expected = {
        "object" in kinds: "object",
        "object" not in kinds and "float64" in kinds: "float64",
        kinds <= {"int64", "Int64", "nowhere"}: "Int64",
        kinds == {"int64"}: "int64",
    }
    assert whole["x"].dtype == expected[True]


_STARTS = st.lists(st.integers(0, 20), min_size=1, max_size=6).map(sorted)


@pytest.mark.slow
@settings(deadline=None)
@given(st.lists(_STARTS, min_size=1, max_size=4))
def test_links_follow_the_rows_that_they_join(parts: list[list[int]]) -> None:
    made = [
        {
            "tasks": _tasks(starts, f"part{number}"),
            "api": _api([start - 1 for start in starts], f"part{number}"),
            "links": _links([(row, row) for row in range(len(starts))]),
        }
        for number, starts in enumerate(parts)
    ]
    joined = merged(made)
    tables.check("tasks", joined["tasks"])
    assert joined["tasks"]["start_ns"].is_monotonic_increasing
    causes = joined["api"].iloc[joined["links"]["source_row"]]
    effects = joined["tasks"].iloc[joined["links"]["target_row"]]
    assert causes["name"].astype(str).tolist() == effects["name"].astype(str).tolist()
    assert (causes["start_ns"].to_numpy() + 1 == effects["start_ns"].to_numpy()).all()
    assert len(joined["links"]) == sum(map(len, parts))


def test_steps_of_collectives_keep_their_operator() -> None:
    def part(start: int, name: str) -> dict[str, pd.DataFrame]:
        span = {"start_ns": np.array([start]), "duration_ns": np.array([5]), "device_id": np.array([0])}
        operators = tables.build("communication", {**span, "name": pd.Categorical([name])})
        rows = {"op_id": pd.array([0], dtype="Int64"), "task_type": pd.Categorical([name])}
        return {
            "communication": operators,
            "communication_tasks": tables.build("communication_tasks", {**span, **rows}),
        }

    joined = merged([part(20, "late"), part(10, "early"), {}])
    operators, steps = joined["communication"], joined["communication_tasks"]
    assert operators["name"].iloc[steps["op_id"].tolist()].tolist() == steps["task_type"].tolist() == ["early", "late"]

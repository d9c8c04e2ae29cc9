"""The contract of the tables: order, dtypes, absent values, and no float ever near a time."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import npuprof
from npuprof import tables
from npuprof.sources.base import Decoded
from npuprof.tables.schema import SCHEMA

_MARK = {"start_ns": [2, 1], "duration_ns": [0, 5], "message": ["a", None], "thread_id": [7, 7]}


@pytest.mark.parametrize("name", tables.NAMES)
def test_an_empty_table_has_every_column(name: str) -> None:
    frame = tables.empty(name)
    tables.check(name, frame)
    assert len(frame) == 0
    assert list(frame) == [column.name for column in SCHEMA[name].columns]


def test_an_empty_table_is_built_once_and_belongs_to_its_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in tables.NAMES:
        tables.empty(name)
    monkeypatch.delattr(pd, "Series")  # nothing is built from here on
    run, other = (npuprof.Profile(Decoded()) for _ in range(2))
    monkeypatch.undo()
    frame = run.marks
    frame["added"] = pd.Series(dtype="int64")
    frame.insert(0, "before", pd.Series(dtype="int64"))
    del frame["domain"]
    frame.loc[0, "start_ns"] = 5
    frame.index.name, frame.columns.name, frame.attrs["told"] = "row", "column", "here"
    run.kernels.columns = run.kernels.columns.str.upper()
    for untouched in (other, npuprof.Profile(Decoded())):
        for name, table in untouched.tables.items():
            tables.check(name, table)
            assert (len(table), table.index.name, table.columns.name, table.attrs) == (0, None, None, {})
            assert len(table.columns) == len(SCHEMA[name].columns)


def test_columns_not_given_are_absent_and_extra_ones_follow() -> None:
    frame = tables.build("marks", {"category": [3, 4], **_MARK})
    tables.check("marks", frame)
    assert list(frame)[-1] == "category"
    assert frame["id"].isna().all()
    assert pd.isna(frame["message"].iloc[1])
    without_rows = tables.build("marks", {"category": np.empty(0, np.int64), "message": []})
    tables.check("marks", without_rows)
    assert without_rows.dtypes.tail(1).to_dict() == {"category": np.dtype("int64")}


def test_a_required_column_that_is_missing_is_refused() -> None:
    with pytest.raises(tables.TableError, match="needs a value in every row of 'duration_ns'"):
        tables.build("marks", {"start_ns": [1]})


@pytest.mark.parametrize("times", [np.array([1.0, 2.0]), np.array([1.5e18, 2.0], dtype=np.float32)])
def test_a_time_that_passed_through_a_float_is_refused(times: np.ndarray[tuple[int], np.dtype[np.float64]]) -> None:
    with pytest.raises(tables.TableError, match="must not pass through a float"):
        tables.build("marks", {**_MARK, "start_ns": times})


def test_a_value_that_does_not_fit_is_refused() -> None:
    with pytest.raises(tables.TableError, match="thread_id"):
        tables.build("marks", {**_MARK, "thread_id": ["main", "worker"]})


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda frame: frame[list(frame)[::-1]], "columns"),
        (lambda frame: frame.astype({"start_ns": "float64"}), "float64"),
        (lambda frame: frame.assign(duration_ns=-1), "negative"),
    ],
)
def test_check_names_what_breaks_the_contract(damage: object, told: str) -> None:
    assert callable(damage)
    with pytest.raises(tables.TableError, match=told):
        tables.check("marks", damage(tables.build("marks", _MARK)))


def test_codes_become_names_and_minus_one_is_absent() -> None:
    column = tables.categorical(np.array([1, -1, 0]), ["x", "y"])
    assert column.tolist() == ["y", np.nan, "x"]


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5))))
def test_sorting_puts_a_caller_before_what_it_called(spans: list[tuple[int, int]]) -> None:
    starts, durations = [s for s, _ in spans], [d for _, d in spans]
    frame = tables.build("marks", {"start_ns": starts, "duration_ns": durations, "thread_id": [1] * len(spans)})
    ordered = tables.sort_by_time(frame)
    rows = list(zip(ordered["start_ns"], -ordered["duration_ns"], strict=True))
    assert rows == sorted(rows)
    assert ordered.index.tolist() == list(range(len(spans)))


@pytest.mark.slow
@given(st.integers(-(2**63), 2**63 - 1))
def test_every_int64_survives(value: int) -> None:
    frame = tables.build("memory", {"time_ns": np.array([value]), "allocated_bytes": pd.array([value], dtype="Int64")})
    assert frame["time_ns"].iloc[0] == value
    assert frame["allocated_bytes"].iloc[0] == value

"""Lines of a recording: damaged columns are refused, and stacks find their calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npuprof import tables
from npuprof.analysis.loops import steps_of
from npuprof.errors import SourceError
from npuprof.sources.recording import lines, lists
from npuprof.tables.notes import Notes
from tests.budget import examples

_PATH = Path("lines.parquet")


def _columns(**changed: Any) -> dict[str, Any]:
    columns: dict[str, Any] = {name: [] for name in lines.KINDS}
    columns |= {
        "statement_cell": [0, 0],
        "statement_line": [2, 3],
        "statement_last_line": [3, 3],
        "statement_loop": [-1, 0],
        "statement_is_loop": [1, 0],
        "statement_update": [0, 0],
        "cell_thread_id": [7],
        "cell_number": [4],
        "cell_file": ["/tmp/ipykernel_1/2.py"],
        "stamp_number": [0, 1, 0, 1, 0, -1],
        "stamp_time_ns": [10, 20, 30, 40, 50, 60],
        "stopped_ns": [100],
        "call_thread_id": [7],
        "call_time_ns": [25],
        "call_stack": [0],
        "stack_length": [2],
        "stack_line": [0, 1],
        "line_number": [5, 3],
        "line_cell": [0, 4],
        "line_file": ["/home/me/model.py", "/tmp/ipykernel_1/2.py"],
        "line_function": ["forward", "<module>"],
        "line_module": ["model", "__main__"],
    }
    return lists.arrays(columns | changed, lines.KINDS, _PATH)


def test_statements_iterations_and_stacks() -> None:
    read = lines.decode(_columns(), _PATH, 1_000, 0, Notes())
    tables.check("statements", read.statements)
    assert read.statements["line"].tolist() == [2, 3, 2, 3, 2, 0]
    assert read.statements["duration_ns"].tolist() == [10, 10, 10, 10, 10, 40]
    assert read.statements["iteration"].dropna().tolist() == [0, 1]
    assert set(read.statements["file"]) == {"<cell [4]>"}
    (loop,) = read.loops
    assert (loop.begins.tolist(), loop.ends.tolist()) == ([0, 2], [2, 4])
    assert read.calls["stack"].tolist() == ["/home/me/model.py(5): forward\n<cell [4]>(3): <module>"]


def _of_three_cells() -> dict[str, Any]:
    """A cell, another one, and the first again."""
    one = {"line": [2, 3], "last_line": [3, 3], "is_loop": [1, 0], "update": [0, 0]}
    return _columns(
        **{f"statement_{name}": values * 3 for name, values in one.items()},
        statement_cell=[0, 0, 1, 1, 2, 2],
        statement_loop=[-1, 0, -1, 2, -1, 4],
        cell_thread_id=[7, 7, 7],
        cell_number=[4, 5, 6],
        cell_file=["/tmp/ipykernel_1/2.py", "/tmp/ipykernel_1/3.py", "/tmp/ipykernel_1/2.py"],
        stamp_number=[0, 1, 0, -1, 2, 3, 2, -1, 4, 5, 4, 5, 4, -1],
        stamp_time_ns=[10, 20, 30, 35, 110, 120, 130, 135, 210, 220, 230, 240, 250, 255],
    )


def test_repeated_cell_continues_loop_and_ends_statements() -> None:
    cells = np.array([0, 100, 200]), np.array([40, 140, 260])
    read = lines.decode(_of_three_cells(), _PATH, 0, 300, Notes(), cells)
    tables.check("statements", read.statements)
    first, second = read.loops
    assert (first.place, second.place) == ("line 2 of cell [4]", "line 2 of cell [5]")
    assert (first.begins.tolist(), second.begins.tolist()) == ([0, 8, 10], [4])
    assert read.statements["duration_ns"].tolist() == [10, 10, 5, 5, 10, 10, 5, 5, 10, 10, 10, 10, 5, 5]
    files = [f"<cell [{number}]>" for number in (4, 5, 6)]
    assert read.statements["file"].tolist() == [files[0]] * 4 + [files[1]] * 4 + [files[2]] * 6
    steps = steps_of(first, read.loops, read.statements, [second], read.cells)
    assert steps["step"].tolist() == [0, 2, 4, 5]


@pytest.mark.parametrize(
    "changed",
    [
        {"statement_cell": [0, 1]},
        {"statement_cell": [1, 0], "cell_file": ["a", "b"], "cell_number": [0, 0], "cell_thread_id": [1, 1]},
        {"stamp_number": [0, 1]},
        {"stamp_number": [0, 1, 0, 1, 0, 2]},
        {"stamp_number": [0, 1, 0, 1, 0, -2]},
        {"statement_loop": [-1, 1]},
        {"statement_line": [2]},
        {"call_stack": [1]},
        {"stack_line": [0, 2]},
        {"stack_length": [1]},
        {"stack_length": [-1, 3]},
        {"line_file": ["a"]},
        {"cell_file": ["a", "b"]},
        {"counted_loop": [0]},
        {"counted_loop": [9], "counted_iterations": [1], "thinned_ns": [1]},
    ],
)
def test_damage_is_named(changed: dict[str, Any]) -> None:
    with pytest.raises(SourceError, match=r"lines\.parquet .*damaged"):
        lines.decode(_columns(**changed), _PATH, 0, 0, Notes())


@given(st.dictionaries(st.sampled_from(sorted(lines.KINDS)), st.integers(-3, 3), max_size=4), st.data())
@settings(max_examples=examples(60))
def test_any_damage_is_refused_or_read(moved: dict[str, int], data: st.DataObject) -> None:
    columns = _columns()
    for name, by in moved.items():
        if lines.KINDS[name] == "int64" and len(columns[name]):
            at = data.draw(st.integers(0, len(columns[name]) - 1))
            columns[name] = columns[name].copy()
            columns[name][at] += by
        elif len(columns[name]) and by < 0:
            columns[name] = columns[name][:by]
    try:
        read = lines.decode(columns, _PATH, 0, 0, Notes())
    except SourceError:
        return
    tables.check("statements", read.statements)
    assert len(read.statements) == len(columns["stamp_time_ns"])


def _api(rows: list[tuple[int, int, int]]) -> pd.DataFrame:
    starts, durations, threads = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    names = pd.Categorical(["call"] * len(rows))
    columns = {"start_ns": starts, "duration_ns": durations, "thread_id": threads, "name": names, "level": names}
    return tables.build("api", columns)


def test_a_stack_goes_to_the_outermost_call_that_begins_with_it() -> None:
    api = _api([(100, 50, 1), (100, 20, 1), (110, 5, 1), (200, 10, 1), (300, 10, 1), (200, 10, 2)])
    calls = pd.DataFrame({"thread_id": [1, 1], "time_ns": [100, 290], "stack": pd.Categorical(["a", "b"])})
    assert lines.with_stacks(api, calls)["stack"].astype(object).fillna("").tolist() == ["a", "", "", "", "b", ""]


def test_a_stack_without_a_call_goes_to_none() -> None:
    api = _api([(100, 50, 1), (5_000_000, 1, 1)])
    calls = pd.DataFrame({"thread_id": [1, 1, 1], "time_ns": [10, 20, 200], "stack": pd.Categorical(["a", "b", "c"])})
    assert lines.with_stacks(api, calls)["stack"].astype(object).fillna("").tolist() == ["b", ""]

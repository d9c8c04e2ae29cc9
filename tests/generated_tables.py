"""Tables of any values that the schema allows, drawn by Hypothesis: extremes, absent values, rows that name rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from hypothesis import strategies as st

from npuprof import tables
from npuprof.sources.base import Decoded
from npuprof.tables.notes import Notes
from npuprof.tables.schema import SCHEMA
from tests import factories

_MOST_ROWS = 6
_LIMIT = 1 << 62
_TEXTS = st.text(st.characters(codec="utf-8"), max_size=8)
_WHOLE = st.integers(-_LIMIT, _LIMIT)
_TIMES = st.integers(0, 10**6) | st.integers(0, 10**12) | st.integers(-(10**15), 10**18)
_OWN_COLUMNS = {
    "kernels": {"aic_mac_ratio": "float64", "aic total": "Int64", "kernel": "category", "measured": "boolean"},
    "tasks": {"copied_bytes": "Int64", "copy_direction": "category"},
    "memory": {"stream": "Int64"},
    "counters": {"quality": "category"},
    "communication_tasks": {"estimated_us": "float64"},
    "allocations": {"active_released_ns": "Int64"},
    "step_times": {"note": "category"},
}


@st.composite
def runs(draw: st.DrawFn) -> Decoded:
    """Return a run: every table, with links, notes and statistics."""
    frames = {name: _table(draw, name) for name in tables.NAMES if name not in ("links", "python")}
    frames["python"] = _python(draw)
    _share_with_tasks(draw, frames)
    operators = len(frames["communication"])
    frames["communication_tasks"]["op_id"] = _column(
        draw, "Int64", len(frames["communication_tasks"]), st.integers(0, operators - 1) if operators else st.none()
    )
    frames["links"] = _links(draw, frames)
    notes = Notes()
    for severity in draw(st.lists(st.sampled_from(["info", "warning", "error"]), max_size=3)):
        getattr(notes, severity)(draw(_TEXTS), draw(_TEXTS), draw(st.integers(1, 9)))
    statistics = {draw(_TEXTS): _statistic(draw) for _ in range(draw(st.integers(0, 2)))}
    info = factories.info(
        name=draw(_TEXTS), simulated=draw(st.booleans()), metadata={draw(_TEXTS): [{"ph": draw(_TEXTS)}]}
    )
    return Decoded(factories.all_tables(**frames), info, notes, statistics)


def _table(draw: st.DrawFn, name: str) -> pd.DataFrame:
    count = draw(st.integers(0, _MOST_ROWS))
    columns: dict[str, Any] = {}
    dtypes = {column.name: column.dtype for column in SCHEMA[name].columns} | _OWN_COLUMNS.get(name, {})
    for column, dtype in dtypes.items():
        values: Any = None
        if column == "duration_ns":
            values = st.integers(0, 10**6) | st.integers(0, 10**13)
        elif column in ("start_ns", "time_ns"):
            values = _TIMES.map(lambda offset: factories.START_NS + offset)
        elif column in ("device_id", "stream_id", "thread_id"):
            values = st.integers(0, 3)
        columns[column] = _column(draw, dtype, count, values)
    return tables.build(name, columns)


def _column(draw: st.DrawFn, dtype: str, count: int, values: Any = None) -> Any:
    kinds = {"int64": _WHOLE, "Int64": _WHOLE, "float64": st.floats(), "boolean": st.booleans()}
    some = (
        values
        if values is not None
        else kinds.get(dtype, st.sampled_from(["", "a", "b c", "\u00e9", '"', "\\", "\n"]) | _TEXTS)
    )
    if dtype != "int64":
        some = some | st.none()
    drawn: list[Any] = draw(st.lists(some, min_size=count, max_size=count))
    if dtype == "category":
        return pd.Categorical(drawn)
    if dtype == "float64":
        drawn = [np.nan if value is None else value for value in drawn]
    return np.array(drawn, dtype) if dtype in ("int64", "float64") else pd.Series(drawn, dtype=dtype).array


def _python(draw: st.DrawFn) -> pd.DataFrame:
    frame = _table(draw, "python")
    ids = np.arange(len(frame), dtype=np.int64) * 7
    parents = [draw(st.sampled_from([None, *ids[:place].tolist()])) for place in range(len(frame))]
    nested: pd.DataFrame = frame.assign(id=ids, parent_id=pd.array(parents, dtype="Int64"))
    return nested


def _share_with_tasks(draw: st.DrawFn, frames: dict[str, pd.DataFrame]) -> None:
    """Give some kernels the key of a task, as those of a timeline have."""
    kernels, tasks = frames["kernels"], frames["tasks"]
    if not len(tasks) or not len(kernels):
        return
    rows = draw(st.lists(st.integers(-1, len(tasks) - 1), min_size=len(kernels), max_size=len(kernels)))
    for column in ("start_ns", "device_id", "stream_id", "task_id", "batch_id"):
        values, of_tasks = (frame[column].astype(object).tolist() for frame in (kernels, tasks))
        shared = [of_tasks[row] if row >= 0 else value for row, value in zip(rows, values, strict=True)]
        kernels[column] = pd.Series(shared, dtype=kernels[column].dtype)


def _links(draw: st.DrawFn, frames: dict[str, pd.DataFrame]) -> pd.DataFrame:
    ends = [(name, row) for name, frame in frames.items() for row in range(len(frame))]
    count = draw(st.integers(0, _MOST_ROWS)) if ends else 0
    columns: dict[str, Any] = {"kind": _column(draw, "category", count)}
    for side in ("source", "target"):
        drawn = [draw(st.sampled_from(ends)) for _ in range(count)]
        columns[f"{side}_table"] = pd.Categorical([name for name, _ in drawn])
        columns[f"{side}_row"] = np.array([row for _, row in drawn], np.int64)
    frame: pd.DataFrame = tables.build("links", columns)
    return frame


def _statistic(draw: st.DrawFn) -> pd.DataFrame:
    count = draw(st.integers(0, _MOST_ROWS))
    frame: pd.DataFrame = pd.DataFrame(
        {
            "Name": pd.Series(draw(st.lists(_TEXTS | st.none(), min_size=count, max_size=count)), dtype=object),
            "Count": pd.array(draw(st.lists(_WHOLE, min_size=count, max_size=count)), dtype="int64"),
            "Ratio(%)": np.array(draw(st.lists(st.floats(), min_size=count, max_size=count)), np.float64),
            "name": _column(draw, "category", count),
        }
    )
    return frame

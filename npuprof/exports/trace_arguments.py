"""The arguments of trace events: every value of a row as JSON, and events for rows that viewers cannot draw.

See :mod:`npuprof.sources.exported_trace.layout`, which says what is where.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from npuprof.arrays import Int64
from npuprof.sources.base import Decoded
from npuprof.sources.exported_trace.layout import (
    KERNEL,
    NAMES,
    OF_RUN,
    ROW,
    ROWS,
    RUN,
    VERSION,
    argument_of,
)

_EVENT_BYTES = 1 << 18  # of an event with rows, about
_OF_SLICE = ("start_ns", "duration_ns")


def encoded(column: pd.Series[Any]) -> list[str]:
    """Return each value of a column as JSON; empty where it is absent."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        texts = [*(json.dumps(str(name)) for name in column.cat.categories), ""]
        return [texts[code] for code in column.cat.codes.tolist()]
    if column.dtype == np.int64:
        return list(map(str, column.tolist()))
    return ["" if value is None or value is pd.NA or value != value else _json(value) for value in column.tolist()]


def _json(value: Any) -> str:
    if isinstance(value, float) and math.isinf(value):
        return '"Infinity"' if value > 0 else '"-Infinity"'
    return json.dumps(value, default=str)


def row_arguments(table: str, frame: pd.DataFrame, run: int | None) -> list[list[str]]:
    """Return the arguments of a table's slices, as a list of a row's ``"name":value`` for each column."""
    named = NAMES.get(table)
    columns = [prefixed(ROW, list(map(str, range(len(frame)))))]
    if run is not None:
        columns.append([f'"{OF_RUN}":{run}'] * len(frame))
    for name in frame.columns:
        if name == named and argument_of(table, name) == name:  # the event has it as its name, which is empty for none
            columns.append(prefixed(argument_of(table, name), [text * (text == '""') for text in encoded(frame[name])]))
        elif name not in _OF_SLICE:
            columns.append(prefixed(argument_of(table, name), encoded(frame[name])))
    return columns


def kernel_arguments(kernels: pd.DataFrame, slices: pd.DataFrame, slice_of: Int64) -> list[str]:
    """Return for each slice of the device the argument with its kernel; empty for none."""
    drawn = np.flatnonzero(slice_of >= 0)
    drawn_kernels = kernels.iloc[drawn]
    shared = slices.iloc[slice_of[drawn]]
    columns = [prefixed(ROW, list(map(str, drawn.tolist())))]
    for name in drawn_kernels.columns:
        texts = encoded(drawn_kernels[name])
        if name in shared:
            pairs = zip(texts, encoded(shared[name]), strict=True)
            texts = ["" if text == of_task else text or "null" for text, of_task in pairs]
        columns.append(prefixed(argument_of("kernels", name), texts))
    arguments = [""] * len(slices)
    for place, values in zip(slice_of[drawn].tolist(), zip(*columns, strict=True), strict=True):
        arguments[place] = f'"{KERNEL}":{{{",".join(filter(None, values))}}}'
    return arguments


def prefixed(name: str, texts: Sequence[str]) -> list[str]:
    """Return each value of an argument with its name in front; empty for an absent value."""
    prefix = f"{json.dumps(name)}:"
    return [prefix + text if text else "" for text in texts]


def run_event(run: int, decoded: Decoded, base_ns: int) -> str:
    """Return the event that describes a run."""
    notes = decoded.notes.to_frame()
    arguments = {
        "version": VERSION,
        "run": run,
        "base_ns": str(base_ns),  # as text: many readers of JSON round large numbers
        # As text: objects in lists could be taken for events where a damaged file is read event by event.
        "info": json.dumps({**decoded.info.to_dict(), "recording": None}, default=str),
        "notes": notes.fillna({"missing_rows": 0}).to_dict("list"),
        "tables": {name: _shape(frame) for name, frame in decoded.tables.items() if len(frame)},
        "statistics": {name: _shape(frame) for name, frame in decoded.statistics.items()},
    }
    return metadata(RUN, 0, 0, arguments)


def _shape(frame: pd.DataFrame) -> dict[str, Any]:
    return {"rows": len(frame), "columns": {str(name): str(dtype) for name, dtype in frame.dtypes.items()}}


def rows_events(run: int, of: Mapping[str, str], frame: pd.DataFrame, rows: Int64 | None = None) -> Iterator[str]:
    """Yield events with rows as columns."""
    numbers = np.arange(len(frame)) if rows is None else rows
    if not len(numbers):
        return
    columns = {str(name): encoded(frame.iloc[:, place].iloc[numbers]) for place, name in enumerate(frame.columns)}
    sizes = np.zeros(len(numbers), np.int64)
    for texts in columns.values():
        sizes += np.fromiter(map(len, texts), np.int64, len(texts)) + 4
    parts = np.flatnonzero(np.diff(np.cumsum(sizes) // _EVENT_BYTES, prepend=-1))
    for begin, end in zip(parts, [*parts[1:], len(numbers)], strict=True):
        shown = ",".join(
            f"{json.dumps(name)}:[{','.join(text or 'null' for text in texts[begin:end])}]"
            for name, texts in columns.items()
        )
        head = json.dumps({"run": run, **of, "rows": numbers[begin:end].tolist()}).removesuffix("}")
        yield f'{{"ph":"M","name":"{ROWS}","pid":0,"tid":0,"args":{head},"columns":{{{shown}}}}}}}'


def metadata(kind: str, pid: int, tid: int, arguments: Mapping[str, object]) -> str:
    """Return a metadata event."""
    return json.dumps({"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": arguments})

"""The tables of a profile: names, columns, dtypes and units, and the checks that enforce them.

Every source fills these tables, and every analysis, figure and export reads them, so that a name means the same
everywhere. A source may append its own columns, in the same style (snake_case, the unit in the name). Times are
``int64`` nanoseconds of the UTC epoch. Names and units of counters are described in
:mod:`npuprof.sources.raw.samples.counter_rows`; components of `memory` are allocators
(``PTA``, ``GE`` ...), ``APP`` and ``Device`` as a whole, and modules of the driver (``HCCL (module)``).

Use :func:`build` to make a table from arrays, :func:`empty` for a table that a run does not have, and
:func:`check` to assert that a frame follows the schema.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

Kind: TypeAlias = Literal["int", "optional_int", "float", "name", "flag"]

_DTYPES: Mapping[Kind, str] = {
    "int": "int64",  # always present: times, durations, row numbers
    "optional_int": "Int64",  # may be absent: <NA>
    "float": "float64",  # may be absent: NaN
    "name": "category",  # values repeat thousands of times; may be absent: NaN
    "flag": "boolean",  # may be absent: <NA>
}


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes
    ----------
    name
        Snake case, ending in the unit, if there is one.
    kind
        The kind of values, which determines the dtype.
    """

    name: str
    kind: Kind

    @property
    def dtype(self) -> str:
        """The pandas dtype of the kind."""
        return _DTYPES[self.kind]


@dataclass(frozen=True)
class Table:
    """What a row of a table stands for, and its first columns in order."""

    name: str
    row: str
    columns: tuple[Column, ...]

    def with_only(self, names: Collection[str]) -> Table:
        """Return the table with only the named columns; with all columns if no names are given."""
        return replace(self, columns=tuple(column for column in self.columns if column.name in names or not names))


def _table(name: str, row: str, columns: str) -> Table:
    """Parse a table from words ``column:kind``; the default kind is ``int``."""
    parts = (word.partition(":") for word in columns.split())
    return Table(name, row, tuple(Column(column, _KINDS[kind]) for column, _, kind in parts))


_KINDS: Mapping[str, Kind] = {"": "int", "int?": "optional_int", "float": "float", "name": "name", "flag": "flag"}

_SPAN = "start_ns duration_ns"
_TASK = (
    f"{_SPAN} device_id stream_id:int? task_id:int? batch_id:int? context_id:int? task_type:name name:name "
    "connection_id:int?"
)
_SHAPES = (
    "input_shapes:name input_dtypes:name input_formats:name output_shapes:name output_dtypes:name output_formats:name"
)

SCHEMA: Mapping[str, Table] = {
    table.name: table
    for table in (
        _table("steps", "an iteration", f"step:int? {_SPAN}"),
        _table("python", "a Python function call", f"{_SPAN} name:name thread_id id parent_id:int? depth"),
        _table(
            "operators",
            "a framework operator call (kind: op, enqueue or dequeue)",
            f"{_SPAN} name:name thread_id kind:name input_shapes:name input_dtypes:name stack:name "
            "sequence_number:int? id step:int?",
        ),
        _table(
            "api",
            "a CANN call (level: acl, model, node, communication or runtime)",
            f"{_SPAN} name:name level:name thread_id connection_id:int?",
        ),
        _table("tasks", "a device task of any kind", _TASK),
        _table(
            "kernels",
            "a compute kernel",
            f"{_TASK} op_name:name op_type:name core:name op_state:name block_num:int? mix_block_num:int? "
            f"hf32:flag {_SHAPES} wait_ns:int? step:int?",
        ),
        _table(
            "communication",
            "a collective or point-to-point operator",
            f"{_SPAN} device_id name:name op_type:name group:name data_type:name algorithm:name count:int? "
            "connection_id:int? step:int?",
        ),
        _table(
            "communication_tasks",
            "a step of a communication operator (op_id: row of `communication`; ranks are numbered within its group)",
            f"{_SPAN} device_id op_id:int? plane_id:int? task_type:name src_rank:int? dst_rank:int? "
            "transport:name link:name size_bytes:int? bandwidth_gb_s:float",
        ),
        _table(
            "links",
            "a cause and its effect (kind: operator_api, api_task, enqueue, forward_backward or mark)",
            "kind:name source_table:name source_row target_table:name target_row",
        ),
        _table(
            "overlap",
            "an interval of device time (kind: computing, communication, communication_not_overlapped or free)",
            f"{_SPAN} device_id kind:name",
        ),
        _table(
            "step_times",
            "the vendor's breakdown of a step",
            "step:int? device_id:int? computing_ns:int? communication_ns:int? overlapped_ns:int? "
            "communication_not_overlapped_ns:int? free_ns:int? stage_ns:int? bubble_ns:int? preparing_ns:int?",
        ),
        _table(
            "memory",
            "an allocator or device memory sample",
            "time_ns device_id:int? component:name allocated_bytes:int? reserved_bytes:int? active_bytes:int?",
        ),
        _table(
            "allocations",
            "the life of an allocated block",
            "name:name size_bytes allocated_ns:int? released_ns:int? device_id:int? stream:int?",
        ),
        _table(
            "counters",
            "a sampled value",
            "time_ns device_id:int? counter:name instance:name value:float unit:name",
        ),
        _table(
            "marks",
            "a marker (duration 0) or a range",
            f"{_SPAN} message:name domain:name thread_id device_start_ns:int? device_duration_ns:int? id:int?",
        ),
    )
}
"""All tables of a profile by name."""

NAMES: tuple[str, ...] = tuple(SCHEMA)


class TableError(ValueError):
    """A frame violates the schema of its table: a bug in the code that built it."""


def build(name: str, columns: Mapping[str, Any], only: Collection[str] = ()) -> pd.DataFrame:
    """Build a table from arrays, in the schema's order and dtypes; the order of rows is kept.

    Parameters
    ----------
    name
        A key of :data:`SCHEMA`.
    columns
        Arrays of the same length by column name: NumPy arrays, Series or pandas arrays. Missing columns are filled
        with absent values, if their kind allows it. Unknown columns are appended unchanged, in the given order.
    only
        The columns of the schema to build; by default all columns.

    Raises
    ------
    TableError
        If a required column is missing, or values do not fit a column's dtype without loss.
    """
    table = SCHEMA[name].with_only(only)
    length = max((len(values) for values in columns.values() if values is not None), default=0)
    known_names = {column.name for column in table.columns}
    added = {key: value for key, value in columns.items() if key not in known_names}
    if not length:
        without_rows: pd.DataFrame = empty(name)[[column.name for column in table.columns]].assign(**added)
        return without_rows
    data = {column.name: _column(table, column, columns, length) for column in table.columns}
    frame: pd.DataFrame = pd.DataFrame(data | added, copy=False).reset_index(drop=True)
    return frame


def _column(table: Table, column: Column, columns: Mapping[str, Any], length: int) -> Any:
    values = columns.get(column.name)
    if values is None:
        if column.kind == "int":
            raise TableError(f"table {table.name!r} needs a value in every row of {column.name!r}")
        return _absent(column.kind, length)
    if _fits(column.kind, values):
        return values
    if column.kind in ("int", "optional_int"):
        _refuse_floats(table, column, values)
    try:
        return pd.Series(values, copy=False).astype(column.dtype).array
    except (TypeError, ValueError) as error:
        raise TableError(f"table {table.name!r}: {column.name!r} does not fit {column.dtype}: {error}") from error


def _fits(kind: Kind, values: Any) -> bool:
    """Return whether values are an array of the dtype of a kind, which is then taken as it is."""
    if kind == "int":
        return isinstance(values, np.ndarray) and values.dtype == np.int64
    if kind == "optional_int":
        return isinstance(values, pd.arrays.IntegerArray) and values.dtype == pd.Int64Dtype()
    return kind == "name" and isinstance(values, pd.Categorical)


def _absent(kind: Kind, length: int) -> Any:
    """Return an array without values."""
    if kind == "optional_int":
        return pd.arrays.IntegerArray(np.ones(length, np.int64), np.ones(length, np.bool_))
    return pd.Series(index=range(length), dtype=_DTYPES[kind]).array


def _refuse_floats(table: Table, column: Column, values: Any) -> None:
    # float64 cannot represent epoch nanoseconds: they are off by up to 256 ns, whatever they are cast to afterwards.
    dtype = getattr(values, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.kind == "f" and len(values):
        raise TableError(f"table {table.name!r}: {column.name!r} must not pass through a float")


def empty(name: str) -> pd.DataFrame:
    """Return an empty table with all its columns; a copy, which the caller may change."""
    frame: pd.DataFrame = _empty(name).copy()
    return frame


@cache
def _empty(name: str) -> pd.DataFrame:
    # Built once: making empty columns takes as long as making those of a small run, copying them a twentieth of that.
    frame: pd.DataFrame = pd.DataFrame({column.name: _absent(column.kind, 0) for column in SCHEMA[name].columns})
    return frame


def check(name: str, frame: pd.DataFrame, only: Collection[str] = ()) -> None:
    """Check that a frame is a valid table; with `only`, that it has these columns of it.

    Raises
    ------
    TableError
        If the columns, their order or their dtypes differ from the schema, or a duration is negative.
    """
    expected = SCHEMA[name].with_only(only).columns
    if list(frame.columns[: len(expected)]) != [column.name for column in expected]:
        raise TableError(f"table {name!r} has the columns {list(frame.columns)}, not those of its schema first")
    for column in expected:
        dtype = str(frame[column.name].dtype)
        if dtype != column.dtype:
            raise TableError(f"table {name!r}: {column.name!r} is {dtype}, not {column.dtype}")
    if "duration_ns" in frame and len(frame) and int(frame["duration_ns"].min()) < 0:
        raise TableError(f"table {name!r} has a negative duration")


def categorical(codes: npt.NDArray[np.integer[Any]], names: list[str]) -> pd.Categorical:
    """Return a ``name`` column from integer codes into a list of distinct names; -1 is absent.

    This is cheaper than a column of strings, since only distinct names are processed.
    """
    return pd.Categorical.from_codes(codes, categories=pd.Index(names, dtype="object"))


def matching(names: pd.Series[Any], wanted: Callable[[str], bool]) -> npt.NDArray[np.bool_]:
    """Return a mask of the rows of a ``name`` column that satisfy `wanted`, which is called once per distinct name."""
    chosen = np.array([*(wanted(str(name)) for name in names.cat.categories), False], bool)
    rows: npt.NDArray[np.bool_] = chosen[names.cat.codes.to_numpy()]
    return rows


def sort_by_time(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows sorted by start, longer first at equal starts, so that callers precede their callees."""
    key = "start_ns" if "start_ns" in frame else "time_ns"
    starts = frame[key].to_numpy()
    ends = -frame["duration_ns"].to_numpy() if "duration_ns" in frame else np.zeros(len(frame), np.int64)
    before, after = slice(None, -1), slice(1, None)
    in_order = (starts[before] < starts[after]) | ((starts[before] == starts[after]) & (ends[before] <= ends[after]))
    # Most files are sorted, which is far quicker to check than to sort again.
    ordered = frame if bool(np.all(in_order)) else frame.iloc[np.lexsort((ends, starts))]
    sorted_frame: pd.DataFrame = ordered.reset_index(drop=True)
    return sorted_frame


def owner(frame: pd.DataFrame) -> tuple[str, ...]:
    """Return the column that tells runs of a merged table apart: `rank`, or `run` where a rank is unknown.

    The tables of one run have neither.
    """
    if "rank" in frame and not frame["rank"].isna().any():
        return ("rank",)
    return ("run",) if "run" in frame else ()

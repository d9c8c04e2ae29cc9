"""Host rows: ``PYTORCH_API`` (framework operators, task queue, Python calls, steps), call stacks, and ``CANN_API``.

Source: sources/RESULTS.md sections 5.1 and 5.2.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from npuprof import tables
from npuprof.analysis.nesting import Nesting
from npuprof.arrays import Int64, Records, first_rows
from npuprof.sources.columns.builders import ABSENT, SENTINELS, missing, optional, recoded
from npuprof.sources.columns.steps import step_numbers, step_of
from npuprof.sources.database.connection import Database
from npuprof.sources.database.intervals import (
    drop_repeated,
    in_order,
    pairs_of,
    span,
    steps_table,
    take,
    thread_ids,
)
from npuprof.sources.database.names import TextsById
from npuprof.sources.database.processes import DatabaseProcesses
from npuprof.sources.database.references import note_lost_calls

_MAX_TEXT = 64 << 10
_ODD = np.uint64(0x9E3779B97F4A7C15)


def stack_names(database: Database, chains: Records, strings: TextsById) -> pd.Categorical:
    """Return the stack of each chain number: innermost frame first, one frame per line."""
    rows = database.rows("PYTORCH_CALLCHAINS", ["id", "stack", "stackDepth"])
    rows = drop_repeated(database, "PYTORCH_CALLCHAINS", rows, "id")
    database.accounts.use("PYTORCH_CALLCHAINS", len(rows["id"]))
    order = np.lexsort((rows["stackDepth"], rows["id"]))
    ids, frames = rows["id"][order], rows["stack"][order]
    starts = np.flatnonzero(np.diff(ids, prepend=ids[:1] - 1)) if len(ids) else np.empty(0, np.intp)
    texts, kinds = _distinct_stacks(frames, starts, strings)
    row = first_rows(ids[starts], chains)
    codes = np.where(row >= 0, kinds[row], -1) if len(starts) else np.full(len(chains), -1)
    return recoded(codes.astype(np.int32), texts)


def _distinct_stacks(frames: Int64, starts: npt.NDArray[np.intp], strings: TextsById) -> tuple[list[str | None], Int64]:
    """Join the frames of each distinct chain once: the texts, and the text index of each chain.

    Thousands of operators share a stack, and each writes its own chain. Equal chains are found by a 64-bit hash of
    frames and positions.
    """
    if not len(starts):
        return [], np.empty(0, np.int64)
    lengths = np.diff(starts, append=len(frames))
    places = np.arange(len(frames)) - np.repeat(starts, lengths)
    sums = np.add.reduceat(_mix(_mix(frames.astype(np.uint64)) + places.astype(np.uint64)), starts)
    kinds, _ = pd.factorize(sums)
    _, first = np.unique(kinds, return_index=True)
    texts: list[str | None] = []
    for chain in first.tolist():
        numbers = frames[starts[chain] : starts[chain] + lengths[chain]].tolist()
        texts.append("\n".join(text for number in numbers if (text := strings.text(number)))[:_MAX_TEXT])
    return texts, kinds.astype(np.int64)


def _mix(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return a multiplicative hash of each value; it may wrap around."""
    spread = values * _ODD
    return (spread ^ (spread >> np.uint64(29))) * _ODD


_API = "PYTORCH_API"
_COLUMNS = [
    "startNs",
    "endNs",
    "globalTid",
    "connectionId",
    "name",
    "sequenceNumber",
    "fwdThreadId",
    "inputDtypes",
    "inputShapes",
    "callchainId",
    "type",
]
_LEVELS = {"hccl": "communication"}
_LINE = re.compile(r";\r?\n")
_LETTER = re.compile(r"[A-Za-z]")
_OPERATOR, _QUEUE, _PYTHON = "op", "queue", "trace"


@dataclass
class HostCalls:
    """Operators and their connections to other rows.

    Attributes
    ----------
    tables
        ``steps``, ``operators``, ``python`` where the file has them.
    operator, connection
        Connections of operators: rows of ``operators`` and connection numbers, any number per row.
    """

    tables: dict[str, pd.DataFrame] = field(default_factory=dict)
    operator: Int64 = field(default_factory=lambda: np.empty(0, np.int64))
    connection: Int64 = field(default_factory=lambda: np.empty(0, np.int64))


def read_framework(database: Database, strings: TextsById, processes: DatabaseProcesses) -> HostCalls:
    """Read the framework's steps, operators and Python calls, where the file has them."""
    calls = HostCalls()
    rows = in_order(database, _API, database.rows(_API, _COLUMNS), ("operators", "python"))
    note_lost_calls(database, rows)
    kinds = _kinds(database, rows["type"])
    marked, numbers = _step_marks(rows["name"], strings, database)
    marked &= kinds == ""
    _add_steps(database, calls, take({**rows, "id": numbers}, marked))
    is_selected = (kinds != _PYTHON) & ~marked
    if is_selected.any():
        selected_rows = take(rows, is_selected)
        _add_operators(database, calls, selected_rows, kinds[is_selected] == _QUEUE, strings)
        calls.connection = processes.apart(calls.connection, selected_rows["globalTid"][calls.operator] >> 32)
    else:
        unused = len(database.rows("CONNECTION_IDS", ["id"])["id"])
        database.accounts.leave_out("CONNECTION_IDS", "there is no operator to connect", unused, affects=("links",))
    if (kinds == _PYTHON).any():
        calls.tables["python"] = _python(take(rows, kinds == _PYTHON), strings)
    for name in ("operators", "python"):
        database.accounts.keep(_API, name, len(calls.tables.get(name, ())))
    return calls


def api_table(database: Database, strings: TextsById, processes: DatabaseProcesses) -> pd.DataFrame | None:
    """Read ``CANN_API``; the file stores its levels as numbers."""
    columns = ["startNs", "endNs", "type", "globalTid", "connectionId", "name"]
    rows = in_order(database, "CANN_API", database.rows("CANN_API", columns), ("api",))
    database.accounts.keep("CANN_API", "api", len(rows["startNs"]))
    if not len(rows["startNs"]):
        return None
    levels = TextsById(database, "ENUM_API_TYPE")
    return tables.build(
        "api",
        {
            **span(rows),
            "name": strings.column(rows["name"]),
            "level": levels.column(rows["type"], lambda level: _LEVELS.get(level, level)),
            "thread_id": thread_ids(rows["globalTid"]),
            "connection_id": optional(processes.apart(rows["connectionId"], rows["globalTid"] >> 32), SENTINELS),
        },
    )


def _kinds(database: Database, types: Records) -> npt.NDArray[np.object_]:
    """Return the type names of queue and Python rows; operators have an empty one."""
    names = TextsById(database, "ENUM_API_TYPE").column(types)
    typed = database.has(_API, "type")
    unknown = np.array([*(name not in (_OPERATOR, _QUEUE, _PYTHON) for name in names.categories), typed], np.bool_)
    if rows := int(unknown[names.codes].sum()):
        database.notes.warning(database.path.name, f"{_API}: a call is of an unknown kind, shown as an operator", rows)
    table = np.array([*(name if name in (_QUEUE, _PYTHON) else "" for name in names.categories), ""], object)
    return table[names.codes]


def _step_marks(names: Records, strings: TextsById, database: Database) -> tuple[npt.NDArray[np.bool_], Int64]:
    """Return a mask of the rows that mark a step, and the step numbers."""
    marks = strings.numbers_of(lambda text: text.startswith("ProfilerStep#"))
    numbers = step_numbers(marks.items(), database.notes, database.path.name)
    marked = np.isin(names, list(numbers))
    steps = np.full(len(names), ABSENT)
    steps[marked] = [numbers[name] for name in names[marked].tolist()]
    return marked, steps


def _add_steps(database: Database, calls: HostCalls, marks: dict[str, Records]) -> None:
    rows = in_order(database, "STEP_TIME", database.rows("STEP_TIME", ["id", "startNs", "endNs"]), ("steps",))
    database.accounts.keep("STEP_TIME", "steps", len(rows["id"]))
    if len(rows["id"]):
        database.accounts.use(_API, len(marks["id"]))  # both mark the same steps
    else:
        rows = marks
        database.accounts.keep(_API, "steps", len(rows["id"]))
    if len(rows["id"]):
        calls.tables["steps"] = steps_table(rows)


def _add_operators(
    database: Database, calls: HostCalls, rows: dict[str, Records], queued: npt.NDArray[np.bool_], strings: TextsById
) -> None:
    ids = database.rows("CONNECTION_IDS", ["id", "connectionId"])
    database.accounts.use("CONNECTION_IDS", len(ids["id"]))
    numbers = np.where(rows["connectionId"] < 0, ABSENT + 1, rows["connectionId"])
    calls.operator, row = pairs_of(ids["id"], numbers, database.notes)
    calls.connection = ids["connectionId"][row]
    count = len(queued)
    correlation = np.full(count, ABSENT)
    correlation[calls.operator[::-1]] = calls.connection[::-1]  # the first row of each
    shapes, dtypes = _operands(database, rows, strings)
    columns: dict[str, Any] = {
        **span(rows),
        "name": strings.column(rows["name"]),
        "thread_id": thread_ids(rows["globalTid"]),
        "kind": _operator_kinds(rows["name"], queued, strings),
        "input_shapes": shapes,
        "input_dtypes": dtypes,
        "stack": stack_names(database, rows["callchainId"], strings),
        "sequence_number": optional(rows["sequenceNumber"], (-1,)),
        "id": np.arange(count),
        "step": step_of(calls.tables.get("steps"), rows["startNs"]),
        "forward_thread_id": optional(rows["fwdThreadId"], (0,)),
        "correlation_id": optional(np.where(queued, correlation, ABSENT)) if queued.any() else missing(count),
    }
    calls.tables["operators"] = tables.build("operators", columns)


def _operator_kinds(names: Records, queued: npt.NDArray[np.bool_], strings: TextsById) -> pd.Categorical:
    dequeues = strings.numbers_of(lambda text: text.startswith("Dequeue"))
    return recoded(np.where(queued, 1 + np.isin(names, list(dequeues)), 0), ["op", "enqueue", "dequeue"])


def _operands(
    database: Database, rows: dict[str, Records], strings: TextsById
) -> tuple[pd.Categorical, pd.Categorical]:
    """Return shapes and dtypes of the inputs. Some writers swap the two columns; only dtypes contain letters."""
    shapes, dtypes = (
        strings.column(rows[column], lambda text: _LINE.sub(";", text)) for column in ("inputShapes", "inputDtypes")
    )
    lettered = [sum(bool(_LETTER.search(text)) for text in column.categories) for column in (shapes, dtypes)]
    if lettered[0] > lettered[1]:
        database.notes.info(
            database.path.name, f"{_API}: shapes stand under inputDtypes and dtypes under inputShapes; put right"
        )
        return dtypes, shapes
    return shapes, dtypes


def _python(rows: dict[str, Records], strings: TextsById) -> pd.DataFrame:
    """Build `python`; the file has no callers, so the parent of a call is the innermost enclosing call."""
    nesting = Nesting.build(rows["startNs"], rows["startNs"] + rows["duration"], rows["globalTid"])
    count = len(rows["startNs"])
    parent, depth = np.full(count, ABSENT), np.empty(count, np.int64)
    parent[nesting.order] = np.where(nesting.parents >= 0, nesting.order[nesting.parents], ABSENT)
    depth[nesting.order] = nesting.depths()
    columns = {
        **span(rows),
        "name": strings.column(rows["name"]),
        "thread_id": thread_ids(rows["globalTid"]),
        "id": np.arange(count),
        "parent_id": optional(parent),
        "depth": depth,
    }
    return tables.build("python", columns)

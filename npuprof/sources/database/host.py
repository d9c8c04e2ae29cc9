"""Host rows: ``PYTORCH_API`` (framework operators, task queue, Python calls, steps), call stacks, and ``CANN_API``.

Source: sources/RESULTS.md sections 5.1 and 5.2.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from npuprof import tables
from npuprof.analysis.nesting import Nesting
from npuprof.arrays import Bools, Int64, Records, first_rows
from npuprof.sources.columns.builders import ABSENT, missing, optional, recoded
from npuprof.sources.columns.steps import step_numbers, step_of
from npuprof.sources.database.checks import note_lost_calls
from npuprof.sources.database.reader import Names, Reader, Rows
from npuprof.tables.notes import Notes

_MAX_TEXT = 64 << 10
_ODD = np.uint64(0x9E3779B97F4A7C15)


_API, _CONNECTIONS, _STACKS = "PYTORCH_API", "CONNECTION_IDS", "PYTORCH_CALLCHAINS"
_LETTER = re.compile(r"[A-Za-z]")
_OPERATOR, _QUEUE, _PYTHON = "op", "queue", "trace"
_ENOUGH_PAIRS = 1_000_000


@dataclass
class HostCalls:
    """Operators and their connections to other rows: rows of `operators` and connection numbers, any number a row."""

    tables: dict[str, pd.DataFrame] = field(default_factory=dict)
    operator: Int64 = field(default_factory=lambda: np.empty(0, np.int64))
    connection: Int64 = field(default_factory=lambda: np.empty(0, np.int64))


def read_framework(reader: Reader) -> HostCalls:
    """Read the framework's steps, operators and Python calls, where the file has them."""
    calls = HostCalls()
    rows = reader.rows(_API).in_order()
    note_lost_calls(reader, rows)
    kinds = _kinds(reader, rows)
    marked, numbers = _step_marks(reader, rows["name"])
    marked &= kinds == ""
    _add_steps(calls, rows.having(id=numbers).take(marked))
    is_python = kinds == _PYTHON
    operators = ~is_python & ~marked
    if operators.any():
        _add_operators(calls, rows.take(operators), kinds[operators] == _QUEUE)
    else:
        reader.leave_out(_CONNECTIONS, "there is no operator to connect", len(reader.rows(_CONNECTIONS, "id")))
    if is_python.any():
        calls.tables["python"] = _python(rows.take(is_python))
    for name in ("operators", "python"):
        reader.accounts.keep(_API, name, len(calls.tables.get(name, ())))
    return calls


def _kinds(reader: Reader, rows: Rows) -> npt.NDArray[np.object_]:
    """Return the type names of queue and Python rows; operators have an empty one."""
    names = rows.column("type")
    typed = reader.has(_API, "type")
    unknown = np.array([*(name not in (_OPERATOR, _QUEUE, _PYTHON) for name in names.categories), typed], np.bool_)
    reader.warn(f"{_API}: a call is of an unknown kind, shown as an operator", int(unknown[names.codes].sum()))
    table = np.array([*(name if name in (_QUEUE, _PYTHON) else "" for name in names.categories), ""], object)
    return table[names.codes]


def _step_marks(reader: Reader, names: Records) -> tuple[Bools, Int64]:
    """Return a mask of the rows that mark a step, and the step numbers."""
    marks = reader.strings.numbers_of(lambda text: text.startswith("ProfilerStep#"))
    numbers = step_numbers(marks.items(), reader.notes, reader.database.path.name)
    marked = np.isin(names, list(numbers))
    steps = np.full(len(names), ABSENT)
    steps[marked] = [numbers[name] for name in names[marked].tolist()]
    return marked, steps


def _add_steps(calls: HostCalls, marks: Rows) -> None:
    """Add `steps`: of the table of steps, or else of the calls that mark them."""
    rows = marks.reader.rows("STEP_TIME").in_order()
    steps = rows.build("steps")
    if steps is not None:
        marks.reader.accounts.use(_API, len(marks))  # both mark the same steps
    else:
        steps = tables.build("steps", replace(marks.keep("steps"), table=rows.table).columns()) if len(marks) else None
    if steps is not None:
        calls.tables["steps"] = steps


def _add_operators(calls: HostCalls, rows: Rows, queued: Bools) -> None:
    reader = rows.reader
    ids = reader.rows(_CONNECTIONS)
    reader.accounts.use(_CONNECTIONS, len(ids))
    numbers = np.where(rows["connectionId"] < 0, ABSENT + 1, rows["connectionId"])
    calls.operator, row = pairs_of(ids["id"], numbers, reader.notes)
    connection = ids["connectionId"][row]
    correlation = np.full(len(rows), ABSENT)
    correlation[calls.operator[::-1]] = connection[::-1]  # the first row of each
    calls.connection = reader.apart(connection, rows["globalTid"][calls.operator] >> 32)
    columns = rows.columns()
    columns |= {
        **_operands(reader, columns["input_shapes"], columns["input_dtypes"]),
        "kind": _operator_kinds(reader, rows["name"], queued),
        "stack": _stacks(reader, rows["callchainId"]),
        "id": np.arange(len(rows)),
        "step": step_of(calls.tables.get("steps"), rows["startNs"]),
        "correlation_id": optional(np.where(queued, correlation, ABSENT)) if queued.any() else missing(len(rows)),
    }
    calls.tables["operators"] = tables.build("operators", columns)


def _operator_kinds(reader: Reader, names: Records, queued: Bools) -> pd.Categorical:
    dequeues = reader.strings.numbers_of(lambda text: text.startswith("Dequeue"))
    return recoded(np.where(queued, 1 + np.isin(names, list(dequeues)), 0), ["op", "enqueue", "dequeue"])


def _operands(reader: Reader, shapes: pd.Categorical, dtypes: pd.Categorical) -> dict[str, pd.Categorical]:
    """Return shapes and dtypes of the inputs. Some writers swap the two columns; only dtypes contain letters."""
    lettered = [sum(bool(_LETTER.search(text)) for text in column.categories) for column in (shapes, dtypes)]
    if lettered[0] > lettered[1]:
        message = f"{_API}: shapes stand under inputDtypes and dtypes under inputShapes; put right"
        reader.notes.info(reader.database.path.name, message)
        shapes, dtypes = dtypes, shapes
    return {"input_shapes": shapes, "input_dtypes": dtypes}


def _python(rows: Rows) -> pd.DataFrame:
    """Build `python`; the file has no callers, so the parent of a call is the innermost enclosing call."""
    nesting = Nesting.build(rows["startNs"], rows["startNs"] + rows["duration"], rows["globalTid"])
    parent, depth = np.full(len(rows), ABSENT), np.empty(len(rows), np.int64)
    parent[nesting.order] = np.where(nesting.parents >= 0, nesting.order[nesting.parents], ABSENT)
    depth[nesting.order] = nesting.depths()
    columns = {
        **{rows.table.by_name[name].to: rows.column(name) for name in ("startNs", "endNs", "name", "globalTid")},
        "id": np.arange(len(rows)),
        "parent_id": optional(parent),
        "depth": depth,
    }
    return tables.build("python", columns)


def _stacks(reader: Reader, chains: Records) -> pd.Categorical:
    """Return the stack of each chain number: innermost frame first, one frame per line."""
    rows = reader.rows(_STACKS).distinct("id")
    reader.accounts.use(_STACKS, len(rows))
    order = np.lexsort((rows["stackDepth"], rows["id"]))
    ids, frames = rows["id"][order], rows["stack"][order]
    starts = np.flatnonzero(np.diff(ids, prepend=ids[:1] - 1)) if len(ids) else np.empty(0, np.intp)
    texts, kinds = _distinct_stacks(frames, starts, reader.strings)
    row = first_rows(ids[starts], chains)
    codes = np.where(row >= 0, kinds[row], -1) if len(starts) else np.full(len(chains), -1)
    return recoded(codes.astype(np.int32), texts)


def pairs_of(keys: Records, wanted_records: Records, notes: Notes) -> tuple[Int64, Int64]:
    """Return all pairs of a wanted key and a row with it: positions in `wanted_records`, and rows.

    The number of pairs is bounded: for a key with far too many rows, the first rows are kept, and a note counts the
    omitted pairs.
    """
    order = np.argsort(keys, kind="stable")
    first, last = (
        np.searchsorted(keys[order], wanted_records),
        np.searchsorted(keys[order], wanted_records, side="right"),
    )
    counts = last - first
    bound = _ENOUGH_PAIRS + 4 * (len(keys) + len(wanted_records))
    if (pairs := int(counts.sum())) > bound:
        counts = np.minimum(counts, max(bound // len(wanted_records), 1))
        lost_count = pairs - int(counts.sum())
        notes.warning(
            "CONNECTION_IDS", "one connection of far too many rows: most of its pairs are left out", lost_count
        )
    positions = np.repeat(np.arange(len(wanted_records)), counts)
    offset = np.arange(len(positions)) - np.repeat(np.cumsum(counts) - counts, counts)
    return positions, order[first[positions] + offset]


def _distinct_stacks(frames: Int64, starts: npt.NDArray[np.intp], strings: Names) -> tuple[list[str | None], Int64]:
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

"""``torch.op_range`` and ``torch.op_mark``: the tables `operators` and `steps`.

A range is a call of a framework operator. A mark is the begin or end of an enqueue on the calling thread, or of a
dequeue on the launching thread.

Source: collectors/FRONTENDS.md section 2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from npuprof import tables
from npuprof.analysis.intervals import union
from npuprof.arrays import Bools, Int32, Int64
from npuprof.sources.columns.builders import ABSENT, optional, recoded
from npuprof.sources.columns.steps import step_numbers, step_of
from npuprof.sources.framework.files import read_content, read_texts
from npuprof.sources.framework.intervals import by_time, durations, reached, to_ns
from npuprof.sources.framework.tlv import scan
from npuprof.sources.raw.metadata.clocks import CounterClock
from npuprof.tables.notes import Notes
from npuprof.words.quantities import counted

_RANGES, _RANGE_KIND, _RANGE_BYTES = "torch.op_range", 1, 58
_MARKS, _MARK_KIND, _MARK_BYTES = "torch.op_mark", 2, 40
_NAME, _DTYPES, _SHAPES, _STACK, _MODULES = 2, 3, 4, 8, 9  # fields of a range
_MARK_NAME = 1
_KINDS = ["op", "enqueue", "dequeue"]
_BEGIN_OF_ENQUEUE, _LAST_CATEGORY = 0, 3

Names = tuple[Int32, list["str | None"]]


@dataclass(frozen=True)
class OperatorCalls:
    """Calls of a file as columns; a name column is an array of codes and a list of names."""

    start_ns: Int64
    duration_ns: Int64
    thread_id: Int64
    kind: npt.NDArray[np.int8]
    name: Names
    texts: dict[str, Names]
    numbers: dict[str, Int64]

    def __len__(self) -> int:
        return len(self.start_ns)


def read_operators(folder: Path, clock: CounterClock, notes: Notes) -> dict[str, pd.DataFrame]:
    """Read both files of a FRAMEWORK folder.

    Returns
    -------
    The tables `operators` and `steps` (ranges ``ProfilerStep#N``), empty without the files. Further columns of
    `operators` are ``forward_thread_id`` (torch's number of the forward thread, of backward calls only),
    ``correlation_id`` (of an enqueue and its dequeue) and ``modules`` (the ``nn.Module`` hierarchy around the call, if
    recorded).
    """
    ranges = _read_ranges(folder, clock, notes)
    queue = _read_queue(folder, clock, notes)
    codes, names = ranges.name
    numbers = step_numbers(enumerate(names), notes, _RANGES)
    is_step = np.isin(codes, list(numbers))
    steps = _steps(ranges, is_step, numbers)
    kept_rows = np.flatnonzero(np.concatenate((~is_step, np.ones(len(queue), np.bool_))))
    operators = _table(ranges, queue, kept_rows, steps)
    notes.ledger.keep(_RANGES, "operators", len(ranges) - len(steps))
    notes.ledger.keep(_RANGES, "steps", len(steps))
    notes.ledger.keep(_MARKS, "operators", 2 * len(queue), len(queue))
    _note_lost_ranges(operators, notes)
    return {"operators": operators, "steps": steps}


def _note_lost_ranges(operators: pd.DataFrame, notes: Notes) -> None:
    """Note enqueues outside of the operators of their thread: an operator makes each, so that its range is lost."""
    kinds, thread = operators["kind"], operators["thread_id"].to_numpy(np.int64)
    start = operators["start_ns"].to_numpy(np.int64)
    end = start + operators["duration_ns"].to_numpy(np.int64)
    is_range, is_enqueue = ((kinds == kind).to_numpy(bool) for kind in ("op", "enqueue"))
    lost = 0
    for number in np.unique(thread[is_enqueue]):
        within = union(*(times[is_range & (thread == number)] for times in (start, end)))
        at = start[is_enqueue & (thread == number)]
        place = np.searchsorted(within[0], at, side="right") - 1
        # The ranges of operators that had begun before the recording are in no file.
        lost += int((at[place >= 0] >= within[1][place[place >= 0]]).sum())
    if lost:
        of = f"{counted(lost, 'enqueue')} of {int(is_enqueue.sum()):,}"
        notes.warning(
            _RANGES,
            f"outside of every operator: {of}; operators make them, so that rows of operators are lost",
            lacks=("operators",),
        )


def _read_ranges(folder: Path, clock: CounterClock, notes: Notes) -> OperatorCalls:
    content = read_content(folder, _RANGES, notes)
    if content is None:
        return _no_operators()
    records = scan(content, _RANGE_KIND, _RANGE_BYTES, notes, _RANGES)
    start, end = records.column(0, "<i8"), records.column(8, "<i8")
    good = reached(clock, [start, end], notes, _RANGES)
    start_ns, end_ns = to_ns(clock, start[good]), to_ns(clock, end[good])
    fields = records.fields((_NAME, _DTYPES, _SHAPES, _STACK, _MODULES), notes, _RANGES)

    def texts(field: int) -> Names:
        at, length = fields[field]
        return read_texts(content, at[good], length[good], notes, _RANGES)

    forward = records.column(48, "<i8")[good].astype(np.int64)
    return OperatorCalls(
        start_ns,
        durations(start_ns, end_ns, notes, _RANGES),
        records.column(32, "<i8")[good].astype(np.int64),
        np.zeros(len(start_ns), np.int8),
        texts(_NAME),
        {
            "input_shapes": texts(_SHAPES),
            "input_dtypes": texts(_DTYPES),
            "stack": _change(texts(_STACK), lambda text: text.replace(";", "\n")),
            "modules": texts(_MODULES),
        },
        {
            "sequence_number": _without(records.column(16, "<i8")[good].astype(np.int64), -1),
            "forward_thread_id": _without(forward, 0),
        },
    )


def _read_queue(folder: Path, clock: CounterClock, notes: Notes) -> OperatorCalls:
    content = read_content(folder, _MARKS, notes)
    if content is None:
        return _no_operators()
    records = scan(content, _MARK_KIND, _MARK_BYTES, notes, _MARKS)
    stamp, category = records.column(0, "<i8"), records.column(8, "<u8")
    within = reached(clock, [stamp], notes, _MARKS)
    good = within & (category <= _LAST_CATEGORY)
    if other := int(within.sum() - good.sum()):
        notes.info(_MARKS, "a mark is of an unknown kind", other)
        notes.ledger.leave_out(_MARKS, other)
    at, length = records.fields((_MARK_NAME,), notes, _MARKS)[_MARK_NAME]
    codes, names = read_texts(content, at[good], length[good], notes, _MARKS)
    time_ns = to_ns(clock, stamp[good])
    kind = category[good].astype(np.int64)
    thread, correlation = (records.column(offset, "<i8")[good].astype(np.int64) for offset in (24, 16))
    begin, end = _pair(kind, thread, codes, time_ns, notes)
    is_dequeue = kind[begin] > 1
    name = _queue_names(is_dequeue, codes[begin], names, correlation[end])
    return OperatorCalls(
        time_ns[begin],
        time_ns[end] - time_ns[begin],
        thread[begin],
        np.where(is_dequeue, 2, 1).astype(np.int8),
        name,
        {},
        {"correlation_id": correlation[end]},  # the begin of an enqueue lacks it
    )


def _pair(kind: Int64, thread: Int64, names: Int32, time_ns: Int64, notes: Notes) -> tuple[Int64, Int64]:
    """Match each begin with the end that directly follows it on the same queue side, thread and name."""
    side = kind // 2
    order = np.lexsort((time_ns, names, thread, side))
    before, after = order[:-1], order[1:]
    pairs = (kind[before] % 2 == _BEGIN_OF_ENQUEUE) & (kind[after] % 2 == 1)
    for column in (side, thread, names):
        pairs &= column[before] == column[after]
    unpaired = np.ones(len(kind), bool)
    unpaired[before[pairs]] = unpaired[after[pairs]] = False
    at_edge = _at_edge(kind % 2 == _BEGIN_OF_ENQUEUE, side, thread, time_ns)
    if count := int((unpaired & at_edge).sum()):
        notes.info(_MARKS, "an enqueue or dequeue has only one end: the recording began or ended within it", count)
        notes.ledger.leave_out(_MARKS, count)
    lost_count = int((unpaired & ~at_edge).sum())
    notes.leave_out(_MARKS, "the other end of an enqueue or dequeue is missing, or has another name", lost_count)
    return before[pairs], after[pairs]


def _at_edge(is_begin: Bools, side: Int64, thread: Int64, time_ns: Int64) -> Bools:
    """Return a mask of the marks that are ends before the first begin of their thread, or begins after its last end."""
    order = np.lexsort((time_ns, thread, side))
    begin = pd.Series(is_begin[order])
    lanes = [pd.Series(side[order]), pd.Series(thread[order])]
    begins_before = begin.groupby(lanes).cumsum()
    ends = (~begin).groupby(lanes)
    ends_after = ends.transform("sum") - ends.cumsum()
    at_edge = np.empty(len(order), bool)
    at_edge[order] = np.where(begin, ends_after == 0, begins_before == 0)
    return at_edge


def _queue_names(is_dequeue: npt.NDArray[np.bool_], codes: Int32, names: list[str | None], ids: Int64) -> Names:
    """Name both sides of the queue after the operator of the dequeue, as the vendor's timeline does."""
    enqueues = np.flatnonzero(~is_dequeue)
    dequeues = np.flatnonzero(is_dequeue)
    order = dequeues[np.argsort(ids[dequeues], kind="stable")]
    place = np.searchsorted(ids[order], ids[enqueues], side="right") - 1
    launched = np.full(len(enqueues), -1, np.int64)
    if len(order):
        is_matched = (place >= 0) & (ids[order[np.maximum(place, 0)]] == ids[enqueues])
        launched = np.where(is_matched, codes[order[np.maximum(place, 0)]], -1)
    new_codes = codes.astype(np.int64)
    count = len(names)
    new_codes[dequeues] += np.where(new_codes[dequeues] >= 0, count, 0)
    new_codes[enqueues] = np.where(launched >= 0, launched, 2 * count)
    texts = [f"{side}@{name}" for side in ("Enqueue", "Dequeue") for name in names]
    return new_codes.astype(np.int32), [*texts, "Enqueue"]


def _steps(ranges: OperatorCalls, is_step: npt.NDArray[np.bool_], numbers: dict[int, int]) -> pd.DataFrame:
    rows = np.flatnonzero(is_step)
    rows = rows[by_time(ranges.start_ns[rows], ranges.duration_ns[rows])]
    number = [numbers[code] for code in ranges.name[0][rows].tolist()]
    fits = [value if value < 1 << 62 else pd.NA for value in number]
    columns = {
        "step": pd.array(fits, dtype="Int64"),
        "start_ns": ranges.start_ns[rows],
        "duration_ns": ranges.duration_ns[rows],
    }
    return tables.build("steps", columns)


def _table(ranges: OperatorCalls, queue: OperatorCalls, rows: Int64, steps: pd.DataFrame) -> pd.DataFrame:
    """Return the selected calls of both files as one table in order of time."""
    start_ns = np.concatenate((ranges.start_ns, queue.start_ns))
    duration_ns = np.concatenate((ranges.duration_ns, queue.duration_ns))
    rows = rows[by_time(start_ns[rows], duration_ns[rows])]
    columns: dict[str, Any] = {
        "start_ns": start_ns[rows],
        "duration_ns": duration_ns[rows],
        "name": _join(ranges.name, queue.name, rows),
        "thread_id": np.concatenate((ranges.thread_id, queue.thread_id))[rows],
        "kind": recoded(np.concatenate((ranges.kind, queue.kind))[rows], list(_KINDS)),
        "id": np.arange(len(rows)),
        "step": step_of(steps, start_ns[rows]),
    }
    for column in ("input_shapes", "input_dtypes", "stack", "modules"):
        columns[column] = _join(_texts(ranges, column), _texts(queue, column), rows)
    if columns["modules"].isna().all():
        del columns["modules"]
    for column in ("sequence_number", "forward_thread_id", "correlation_id"):
        values = [part.numbers.get(column, np.full(len(part), ABSENT)) for part in (ranges, queue)]
        columns[column] = optional(np.concatenate(values)[rows])
    return tables.build("operators", columns)


def _texts(calls: OperatorCalls, column: str) -> Names:
    return calls.texts.get(column, (np.full(len(calls), -1, np.int32), []))


def _join(first: Names, second: Names, rows: Int64) -> pd.Categorical:
    """Return a name column of the selected rows from two lists of names."""
    moved = np.where(second[0] >= 0, second[0] + len(first[1]), -1)
    every = recoded(np.concatenate((first[0], moved))[rows], [*first[1], *second[1]])
    return every.remove_unused_categories()


def _change(names: Names, change: Callable[[str], str]) -> Names:
    return names[0], [change(name) if name else name for name in names[1]]


def _without(values: Int64, none: int) -> Int64:
    return np.where(values == none, ABSENT, values)


def _no_operators() -> OperatorCalls:
    nothing = np.zeros(0, np.int64)
    return OperatorCalls(nothing, nothing, nothing, nothing.astype(np.int8), (nothing.astype(np.int32), []), {}, {})

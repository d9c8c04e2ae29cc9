"""The examination of a run: what a device cannot have done, and what is missing by what the rest of the run says.

It comes after decoding and before any analysis, and is the same for all sources. Whatever it finds is a note, and an
entry of :attr:`npuprof.tables.info.Info.examination` that says where: analysis takes no time for idle in which a device
may have run what was not recorded, and no figure for measured that rests on it.

A stream runs one kernel or copy after another. In the published results of NPUs and GPUs that were available, kernels
and copies of a stream never overlap by more than 2 us, and by up to 4 us where the next kernel is launched before the
one before it ended (74 of 929 kernels of a B200); none ends after the end of the next one. A wait for a device returned
within 68 us of the end of recorded work on GPUs, and within 376 us on NPUs.

A row that was lost is known by the rows that name it: the call that launched a task, the operator of a communication
task, the other side of the task queue, the caller of a Python function, the sample of an allocator at a block. In
healthy results none of these is missing, but for the tasks in :data:`UNLAUNCHED`: measured on all published results of
NPUs that were available, which `tests/analysis/test_references.py` repeats.

Source: sources/RESULTS.md section 5.8.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from npuprof import tables as schema
from npuprof.analysis.accounting import (
    MATTERS,
    RUNS_OVER,
    device_parts,
    devices_of,
    doubtful_steps,
    overrun_steps,
    unrecorded,
)
from npuprof.analysis.causality import LaunchedTasks, launches_of
from npuprof.analysis.intervals import Spans, intersection, subtract, total, union
from npuprof.analysis.nesting import Nesting
from npuprof.analysis.step_windows import run_window, step_windows
from npuprof.arrays import Bools, Int64
from npuprof.tables.info import Violation
from npuprof.tables.notes import Notes
from npuprof.words.quantities import counted, duration, share

UNLAUNCHED = frozenset({"MsTx", "PROFILING_ENABLE", "PROFILING_DISABLE", "PLACE_HOLDER_SQE"})
"""Types of tasks that no recorded call launches."""

_ON_GPU = re.compile(r"cu|hip|musa|mc|tops")  # calls of the runtimes of GPUs
LAUNCH_ON_GPU = re.compile(rf"({_ON_GPU.pattern})\w*Launch(?!HostF)")
"""Calls that launch kernels or captured graphs."""

ABSENT = int(np.iinfo(np.int64).min)
_LEAST, _MOST = ABSENT, int(np.iinfo(np.int64).max)
_OVERLAP_NS = 10_000  # of two kernels of a stream
_DRIFT = 100_000  # clocks of an NPU and its host that drift apart by 10 ppm
_CONTAINED_NS = 4_000  # of a kernel that ends after the end of the next one
_RETURNS_NS = {True: 200_000, False: 1_000_000}  # after the end of what was waited for, on GPUs and on NPUs
_OF_DEVICE = {"kernels", "tasks", "communication", "any"}
_WRONG = {
    "overrun": "durations of kernels{} are wrong",
    "out_of_order": "times of kernels{} are wrong",
    "after_wait": "times of kernels{} are wrong",
}
_TIMED = ("steps", "python", "operators", "api", "tasks", "kernels", "communication")
_OUTSIDE_NS = 1_000_000_000  # of the recorded time: calls that stop the collection take up to 17 ms longer
_MAY_BE_EMPTY = 0.1  # of the steps
_SHORT_NS = 1_000
_FEW = 3  # kernels, of which all may be shorter than the unit of their times
_ROUNDED_NS = 1_000  # of times in whole microseconds
_MOST_NESTED = 300_000  # rows: more take longer than all else
_MOST_COMPARED = 3_000_000
_WRAPS_AFTER = 1 << 15  # tasks of a stream, whose ids have 16 bits
_MOST_SPANS = 10_000
_MOST_STEPS = 100_000
_NAMED_STEPS = 6

_ALLOCATORS = ("PTA", "GE")  # each by itself: the samples of their sum repeat those of both
_OF_GPU = ("kernel", "gpu_memcpy", "gpu_memset")  # types of tasks
_MOST_OF_NO_BYTES = 0.05  # of copies and fills may have had nothing to do: 3 of 2,469 had, all of memset
_TASK = ["device_id", "stream_id", "task_id", "context_id"]  # not its start, which files round differently

_Tables = Mapping[str, pd.DataFrame]


def mark_overruns(frames: MutableMapping[str, pd.DataFrame]) -> None:
    """Add :data:`RUNS_OVER` to the tables whose durations run over the next row of their stream.

    On a GPU kernels, collectives and copies share streams; on an NPU kernels alone are taken, since other tasks of a
    stream run beside them (notifies, waits, contexts of FFTS+, AI CPU). A row that is out of the order of its stream
    runs over with all of its time, and so does on a GPU what ends after a wait for it returned.
    """
    tasks, api = frames.get("tasks"), frames.get("api")
    if tasks is None or not tasks["task_type"].isin(_OF_GPU).any():
        if "kernels" in frames:
            frames["kernels"] = with_overruns(frames["kernels"], api)
        return
    frames["tasks"] = marked = with_overruns(tasks, api, has_one_clock=True)
    if RUNS_OVER not in marked:
        return
    over = marked[(marked[RUNS_OVER] > 0).to_numpy(bool)]
    keys = ["device_id", "start_ns", "duration_ns", "connection_id"]
    amounts = over.drop_duplicates(keys)[[*keys, RUNS_OVER]]
    for name in ("kernels", "communication"):
        if name in frames:
            joined = frames[name][keys].merge(amounts, on=keys, how="left")[RUNS_OVER]
            frames[name] = frames[name].assign(**{RUNS_OVER: joined.fillna(0).to_numpy(np.int64)})


def with_overruns(frame: pd.DataFrame, api: pd.DataFrame | None = None, *, has_one_clock: bool = False) -> pd.DataFrame:
    """Return kernels, or the tasks of a GPU, with :data:`RUNS_OVER` if some run over the next row of their stream."""
    if not len(frame) or RUNS_OVER in frame:
        return frame
    starts, lengths = (frame[name].to_numpy(np.int64) for name in ("start_ns", "duration_ns"))
    ends = starts + lengths
    device, stream = frame["device_id"].to_numpy(np.int64), _ids(frame, "stream_id")
    amounts, misplaced = np.zeros(len(frame), np.int64), np.zeros(len(frame), bool)
    if api is not None and len(api):
        calls = _Calls.of(frame, api)
        misplaced = _misplaced(starts, device, stream, calls) & _is_serial(frame)
        if has_one_clock:
            amounts = _over_waits(starts, ends, calls, api)
    amounts[misplaced] = np.maximum(lengths[misplaced], 1)
    placed = np.flatnonzero(~misplaced)
    order = (
        placed[_by_stream(starts[placed], device[placed], stream[placed])]
        if len(placed) < len(frame)
        else (_by_stream(starts, device, stream))
    )
    after = order[1:]
    before = order[:-1]
    over = np.where(
        (device[before] == device[after]) & (stream[before] == stream[after]), ends[before] - starts[after], 0
    )
    is_over = (over > _OVERLAP_NS) | ((over > _CONTAINED_NS) & (ends[before] > ends[after]))
    if is_over.any():
        is_over &= _is_serial(frame)[before] & _is_serial(frame)[after]
        amounts[before[is_over]] = np.maximum(amounts[before[is_over]], over[is_over])
    if not amounts.any():
        return frame
    return frame.assign(**{RUNS_OVER: amounts})


@dataclass(frozen=True)
class _Calls:
    """The start of the first and the end of the last call of the connection of each row; the row of none is -1."""

    row: Int64
    called: Int64
    returned: Int64

    @classmethod
    def of(cls, frame: pd.DataFrame, api: pd.DataFrame) -> _Calls:
        connections = _connections(api)
        if not len(api):
            return cls(np.full(len(frame), -1), np.zeros(len(frame), np.int64), np.zeros(len(frame), np.int64))
        known, place = np.unique(connections, return_inverse=True)
        called, returned = np.full(len(known), _MOST), np.full(len(known), _LEAST)
        begins = api["start_ns"].to_numpy(np.int64)
        np.minimum.at(called, place, begins)
        np.maximum.at(returned, place, begins + api["duration_ns"].to_numpy(np.int64))
        wanted = _connections(frame)
        at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
        row = np.where((known[at] == wanted) & (wanted != ABSENT), at, -1)
        return cls(row, called[at], returned[at])


def _misplaced(starts: Int64, device: Int64, stream: Int64, calls: _Calls) -> Bools:
    """Return the rows that are out of the order in which the work of their stream was launched: the fewest that are.

    A launch precedes another one if it returned before the other was called.
    """
    misplaced = np.zeros(len(starts), bool)
    launched = np.flatnonzero((calls.row >= 0) & (stream != ABSENT))
    order = launched[_by_stream(calls.called[launched], device[launched], stream[launched])]
    before, after = order[:-1], order[1:]
    same = (device[before] == device[after]) & (stream[before] == stream[after])
    if not (same & (starts[before] - starts[after] > _OVERLAP_NS)).any():
        return misplaced
    edges = np.append(0, np.flatnonzero(~same) + 1).tolist()
    for low, high in zip(edges, [*edges[1:], len(order)], strict=True):
        rows = order[low:high]
        start, called, returned = starts[rows], calls.called[rows], calls.returned[rows]
        following = np.append(np.minimum.accumulate(start[::-1])[::-1], _MOST)[np.searchsorted(called, returned)]
        ended = np.argsort(returned, kind="stable")
        latest = np.append(_LEAST, np.maximum.accumulate(start[ended]))
        preceding = latest[np.searchsorted(returned[ended], called, side="right")]
        late, early = start - _OVERLAP_NS > following, start + _OVERLAP_NS < preceding
        misplaced[rows] = late if late.sum() <= early.sum() else early
    return misplaced


def _after_waits(tables: _Tables) -> Iterator[Violation]:
    """Yield for each stream of an NPU the work that ends after the return of a wait for it."""
    name = next((name for name in ("tasks", "kernels") if len(tables[name])), None)
    if name is None or not len(tables["api"]) or tables[name]["task_type"].isin(_OF_GPU).any():
        return
    frame = tables[name]
    calls = _Calls.of(frame, tables["api"])
    ends = frame["start_ns"].to_numpy(np.int64) + frame["duration_ns"].to_numpy(np.int64)
    returned = _waited_for(calls, tables["api"])
    late = ends - returned
    is_late = late > _OVERLAP_NS + int(np.ptp(ends)) // _DRIFT
    for (of_device, of_stream), rows in frame[is_late].groupby(["device_id", "stream_id"], sort=True):
        at = frame.index.get_indexer(rows.index)
        amount = int(late[at].max())
        message = (
            f"{counted(len(rows), 'task')} of stream {of_stream} of device {of_device} "
            f"{'end' if len(rows) > 1 else 'ends'} up to {duration(amount)} after the return of a wait for it: "
            "the time is wrong; steps, breakdown() and advice() take the time from launch to return for not recorded"
        )
        spans = _few(union(calls.called[at], returned[at]))
        yield Violation(
            "after_wait", "kernels", message, len(rows), amount, int(of_device), int(of_stream), spans=spans
        )


def _over_waits(starts: Int64, ends: Int64, calls: _Calls, api: pd.DataFrame) -> Int64:
    """Return by how much rows end after the return of a wait for the device that began after their launch."""
    returned = _waited_for(calls, api)
    late = ends - returned
    return np.where((starts < returned) & (late > _OVERLAP_NS), late, 0)


def _waited_for(calls: _Calls, api: pd.DataFrame) -> Int64:
    """Return when the first wait for the device that began after each launch returned; int64 max without one."""
    return np.where(calls.row >= 0, _Syncs({"api": api}).after(calls.returned, of_device=True), _MOST)


def _by_stream(starts: Int64, device: Int64, stream: Int64) -> Int64:
    """Return the order of rows by device, stream and start: NumPy sorts 16-bit codes in linear time."""
    key = pd.factorize(device)[0] * (len(pd.unique(stream)) + 1) + pd.factorize(stream)[0]
    codes = key.astype(np.int16) if int(key.max(initial=0)) < 1 << 15 else key
    by_start = np.arange(len(starts)) if (starts[1:] >= starts[:-1]).all() else np.argsort(starts, kind="stable")
    return by_start[np.argsort(codes[by_start], kind="stable")]


def _is_serial(frame: pd.DataFrame) -> Bools:
    """Return the rows that no other row of their stream runs beside.

    Branches of a captured graph run beside each other: all have the connection of its launch. On an NPU so do contexts
    of FFTS+, and operators on the AI CPU.
    """
    connection = _ids(frame, "connection_id")
    serial: Bools = (connection == ABSENT) | ~pd.Series(connection).duplicated(keep=False).to_numpy(bool)
    serial &= _ids(frame, "stream_id") != ABSENT
    if not frame["task_type"].isin(_OF_GPU).any():
        serial &= _ids(frame, "context_id") == ABSENT
        for column in ("task_type", "core"):
            if column in frame:
                serial &= ~schema.matching(frame[column], lambda name: "CPU" in name.upper())
    return serial


def without_overruns(tables: _Tables) -> _Tables:
    """Return the tables with durations that end where the next row of their stream begins, as unions take them."""
    wrong = [name for name in ("kernels", "communication", "tasks") if name in tables and RUNS_OVER in tables[name]]
    if not wrong:
        return tables
    cut = dict(tables)
    for name in wrong:
        lengths = tables[name]["duration_ns"].to_numpy(np.int64) - _ids(tables[name], RUNS_OVER, 0)
        cut[name] = tables[name].assign(duration_ns=np.maximum(lengths, 0))
    return cut


class Dangling(NamedTuple):
    """Rows of a table that refer to missing rows, worded for one row, and what is wrong because of it."""

    table: str
    rows: Bools
    message: str
    column: str = "duration_ns"  # of the share that they have of the table
    is_launch: bool = False
    is_pending: bool = False  # which is no loss, yet until its task starts the device is not known to be idle


def examine(
    tables: _Tables, notes: Notes, *, is_part: bool = False, recorded: tuple[int, int] | None = None
) -> list[Violation]:
    """Examine a run, note what is impossible or missing, and return it."""
    cut = without_overruns(tables)
    found = [*_overruns(tables), *_no_durations(cut), *_outlived_callers(cut), *_below_zero(cut)]
    found += [
        *_after_waits(cut),
        *_repeated_ids(cut),
        *_overlapping_blocks(cut),
        *_outside(cut, recorded),
        *_beyond_collectives(cut),
    ]
    if not is_part:
        found += [*_lost_tasks(cut, notes), *_unexplained_waits(cut), *_lost_ends(cut, notes)]
    found = [_with_steps(violation, cut) for violation in found]
    told = notes.to_frame()
    of_device = told["lacks"].map(lambda names: bool(_OF_DEVICE & set(names.split()))).to_numpy(bool)
    counted_before = int(told["missing_rows"][of_device].fillna(0).sum())
    for violation in found:
        if violation.kind == "pending":
            notes.info(violation.table, violation.message, violation.count)
            continue
        steps = f" (in {_listed(violation.steps)})" if violation.steps else ""
        text, count = f"{violation.message}{steps}", violation.count
        if violation.kind in ("lost_tasks", "lost_end"):
            others = max(count - counted_before, 0)  # a row that its file lost is counted once
            counted_before += others
            notes.warning(violation.table, text, count, lacks=("kernels", "tasks"), missing_rows=others)
        else:
            lacks = ("kernels", "tasks") if violation.kind == "unexplained_wait" else ()
            notes.warning(violation.table, text, count, lacks=lacks)
    return found


def lost_rows(found: Collection[Violation], notes: Notes, tables: _Tables) -> list[Violation]:
    """Return the rows of devices that notes count as lost, if nothing tells when they were.

    Where every launch has its task, and every task its launch, less than 1 % of the rows can be lost without a trace.
    """
    told = notes.to_frame()
    told = told[told["lacks"].map(lambda names: bool(_OF_DEVICE & set(names.split()))).to_numpy(bool)]
    if not len(told) or any(violation.spans for violation in found if violation.kind != "pending"):
        return []
    rows = sum(len(tables[name]) for name in _OF_DEVICE if name in tables)
    missing = told["missing_rows"]
    links = tables["links"]
    linked = links["target_row"][(links["target_table"] == "tasks").to_numpy(bool)].nunique()
    is_checked = bool(linked) and linked == len(tables["tasks"])
    if is_checked and missing.notna().all() and int(missing.sum()) < MATTERS * rows:
        return []
    names = sorted({name for lacks in told["lacks"] for name in lacks.split()} & _OF_DEVICE)
    table = next((name for name in ("kernels", "tasks", "communication") if name in names), "kernels")
    message = f"{' and '.join(name for name in names if name != 'any') or 'rows'} lack rows, nothing tells of when"
    return [Violation("lost_rows", table, message, max(1, int(missing.fillna(0).sum())))]


def incomplete(found: Iterable[Violation]) -> list[str]:
    """Return what cannot be relied on, in words: ``kernels of steps 4-5 are missing``; empty for a complete run."""
    texts: dict[tuple[int | None, str], set[int]] = {}
    for violation in found:
        if violation.kind == "lost_rows":
            texts.setdefault((violation.rank, f"{violation.table} are missing, nothing tells of when"), set())
        elif violation.kind != "pending" and (violation.steps or (violation.spans and violation.amount_ns)):
            what = _WRONG.get(violation.kind, "kernels{} are missing")
            texts.setdefault((violation.rank, what), set()).update(violation.steps)
    return [
        ("" if rank is None else f"rank {rank}: ") + what.format(f" of {_listed(tuple(steps))}" if steps else "")
        for (rank, what), steps in texts.items()
    ]


def _listed(steps: tuple[int, ...]) -> str:
    """Return step numbers in words, consecutive ones as ranges: ``steps 1, 4-5``."""
    numbers = np.array(sorted(steps), np.int64)
    first = np.flatnonzero(np.append(True, np.diff(numbers) > 1))
    last = np.append(first[1:], len(numbers)) - 1
    texts = [
        str(begin) if begin == end else f"{begin}-{end}"
        for begin, end in zip(numbers[first].tolist(), numbers[last].tolist(), strict=True)
    ]
    more = f" and {len(numbers) - int(last[_NAMED_STEPS - 1]) - 1:,} more" if len(texts) > _NAMED_STEPS else ""
    return f"step{'s' * (len(numbers) > 1)} {', '.join(texts[:_NAMED_STEPS])}{more}"


def _with_steps(violation: Violation, tables: _Tables) -> Violation:
    """Return a violation with the steps of which it may move a part by more than 1 %."""
    if not violation.spans and violation.kind != "overrun":
        return violation
    numbers: set[int] = set()
    for device in devices_of(tables) if violation.device_id is None else [violation.device_id]:
        windows = step_windows(tables, device).timed().lasting()
        if violation.kind == "overrun":
            doubtful = overrun_steps(tables, device, windows)
        else:
            (_, _, computing), *_ = device_parts(tables, device)[0]
            doubtful = doubtful_steps(windows, unrecorded([violation], device), computing)
        numbers.update(pd.array(windows.steps, "Int64")[doubtful].dropna().to_numpy(np.int64).tolist())
    return replace(violation, steps=tuple(sorted(numbers)[:_MOST_STEPS]))


def _overruns(tables: _Tables) -> Iterator[Violation]:
    """Yield for each stream the rows whose durations run over the next row of the stream, or are out of its order."""
    name = next((name for name in ("tasks", "kernels") if RUNS_OVER in tables[name]), None)
    if name is None:
        return
    frame = tables[name]
    calls = _Calls.of(frame, tables["api"])
    starts, device = (frame[column].to_numpy(np.int64) for column in ("start_ns", "device_id"))
    stream, is_wrong = _ids(frame, "stream_id"), _ids(frame, RUNS_OVER, 0) > 0
    misplaced = is_wrong & _misplaced(starts, device, stream, calls)
    for (of_device, of_stream), rows in frame[is_wrong & ~misplaced].groupby(["device_id", "stream_id"], sort=True):
        over = rows[RUNS_OVER].to_numpy(np.int64)
        verb = "run" if len(rows) > 1 else "runs"
        amount = sum(over.tolist())  # which may be more than int64 holds
        message = (
            f"{counted(len(rows), 'kernel')} of stream {of_stream} of device {of_device} {verb} over the start of the "
            f"next one, or the return of a wait for it, by {duration(amount)} in all and up to "
            f"{duration(int(over.max()))}; a stream runs one after another, so these durations are wrong: steps, "
            "breakdown() and advice() end each where the next one begins, kernels and by() have what was recorded"
        )
        yield Violation("overrun", "kernels", message, len(rows), amount, int(of_device), int(of_stream))
    whole = run_window(without_overruns(tables))
    for (of_device, of_stream), rows in frame[misplaced].groupby(["device_id", "stream_id"], sort=True):
        of = (device == of_device) & (stream == of_stream) & (calls.row >= 0)
        sound = of & ~misplaced
        at = np.flatnonzero(of & misplaced)
        order = np.flatnonzero(sound)[np.argsort(calls.called[sound], kind="stable")]
        place = np.searchsorted(calls.called[order], calls.called[at])
        earliest = np.maximum(np.append(_LEAST, starts[order])[place], calls.called[at])
        latest = np.append(starts[order], _MOST if whole is None else whole[1])[place]
        spans = _few(union(earliest, np.maximum(earliest, latest)))
        message = (
            f"{counted(len(rows), 'kernel')} of stream {of_stream} of device {of_device} "
            f"{'are' if len(rows) > 1 else 'is'} out of the order in which the work of the stream was launched: the "
            "time is wrong; steps, breakdown() and advice() take the time between its neighbours for not recorded"
        )
        amount = sum(rows["duration_ns"].tolist())
        yield Violation(
            "out_of_order", "kernels", message, len(rows), amount, int(of_device), int(of_stream), spans=spans
        )


def _no_durations(tables: _Tables) -> Iterator[Violation]:
    """Yield steps of no duration, and the kernels of each device, unless others like them are so short, too."""
    empty = (tables["steps"]["duration_ns"] == 0).to_numpy(bool)
    if empty.any():
        count = int(empty.sum())
        message = f"{counted(count, 'step')} {'has' if count == 1 else 'have'} no duration: the time was not recorded"
        yield Violation("no_duration", "steps", f"{message}, and figures per step leave it out", count)
    tasks = tables["tasks"]
    of_gpu = (tasks["task_type"] == _OF_GPU[0]).to_numpy(bool)
    if of_gpu.any():  # those of collectives, too
        yield from _without_duration(tables, "kernels", tasks[of_gpu], "kernel", "kernel of the stream")
        return
    yield from _without_duration(tables, "kernels", tables["kernels"], "kernel", "kernel of the stream")
    yield from _without_duration(tables, "communication", tables["communication"], "collective", "one of the device")


def _without_duration(
    tables: _Tables, name: str, rows_of: pd.DataFrame, what: str, following_one: str
) -> Iterator[Violation]:
    """Yield for each device the rows of no duration, where others like them take time."""
    starts, lengths = (rows_of[column].to_numpy(np.int64) for column in ("start_ns", "duration_ns"))
    empty = (lengths == 0) & (_ids(rows_of, RUNS_OVER, 0) == 0)
    if empty.any():
        empty &= _take_time(rows_of)
    if not empty.any():
        return
    devices, streams = rows_of["device_id"].to_numpy(np.int64), _ids(rows_of, "stream_id")
    whole = run_window(tables)
    order = np.lexsort((starts, streams, devices))
    following = np.full(len(rows_of), _MOST if whole is None else whole[1])
    same = (devices[order][1:] == devices[order][:-1]) & (streams[order][1:] == streams[order][:-1])
    following[order[:-1][same]] = starts[order[1:][same]]
    for device in np.unique(devices[empty]).tolist():
        rows = empty & (devices == device)
        spans = _few(union(starts[rows], following[rows]))
        message = (
            f"{counted(int(rows.sum()), what)} of device {device} {'has' if rows.sum() == 1 else 'have'} no "
            f"duration: the time until the next {following_one} is not recorded"
        )
        amount = _idle(tables, device, spans)
        yield Violation("no_duration", name, message, int(rows.sum()), amount, device, spans=spans)


def _outlived_callers(tables: _Tables) -> Iterator[Violation]:
    """Yield the operators, and the calls, that end after what is around them on their thread: another one, or a step.

    Python calls may: coroutines take turns on a thread. In healthy results no operator and no call does.
    """
    for name, what in (("operators", "operator"), ("api", "call")):
        frame = tables[name]
        starts = frame["start_ns"].to_numpy(np.int64)
        ends = starts + frame["duration_ns"].to_numpy(np.int64)
        if len(frame) > _MOST_NESTED or not len(frame):
            continue
        nesting = Nesting.build(starts, ends, frame["thread_id"].to_numpy(np.int64))
        holder = np.where(nesting.parents >= 0, nesting.parents, -1 - nesting.groups)
        order = np.argsort(holder, kind="stable")
        before, after = order[:-1], order[1:]
        over = np.where(holder[before] == holder[after], nesting.ends[before] - nesting.starts[after], 0)
        over = np.where(over > _ROUNDED_NS, over, 0)
        late = np.concatenate([over[over > 0], _beyond_steps(tables["steps"], frame, starts, ends)])
        if len(late):
            count = len(late)
            message = (
                f"{counted(count, what)} {'ends' if count == 1 else 'end'} after what is around "
                f"{'it' if count == 1 else 'them'} on the thread, by up to {duration(int(late.max()))}: a return is "
                "missing or its time is wrong, and so are host times, callers and causes of idle time"
            )
            yield Violation("outlives_caller", name, message, count, int(late.sum()))


def _beyond_steps(steps: pd.DataFrame, frame: pd.DataFrame, starts: Int64, ends: Int64) -> Int64:
    """Return by how much calls outlive their step: those that last into another step, as its others do not."""
    if len(steps) < 2 or "device_id" in steps:
        return np.zeros(0, np.int64)
    begins = np.sort(steps["start_ns"].to_numpy(np.int64))
    closes = np.sort((steps["start_ns"] + steps["duration_ns"]).to_numpy(np.int64))
    first = np.searchsorted(begins, starts, side="right")  # the step after the one that it starts in
    inside = (first > 0) & (first < len(begins))
    whole = inside & (ends - _ROUNDED_NS > np.append(begins, _MOST)[np.minimum(first, len(begins))])
    threads = frame["thread_id"].to_numpy(np.int64)
    whole &= threads == pd.Series(threads).mode().iloc[0]
    beyond: Int64 = ends[whole] - closes[first[whole] - 1]
    return beyond if 2 * len(beyond) < len(frame) else beyond[:0]


def _outside(tables: _Tables, recorded: tuple[int, int] | None) -> Iterator[Violation]:
    """Yield the rows of each table that lie outside of the time that was recorded."""
    if recorded is None:
        return
    for name in _TIMED:
        frame = tables[name]
        starts = frame["start_ns"].to_numpy(np.int64)
        wrong = (starts < recorded[0] - _OUTSIDE_NS) | (starts > recorded[1] + _OUTSIDE_NS)
        if wrong.any():
            count = int(wrong.sum())
            away = int(np.maximum(recorded[0] - starts[wrong], starts[wrong] - recorded[1]).max())
            message = (
                f"{counted(count, 'row')} of {name} {'lies' if count == 1 else 'lie'} up to {duration(away)} outside "
                "of the time that was recorded: the times are wrong, and so are the length of the run and its idle time"
            )
            yield Violation("outside", name, message, count)


def _beyond_collectives(tables: _Tables) -> Iterator[Violation]:
    """Yield the tasks of collectives that begin before their collective or end after it."""
    steps, whole = tables["communication_tasks"], tables["communication"]
    of = steps["op_id"].to_numpy(np.int64, na_value=-1)
    is_known = (of >= 0) & (of < len(whole))
    steps, of = steps[is_known], of[is_known]
    if not len(steps):
        return
    starts, begins = steps["start_ns"].to_numpy(np.int64), whole["start_ns"].to_numpy(np.int64)[of]
    ends = starts + steps["duration_ns"].to_numpy(np.int64)
    away = np.maximum(begins - starts, ends - begins - whole["duration_ns"].to_numpy(np.int64)[of])
    wrong = away > _OVERLAP_NS
    if wrong.any():
        count = int(wrong.sum())
        message = (
            f"{counted(count, 'task')} of collectives {'lies' if count == 1 else 'lie'} up to "
            f"{duration(int(away[wrong].max()))} outside of the time of the collective: one of both times is wrong, "
            "and so are the parts of communication, waiting and moving"
        )
        yield Violation("beyond_collective", "communication_tasks", message, count, int(away[wrong].sum()))


def _repeated_ids(tables: _Tables) -> Iterator[Violation]:
    """Yield the tasks that have the id of another one of their stream, before ids can have begun anew.

    A captured graph has the same tasks each time that it runs.
    """
    name = "tasks" if len(tables["tasks"]) else "kernels"
    frame = tables[name]
    if "task_id" not in frame or not len(frame) or len(frame) > _MOST_COMPARED:
        return
    columns = ["device_id", "stream_id", "task_id", *(each for each in ("batch_id", "context_id") if each in frame)]
    keys = frame[columns].fillna(-1)
    rows = np.flatnonzero((frame["task_id"].notna() & frame["stream_id"].notna()).to_numpy(bool))
    repeated = rows[keys.iloc[rows].duplicated(keep=False).to_numpy(bool)]
    if not len(repeated):
        return
    starts = frame["start_ns"].to_numpy(np.int64)
    order = rows[np.argsort(starts[rows], kind="stable")]
    place = np.zeros(len(frame), np.int64)
    place[order] = frame.iloc[order].groupby(["device_id", "stream_id"], sort=False).cumcount()
    key = keys.iloc[repeated].groupby(columns, sort=False).ngroup().to_numpy(np.int64)
    by_key = np.lexsort((place[repeated], key))
    before, after = repeated[by_key[:-1]], repeated[by_key[1:]]
    names = frame["name"].cat.codes.to_numpy(np.int64)
    wrong = (key[by_key[:-1]] == key[by_key[1:]]) & (place[after] - place[before] < _WRAPS_AFTER)
    wrong &= names[before] != names[after]
    if wrong.any():
        count = int(wrong.sum())
        message = (
            f"{counted(count, 'task')} {'has' if count == 1 else 'have'} the id of another one of the stream: "
            "an id is wrong, and so may be launches, operators and counters of kernels"
        )
        yield Violation("repeated_id", name, message, count)


def _overlapping_blocks(tables: _Tables) -> Iterator[Violation]:
    """Yield the blocks of memory that were allocated where another one was in use."""
    blocks = tables["allocations"]
    if "address" not in blocks or not 1 < len(blocks) < _MOST_NESTED:
        return
    unit = "sequence" if "allocated_sequence" in blocks else "ns"
    known = blocks["address"].notna()
    if unit == "ns":  # threads that nothing recorded may have allocated the others meanwhile
        known &= blocks["allocated_ns"].notna()
    known = blocks[known.to_numpy(bool)]
    begins = _ids(known, f"allocated_{unit}", _LEAST)
    ends = _ids(known, f"released_{unit}", _MOST)
    address, size = known["address"].to_numpy(np.int64), known["size_bytes"].to_numpy(np.int64)
    place = known["device_id"].to_numpy(np.int64, na_value=-1)
    if "component" in known:
        place = place * (len(known["component"].cat.categories) + 1) + known["component"].cat.codes.to_numpy(np.int64)
    count = 0
    for rows in pd.DataFrame({"place": place}).groupby("place").indices.values():
        rows = rows[ends[rows] > begins[rows]]
        moments = np.concatenate([begins[rows], ends[rows]])
        order = np.lexsort((np.repeat([1, 0], len(rows)), moments))  # what is released first makes room
        used: list[tuple[int, int]] = []
        low, high = address[rows].tolist(), (address[rows] + size[rows]).tolist()
        for event in order.tolist():
            row = event % len(rows)
            block = low[row], high[row]
            at = bisect.bisect_left(used, block)
            if event >= len(rows):
                if at < len(used) and used[at] == block:
                    del used[at]
                continue
            count += (at > 0 and used[at - 1][1] > block[0]) or (at < len(used) and used[at][0] < block[1])
            used.insert(at, block)
    if count:
        message = (
            f"{counted(count, 'block')} of memory {'was' if count == 1 else 'were'} allocated where another one was "
            "in use: a release is missing, or an address or size is wrong; lifetimes and the memory peak rest on it"
        )
        yield Violation("overlapping_blocks", "allocations", message, count)


def _below_zero(tables: _Tables) -> Iterator[Violation]:
    """Yield the samples of allocators with less than nothing allocated."""
    memory = tables["memory"]
    if not len(memory):
        return
    wrong = (
        (memory[["allocated_bytes", "reserved_bytes", "active_bytes"]] < 0).any(axis=1).to_numpy(bool, na_value=False)
    )
    if wrong.any():
        count = int(wrong.sum())
        message = f"{counted(count, 'sample')} of memory {'is' if count == 1 else 'are'} below zero: its peak is wrong"
        yield Violation("below_zero", "memory", message, count)


def _take_time(kernels: pd.DataFrame) -> Bools:
    """Return the kernels whose like, of one type or name, take more than a microsecond wherever they take any time."""
    lengths = kernels["duration_ns"].to_numpy(np.int64)
    names = kernels["name"].cat
    kind = names.codes.to_numpy(np.int64)
    if "op_type" in kernels:
        types = kernels["op_type"].cat
        kind = np.where(types.codes >= 0, len(names.categories) + types.codes.to_numpy(np.int64), kind)
    least = np.full(int(kind.max(initial=0)) + 1, _MOST)
    np.minimum.at(least, kind[lengths > 0], lengths[lengths > 0])
    if (lengths > 0).any():
        least[least == _MOST] = int(np.median(lengths[lengths > 0]))
    elif len(lengths) < _FEW:
        least[:] = 0
    return (kind >= 0) & (least[kind] > _SHORT_NS)


def _idle(tables: _Tables, device: int, spans: tuple[tuple[int, int], ...]) -> int:
    edges = np.array(spans, np.int64).reshape(-1, 2)
    return total(subtract((edges[:, 0], edges[:, 1]), device_parts(tables, device)[1]))


def _few(spans: Spans) -> tuple[tuple[int, int], ...]:
    """Return intervals as tuples; of very many the closest are joined."""
    starts, ends = spans
    if len(starts) > _MOST_SPANS:
        gaps = starts[1:] - ends[:-1]
        apart = np.sort(np.argpartition(gaps, len(gaps) - _MOST_SPANS + 1)[len(gaps) - _MOST_SPANS + 1 :])
        starts, ends = starts[np.append(0, apart + 1)], ends[np.append(apart, len(ends) - 1)]
    return tuple(zip(starts.tolist(), ends.tolist(), strict=True))


class _Syncs:
    """Calls that returned when the device had done what was launched before them."""

    def __init__(self, tables: _Tables) -> None:
        api = tables["api"]
        starts = api["start_ns"].to_numpy(np.int64)
        ends = starts + api["duration_ns"].to_numpy(np.int64)
        self.spans: dict[bool, Spans] = {}  # by whether it waits for all streams
        for of_device in (True, False):
            rows = schema.matching(
                api["name"],
                lambda name, of_device=of_device: (
                    "Synchronize" in name  # type: ignore[misc]
                    and "Event" not in name
                    and (not of_device or "Stream" not in name)
                ),
            )
            begin, end = starts[rows], ends[rows]
            order = np.argsort(begin, kind="stable")
            self.spans[of_device] = begin[order], end[order]

    def after(self, moments: Int64, *, of_device: bool) -> Int64:
        """Return when the first wait that began after each moment returned; int64 max without one."""
        begin, end = self.spans[of_device]
        earliest = np.append(np.minimum.accumulate(end[::-1])[::-1], _MOST)
        return earliest[np.searchsorted(begin, moments)]


@dataclass(frozen=True)
class _Bounds:
    """Between which times the task of each launch ran, if it has none: by the streams that calls like it launch to."""

    earliest: Int64
    latest: Int64
    device: Int64
    waited: Bools  # whether a later wait, which covers the launch, returned


def _bounds_of(tables: _Tables, rows: Int64, syncs: _Syncs) -> _Bounds:
    api, launches = tables["api"], launches_of(tables)
    begin, length = (api[name].to_numpy(np.int64)[rows] for name in ("start_ns", "duration_ns"))
    keys = api["name"].cat.codes.to_numpy(np.int64), api["thread_id"].to_numpy(np.int64)
    device = np.full(len(rows), -1, np.int64)
    earliest, latest, waited = begin.copy(), np.full(len(rows), _LEAST), np.zeros(len(rows), bool)
    streams = {stream: _StreamOrder(launches.taken(of_stream)) for stream, of_stream in launches.by_stream()}
    callers = _callers_by_stream(tables, streams)
    sync_all, sync_any = (syncs.after(begin + length, of_device=of_device) for of_device in (True, False))
    groups = pd.DataFrame({"name": keys[0][rows], "thread": keys[1][rows]}).groupby(["name", "thread"]).indices
    for (name, thread), at in groups.items():
        candidates = callers.get((name, thread)) or callers.get((None, thread)) or sorted(streams)
        returned = sync_any[at] if len(candidates) == 1 else sync_all[at]
        waited[at] = returned != _MOST
        if len({of_device for of_device, _ in candidates}) == 1:
            device[at] = candidates[0][0]
        bounds = [streams[stream].around(begin[at]) for stream in candidates]
        if bounds:
            earliest[at] = np.maximum(begin[at], np.minimum.reduce([low for low, _ in bounds]))
            latest[at] = np.maximum.reduce([high for _, high in bounds])
        latest[at] = np.minimum(latest[at] if bounds else _MOST, returned)
    return _Bounds(earliest, latest, device, waited)


class _StreamOrder:
    """The tasks of a stream in the order of their launches."""

    def __init__(self, launches: LaunchedTasks) -> None:
        order = np.argsort(launches.called_ns, kind="stable")
        self.called = launches.called_ns[order]
        self.ended = np.insert(np.maximum.accumulate(launches.end_ns[order]), 0, _LEAST)
        self.started = np.append(np.minimum.accumulate(launches.start_ns[order][::-1])[::-1], _MOST)

    def around(self, moments: Int64) -> tuple[Int64, Int64]:
        """Return the end of what was launched before each moment, and the start of what was launched later."""
        at = np.searchsorted(self.called, moments)
        return self.ended[at], self.started[at]


def _callers_by_stream(
    tables: _Tables, streams: Collection[tuple[int, int]]
) -> dict[tuple[int | None, int], list[tuple[int, int]]]:
    """Return the streams that calls of each name and thread launch to, and under the name None those of each thread."""
    links, api = tables["links"], tables["api"]
    found: dict[tuple[int | None, int], set[tuple[int, int]]] = {}
    names, threads = api["name"].cat.codes.to_numpy(np.int64), api["thread_id"].to_numpy(np.int64)
    for table in ("tasks", "kernels"):
        frame = tables[table]
        of = ((links["source_table"] == "api") & (links["target_table"] == table)).to_numpy(bool)
        source, target = (links[f"{end}_row"].to_numpy(np.int64)[of] for end in ("source", "target"))
        pairs = pd.DataFrame(
            {
                "name": names[source],
                "thread": threads[source],
                "device": frame["device_id"].to_numpy(np.int64)[target],
                "stream": _ids(frame, "stream_id")[target],
            }
        ).drop_duplicates()
        for name, thread, device, stream in pairs.itertuples(index=False):
            if (device, stream) in streams:
                found.setdefault((name, thread), set()).add((device, stream))
                found.setdefault((None, thread), set()).add((device, stream))
    return {key: sorted(of) for key, of in found.items()}


def _lost_tasks(tables: _Tables, notes: Notes) -> Iterator[Violation]:
    """Note rows whose references lead nowhere, and yield the launches among them: on which device, and when."""
    syncs = _Syncs(tables)
    for check in _CHECKS:
        for dangling in check(tables):
            if count := int(np.count_nonzero(dangling.rows)):
                values = tables[dangling.table][dangling.column]
                part, whole = int(values[dangling.rows].sum()), int(values.sum())
                of = f"{share(part, whole)} of the {'time' if dangling.column == 'duration_ns' else 'bytes'}"
                others = _launched_by(tables, dangling) if dangling.table == "tasks" else ""
                message = f"{dangling.message} ({of} of {dangling.table}{others})"
                if dangling.is_pending:
                    yield from _lost(tables, np.flatnonzero(dangling.rows), message, syncs, "pending")
                elif dangling.is_launch:
                    yield from _lost(tables, np.flatnonzero(dangling.rows), message, syncs)
                else:
                    notes.warning(dangling.table, message, count)


def _lost(tables: _Tables, rows: Int64, message: str, syncs: _Syncs, kind: str = "lost_tasks") -> Iterator[Violation]:
    bounds = _bounds_of(tables, rows, syncs)
    whole = run_window(tables)
    latest = np.minimum(bounds.latest, _MOST if whole is None else whole[1])
    devices = np.unique(bounds.device).tolist()
    for device in devices:
        of = bounds.device == device
        spans = _few(union(bounds.earliest[of], latest[of]))
        known = devices_of(tables) if device < 0 else [device]
        amount = sum(_idle(tables, each, spans) for each in known)
        on = f": of device {device}" if len(devices) > 1 and device >= 0 else ""
        yield Violation(kind, "api", message + on, int(of.sum()), amount, None if device < 0 else device, spans=spans)


def _lost_ends(tables: _Tables, notes: Notes) -> Iterator[Violation]:
    """Yield for each device the steps without any record of it, if notes say that records were lost."""
    lacks = {name for lacking in notes.to_frame()["lacks"] for name in lacking.split()}
    whole = run_window(tables)
    if not lacks & _OF_DEVICE or whole is None:
        return
    for device in devices_of(tables):
        busy = device_parts(tables, device)[1]
        windows = step_windows(tables, device).timed().lasting()
        if not len(busy[0]) or windows.basis != "steps":
            continue
        starts = tables["kernels"]["start_ns"].to_numpy(np.int64)
        starts = starts[(tables["kernels"]["device_id"] == device).to_numpy(bool)]
        place = np.searchsorted(windows.starts, starts, side="right") - 1
        place = place[(place >= 0) & (starts < windows.ends[place])]
        kernels = np.bincount(windows.owner[place], minlength=len(windows.steps))
        covered = np.flatnonzero(kernels)
        if not len(covered):
            continue
        is_empty = kernels == 0
        within = is_empty[covered[0] : covered[-1] + 1]
        if within.sum() > _MAY_BE_EMPTY * len(within):  # such steps are usual
            is_empty[covered[0] : covered[-1] + 1] = False
        empty = is_empty[windows.owner]
        after = np.array([busy[1][-1]]), np.array([max(whole[1], int(busy[1][-1]))])
        parts = [(windows.starts[empty], windows.ends[empty]), after]
        spans = _few(union(*(np.concatenate(edges) for edges in zip(*parts, strict=True))))
        if not is_empty.any() or not spans:
            continue
        usual = int(np.median(kernels[covered]))
        count = max(1, usual * int(is_empty.sum()) + max(0, usual - int(kernels[covered[-1]])))
        message = (
            f"about {counted(count, 'kernel')} of device {device} {'are' if count > 1 else 'is'} missing, by the "
            f"{usual} of each step before: {counted(int(is_empty.sum()), 'step')} without any record of it"
        )
        amount = _idle(tables, device, spans)
        yield Violation("lost_end", "kernels", message, count, amount, device, spans=spans)


def _unexplained_waits(tables: _Tables) -> Iterator[Violation]:
    """Yield the waits for a device, where nothing in the recording explains that they took so long.

    A wait returns soon after the end of what it waited for. On a GPU with one stream, what was launched to an idle
    stream starts soon, too.
    """
    api = tables["api"]
    is_wait = schema.matching(api["name"], lambda name: "Synchronize" in name)
    begins = api["start_ns"].to_numpy(np.int64)[is_wait]
    ends = begins + api["duration_ns"].to_numpy(np.int64)[is_wait]
    devices = devices_of(tables)
    if not devices or not len(begins) or not len(tables["tasks"]):
        return
    device = devices[0] if len(devices) == 1 else None
    is_gpu = bool(tables["tasks"]["task_type"].isin(_OF_GPU).any())
    floor = _RETURNS_NS[is_gpu]
    tasks = tables["tasks"]
    starts = tasks["start_ns"].to_numpy(np.int64)
    spans = [(starts, starts + tasks["duration_ns"].to_numpy(np.int64))]
    spans += [device_parts(tables, each)[1] for each in devices]
    busy = union(*(np.concatenate(edges) for edges in zip(*spans, strict=True)))
    last = np.append(_LEAST, busy[1])[np.searchsorted(busy[0], ends)]  # the end of what began before the return
    since = np.maximum(begins, np.minimum(last, ends))
    is_long = ends - since > floor
    waits = [(since[is_long], ends[is_long])]
    one_stream = len(tasks[["device_id", "stream_id"]].drop_duplicates()) == 1
    if is_gpu and one_stream and not len(tables["communication"]):
        launches = launches_of(tables)
        pending = union(launches.returned_ns, launches.start_ns)
        late = intersection(subtract(pending, busy), union(begins, ends))
        is_late = late[1] - late[0] > floor
        waits.append((late[0][is_late], late[1][is_late]))
    unknown = union(*(np.concatenate(edges) for edges in zip(*waits, strict=True)))
    if not len(unknown[0]):
        return
    amount = total(subtract(unknown, busy))
    waited = "devices" if device is None else f"device {device}"
    message = (
        f"the host waits for {waited}, {duration(amount)} in all, while nothing that was recorded runs: what ran there "
        "is not in the recording, so that the time is not recorded rather than idle"
    )
    yield Violation("unexplained_wait", "api", message, len(unknown[0]), amount, device, spans=_few(unknown))


def _launched_by(every: _Tables, dangling: Dangling) -> str:
    """Return the shares of kernel and communication time that have the connections of tasks, as text."""
    connections = _connections(every["tasks"][dangling.rows])
    connections = connections[connections != ABSENT]
    shares = []
    for name in ("kernels", "communication"):
        durations, is_of = every[name]["duration_ns"], np.isin(_connections(every[name]), connections)
        if is_of.any():
            shares.append(f", {share(int(durations[is_of].sum()), int(durations.sum()))} of that of {name}")
    return "".join(shares)


def _calls(every: _Tables) -> Iterator[Dangling]:
    """Yield tasks without the call that launched them, and launches without the task."""
    api, tasks = every["api"], every["tasks"]
    called, effects = _connections(api), [_connections(every[name]) for name in ("tasks", "communication")]
    has_task = np.isin(called, np.concatenate(effects)) & (called != ABSENT)
    is_called = np.isin(effects[0], called) & (effects[0] != ABSENT)
    # Calls before the first recorded one were made before the collection began.
    first = int(called[called != ABSENT].min(initial=np.iinfo(np.int64).max)) if len(api) else ABSENT
    of_gpu = tasks["task_type"].isin(_OF_GPU).to_numpy() & (len(api) == 0)
    is_due = (is_called.any() | of_gpu) & ~tasks["task_type"].isin(UNLAUNCHED).to_numpy()
    begun = _ids(every["operators"], "external_id")
    # The call of a recorded operator was made while it was recorded, too.
    within = np.isin(_ids(tasks, "external_id"), begun[begun != ABSENT])
    rows = ~is_called & ((effects[0] > first) | (within & (effects[0] != ABSENT))) & is_due
    message = "a task names a call that is not in api: counts and times of calls are too low, and its link is missing"
    yield Dangling("tasks", rows, message)
    # The collection may have ended before the last tasks ran, unless a later wait for them returned.
    starts = api["start_ns"].to_numpy(np.int64)
    last = int(starts[has_task].max(initial=0)) if len(tasks) else _MOST
    launches = (api["level"] == "node").to_numpy(bool) & bool(is_called.any()) | _launches_on_gpu(api)
    lacking = ~has_task & (called != ABSENT)
    copies = {
        kind: schema.matching(api["name"], lambda name, kind=kind: bool(_ON_GPU.match(name)) and kind in name.lower())  # type: ignore[misc]
        for kind in ("memcpy", "memset")
    }
    late = np.flatnonzero((launches | copies["memcpy"] | copies["memset"]) & lacking & (starts >= last))
    waited = np.zeros(len(api), bool)
    waited[late] = _bounds_of(every, late, _Syncs(every)).waited if len(late) else False
    pending = launches & lacking & (starts >= last) & ~waited
    yield Dangling(
        "api", pending, "a launch has no task, which may have run after the end of the recording", is_pending=True
    )
    lacking &= (starts < last) | waited
    message = "a launch has no task: tasks, kernels or collectives are missing, and their links; sums are too low"
    yield Dangling("api", launches & lacking, message, is_launch=True)
    for kind, calls in copies.items():
        rows = calls & lacking
        if rows.sum() > _MOST_OF_NO_BYTES * calls.sum():
            message = f"a call of {kind} has no task: copies are missing, and their links; sums are too low"
            yield Dangling("api", rows, message, is_launch=True)


def _launches_on_gpu(api: pd.DataFrame) -> Bools:
    """Return the calls of a GPU's runtime that launch kernels or graphs; what is captured into a graph does not run."""
    launches = schema.matching(api["name"], lambda name: LAUNCH_ON_GPU.match(name) is not None)
    starts = api["start_ns"].to_numpy(np.int64)
    begins, ends = (
        starts[schema.matching(api["name"], lambda name, word=word: word in name)]  # type: ignore[misc]
        for word in ("BeginCapture", "EndCapture")
    )
    if len(begins):
        launches &= (starts < begins.min()) | (starts > ends.max(initial=begins.max()))
    return launches


def _operators(every: _Tables) -> Iterator[Dangling]:
    """Yield calls and tasks on a GPU whose operator is missing; those of a smaller id began before the recording."""
    known = _ids(every["operators"], "external_id")
    first = int(known[known != ABSENT].min(initial=np.iinfo(np.int64).max)) if len(known) else 0
    known = np.concatenate([known, _ids(every["marks"], "id")])
    for name, what in (("api", "a call"), ("tasks", "a task")):
        named = _ids(every[name], "external_id")
        message = f"{what} names an operator that is missing: so are rows of operators, and causes of idle time"
        yield Dangling(name, (named > first) & ~np.isin(named, known), message)


def _collectives(every: _Tables) -> Iterator[Dangling]:
    """Yield communication tasks without an operator, operators without a task, and tasks that are of no collective."""
    steps, operators, tasks = every["communication_tasks"], every["communication"], every["tasks"]
    if not len(steps):
        return
    if len(operators):
        missing = steps["op_id"].isna().to_numpy(bool)
        message = (
            "a communication task belongs to no operator: collectives are missing, so that communication is too low"
        )
        yield Dangling("communication_tasks", missing, message)
        has_tasks = np.isin(np.arange(len(operators)), steps["op_id"].dropna().to_numpy(np.int64))
        message = "a collective has no communication_tasks: waiting and moving, sizes and links are incomplete"
        yield Dangling("communication", ~has_tasks, message)
    if not len(tasks) or not {*_TASK} <= {*steps}:
        return
    connection = _connections(tasks)
    of_collectives = np.isin(connection, _connections(operators)) & (connection != ABSENT)
    is_described = _keys(tasks).isin(_keys(steps))
    kinds = tasks["task_type"][of_collectives & is_described].unique()
    rows = of_collectives & ~is_described & tasks["task_type"].isin(kinds).to_numpy()
    message = "a task of a collective is not in communication_tasks: waiting and moving, sizes and links are incomplete"
    yield Dangling("tasks", rows, message)


def _queue(every: _Tables) -> Iterator[Dangling]:
    """Yield enqueues without their dequeue, and dequeues without their enqueue."""
    operators, links = every["operators"], every["links"]
    queued = links[(links["kind"] == "enqueue").to_numpy(bool)]
    if not len(queued):
        return
    numbers, kind = np.arange(len(operators)), operators["kind"]
    for side, other, column in (("enqueue", "dequeue", "source_row"), ("dequeue", "enqueue", "target_row")):
        rows = (kind == side).to_numpy(bool) & ~np.isin(numbers, queued[column].to_numpy())
        message = f"an {side} has no {other}" if side[0] == "e" else f"a {side} has no {other}"
        yield Dangling("operators", rows, f"{message}: rows of operators are missing, and their links")


def _python(every: _Tables) -> Iterator[Dangling]:
    """Yield Python calls without their caller."""
    python = every["python"]
    rows = (python["parent_id"].notna() & ~python["parent_id"].isin(python["id"])).to_numpy(bool)
    message = "a Python call names a caller that is missing: rows of python are, and idle time and lines of it"
    yield Dangling("python", rows, message)


def _memory(every: _Tables) -> Iterator[Dangling]:
    """Yield blocks at whose allocation no allocator was sampled, and growths of an allocator without a block."""
    blocks, memory = every["allocations"], every["memory"]
    if not len(blocks):
        return
    begun = blocks["allocated_ns"].to_numpy(np.int64, na_value=ABSENT)
    sampled = memory[(memory["allocated_bytes"].notna()).to_numpy(bool)]
    has_totals = bool(blocks.filter(like="_total_allocated_bytes").notna().any(axis=None))
    if "allocated_sequence" in blocks or not has_totals:
        return
    rows = (begun != ABSENT) & ~np.isin(begun, sampled["time_ns"].to_numpy())
    message = (
        "a block has no sample of its allocator: the allocator's record (MEMORY_RECORD, memory_record.csv) is missing "
        "or incomplete; the memory peak is at least what blocks of operators and the totals at them show"
    )
    yield Dangling("allocations", rows, message, "size_bytes")
    grown = np.zeros(len(memory), bool)
    for component in _ALLOCATORS:
        of = memory[(memory["component"] == component).to_numpy(bool) & memory["allocated_bytes"].notna().to_numpy()]
        for _, samples in of.groupby("device_id", dropna=False):
            held = samples.sort_values("time_ns", kind="stable")["allocated_bytes"]
            grown[held.index.to_numpy()[1:]] = np.diff(held.to_numpy(np.int64)) > 0
    rows = grown & ~np.isin(memory["time_ns"].to_numpy(), begun)
    message = "an allocator has more than before, and no block was allocated: rows of allocations are missing"
    yield Dangling("memory", rows, f"{message}; owners of memory are incomplete", "allocated_bytes")


def _connections(frame: pd.DataFrame) -> Int64:
    return _ids(frame, "connection_id")


def _ids(frame: pd.DataFrame, column: str, absent: int = ABSENT) -> Int64:
    """Return a column of integers, which are absent where a format lacks the column."""
    if column not in frame:
        return np.full(len(frame), absent)
    return frame[column].to_numpy(np.int64, na_value=absent)


def _keys(frame: pd.DataFrame) -> pd.MultiIndex:
    return pd.MultiIndex.from_frame(frame[_TASK].fillna(-1))


_CHECKS: tuple[Callable[[_Tables], Iterator[Dangling]], ...] = (
    _calls,
    _operators,
    _collectives,
    _queue,
    _python,
    _memory,
)

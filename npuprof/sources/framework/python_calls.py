"""``torch.python_tracer_func`` and ``torch.python_tracer_hash``: the table `python`.

The first file holds calls and returns, the second the names of functions by key. Calls and returns are matched by stack
depth, a running sum.

Source: collectors/FRONTENDS.md section 2.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.arrays import Bools, Int64, Uint64
from npuprof.sources.columns.builders import recoded
from npuprof.sources.framework.files import read_content, read_rows, read_texts
from npuprof.sources.framework.intervals import reached, to_ns
from npuprof.sources.framework.tlv import scan
from npuprof.sources.raw.metadata.clocks import CounterClock
from npuprof.tables.notes import Notes

_EVENTS, _NAMES, _NAME_KIND = "torch.python_tracer_func", "torch.python_tracer_hash", 4
_LAYOUT = [("time", "<u8"), ("thread", "<i8"), ("process", "<u8"), ("key", "<u8"), ("tag", "u1")]
_LAST_TAG = 3  # events: call and return of a Python function, call and return of a C function
_MODULE = "######"  # separates the class name of an nn.Module from the number of the object


def read_python(folder: Path, clock: CounterClock, notes: Notes) -> pd.DataFrame:
    """Read the calls of a FRAMEWORK folder; an empty table without the files.

    A call without a return lasts until the last event of its thread. Modules are numbered by class and thread in order
    of their first call, as in the vendor's timeline.
    """
    events = read_rows(folder, _EVENTS, _LAYOUT, notes)
    within = reached(clock, [np.ascontiguousarray(events["time"])], notes, _EVENTS)
    good = within & (events["tag"] <= _LAST_TAG)
    if unknown := int(within.sum() - good.sum()):
        notes.warning(_EVENTS, "an event is neither call nor return, and left out", unknown, lacks=("python",))
        notes.ledger.leave_out(_EVENTS, unknown)
    events = events[good]
    time_ns = to_ns(clock, np.ascontiguousarray(events["time"]))
    order = np.lexsort((time_ns, events["thread"]))
    time_ns, thread, key = time_ns[order], events["thread"][order].astype(np.int64), events["key"][order]
    call, end_ns, depth, parent = _replay(time_ns, thread, (events["tag"][order] & 1) == 0, notes)
    name = _names(thread[call], key[call], *read_hash(folder, notes))
    return _table(time_ns[call], end_ns, thread[call], depth, parent, name)


def read_hash(folder: Path, notes: Notes) -> tuple[Uint64, list[str]]:
    """Return the distinct function keys, sorted, and their names."""
    content = read_content(folder, _NAMES, notes)
    if content is None:
        return np.zeros(0, np.uint64), []
    records = scan(content, _NAME_KIND, 8, notes, _NAMES)
    at, length = records.fields((1,), notes, _NAMES)[1]
    codes, texts = read_texts(content, at, length, notes, _NAMES)
    notes.ledger.use(_NAMES, len(records.start))
    keys, last = np.unique(records.column(0, "<u8")[::-1], return_index=True)  # the last entry of a key wins
    return keys.astype(np.uint64), [texts[code] or "" if code >= 0 else "" for code in codes[::-1][last].tolist()]


def _replay(time_ns: Int64, thread: Int64, is_call: Bools, notes: Notes) -> tuple[Int64, Int64, Int64, Int64]:
    """Match calls with returns, thread by thread in order of time.

    Returns
    -------
    Event indices of the calls, their ends, their depths, and their callers as indices of calls (-1 for none).
    """
    count = len(time_ns)
    if not count:
        nothing = np.zeros(0, np.int64)
        return nothing, nothing, nothing, nothing
    level, unmatched = _levels(thread, is_call)
    if unmatched.any():
        notes.info(_EVENTS, "a function returned that was called before the recording", int(unmatched.sum()))
        notes.ledger.leave_out(_EVENTS, int(unmatched.sum()))
    matched_rows = np.flatnonzero(~unmatched)
    matched_rows = matched_rows[np.argsort(level[matched_rows], kind="stable")]
    follower = np.append(matched_rows[1:], matched_rows[-1:])
    returned = (level[follower] == level[matched_rows]) & ~is_call[follower] & is_call[matched_rows]
    end_of = np.full(count, -1, np.int64)
    end_of[matched_rows[returned]] = follower[returned]
    call = np.flatnonzero(is_call)
    notes.ledger.keep(_EVENTS, "python", len(matched_rows), len(call))
    last_of_thread = np.searchsorted(thread, thread[call], side="right") - 1
    end = np.where(end_of[call] >= 0, end_of[call], last_of_thread)
    return call, time_ns[end], level[call] - 1, _parents(call, level[call], count)


def _levels(thread: Int64, is_call: Bools) -> tuple[Int64, Bools]:
    """Return the stack depth, from 1, at each event, and a mask of the returns without a call."""
    change = np.where(is_call, 1, -1)
    total = np.cumsum(change)
    first = np.flatnonzero(np.append(True, thread[1:] != thread[:-1]))
    before = np.append(0, total[:-1])[first]
    size = np.diff(np.append(first, len(thread)))
    height = total - np.repeat(before, size)  # within its thread; negative after returns without calls
    # Running minimum within a thread: the depths of a thread are offset to lie above those of all later threads.
    lift = np.repeat(np.arange(len(first))[::-1], size) * (2 * len(thread) + 2)
    floor = np.minimum(np.minimum.accumulate(height + lift) - lift, 0)
    earlier = np.append(0, floor[:-1])
    earlier[first] = 0
    unmatched = ~is_call & (floor < earlier)
    return height - floor + (~is_call), unmatched


def _parents(call: Int64, level: Int64, count: int) -> Int64:
    """Return the caller of each call: the latest earlier call at the next outer depth."""
    place = level * (count + 1) + call
    order = np.argsort(place, kind="stable")
    before = np.searchsorted(place[order], place - (count + 1)) - 1
    return np.where(level > 1, order[np.maximum(before, 0)], -1)


def _names(thread: Int64, key: Uint64, keys: Uint64, names: list[str]) -> pd.Categorical:
    """Name calls after their function, or after its key if it has no name."""
    distinct, codes = np.unique(key, return_inverse=True)
    texts = [_name_of(keys, names, number) for number in distinct]
    if not any(_MODULE in text for text in texts):
        return recoded(codes, list(texts))
    is_module = np.array([_MODULE in text for text in texts], np.bool_)
    numbered: dict[tuple[int, int], int] = {}  # code of the numbered name, by thread and function
    counts: dict[tuple[int, str], int] = {}
    rows = np.flatnonzero(is_module[codes])
    pairs = pd.MultiIndex.from_arrays([thread[rows], codes[rows]])
    which, distinct_pairs = pairs.factorize()
    for number, code in distinct_pairs.tolist():
        name = texts[code].partition(_MODULE)[0]
        index = counts.get((number, name), 0)
        counts[number, name] = index + 1
        numbered[number, code] = len(texts)
        texts.append(f"nn.Module: {name}_{index}")
    codes = codes.copy()
    codes[rows] = np.array(list(numbered.values()), np.int64)[which]
    return recoded(codes, list(texts))


def _name_of(keys: Uint64, names: list[str], key: np.uint64) -> str:
    place = int(np.searchsorted(keys, key))
    known = place < len(keys) and keys[place] == key
    return (names[place] if known else "") or f"function {key}"


def _table(
    start_ns: Int64, end_ns: Int64, thread: Int64, depth: Int64, parent: Int64, name: pd.Categorical
) -> pd.DataFrame:
    # Of calls with equal starts the caller comes first.
    order = np.lexsort((depth, start_ns))
    place = np.append(np.empty(len(order), np.int64), -1)  # the last item is for parent -1
    place[order] = np.arange(len(order))
    around = place[parent[order]]
    return tables.build(
        "python",
        {
            "start_ns": start_ns[order],
            "duration_ns": end_ns[order] - start_ns[order],
            "name": name[order],
            "thread_id": thread[order],
            "id": np.arange(len(order)),
            "parent_id": pd.arrays.IntegerArray(around, around < 0),
            "depth": depth[order],
        },
    )

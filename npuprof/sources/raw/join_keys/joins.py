"""Joins by key and time, columnar.

Source: raw/FORMAT.md sections 8.6 to 8.8.
"""

from __future__ import annotations

import numpy as np

from npuprof.arrays import Int64


def task_keys(device: Int64, stream: Int64, batch: Int64, task: Int64) -> Int64:
    """Make one integer of the ids of a task: of all of them, or where the batch is -1 of its device and 32-bit id.

    Source: raw/FORMAT.md sections 5.7 and 8.7.
    """
    keys = (device & 0x3FFF) << 48 | (stream & 0xFFFF) << 32 | (batch & 0xFFFF) << 16 | (task & 0xFFFF)
    if not bool((batch < 0).any()):
        return keys
    return np.where(batch < 0, (device & 0x3FFF) << 48 | (task & 0xFFFFFFFF), keys)


def pair(start_keys: Int64, starts: Int64, end_keys: Int64, ends: Int64) -> tuple[Int64, Int64]:
    """Pair start records with end records of one key.

    In order where a key has as many ends as starts and none ends before it starts; else an end belongs to the
    last start before it, and a start without an end before the next start is dropped.

    Parameters
    ----------
    start_keys, end_keys
        Keys of the records.
    starts, ends
        Their times, in one unit.

    Returns
    -------
    Rows of the paired starts, and of their ends. Source: raw/FORMAT.md section 8.7.
    """
    start_order, end_order = _by_key(start_keys, starts), _by_key(end_keys, ends)
    if len(start_keys) == len(end_keys) and bool(
        ((start_keys[start_order] == end_keys[end_order]) & (ends[end_order] >= starts[start_order])).all()
    ):
        return start_order, end_order
    keys = np.concatenate((start_keys, end_keys))
    times = np.concatenate((starts, ends))
    is_end = np.repeat([0, 1], [len(starts), len(ends)])
    order = np.lexsort((is_end, times, keys))  # at one instant a start comes first: tasks may last no tick
    follows = (keys[order][1:] == keys[order][:-1]) & (is_end[order][1:] > is_end[order][:-1])
    at = np.flatnonzero(follows)
    adjacent = (order[at], order[at + 1] - len(starts))
    in_order = _pair_in_order(start_keys, starts, end_keys, ends, start_order, end_order)
    orderly = np.isin(start_keys[adjacent[0]], start_keys[in_order[0]])
    return (
        np.concatenate((in_order[0], adjacent[0][~orderly])),
        np.concatenate((in_order[1], adjacent[1][~orderly])),
    )


def _pair_in_order(
    start_keys: Int64, starts: Int64, end_keys: Int64, ends: Int64, start_order: Int64, end_order: Int64
) -> tuple[Int64, Int64]:
    """Pair the keys that have as many ends as starts, all of them later."""
    keys, codes = np.unique(np.concatenate((start_keys, end_keys)), return_inverse=True)
    start_codes, end_codes = codes[: len(starts)], codes[len(starts) :]
    balanced = np.bincount(start_codes, minlength=len(keys)) == np.bincount(end_codes, minlength=len(keys))
    start_rows = start_order[balanced[start_codes[start_order]]]
    end_rows = end_order[balanced[end_codes[end_order]]]
    backwards = ends[end_rows] < starts[start_rows]
    balanced[start_codes[start_rows[backwards]]] = False
    kept = balanced[start_codes[start_rows]]
    return start_rows[kept], end_rows[kept]


def match(keys: Int64, times: Int64, other_keys: Int64, other_times: Int64) -> Int64:
    """Find for every row its partner: of one key, in order; by time where a key is not there equally often.

    Parameters
    ----------
    keys, times
        The rows to find a partner for.
    other_keys, other_times
        The rows to find it among.

    Returns
    -------
    Rows of the others, -1 where there is none.
    """
    same = len(keys) == len(other_keys) and bool((keys == other_keys).all())
    if same and _ascending(times) and _ascending(other_times):
        return np.arange(len(keys))
    order, other_order = _by_key(keys, times), _by_key(other_keys, other_times)
    mine, theirs = keys[order], other_keys[other_order]
    first = np.searchsorted(theirs, mine, side="left")
    count = np.searchsorted(theirs, mine, side="right") - first
    my_first = np.searchsorted(mine, mine, side="left")
    my_count = np.searchsorted(mine, mine, side="right") - my_first
    found = np.full(len(keys), -1, np.int64)
    even = (count == my_count) & (count > 0)
    found[order[even]] = other_order[(first + np.arange(len(mine)) - my_first)[even]]
    odd = order[(count != my_count) & (count > 0)]
    if len(odd):
        found[odd] = latest(keys[odd], times[odd], other_keys, other_times)
    return found


def latest(keys: Int64, times: Int64, other_keys: Int64, other_times: Int64) -> Int64:
    """Find for every row the latest other of its key at or before its time, -1 where there is none."""
    if not len(keys) or not len(other_keys):
        return np.full(len(keys), -1, np.int64)
    other_order = _by_key(other_keys, other_times)
    theirs = other_keys[other_order]
    if bool((theirs[1:] > theirs[:-1]).all()):  # one other a key: time only has to agree
        at = np.minimum(np.searchsorted(theirs, keys), len(theirs) - 1)
        rows = other_order[at]
        return np.where((theirs[at] == keys) & (other_times[rows] <= times), rows, -1)
    is_row = np.repeat([0, 1], [len(other_keys), len(keys)])
    both_keys = np.concatenate((other_keys, keys))
    order = np.lexsort((is_row, np.concatenate((other_times, times)), both_keys))
    before = np.maximum.accumulate(np.where(is_row[order] == 0, np.arange(len(order)), -1))
    rows = np.flatnonzero(is_row[order] == 1)
    candidates = order[before[rows]]
    valid = (before[rows] >= 0) & (both_keys[candidates] == both_keys[order[rows]])
    found = np.full(len(keys), -1, np.int64)
    found[order[rows] - len(other_keys)] = np.where(valid, candidates, -1)
    return found


def turns(groups: Int64) -> Int64:
    """Count the rows of each group from 0, in order."""
    order = np.argsort(groups, kind="stable")
    ordered, rows = groups[order], np.arange(len(groups))
    first = np.concatenate(([True], ordered[1:] != ordered[:-1]))[: len(groups)]
    result = np.empty(len(groups), np.int64)
    result[order] = rows - np.maximum.accumulate(np.where(first, rows, 0)) if len(groups) else rows
    return result


def _by_key(keys: Int64, times: Int64) -> Int64:
    if _ascending(times):
        return np.argsort(keys, kind="stable")
    return np.lexsort((times, keys))


def _ascending(values: Int64) -> bool:
    return bool((values[1:] >= values[:-1]).all())

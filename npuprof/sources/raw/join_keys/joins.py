"""Joins by key and time, columnar.

Source: raw/FORMAT.md sections 8.6 to 8.8.
"""

from __future__ import annotations

import numpy as np

from npuprof.arrays import Int64


def task_keys(device: Int64, stream: Int64, batch: Int64, task: Int64) -> Int64:
    """Return an integer key of a task: all ids, or device and 32-bit id where the batch is -1.

    Source: raw/FORMAT.md sections 5.7 and 8.7.
    """
    keys = (device & 0x3FFF) << 48 | (stream & 0xFFFF) << 32 | (batch & 0xFFFF) << 16 | (task & 0xFFFF)
    if not bool((batch < 0).any()):
        return keys
    return np.where(batch < 0, (device & 0x3FFF) << 48 | (task & 0xFFFFFFFF), keys)


def pair(start_keys: Int64, starts: Int64, end_keys: Int64, ends: Int64) -> tuple[Int64, Int64]:
    """Pair start records with end records of equal keys.

    If a key has equally many of both and no end precedes its start, they are paired in order; otherwise an end belongs
    to the latest start before it, and a start without an end before the next start is dropped.
    """
    start_order, end_order = _by_key(start_keys, starts), _by_key(end_keys, ends)
    if len(start_keys) == len(end_keys) and bool(
        ((start_keys[start_order] == end_keys[end_order]) & (ends[end_order] >= starts[start_order])).all()
    ):
        return start_order, end_order
    keys = np.concatenate((start_keys, end_keys))
    times = np.concatenate((starts, ends))
    is_end = np.repeat([0, 1], [len(starts), len(ends)])
    order = np.lexsort((is_end, times, keys))  # at equal times a start comes first: tasks may have duration 0
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
    """Pair records in order for keys with equally many starts and ends, each end after its start."""
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
    """Return the partner of every row by key: in order, or by time if the counts differ."""
    is_same = len(keys) == len(other_keys) and bool((keys == other_keys).all())
    if is_same and _ascending(times) and _ascending(other_times):
        return np.arange(len(keys))
    order, other_order = _by_key(keys, times), _by_key(other_keys, other_times)
    row_keys, candidate_keys = keys[order], other_keys[other_order]
    first = np.searchsorted(candidate_keys, row_keys, side="left")
    count = np.searchsorted(candidate_keys, row_keys, side="right") - first
    group_first = np.searchsorted(row_keys, row_keys, side="left")
    group_count = np.searchsorted(row_keys, row_keys, side="right") - group_first
    partner = np.full(len(keys), -1, np.int64)
    even = (count == group_count) & (count > 0)
    partner[order[even]] = other_order[(first + np.arange(len(row_keys)) - group_first)[even]]
    odd = order[(count != group_count) & (count > 0)]
    if len(odd):
        partner[odd] = latest(keys[odd], times[odd], other_keys, other_times)
    return partner


def latest(keys: Int64, times: Int64, other_keys: Int64, other_times: Int64) -> Int64:
    """Return the latest candidate with the key of each row, not after the row's time; -1 for none."""
    if not len(keys) or not len(other_keys):
        return np.full(len(keys), -1, np.int64)
    other_order = _by_key(other_keys, other_times)
    theirs = other_keys[other_order]
    if bool((theirs[1:] > theirs[:-1]).all()):  # one candidate per key: only compare times
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
    latest_rows = np.full(len(keys), -1, np.int64)
    latest_rows[order[rows] - len(other_keys)] = np.where(valid, candidates, -1)
    return latest_rows


def turns(groups: Int64) -> Int64:
    """Return for each row the number of earlier rows in its group."""
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

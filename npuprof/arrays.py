"""Types of NumPy arrays by dtype, and the lookup of rows by key."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

Bools: TypeAlias = npt.NDArray[np.bool_]
Uint8: TypeAlias = npt.NDArray[np.uint8]
Int32: TypeAlias = npt.NDArray[np.int32]
Int64: TypeAlias = npt.NDArray[np.int64]
Uint64: TypeAlias = npt.NDArray[np.uint64]
Float64: TypeAlias = npt.NDArray[np.float64]
Records: TypeAlias = npt.NDArray[Any]


def taken(records: Records, rows: Int64 | Bools) -> Records:
    """Return the records at rows, or of a mask: as whole records, which NumPy copies far faster than their fields."""
    return records.view(f"V{records.dtype.itemsize}")[rows].view(records.dtype)


def outer_first(starts: Int64, ends: Int64, *groups: Int64) -> Int64:
    """Return the order of intervals by start, of those that start together the longest first: callers before callees.

    Intervals of several groups are in the order of the last group first, as by :func:`numpy.lexsort`. Instead of ends,
    durations give the same order.
    """
    return np.lexsort((-ends, starts, *groups))


_NO_KEY = np.iinfo(np.int64).min


def first_rows(keys: Records, wanted: Records) -> Int64:
    """Return the first row of `keys` with each wanted key; -1 if there is none.

    Both are integers of one dtype, in any order. The least int64, which stands for an absent number in decoded records,
    matches nothing.
    """
    if not len(keys):
        return np.full(len(wanted), -1, np.int64)
    is_sorted = bool(np.all(keys[1:] >= keys[:-1]))
    order = np.arange(len(keys)) if is_sorted else np.argsort(keys, kind="stable")
    in_order = keys if is_sorted else keys[order]
    at = np.minimum(np.searchsorted(in_order, wanted), len(keys) - 1)
    return np.where((in_order[at] == wanted) & (wanted != _NO_KEY), order[at], -1)


def distinct(values: Int64) -> Int64:
    """Return the distinct values in order: of many, :func:`numpy.unique` takes several times as long."""
    ordered = np.sort(values)
    return ordered[np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]]


def rows_by_key(keys: Records) -> dict[int, Int64]:
    """Return the rows of each key, in order."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    bounds = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1 if len(keys) else np.zeros(0, np.int64)
    return {int(keys[rows[0]]): rows for rows in np.split(order, bounds) if len(rows)}


def search_in_groups(
    groups: Int64, values: Int64, at_groups: Int64, at: Int64, side: Literal["left", "right"]
) -> Int64:
    """Return where to insert each value of `at` among the values of its group.

    `groups` and `values` are sorted by group, then value; the result is a position in them.
    """
    first = np.append(np.flatnonzero(np.append(True, groups[1:] != groups[:-1])[: len(groups)]), len(groups))
    labels = groups[first[:-1]]
    code = np.searchsorted(labels, at_groups)
    found = np.append(labels, -1)[code] == at_groups if len(labels) else np.zeros(len(at), np.bool_)
    if not found.any():
        return first[code]
    low = min(int(values.min()), int(at.min()))
    width = max(int(values.max()), int(at.max())) - low + 1
    if width * (len(labels) + 1) >= 1 << 63:
        ranks = distinct(np.concatenate([values, at]))
        values, at = np.searchsorted(ranks, values), np.searchsorted(ranks, at)
        low, width = 0, len(ranks)
    keys = np.repeat(np.arange(len(labels)), np.diff(first)) * width + (values - low)
    return np.where(found, np.searchsorted(keys, code * width + (at - low), side=side), first[code])

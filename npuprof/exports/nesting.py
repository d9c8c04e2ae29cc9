"""Slices as viewers require them: nested within a track, and as the begin and the end of each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

import numpy as np

from npuprof.arrays import Int64, outer_first

_Item = TypeVar("_Item")


def nested_tracks(starts: Int64, ends: Int64, groups: Int64) -> Int64:
    """Return for each slice the first track of its group on which it nests with earlier slices; 0 for most."""
    order = outer_first(starts, ends, groups)
    tracks = np.zeros(len(order), np.int64)
    current, open_ends = None, [[0]]
    columns = (order, groups[order], starts[order], ends[order])
    for row, group, start, end in zip(*(column.tolist() for column in columns), strict=True):
        if group != current:
            current, open_ends = group, []
        for number, stack in enumerate(open_ends):
            while stack and stack[-1] <= start:
                stack.pop()
            if not stack or stack[-1] >= end:
                stack.append(end)
                tracks[row] = number
                break
        else:
            tracks[row] = len(open_ends)
            open_ends.append([end])
    return tracks


def begins_and_ends(slices: Iterable[tuple[int, int, _Item]]) -> Iterator[tuple[int, _Item, bool]]:
    """Yield the time and the item of each begin and each end of nested slices, and whether it is the end."""
    stack: list[tuple[int, _Item]] = []
    for start, end, item in slices:
        while stack and stack[-1][0] <= start:
            yield *stack.pop(), True
        yield start, item, False
        stack.append((end, item))
    while stack:
        yield *stack.pop(), True

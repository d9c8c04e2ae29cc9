"""Whether samples of a thread tell which function ran between them."""

from __future__ import annotations

import numpy as np

from npuprof.arrays import Int64

_MOST_SINGLE = 0.25  # of those that functions in random order would have
_MANY = 2


def come_and_go(functions: Int64) -> bool:
    """Return whether functions come and go within a sampling interval, so that samples do not tell what lies between.

    Functions that last have several samples in a row. Where so many are seen once only as in a random order, the order
    of the samples tells nothing, also of two in a row that saw the same function.
    """
    is_other = np.diff(functions) != 0
    single = int((is_other[:-1] & is_other[1:]).sum())
    seen = np.unique(functions, return_counts=True)[1]
    by_chance = float((seen * (1 - seen / max(len(functions), 1)) ** 2).sum())
    return single >= _MANY and single > _MOST_SINGLE * by_chance


def paths(callers: Int64, depths: Int64, functions: Int64) -> Int64:
    """Return for each call the number of the functions that are around it, itself included; -1 without one."""
    path = np.full(len(callers), -1, np.int64)
    order = np.argsort(depths, kind="stable")
    most = int(functions.max(initial=-1)) + 1
    known: dict[int, int] = {}
    for level in np.split(order, np.flatnonzero(np.diff(depths[order])) + 1):
        path[level] = np.where(callers[level] >= 0, path[callers[level]], -1)
        rows = level[functions[level] >= 0]
        distinct, number = np.unique((path[rows] + 1) * most + functions[rows], return_inverse=True)
        numbers = np.array([known.setdefault(each, len(known)) for each in distinct.tolist()], np.int64)
        path[rows] = numbers[number.reshape(-1)]
    return path

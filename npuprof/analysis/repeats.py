"""Repeated sequences of kernels."""

from __future__ import annotations

import numpy as np
import pandas as pd

from npuprof.arrays import Bools, Int64

MOST = 15
"""Length of the longest sequence that is searched for."""

_MOST_SEQUENCES = 200  # per length: the most frequent sequences


def repeats(codes: Int64, *, at_least: int, most: int = MOST) -> list[tuple[int, Int64]]:
    """Find repeated sequences of codes, longest first, without overlaps.

    Returns
    -------
    list[tuple[int, Int64]]
        The length of a sequence, at least 2, and the positions where it begins. A sequence that is a repetition of a
        shorter one is reported as the shorter one.
    """
    free: Bools = codes >= 0
    sequences = []
    same = [np.zeros(0, np.int64), *(_stretch_lengths(codes, period) for period in range(1, most))]
    windows = _windows(codes, most)
    for length in range(min(most, len(codes)), 1, -1):
        number = np.where(_all_free(free, length), windows[length], -1)
        for period in range(1, length):
            number[same[period][: len(number)] >= max(length - period, period)] = -1
        places = np.flatnonzero(number >= 0)
        count = np.bincount(number[places]) if len(places) else np.zeros(0, np.int64)
        often = places[count[number[places]] >= at_least]
        for rows in _by_number(often, number[often]):
            kept = _drop_overlaps(rows[free[rows[:, np.newaxis] + np.arange(length)].all(axis=1)], length)
            if len(kept) >= at_least:
                free[kept[:, np.newaxis] + np.arange(length)] = False
                sequences.append((length, kept))
    return sequences


def _windows(codes: Int64, limit: int) -> list[Int64]:
    """Return for each length the number of the sequence that begins at each position."""
    windows = [np.zeros(0, np.int64), codes]
    for length in range(2, min(limit, len(codes)) + 1):
        before, last = windows[-1][: len(codes) - length + 1], codes[length - 1 :]
        windows.append(pd.factorize(before * (int(codes.max()) + 2) + last + 1)[0].astype(np.int64))
    return windows


def _all_free(free: Bools, length: int) -> Bools:
    taken = np.concatenate([[0], np.cumsum(~free)])
    return taken[length:] == taken[:-length]


def _stretch_lengths(codes: Int64, period: int) -> Int64:
    """Return for each position how many codes from there on equal those `period` positions later."""
    equal = np.append(codes[:-period] == codes[period:], np.zeros(min(period, len(codes)), bool))[: len(codes)]
    place = np.arange(len(equal))
    stop = np.where(equal, len(equal), place)
    return np.minimum.accumulate(stop[::-1])[::-1] - place


def _drop_overlaps(places: Int64, length: int) -> Int64:
    """Return the positions that do not overlap the previously kept one."""
    if len(places) < 2 or np.diff(places).min() >= length:
        return places
    kept = [int(places[0])]
    for place in places[1:].tolist():
        if place >= kept[-1] + length:
            kept.append(place)
    return np.array(kept, np.int64)


def _by_number(places: Int64, number: Int64) -> list[Int64]:
    """Return the positions of each sequence, the most frequent sequence first."""
    order = np.argsort(number, kind="stable")
    _, count = np.unique(number, return_counts=True)
    parts = np.split(places[order], np.cumsum(count)[:-1]) if len(order) else []
    return sorted(parts, key=lambda part: (-len(part), int(part[0])))[:_MOST_SEQUENCES]

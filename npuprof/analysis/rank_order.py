"""A valid execution order of a job's collectives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from npuprof.arrays import Int64


@dataclass(frozen=True)
class Waves:
    """Collectives in waves: a wave depends only on earlier waves, and has each rank at most once."""

    rows: Int64  # the rows of all operators, wave by wave, operator by operator
    begins: list[int]  # where each wave begins in `rows`, and where the last wave ends
    # The first row that cannot run, because the members of its operator run their operators in conflicting orders; -1
    # if all can run.
    blocked: int


def waves(rank: Int64, op: Int64) -> Waves:
    """Order collectives so that each can run after the previous ones."""
    by_op = np.argsort(op, kind="stable")
    members = np.bincount(op)
    first = np.append(0, np.cumsum(members))
    come = np.zeros(len(members), np.int64)
    arrived = np.flatnonzero(np.append(True, rank[1:] != rank[:-1])) if len(rank) else np.zeros(0, np.int64)
    last_of_rank = np.append(rank[1:] != rank[:-1], True) if len(rank) else np.zeros(0, bool)
    parts: list[Int64] = []
    while len(arrived):
        met = op[arrived]
        np.add.at(come, met, 1)
        ready = np.unique(met[come[met] == members[met]])
        sizes = members[ready]
        inner = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        rows = by_op[np.repeat(first[ready], sizes) + inner]
        if len(rows):
            parts.append(rows)
        arrived = rows[~last_of_rank[rows]] + 1
    ran = np.concatenate([np.zeros(0, np.int64), *parts])
    waits = np.ones(len(op), bool)
    waits[ran] = False
    begins = np.append(0, np.cumsum([len(part) for part in parts])).astype(np.int64).tolist()
    return Waves(ran, begins, int(np.argmax(waits)) if waits.any() else -1)

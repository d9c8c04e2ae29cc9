"""Folding: the widest paths of a call tree, with each caller's other callees in one folded frame."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from npuprof.arrays import Int64
from npuprof.flame.tree import MergedCalls, PathWeights


@dataclass(frozen=True)
class Root:
    """The top of a view: a path of the call tree, or -1 for the whole tree."""

    path: int = -1


@dataclass(frozen=True)
class Frames:
    """Frames of a view: the root first, callers before callees, wider siblings first."""

    path: Int64  # the path of each frame; a folded frame has the path of its caller. -1 is the whole tree.
    above: Int64  # the parent frame; -1 for the root
    depth: Int64
    # total, exclusive: the amount with and without callees. The totals of a frame's callees and its self amount add up
    # exactly.
    total: Int64
    exclusive: Int64
    folded: Int64  # the number of callees in a folded frame; 0 for other frames

    def __len__(self) -> int:
        return len(self.path)

    def below(self, frame: int) -> Int64:
        """Return the frames directly below a frame."""
        return np.flatnonzero(self.above == frame)


def amount(sums: PathWeights, root: Root) -> tuple[int, int]:
    """Return the total and the self amount of the root."""
    if root.path < 0:
        return int(sums.exclusive.sum()), 0
    return int(sums.total[root.path]), int(sums.exclusive[root.path])


def fold(calls: MergedCalls, sums: PathWeights, root: Root, limit: int, levels: int | None = None) -> Frames:
    """Keep the widest paths below a root and fold each caller's other callees into one frame.

    Paths of zero weight are left out. At most `limit` frames remain, at least 2, on at most `levels` levels below the
    root, at least 1.
    """
    low, high = calls.span(root.path)
    allowed = sums.total[low:high] > 0
    if levels is not None:
        top = int(calls.depth[root.path]) + 1 if root.path >= 0 else 0
        allowed &= calls.depth[low:high] < top + levels - 1
    ranked = _widest(sums.total, np.flatnonzero(allowed) + low, limit - 1)
    above = _ranks(ranked, calls.parent[ranked], root.path)
    callees = np.concatenate([[sums.callees[root.path]], sums.callees[ranked]])
    kept = _keepable(above, callees, limit - 1)
    ranked, above, callees = ranked[:kept], above[:kept], callees[: kept + 1]
    total, self_amount = amount(sums, root)
    path = np.concatenate([[root.path], ranked])
    totals, selves = (
        np.concatenate([[total], sums.total[ranked]]),
        np.concatenate([[self_amount], sums.exclusive[ranked]]),
    )
    depth = _depths(above)
    remainder = callees - np.bincount(above, minlength=kept + 1)
    left = totals - selves
    np.subtract.at(left, above, totals[1:])
    folding = np.flatnonzero(remainder > 0)
    return Frames(
        path=np.concatenate([path, path[folding]]),
        above=np.concatenate([[-1], above, folding]),
        depth=np.concatenate([depth, depth[folding] + 1]),
        total=np.concatenate([totals, left[folding]]),
        exclusive=np.concatenate([selves, np.zeros(len(folding), np.int64)]),
        folded=np.concatenate([np.zeros(kept + 1, np.int64), remainder[folding]]),
    )


def _widest(total: Int64, paths: Int64, limit: int) -> Int64:
    """Return the widest paths, widest first; callers come before callees."""
    width = total[paths]
    if len(paths) > limit:
        least = np.partition(width, len(paths) - limit)[len(paths) - limit]
        wider = paths[width > least]
        paths = np.concatenate([wider, paths[width == least][: limit - len(wider)]])
        width = total[paths]
    return paths[np.lexsort((paths, -width))]


def _ranks(ranked: Int64, parents: Int64, root: int) -> Int64:
    """Return the rank of each path's caller, from 1; 0 stands for the root."""
    order = np.argsort(ranked)
    at = np.searchsorted(ranked[order], parents)
    return np.where(parents == root, 0, np.append(order, 0)[at] + 1)


def _depths(above: Int64) -> Int64:
    depths = [0]
    for caller in above.tolist():
        depths.append(depths[caller] + 1)
    return np.array(depths, np.int64)


def _keepable(above: Int64, callees: Int64, room: int) -> int:
    """Return the number of ranked paths that fit into `room` frames, with the folded frames that callers need."""
    count = len(above)
    rank = np.arange(count + 1)
    last = np.zeros(count + 1, np.int64)
    np.maximum.at(last, above, rank[1:])
    last[np.bincount(above, minlength=count + 1) < callees] = count + 1  # some of its callees are not ranked
    # A caller needs a folded frame as long as its last callee is not kept.
    callers = np.flatnonzero(last > rank)
    change = np.zeros(count + 2, np.int64)
    np.add.at(change, rank[callers], 1)
    np.add.at(change, last[callers], -1)
    frames = rank + np.cumsum(change)[:-1]
    return int(np.flatnonzero(frames <= room)[-1])

"""A call tree small enough to look at: its widest paths, and for each caller the rest of its callees as one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from npuprof.arrays import Float64, Int64
from npuprof.flame.tree import MergedCalls, Sums


@dataclass(frozen=True)
class Root:
    """What is at the top of a view.

    Attributes
    ----------
    path
        A path of the call tree; -1 for the whole of it.
    without
        Callees of the path that are left out. If there are some, the path's own share is left out as well: what is at
        the top then is the rest of the callees, which a view with the others folded into one.
    """

    path: int = -1
    without: tuple[int, ...] = ()


@dataclass(frozen=True)
class Frames:
    """Frames of a view; the first one is its root, a caller comes before its callees, wider siblings come first.

    Attributes
    ----------
    path
        The path that each one is; for the rest of somebody's callees that caller, and -1 at the top of all.
    above
        The frame above each; -1 for the first one.
    depth
        0 for the first one.
    total, own
        What each one has of the weight, with and without what is below it. The totals of the frames below one and its
        own share add up to its total exactly.
    folded
        How many callees a frame stands for; 0 for one that is itself.
    """

    path: Int64
    above: Int64
    depth: Int64
    total: Int64
    own: Int64
    folded: Int64

    def __len__(self) -> int:
        return len(self.path)

    def below(self, frame: int) -> Int64:
        """Return the frames right below one."""
        return np.flatnonzero(self.above == frame)

    @cached_property
    def left(self) -> Float64:
        """The left edge of each frame, 0 to 1; siblings lie side by side from their caller's left edge."""
        left = [0] * len(self)
        taken = [0] * len(self)  # the width that placed callees take of each frame
        total, above = self.total.tolist(), self.above.tolist()
        for frame in range(1, len(self)):
            left[frame] = left[above[frame]] + taken[above[frame]]
            taken[above[frame]] += total[frame]
        return np.array(left, np.float64) / max(int(self.total[0]), 1)


def amount(sums: Sums, root: Root) -> tuple[int, int]:
    """Return what the top of a view has in total, and of its own."""
    if root.path < 0:
        whole, own = int(sums.own.sum()), 0
    else:
        whole, own = int(sums.total[root.path]), int(sums.own[root.path])
    if not root.without:
        return whole, own
    return whole - own - int(sums.total[np.array(root.without)].sum()), 0


def inside(calls: MergedCalls, root: Root) -> tuple[int, npt.NDArray[np.bool_]]:
    """Return the first path below the root of a view, and for it and those that follow whether they are below."""
    low, high = calls.span(root.path)
    if not root.without:
        return low, np.ones(high - low, bool)
    change = np.zeros(high - low + 1, np.int64)
    for path in root.without:
        change[path - low] += 1
        change[int(calls.end[path]) - low] -= 1
    return low, np.cumsum(change)[:-1] == 0


def fold(calls: MergedCalls, sums: Sums, root: Root, most: int, levels: int | None = None) -> Frames:
    """Keep the widest paths below a root and fold the other callees of each caller into one frame.

    Parameters
    ----------
    calls
        The paths.
    sums
        The weight that is the width; paths without any are left out.
    root
        What is at the top.
    most
        How many frames there may be; at least 2.
    levels
        How many levels of frames there may be, the first one not counted; what is deeper is folded. At least 1.
    """
    low, allowed = inside(calls, root)
    high = low + len(allowed)
    allowed &= sums.total[low:high] > 0
    if levels is not None:
        top = int(calls.depth[root.path]) + 1 if root.path >= 0 else 0
        allowed &= calls.depth[low:high] < top + levels - 1
    ranked = _widest(sums.total, np.flatnonzero(allowed) + low, most - 1)
    above = _ranks(ranked, calls.parent[ranked], root.path)
    callees = np.concatenate([[_callees(sums, root)], sums.callees[ranked]])
    kept = _keepable(above, callees, most - 1)
    ranked, above, callees = ranked[:kept], above[:kept], callees[: kept + 1]
    total, own = amount(sums, root)
    path = np.concatenate([[root.path], ranked])
    totals, owns = np.concatenate([[total], sums.total[ranked]]), np.concatenate([[own], sums.own[ranked]])
    depth = _depths(above)
    rest = callees - np.bincount(above, minlength=kept + 1)
    left = totals - owns
    np.subtract.at(left, above, totals[1:])
    folders = np.flatnonzero(rest > 0)
    return Frames(
        path=np.concatenate([path, path[folders]]),
        above=np.concatenate([[-1], above, folders]),
        depth=np.concatenate([depth, depth[folders] + 1]),
        total=np.concatenate([totals, left[folders]]),
        own=np.concatenate([owns, np.zeros(len(folders), np.int64)]),
        folded=np.concatenate([np.zeros(kept + 1, np.int64), rest[folders]]),
    )


def rest_of(frames: Frames, frame: int, root: Root) -> Root:
    """Return the root of the view of what a folded frame stands for."""
    caller = int(frames.above[frame])
    shown = [int(frames.path[one]) for one in frames.below(caller) if not frames.folded[one]]
    return Root(int(frames.path[frame]), (*(root.without if caller == 0 else ()), *shown))


def _callees(sums: Sums, root: Root) -> int:
    without = sums.total[np.array(root.without, np.int64)] > 0
    return int(sums.callees[root.path]) - int(without.sum())


def _widest(total: Int64, paths: Int64, most: int) -> Int64:
    """Return the widest of some paths, widest first; a caller, being no narrower and earlier, precedes its callees."""
    width = total[paths]
    if len(paths) > most:
        least = np.partition(width, len(paths) - most)[len(paths) - most]
        wider = paths[width > least]
        paths = np.concatenate([wider, paths[width == least][: most - len(wider)]])
        width = total[paths]
    return paths[np.lexsort((paths, -width))]


def _ranks(ranked: Int64, parents: Int64, root: int) -> Int64:
    """Return the rank of each one's caller, from 1 on; 0 is the root's."""
    order = np.argsort(ranked)
    at = np.searchsorted(ranked[order], parents)
    found: Int64 = np.where(parents == root, 0, np.append(order, 0)[at] + 1)
    return found


def _depths(above: Int64) -> Int64:
    depths = [0]
    for one in above.tolist():
        depths.append(depths[one] + 1)
    return np.array(depths, np.int64)


def _keepable(above: Int64, callees: Int64, room: int) -> int:
    """Find how many of the ranked paths may be kept so that they and one folded frame a caller take up the room.

    Parameters
    ----------
    above
        For each ranked path the rank of its caller, from 1 on; 0 is the root's.
    callees
        How many callees the root and each ranked path have.
    room
        How many frames there may be below the root.
    """
    count = len(above)
    rank = np.arange(count + 1)
    last = np.zeros(count + 1, np.int64)
    np.maximum.at(last, above, rank[1:])
    last[np.bincount(above, minlength=count + 1) < callees] = count + 1  # not all of its callees are ranked
    # A caller of a rank needs a folded frame while fewer are kept than the rank of its last callee.
    callers = np.flatnonzero(last > rank)
    change = np.zeros(count + 2, np.int64)
    np.add.at(change, rank[callers], 1)
    np.add.at(change, last[callers], -1)
    frames = rank + np.cumsum(change)[:-1]
    return int(np.flatnonzero(frames <= room)[-1])

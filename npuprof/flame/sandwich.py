"""The callers and the callees of all frames of a name, wherever it was called: two trees that share their root."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from npuprof.arrays import Int64
from npuprof.flame.fold import Root, fold
from npuprof.flame.tree import MergedCalls, Nodes
from npuprof.flame.view import DrawnFlames, amount_text
from npuprof.quantities import share

_MOST_FRAMES, _MOST_LEVELS = 1_000, 40


@dataclass(frozen=True, eq=False)
class SandwichFlames(DrawnFlames):
    """A half of a sandwich; `of` is the weight of the whole graph."""

    of: int = 0

    def facts(self, frame: int) -> list[str]:
        """Return the amount of a frame: of a caller that of the name when it was called from there."""
        total = int(self.frames.total[frame])
        return [amount_text(total, self.weight), f"{share(total, self.of)} of all"]


def sandwich(picture: DrawnFlames, name: str) -> tuple[SandwichFlames, SandwichFlames] | None:
    """Return the callers and the callees of the frames of a name, in the scope and weight of a picture.

    A frame below another one of the same name is a part of that. None if no path in the scope has the name.
    """
    calls, sums = picture.calls, picture.sums[picture.weight]
    is_named = (calls.names == name)[calls.label]
    tops = np.array(
        [path for path in np.flatnonzero(is_named & (sums.total > 0)).tolist() if _is_top(calls, is_named, path)]
    )
    if not len(tops):
        return None
    whole = int(sums.exclusive.sum())
    return _callers(picture, tops, whole), _callees(picture, tops, whole)


def _is_top(calls: MergedCalls, is_named: np.ndarray[tuple[int, ...], np.dtype[np.bool_]], path: int) -> bool:
    return not is_named[np.array(calls.callers(path)[:-1], np.int64)].any()


def _callers(picture: DrawnFlames, tops: Int64, whole: int) -> SandwichFlames:
    calls, sums = picture.calls, picture.sums[picture.weight]
    nodes = Nodes(len(calls.labels))
    node = nodes.add(np.full(len(tops), -1), np.full(len(tops), calls.label[tops[0]]))
    above = calls.parent[tops]
    while len(rows := np.flatnonzero(above >= 0)):
        node[rows] = nodes.add(node[rows], calls.label[above[rows]])
        above[rows] = calls.parent[above[rows]]
    return _drawn(picture, nodes, node, sums.total[tops], whole)


def _callees(picture: DrawnFlames, tops: Int64, whole: int) -> SandwichFlames:
    calls, sums = picture.calls, picture.sums[picture.weight]
    nodes = Nodes(len(calls.labels))
    paths = np.concatenate([np.arange(top, calls.end[top]) for top in tops.tolist()])
    node = np.full(len(calls), -1, np.int64)
    node[tops] = nodes.add(np.full(len(tops), -1), np.full(len(tops), calls.label[tops[0]]))
    depth = calls.depth[paths] - np.repeat(calls.depth[tops], calls.end[tops] - tops)
    for level in range(1, int(depth.max()) + 1):
        rows = paths[depth == level]
        node[rows] = nodes.add(node[calls.parent[rows]], calls.label[rows])
    return _drawn(picture, nodes, node[paths], sums.exclusive[paths], whole)


def _drawn(picture: DrawnFlames, nodes: Nodes, node: Int64, amounts: Int64, whole: int) -> SandwichFlames:
    """Return a tree as a picture, from the nodes of paths and their own amounts."""
    calls = nodes.in_order(picture.calls.labels, node, node[:0], picture.calls.causes)
    exclusive = np.zeros(len(calls), np.int64)
    np.add.at(exclusive, calls.host_path, amounts)
    sums = calls.weigh(exclusive)
    frames = fold(calls, sums, Root(0), _MOST_FRAMES, _MOST_LEVELS)
    return SandwichFlames(calls, {picture.weight: sums}, picture.weight, picture.scope, Root(0), frames, whole)

"""Callers and callees of all frames of a name, compared with the call tree itself."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pandas as pd
import pytest

from npuprof import tables as schema
from npuprof.flame.sandwich import SandwichFlames, sandwich
from npuprof.flame.state import FlameGraph
from npuprof.flame.tree import call_tree
from npuprof.quantities import share
from tests import factories

_Sums = dict[tuple[str, ...], int]


def _sums(half: SandwichFlames) -> _Sums:
    """The amount of each path of names from the root of a half."""
    frames, names = half.frames, [half.name(frame) for frame in range(len(half.frames))]
    paths: list[tuple[str, ...]] = []
    for frame in range(len(frames)):
        above = int(frames.above[frame])
        paths.append((*(paths[above] if above >= 0 else ()), names[frame]))
    return dict(zip(paths, frames.total.tolist(), strict=True))


def _expected(tree: pd.DataFrame, name: str) -> tuple[_Sums, _Sums]:
    parent, names = tree["parent"].tolist(), tree["name"].astype(str).tolist()
    total, own = tree["host_ns"].tolist(), tree["self_host_ns"].tolist()

    def above(row: int) -> list[int]:
        chain = []
        while row >= 0:
            chain.append(row)
            row = parent[row]
        return chain

    callers: Any = defaultdict(int)
    callees: Any = defaultdict(int)
    for row in range(len(tree)):
        chain = above(row)
        named = [at for at in chain if names[at] == name]
        if not named:
            continue
        top = named[-1]  # the outermost
        if row == top:
            for end in range(chain.index(top) + 1, len(chain) + 1):
                callers[tuple(names[at] for at in chain[:end])] += total[row]
        within = chain[: chain.index(top) + 1][::-1]
        for end in range(1, len(within) + 1):
            callees[tuple(names[at] for at in within[:end])] += own[row]
    return {path: sum_ for path, sum_ in callers.items() if sum_}, {
        path: sum_ for path, sum_ in callees.items() if sum_
    }


def _recursive() -> dict[str, pd.DataFrame]:
    """Calls of a, b and c within each other, and a within a."""
    rows = [("a", 0, 100), ("b", 5, 90), ("a", 10, 60), ("c", 15, 20), ("c", 200, 50), ("a", 205, 30), ("b", 300, 10)]
    names, starts, lengths = zip(*rows, strict=True)
    distinct = list(dict.fromkeys(names))
    python = schema.build(
        "python",
        {
            "start_ns": [1_000_000 + at for at in starts],
            "duration_ns": list(lengths),
            "name": factories.names(distinct, np.array([distinct.index(name) for name in names])),
            "thread_id": [1] * len(rows),
            "id": range(len(rows)),
            "parent_id": pd.array([None, 0, 1, 2, None, 4, None], "Int64"),
            "depth": [0, 1, 2, 3, 0, 1, 0],
        },
    )
    return factories.all_tables(python=python)


@pytest.mark.parametrize("name", ["a", "b", "c"])
def test_callers_and_callees_are_those_of_the_outermost_frames_of_the_name(name: str) -> None:
    tables = _recursive()
    graph = FlameGraph(tables, factories.info())
    halves = sandwich(graph.picture(), name)
    assert halves is not None
    callers, callees = _expected(call_tree(tables), name)
    assert _sums(halves[0]) == callers
    assert _sums(halves[1]) == callees


def test_they_have_the_weight_of_the_graph_and_say_their_share_of_it() -> None:
    tables = factories.profile(200)
    graph = FlameGraph(tables, factories.info())
    graph.weigh("device")
    halves = sandwich(graph.picture(), "launch")
    assert halves is not None
    tree = call_tree(tables)
    launched_ns = int(tree.loc[tree["name"] == "launch", "device_ns"].sum())
    assert [int(half.frames.total[0]) for half in halves] == [launched_ns] * 2
    assert halves[1].facts(0)[1] == f"{share(launched_ns, int(tables['kernels']['duration_ns'].sum()))} of all"
    assert int(halves[1].frames.total[halves[1].frames.depth == 1].sum()) == launched_ns
    assert sandwich(graph.picture(), "no such name") is None

"""Call trees made path by path, and what is known of them by plain loops."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import pandas as pd
from hypothesis import strategies as st

from npuprof.analysis.correlation import Causes
from npuprof.flame.fold import Root
from npuprof.flame.tree import MergedCalls, PathWeights

NAMES = ("a", "b", "c", "ab")
Row = tuple[int, int, int]

rows = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 9), st.integers(0, len(NAMES) - 1)), max_size=40)
"""(depth, at most one more than that of the row before, own amount, name) of each path, callers before callees."""


def tree(given: Sequence[Row]) -> tuple[MergedCalls, PathWeights]:
    """Make a call tree of rows, and one weight of it."""
    depth = list(accumulate((row[0] for row in given), lambda before, wanted: min(wanted, before + 1), initial=-1))[1:]
    count = len(given)
    parent = [max((i for i in range(row) if depth[i] == depth[row] - 1), default=-1) for row in range(count)]
    end = [next((i for i in range(row + 1, count) if depth[i] <= depth[row]), count) for row in range(count)]
    own = [row[1] for row in given]
    total = [sum(own[row : end[row]]) for row in range(count)]
    callees = [sum(parent[i] == row and total[i] > 0 for i in range(count)) for row in (*range(count), -1)]
    nothing = np.zeros(0, np.int64)
    calls = MergedCalls(
        parent=np.array(parent, np.int64),
        depth=np.array(depth, np.int64),
        end=np.array(end, np.int64),
        label=np.array([row[2] for row in given], np.int64),
        labels=pd.DataFrame({"layer": ["api"] * len(NAMES), "name": NAMES}),
        host_path=nothing,
        kernel_path=nothing,
        causes=Causes({}, nothing, nothing, nothing, nothing, nothing),
    )
    return calls, PathWeights(np.array(own, np.int64), np.array(total, np.int64), np.array(callees, np.int64))


def below(calls: MergedCalls, root: Root) -> list[int]:
    """Return the paths below a root, by climbing from each path."""
    return [path for path in range(len(calls)) if path != root.path and root.path in [-1, *callers(calls, path)]]


def callers(calls: MergedCalls, path: int) -> list[int]:
    """Return a path's callers, outermost first, then the path; empty for -1."""
    chain: list[int] = []
    while path >= 0:
        chain.append(path)
        path = int(calls.parent[path])
    return chain[::-1]

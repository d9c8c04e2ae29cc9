"""The source line behind most of the time of each row of a difference."""

from __future__ import annotations

import numpy as np
import pandas as pd

from npuprof.arrays import Int64
from npuprof.difference.gaps import line_times
from npuprof.difference.side import WITHOUT_WORK, Side


def places(nodes: pd.DataFrame, sides: tuple[Side, Side], of: tuple[Int64, Int64]) -> list[str]:
    """Return for each row the source line behind most of its time on both sides; empty for the top rows."""
    parents = nodes["parent"].to_numpy(np.int64)
    kinds = pd.concat([side.kinds[["line", "duration_ns"]] for side in sides], ignore_index=True)
    codes, names = pd.factorize(kinds["line"])
    node, known = np.concatenate(of), (kinds["line"] != "").to_numpy(bool)
    pairs, times = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    while known.any():  # once for each depth
        pairs.append(node[known] * len(names) + codes[known])
        times.append(kinds["duration_ns"].to_numpy(np.int64)[known])
        node = parents[node]
        known = known & (node >= 0)
    distinct, number = np.unique(np.concatenate(pairs), return_inverse=True)
    sums = np.zeros(len(distinct), np.int64)
    np.add.at(sums, number, np.concatenate(times))
    row, line = np.divmod(distinct, max(len(names), 1))
    order = np.lexsort((-sums, row))
    first = order[np.unique(row[order], return_index=True)[1]]
    line_of_row = np.full(len(parents), "", object)
    line_of_row[row[first]] = np.asarray(names, object)[line[first]]
    for idle in np.flatnonzero(nodes["part"].isin(WITHOUT_WORK).to_numpy(bool) & (nodes["depth"] == 1).to_numpy(bool)):
        line_of_row[idle] = _line_of_idle(sides, str(nodes["name"].iloc[idle]))
    return [str(place) if depth else "" for place, depth in zip(line_of_row, nodes["depth"], strict=True)]


def _line_of_idle(sides: tuple[Side, Side], cause: str) -> str:
    """Return the source line behind most of the idle time of a cause, on both sides."""
    times: dict[str, int] = {}
    for run in (run for side in sides for run in side.runs):
        for line, time in line_times(run, cause).items():
            times[line] = times.get(line, 0) + time
    return max(times, key=lambda line: times[line], default="")

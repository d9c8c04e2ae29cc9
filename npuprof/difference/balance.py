"""The balanced tables of two sides: the steps and ranks that show noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from npuprof.analysis.balanced_steps import by_rank, complete
from npuprof.arrays import Int64
from npuprof.difference.side import Side
from npuprof.noise.model import Floats


@dataclass(frozen=True)
class Balance:
    """The steps of two sides as balanced tables."""

    # a, b: of each side the rows of the steps, ranks x steps.
    a: Int64
    b: Int64
    paired: bool  # whether both tables have the same ranks
    left_out: tuple[int, int]  # the ranks of each side that have no place in its table

    in_sequence = True

    def tables(self, a: Int64, b: Int64) -> tuple[Floats, Floats]:
        """Return the times of each side as quantities x ranks x steps, from quantities x rows of steps."""
        return a[:, self.a].astype(np.float64), b[:, self.b].astype(np.float64)


@dataclass(frozen=True)
class Repeats:
    """The steps of two sides as means of their runs: what varies from run to run."""

    # a, b: of each side the weight of each step in the mean of each run, runs x rows of steps.
    a: Floats
    b: Floats

    in_sequence = False
    paired = False
    left_out = (0, 0)

    def tables(self, a: Int64, b: Int64) -> tuple[Floats, Floats]:
        """Return the times of each side as quantities x 1 x runs, from quantities x rows of steps."""
        return (a @ self.a.T)[:, None], (b @ self.b.T)[:, None]


def balance(a: Side, b: Side, of: Callable[[Side], pd.DataFrame]) -> Balance | Repeats:
    """Return the balanced tables of some steps of two sides.

    Several runs on a side are compared run by run. Else steps are matched by number: ranks without the steps that the
    others have, and those of one side only where both have several, are left out.
    """
    if len(a.repeats) > 1 or len(b.repeats) > 1:
        return Repeats(_means_of_runs(a, of(a)), _means_of_runs(b, of(b)))
    ranked = [by_rank(of(side)) for side in (a, b)]
    tables = [complete(table) for table in ranked]
    common = tables[0].index.intersection(tables[1].index)
    paired = len(common) > 1
    if paired:
        tables = [table.loc[common] for table in tables]
    left_out = tuple(len(table) - len(kept) for table, kept in zip(ranked, tables, strict=True))
    return Balance(tables[0].to_numpy(np.int64), tables[1].to_numpy(np.int64), paired, (left_out[0], left_out[1]))


def _means_of_runs(side: Side, steps: pd.DataFrame) -> Floats:
    """Return the weight of each step in the mean of each run, runs x rows of steps."""
    run = steps["run"].to_numpy(np.int64)
    weights = np.stack([np.isin(run, list(rows)) for rows in side.repeats]).astype(np.float64)
    has_steps = weights.any(axis=1)
    return weights[has_steps] / weights[has_steps].sum(axis=1, keepdims=True)

"""Many rows judged together: which of them differ, and the interval that says so."""

from __future__ import annotations

import numpy as np

from npuprof.arrays import Bools, Int64
from npuprof.noise.model import LEVEL, Floats


def levels(p_values: Floats, weights: Floats, same: Int64 | None = None, level: float = LEVEL) -> Floats:
    """Return the level of each row of a report: it is significant if its p-value is not above.

    The procedure of Benjamini and Hochberg keeps the share of false rows below `level`. The interval of a row at its
    level excludes 0 exactly if the row is significant.

    Parameters
    ----------
    weights
        How much each row matters, independent of its p-value. Half of a row's weight is the same for all, so that no
        row needs more than twice the evidence that it would need without weights (Genovese, Roeder and Wasserman,
        2006: weights keep the share of false rows).
    """
    distinct, first, number = np.unique(
        np.arange(len(p_values)) if same is None else same, return_index=True, return_inverse=True
    )
    values, weight = p_values[first], weights[first].astype(np.float64)
    is_known = ~np.isnan(values)
    count = int(is_known.sum())
    result = np.full(len(distinct), np.nan)
    if count:
        of_known = weight[is_known]
        total = of_known.sum()
        share = of_known * count / total if total > 0 else np.ones(count)
        result[is_known] = _levels(values[is_known], (1 + share) / 2, level)
    return result[number.reshape(-1)]


def _levels(values: Floats, weights: Floats, level: float) -> Floats:
    """Return the level of each row, at most the level of all; `weights` have the mean 1."""
    count = len(values)
    with np.errstate(over="ignore"):
        needed = np.where(values <= level, np.ceil(values * count / (level * weights)), np.inf)
    places = np.arange(1, count + 1)
    passing = np.flatnonzero(np.sort(np.maximum(needed, 1)) <= places)
    rejected = int(places[passing[-1]]) if len(passing) else 1
    return np.minimum(weights * rejected * level / count, level)


def same_values(*sides: Floats) -> Int64:
    """Return a number for each row, equal where all values of two rows are equal."""
    flat = np.ascontiguousarray(np.concatenate([side.reshape(len(side), -1) for side in sides], axis=1))
    if not flat.shape[1]:
        return np.arange(len(flat))
    whole = flat.view([("", flat.dtype)] * flat.shape[1]).reshape(-1)
    return np.unique(whole, return_inverse=True)[1].reshape(-1).astype(np.int64)


def significant(p_values: Floats, of_rows: Floats) -> Bools:
    """Return the mask of the rows whose p-value is not above their level."""
    with np.errstate(invalid="ignore"):
        mask: Bools = p_values <= of_rows
    return mask

"""How much of a difference is noise: significance tests over steps, and bootstrap intervals."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from npuprof.arrays import Bools, Int64

_DRAWS = 2_000
_INTERVAL = (2.5, 97.5)  # percentiles
_SEED = 20  # the same steps have the same interval
_MAD_TO_DEVIATION = 1.4826  # of a normal distribution
_TERMS = 400
_CELLS = 4_000_000  # of a matrix of bootstrap means

Floats = npt.NDArray[np.float64]


def p_values(a: Floats, b: Floats) -> Floats:
    """Return the two-sided p-value of Welch's t-test for each row; NaN with one step on a side.

    Parameters
    ----------
    a, b
        A row for each quantity, a column for each step of the side.
    """
    counts = a.shape[1], b.shape[1]
    if min(counts) < 2:
        return np.full(len(a), np.nan)
    difference = a.mean(axis=1) - b.mean(axis=1)
    squared = [side.var(axis=1, ddof=1) / count for side, count in zip((a, b), counts, strict=True)]
    spread = squared[0] + squared[1]
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.abs(difference) / np.sqrt(spread)
        freedom = spread**2 / (squared[0] ** 2 / (counts[0] - 1) + squared[1] ** 2 / (counts[1] - 1))
    is_known = spread > 0
    values = np.where(difference == 0, 1.0, 0.0)  # without any variance, any difference is significant
    values[is_known] = _tail_probability(t[is_known], freedom[is_known])
    return values


def adjusted(values: Floats, weights: Floats | None = None) -> Floats:
    """Return p-values adjusted for their number after Benjamini and Hochberg.

    Parameters
    ----------
    values
        The p-values.
    weights
        The weight of each, independent of its p-value, since rows that take longer are more likely to matter. Weights
        preserve the false discovery rate (Genovese, Roeder and Wasserman, 2006).
    """
    count = len(values)
    if weights is not None and weights.sum() > 0:
        values = np.minimum(values / np.maximum(weights / weights.mean(), 1e-12), 1.0)
    order = np.argsort(values)[::-1]
    scaled = np.minimum.accumulate(values[order] * count / np.arange(count, 0, -1))
    result = np.empty(count)
    result[order] = np.minimum(scaled, 1.0)
    return result


def deviations(a: Floats, b: Floats) -> Floats:
    """Return a robust standard deviation of the steps of a side, from the median absolute deviation."""
    around = np.hstack([side - np.median(side, axis=1, keepdims=True) for side in (a, b)])
    return _MAD_TO_DEVIATION * np.median(np.abs(around), axis=1)


def intervals(a: Floats, b: Floats, ranks: tuple[Int64, Int64]) -> tuple[Int64, Int64]:
    """Return the bounds of the 95 % bootstrap intervals of differences of means.

    Parameters
    ----------
    a, b
        A row for each quantity, a column for each step of the side.
    ranks
        The rank of each step. If a side has several ranks, whole ranks are resampled.

    Returns
    -------
    Lower and upper bounds in nanoseconds, a value for each row.
    """
    random = np.random.default_rng(_SEED)
    weights = [_weights(random, side) for side in ranks]
    low, high = (np.zeros(len(a), np.int64) for _ in range(2))
    at_once = max(_CELLS // _DRAWS, 1)
    for start in range(0, len(a), at_once):
        rows = slice(start, start + at_once)
        drawn = a[rows] @ weights[0].T - b[rows] @ weights[1].T
        bounds = np.percentile(drawn, _INTERVAL, axis=1)
        low[rows], high[rows] = np.rint(bounds).astype(np.int64)
    return low, high


def _weights(random: np.random.Generator, ranks: Int64) -> Floats:
    """Return the weight of each step in the mean of each bootstrap sample."""
    distinct, block = np.unique(ranks, return_inverse=True)
    if len(distinct) < 2:
        block = np.arange(len(ranks))
    blocks = int(block.max()) + 1
    drawn = random.integers(blocks, size=(_DRAWS, blocks))
    times = np.apply_along_axis(np.bincount, 1, drawn, minlength=blocks).astype(np.float64)[:, block]
    weights: Floats = times / times.sum(axis=1, keepdims=True)
    return weights


def _tail_probability(t: Floats, freedom: Floats) -> Floats:
    """Return the two-sided tail probability of Student's t."""
    return _incomplete_beta(freedom / 2, np.full(len(t), 0.5), freedom / (freedom + t * t))


def _incomplete_beta(a: Floats, b: Floats, x: Floats) -> Floats:
    """Return the regularised incomplete beta function for 0 < x <= 1 by its continued fraction (DLMF 8.17.22)."""
    swapped = x > (a + 1) / (a + b + 2)  # the continued fraction of the other tail converges faster
    a, b, x = np.where(swapped, b, a), np.where(swapped, a, b), np.where(swapped, 1 - x, x)
    log_gamma = np.vectorize(math.lgamma, otypes=[np.float64])
    with np.errstate(divide="ignore"):
        scale = np.exp(log_gamma(a + b) - log_gamma(a) - log_gamma(b) + a * np.log(x) + b * np.log1p(-x))
    fraction, c, d = np.ones(len(x)), np.ones(len(x)), np.zeros(len(x))
    for term in range(_TERMS):  # Lentz's method
        m = term // 2
        if term == 0:
            numerator = np.ones(len(x))
        elif term % 2 == 0:
            numerator = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        else:
            numerator = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        d = 1 / _not_zero(1 + numerator * d)
        c = _not_zero(1 + numerator / c)
        fraction *= c * d
        if (np.abs(1 - c * d) < 1e-14).all():
            break
    part = scale * (fraction - 1) / a
    values: Floats = np.where(swapped, 1 - part, part)
    return values


def _not_zero(values: Floats) -> Floats:
    is_kept: Floats = np.where(np.abs(values) > 1e-300, values, 1e-300)
    return is_kept


def significant(values: Floats, weights: Floats, delta: Int64, deviation: Floats, steps: int, level: float) -> Bools:
    """Return a mask of the rows of one depth that differ by more than noise.

    Parameters
    ----------
    values, weights
        The p-values and the times of the rows.
    delta
        Their differences.
    deviation
        The standard deviation of their steps.
    steps
        The number of steps of the side with fewer.
    level
        The false discovery rate.
    """
    is_known = ~np.isnan(values)
    is_selected = np.zeros(len(values), bool)
    is_selected[is_known] = adjusted(values[is_known], weights[is_known]) <= level
    certain: Bools = is_selected & (np.abs(delta) >= 2 * deviation / math.sqrt(max(steps, 1))) & (delta != 0)
    return certain

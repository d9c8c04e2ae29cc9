"""Quantiles of values in groups, from summaries that can be merged in any order: t-digests of many groups at once.

Source: Dunning, Ertl: Computing Extremely Accurate Quantiles Using t-Digests, with the scale function k1. Values of a
group fall into buckets of equal width on that scale, so that an array holds the digests of all groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from npuprof.arrays import Int64

_BUCKETS = 250  # for each group: at the median, one spans 0.6 % of the values, at the 95th percentile 0.3 %
EXACT = 256
"""Maximum number of values of a group of which every one is kept."""


@dataclass(frozen=True)
class Digests:
    """The digests of groups, numbered from 0."""

    group: Int64  # the group of each centroid, ascending
    # mean, weight: mean and number of the values of each centroid; means of a group are ascending, and the first and
    # the last centroid are its least and its greatest value.
    mean: npt.NDArray[np.float64]
    weight: Int64

    @classmethod
    def of(cls, group: Int64, values: Int64) -> Digests:
        """Return the digests of values."""
        return _compress(group, values.astype(np.float64), np.ones(len(group), np.int64))

    @classmethod
    def merged(cls, parts: Sequence[Digests], groups: Sequence[Int64]) -> Digests:
        """Return the digests of all values of some digests; `groups` has the new number of each group of each part."""
        return _compress(
            np.concatenate([number[part.group] for part, number in zip(parts, groups, strict=True)]),
            np.concatenate([part.mean for part in parts]),
            np.concatenate([part.weight for part in parts]),
        )

    def counts(self, groups: int) -> Int64:
        """Return the number of values of each of the first groups."""
        numbers = np.zeros(groups, np.int64)
        np.add.at(numbers, self.group, self.weight)
        return numbers

    def values_at(self, ranks: Int64) -> Int64:
        """Return the value of each group at a rank, 0 for its least value; 0 for a group without values."""
        counts = self.counts(len(ranks))
        if not len(self.group):
            return np.zeros(len(ranks), np.int64)
        begins = np.cumsum(counts) - counts
        # Between two centroids, a value is in proportion to its distance from their middles.
        middles = np.cumsum(self.weight) - self.weight + (self.weight - 1) / 2
        values = np.rint(np.interp(begins + np.minimum(ranks, counts - 1), middles, self.mean)).astype(np.int64)
        return np.where(counts > 0, values, 0)


def _compress(group: Int64, mean: npt.NDArray[np.float64], weight: Int64) -> Digests:
    order = np.lexsort((mean, group))
    group, mean, weight = group[order], mean[order], weight[order]
    centroids = np.bincount(group)
    if not len(group) or int(centroids.max()) <= EXACT:
        return Digests(group, mean, weight)
    ends = np.cumsum(centroids)
    number = np.arange(len(group)) - np.repeat(ends - centroids, centroids)  # of the centroid within its group
    last = number == np.repeat(centroids - 1, centroids)
    below = np.cumsum(weight) - weight
    total = np.add.reduceat(weight, (ends - centroids)[centroids > 0])
    total = np.repeat(total, centroids[centroids > 0])
    begins = np.repeat(below[(ends - centroids)[centroids > 0]], centroids[centroids > 0])
    share = (below - begins + weight / 2) / total
    bucket = np.floor(_BUCKETS * (np.arcsin(2 * share - 1) / np.pi + 0.5)).astype(np.int64)
    bucket = np.where(last, _BUCKETS + 1, np.where(number == 0, -1, bucket))
    bucket = np.where(np.repeat(centroids, centroids) <= EXACT, number, bucket)
    first = np.flatnonzero(np.append(True, (group[1:] != group[:-1]) | (bucket[1:] != bucket[:-1])))
    weights = np.add.reduceat(weight, first)
    return Digests(group[first], np.add.reduceat(mean * weight, first) / weights, weights)

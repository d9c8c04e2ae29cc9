"""Digests of many groups at once, against the values themselves."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npuprof.analysis.digests import EXACT, Digests
from npuprof.arrays import Int64

_SHAPES: dict[str, Callable[[np.random.Generator, int], object]] = {
    "even": lambda random, count: random.integers(0, 1 << 40, count),
    "skewed": lambda random, count: random.lognormal(12, 3, count),
    "repeated": lambda random, count: random.integers(0, 4, count) * 1000,
    "two humps": lambda random, count: (
        np.where(random.random(count) < 0.9, 1_000, 1_000_000) + random.integers(0, 9, count)
    ),
    "ascending": lambda random, count: np.arange(count),
}


def _values(seed: int, shape: str, count: int) -> Int64:
    return np.asarray(_SHAPES[shape](np.random.default_rng(seed), count)).astype(np.int64)


def _single(values: Int64) -> Digests:
    return Digests.of(np.zeros(len(values), np.int64), values)


def _distance(values: Int64, value: int, rank: int) -> int:
    """How many values lie between a value and the one of a rank."""
    ordered = np.sort(values)
    first, last = np.searchsorted(ordered, value, "left"), np.searchsorted(ordered, value, "right")
    return max(0, int(first) - rank, rank - int(last))


@given(
    st.integers(0, 99), st.sampled_from([*_SHAPES]), st.lists(st.integers(1, 2_000), min_size=1, max_size=12), st.data()
)
def test_merged_quantiles_are_within_1_5_percent(seed: int, shape: str, sizes: list[int], data: st.DataObject) -> None:
    values = _values(seed, shape, sum(sizes))
    parts = [_single(part) for part in np.split(values, np.cumsum(sizes)[:-1])]
    while len(parts) > 1:  # any two, or more
        chosen = data.draw(st.lists(st.integers(0, len(parts) - 1), min_size=2, max_size=len(parts), unique=True))
        merged = Digests.merged([parts[place] for place in chosen], [np.zeros(1, np.int64)] * len(chosen))
        parts = [part for place, part in enumerate(parts) if place not in chosen] + [merged]
    (digest,) = parts
    assert int(digest.weight.sum()) == int(digest.counts(1)[0]) == len(values)
    assert (digest.mean[0], digest.mean[-1]) == (values.min(), values.max())
    assert len(digest.mean) <= EXACT
    for percent in (0, 1, 5, 25, 50, 75, 95, 99, 100):
        rank = (len(values) - 1) * percent // 100
        (value,) = digest.values_at(np.array([rank])).tolist()
        assert values.min() <= value <= values.max()
        assert _distance(values, value, rank) <= 0.015 * len(values) + 1


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(-(1 << 40), 1 << 40)), max_size=EXACT))
def test_few_values_are_exact_and_groups_stay_apart(rows: list[tuple[int, int]]) -> None:
    group, values = (np.array([row[at] for row in rows], np.int64) for at in (0, 1))
    half = len(rows) // 2
    parts = [Digests.of(group[:half], values[:half]), Digests.of(group[half:], values[half:])]
    digest = Digests.merged(parts, [np.arange(5)] * 2)
    counts = digest.counts(5)
    assert counts.tolist() == np.bincount(group, minlength=5).tolist()
    for share in (0.0, 0.5, 0.95, 1.0):
        ranks = np.floor(np.maximum(counts - 1, 0) * share).astype(np.int64)
        expected = [
            sorted(values[group == number].tolist())[ranks[number]] if counts[number] else 0 for number in range(5)
        ]
        assert digest.values_at(ranks).tolist() == expected


def test_groups_of_any_size_beside_each_other_are_as_alone() -> None:
    sizes = [3, 5_000, 1, 0, EXACT, 900]
    values = [_values(number, "skewed", size) for number, size in enumerate(sizes)]
    group = np.repeat(np.arange(len(sizes)), sizes)
    together = Digests.of(group, np.concatenate(values))
    ranks = np.maximum(np.array(sizes) * 95 // 100 - 1, 0)
    alone = [int(_single(of).values_at(ranks[[number]])[0]) if len(of) else 0 for number, of in enumerate(values)]
    assert together.values_at(ranks).tolist() == pytest.approx(alone, rel=1e-9)

"""A few ranks that are faster than all others of their role."""

from __future__ import annotations

import numpy as np
import pytest

from npuprof.analysis.rank_fast import few_fast
from npuprof.analysis.rank_replay import Floats


def times_of(levels: list[float], noise: float, steps: int = 5, seed: int = 1) -> Floats:
    """Times of ranks x steps, of which each rank has a level."""
    random = np.random.default_rng(seed)
    times: Floats = np.array(levels)[:, None] * 1e6 * (1 + noise * random.standard_normal((len(levels), steps)))
    return times


@pytest.mark.parametrize(
    ("levels", "fast"),
    [
        ([1.15] * 7 + [1], [7]),
        ([1.15] * 3 + [1] + [1.15] * 2 + [1, 1.15], [3, 6]),
        ([1, 1.15, 1.15], [0]),
        ([1.15] * 6 + [1.4, 1], [7]),
        ([1] * 4 + [1.15] * 4, []),  # half of a role tells what is usual
        ([1] * 7 + [1.15], []),
        ([1.15, 1], []),
        ([1 + 0.02 * at for at in range(8)], []),  # each a little more than the one before
        ([1] * 8, []),
        ([1.15, 1.15], []),
    ],
)
def test_few_ranks_are_fast_where_all_others_take_longer_alike(levels: list[float], fast: list[int]) -> None:
    for noise in (0.0, 0.01):
        assert np.flatnonzero(few_fast(times_of(levels, noise))).tolist() == fast


def test_noise_is_no_reason_to_call_ranks_fast() -> None:
    called = [few_fast(times_of([1] * ranks, 0.1, seed=seed)).any() for ranks in (4, 8, 32) for seed in range(50)]
    assert sum(called) <= 1

"""Which steps of ranks that number them otherwise are the same."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npuprof.analysis.rank_waits import collectives
from tests.analysis.test_rank_faults import with_steps
from tests.analysis.test_rank_waits import synchronised
from tests.budget import examples

_RANKS, _STEPS = 4, 8


def job_of(seed: int, jitter: int) -> pd.DataFrame:
    """Eight steps of three collectives on four ranks, which take a millisecond before each, more or less."""
    random = np.random.default_rng(seed)
    own = 1_000_000 + random.integers(0, jitter + 1, (3 * _STEPS, _RANKS))
    return with_steps(synchronised(own.tolist(), [50_000] * 3 * _STEPS), 3)


def members_of(events: pd.DataFrame) -> set[int]:
    """How many ranks the collectives of a job have."""
    return set(collectives(events)["members"].tolist())


def renumbered(seed: int, jitter: int, shift: int, rank: int, ahead: int) -> tuple[pd.DataFrame, bool]:
    """The collectives of a job without two steps of a rank, and whether that rank's have the numbers that it gave."""
    events = job_of(seed, jitter)
    here = events["rank"] == rank
    other = events.assign(
        step=events["step"] + shift * here.astype("Int64"), start_ns=events["start_ns"] + ahead * here.astype("int64")
    )
    lacks = other[~(here & (other["step"] < other.loc[here, "step"].min() + 2)).to_numpy(bool)]
    joined = collectives(lacks)
    given_to = [set(rows.loc[rows["rank"] == rank, "step"]) for rows in (joined, lacks)]
    return joined, given_to[0] == given_to[1]


_SEED, _SHIFT = st.integers(0, 99), st.integers(-10, 30)
_RANK, _AHEAD = st.integers(0, _RANKS - 1), st.integers(-(10**10), 10**10)
_FOUND = {_RANKS: 18 * _RANKS, _RANKS - 1: 6 * (_RANKS - 1)}


@pytest.mark.parametrize("shift", [-1, 1, 30])
@pytest.mark.parametrize("ahead", [0, 1_500_000, -(10**10)])
def test_ends_tell_which_steps_are_the_same(shift: int, ahead: int) -> None:
    for seed in range(4):
        joined, _ = renumbered(seed, 300_000, shift, seed, ahead)
        assert joined.groupby("op")["step"].nunique().max() == 1
        assert joined["members"].value_counts().to_dict() == _FOUND


@settings(max_examples=examples(20))
@given(_SEED, st.sampled_from([0, 10_000, 100_000, 1_000_000]), _SHIFT, _RANK, _AHEAD)
def test_steps_have_right_numbers(seed: int, jitter: int, shift: int, rank: int, ahead: int) -> None:
    # Of steps that take as long a clock tells which is which, if it is not off by a quarter of one.
    apart = ahead if jitter >= 100_000 else ahead % 500_000
    joined, is_as_given = renumbered(seed, jitter, shift, rank, apart)
    assert is_as_given or joined["members"].value_counts().to_dict() == _FOUND


def test_equal_steps_join_by_clocks() -> None:
    events = job_of(0, 0)
    other = events.assign(step=events["step"] + (events["rank"] == 2).astype("Int64"))
    assert members_of(other) == {_RANKS}
    late = other.assign(start_ns=other["start_ns"] + 4_700_000 * (other["rank"] == 2))  # one and a half steps
    assert members_of(late) == {1, _RANKS - 1, _RANKS}  # as they are numbered: nothing tells


def test_steps_of_other_collectives_are_not_the_same() -> None:
    events = job_of(3, 100_000)
    here = (events["rank"] == 1).to_numpy(bool)
    other = events.assign(step=events["step"] + np.where(here, 1, 0))
    other.loc[here, "op_type"] = "hcom_broadcast_"
    joined = collectives(other)
    assert joined.loc[joined["rank"] == 1, "step"].min() == 11


def test_rank_lacking_steps_keeps_its_numbers() -> None:
    joined, is_as_given = renumbered(28, 10_000, 0, 3, 3_100_000)
    assert is_as_given
    assert joined["members"].value_counts().to_dict() == _FOUND

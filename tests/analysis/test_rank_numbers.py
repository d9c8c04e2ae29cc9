"""Which steps of ranks that number them otherwise are the same."""

from __future__ import annotations

import numpy as np
import pandas as pd
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


@settings(max_examples=examples(20))
@given(st.integers(0, 99), st.integers(-10, 30), st.integers(0, _RANKS - 1), st.integers(-(10**10), 10**10))
def test_ends_tell_which_steps_are_the_same(seed: int, shift: int, rank: int, ahead: int) -> None:
    events = job_of(seed, 100_000)
    here = events["rank"] == rank
    other = events.assign(
        step=events["step"] + shift * here.astype("Int64"), start_ns=events["start_ns"] + ahead * here.astype("int64")
    )
    assert members_of(other) == {_RANKS}
    lacks = other[~(here & (other["step"] < other.loc[here, "step"].min() + 2)).to_numpy(bool)]
    joined = collectives(lacks)
    assert joined.groupby("op")["step"].nunique().max() == 1
    assert joined["members"].value_counts().to_dict() == {_RANKS: 18 * _RANKS, _RANKS - 1: 6 * (_RANKS - 1)}


def test_steps_that_all_take_as_long_are_told_by_clocks_that_agree() -> None:
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

"""Nobody is named for what is too short to tell, or too little to matter."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from npuprof.analysis.rank_absent import with_absent
from npuprof.analysis.rank_blame import SMALL, blame_of, certain_blame
from npuprof.analysis.rank_replay import Job, job
from npuprof.analysis.rank_waits import LEAST_WAIT_NS, counts
from tests.analysis.test_rank_waits import synchronised
from tests.budget import examples

_US = 1_000


def _job(own_us: list[list[int]]) -> Job:
    return job(synchronised([[own * _US for own in times] for times in own_us], [50 * _US] * len(own_us)))


def test_nanoseconds_late_is_not_last() -> None:
    own = [[5_000_000, 5_000_000, 5_000_010], [5_000_000, 5_300_000, 5_000_000]]
    played = job(synchronised(own, [50_000, 50_000]))
    tells = counts(played.rows, played.clocks)
    split = with_absent(played.rows, {}, tells)
    last = split.groupby("op")["last_rank"].first()
    assert tells.tolist() == [False, True]
    assert last.isna().tolist() == [True, False]
    assert last.iloc[1] == 1
    roots = certain_blame(played)
    assert set(roots["root_rank"].dropna()) == {1}
    assert int(roots["wait_ns"][(roots["cause"] == SMALL).to_numpy(bool)].sum()) == 20


def test_clocks_that_are_known_badly_name_nobody() -> None:
    rng = np.random.default_rng(2)
    own = (5_000 + 300 * (np.arange(4) == 2) + rng.integers(0, 9, (40, 4))).tolist()
    rows = synchronised([[time * _US for time in times] for times in own], [50 * _US] * len(own))
    certain = job(rows)
    assert counts(certain.rows, certain.clocks).all()
    unsure = job(rows.assign(duration_ns=rows["duration_ns"] + rng.integers(0, 400 * _US, len(rows))))
    assert unsure.clocks.spreads.max() > LEAST_WAIT_NS
    assert not counts(unsure.rows, unsure.clocks).all()


def test_tiny_root_is_not_named() -> None:
    played = _job([[20_000, 20_150, 20_000], [20_000, 20_000, 23_000]] * 3)
    assert set(blame_of(played)["root_rank"].dropna()) == {1, 2}
    assert set(certain_blame(played)["root_rank"].dropna()) == {2}


@settings(max_examples=examples(40))
@given(st.lists(st.lists(st.integers(1, 4_000), min_size=3, max_size=3), min_size=2, max_size=8))
def test_named_and_small_waits_add_up(own_us: list[list[int]]) -> None:
    played = _job(own_us)
    roots = certain_blame(played)
    waited = played.rows.groupby("rank")["wait_ns"].sum()
    assert (roots.groupby("rank")["wait_ns"].sum().reindex(waited.index, fill_value=0) == waited).all()
    assert (roots["wait_ns"] > 0).all()
    assert set(roots["cause"]) <= {"own", "moving", SMALL}
    assert not roots[["rank", "cause", "root_rank"]].duplicated().any()

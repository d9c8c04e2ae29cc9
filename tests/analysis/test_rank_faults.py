"""Replays in several variants, roles, absent ranks, and the smallest set of changes that explains a loss."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npuprof.analysis.rank_absent import completed, members_of, with_absent
from npuprof.analysis.rank_joint import joint
from npuprof.analysis.rank_replay import Job, job, recorded_moving, replay
from npuprof.analysis.rank_roles import program_of, roles, stages
from npuprof.analysis.rank_suspects import Suspect, at_most, once, suspects
from npuprof.analysis.rank_variants import Less, step_times, without
from npuprof.arrays import Bools
from tests.analysis.test_rank_waits import rows, synchronised
from tests.budget import examples

_times = st.integers(2, 4).flatmap(
    lambda ranks: st.lists(
        st.tuples(st.lists(st.integers(0, 500), min_size=ranks, max_size=ranks), st.integers(1, 90)),
        min_size=2,
        max_size=8,
    )
)


def with_steps(communication: pd.DataFrame, each: int) -> pd.DataFrame:
    """Number the steps of a job: each has some collectives of every rank."""
    number = communication.groupby("rank").cumcount() // each + 10
    numbered: pd.DataFrame = communication.assign(step=number.astype("Int64"))
    return numbered


def job_of(own: list[list[int]], moving: int = 50, each: int = 1) -> Job:
    """A job in which every rank takes part in every collective."""
    return job(with_steps(synchronised(own, [moving] * len(own)), each))


@settings(max_examples=examples(30))
@given(_times, st.data())
def test_variants_are_what_single_replays_are(steps: list[tuple[list[int], int]], data: st.DataObject) -> None:
    events = with_steps(synchronised([own for own, _ in steps], [moving for _, moving in steps]), 2)
    played = job(events)
    own, moving = played.rows["own_ns"].to_numpy(np.float64), recorded_moving(played)
    count = len(own)
    faults = [
        Less(
            np.array(sorted(chosen), np.int64),
            np.array([data.draw(st.integers(-50, 400)) for _ in chosen], np.float64),
            np.array([0], np.int64),
            np.array([float(data.draw(st.integers(0, 40)))]),
        )
        for chosen in data.draw(st.lists(st.sets(st.integers(0, count - 1), min_size=1), min_size=1, max_size=3))
    ]
    variants: Bools = np.array(
        data.draw(
            st.lists(st.lists(st.booleans(), min_size=len(faults), max_size=len(faults)), min_size=1, max_size=4)
        ),
        bool,
    )
    times = step_times(played, own, moving, faults, variants)
    assert times.shape == (len(variants), len(played.steps))
    for made, variant in zip(times, variants, strict=True):
        chosen_faults = [fault for fault, is_chosen in zip(faults, variant, strict=True) if is_chosen]
        if len(chosen_faults) <= 1:  # of several, each is limited to what is left
            assert made.sum() == replay(played, *without(own, moving, chosen_faults))


@settings(max_examples=examples(30))
@given(_times, st.data())
def test_less_time_never_lengthens_a_replayed_job(steps: list[tuple[list[int], int]], data: st.DataObject) -> None:
    played = job(with_steps(synchronised([own for own, _ in steps], [moving for _, moving in steps]), 2))
    own, moving = played.rows["own_ns"].to_numpy(np.float64), recorded_moving(played)
    less_own = own * np.array([data.draw(st.floats(0, 1)) for _ in own])
    less_moving = moving * np.array([data.draw(st.floats(0, 1)) for _ in moving])
    assert replay(played, less_own, less_moving) <= replay(played, own, moving)


def test_equally_slow_ranks_are_both_named() -> None:
    played = job_of([[1_300, 1_000, 1_300, 1_000]] * 8)
    own, moving = played.rows["own_ns"].to_numpy(np.float64), recorded_moving(played)
    ranks = played.rows["rank"].to_numpy(np.int64)
    found = [
        Suspect("slow", (rank,), 300, Less(np.flatnonzero(ranks == rank), np.full(8, 300.0))) for rank in (0, 1, 2)
    ]
    explained = joint(played, own, moving, found)
    assert sorted(part.suspect.ranks for part in explained.parts) == [(0,), (2,)]
    assert [suspect.ranks for suspect in explained.hidden] == [(1,)]
    assert [part.alone_ns for part in explained.parts] == [0, 0]
    assert sum(part.share_ns for part in explained.parts) == explained.gain_ns == 300


def test_the_smallest_of_too_many_suspects_count_as_one() -> None:
    found = [Suspect("slow", (rank,), 100 - rank, Less(np.array([rank]), np.array([1.0]))) for rank in range(20)]
    few = at_most(found, 16)
    assert [one.ranks for one in few[:2]] == [(0,), (1,)]
    assert few[-1].ranks == (15, 16, 17, 18, 19)
    assert len(few) == 16
    assert at_most(found[:3], 16) == found[:3]


def noisy(ranks: int, steps: int, slow: dict[int, float], noise: float, seed: int) -> Job:
    """A job of data parallel ranks whose times vary, with ranks that are slower by a factor."""
    random = np.random.default_rng(seed)
    own = 1_000_000 * (1 + noise * random.standard_normal((4 * steps, ranks)))
    own *= [slow.get(rank, 1.0) for rank in range(ranks)]
    return job_of(own.astype(int).tolist(), 10_000, 4)


def test_a_rank_that_calls_too_early_once_hides_no_slow_one() -> None:
    random = np.random.default_rng(3)
    own = 2_000_000 * np.exp(0.6 * random.standard_normal((7, 4)))
    own[:, 2] = 32_000_000
    played = job_of(own.astype(int).tolist(), 50_000)
    times = played.rows["own_ns"].to_numpy(np.float64)
    ranks = played.rows["rank"].to_numpy(np.int64)
    times[np.flatnonzero(ranks == 1)[3]] = -1_500_000  # called before the collective before it had ended
    times[np.flatnonzero(ranks == 0)[3:5]] = 20_000
    (suspect,) = suspects(played, roles(played, stages(played)), times, {})
    assert suspect.ranks == (2,)
    assert suspect.surely


def ranks_found(played: Job) -> list[tuple[int, ...]]:
    own = played.rows["own_ns"].to_numpy(np.float64)
    return [one.ranks for one in suspects(played, roles(played, stages(played)), own, {})]


@pytest.mark.long
def test_healthy_ranks_are_hardly_ever_suspects() -> None:
    half = dict.fromkeys(range(8), 1.2)
    assert sorted(ranks_found(noisy(16, 6, half, 0.02, 1))) == [(rank,) for rank in range(8)]
    false = sum(len(ranks_found(noisy(16, 6, {}, noise, seed))) for seed in range(20) for noise in (0.01, 0.05, 0.2))
    assert false <= 1  # of 960 ranks


@pytest.mark.parametrize(("seed", "steps"), [(1, 6), (2, 4)])
def test_slow_host_is_not_late(seed: int, steps: int) -> None:
    """Before each of four collectives a step it takes more than 1 % of the step longer: by a factor, and not late."""
    random = np.random.default_rng(seed)
    own = 3_000_000 * (1 + 0.01 * random.standard_normal((4 * steps, 16)))
    slow, late = own.copy(), own.copy()
    slow[:, 8:] *= 1.12
    late[::4, 8:] += 1_500_000
    hosts = {"host 0": range(8), "host 1": range(8, 16)}
    for times, kind in ((slow, "slow"), (late, "late")):
        played = job_of(times.astype(int).tolist(), 400_000, 4)
        recorded = played.rows["own_ns"].to_numpy(np.float64)
        found = suspects(played, roles(played, stages(played)), recorded, hosts)
        assert {one.names: one.kind for one in found} == {("host 1",): kind}


@pytest.mark.parametrize("steps", [4, 6])
def test_slow_host_before_one_collective_is_not_late(steps: int) -> None:
    """As with gradient buckets, which are reduced at the end of a step."""
    random = np.random.default_rng(steps)
    usual = np.tile([28_000_000, 8_000_000, 8_000_000, 8_000_000], steps)[:, None]
    own = usual * (1 + 0.01 * random.standard_normal((4 * steps, 16)))
    slow, late = own.copy(), own.copy()
    slow[:, 8:] *= 1.12
    late[::4, 8:] += 6_000_000
    hosts = {"host 0": range(8), "host 1": range(8, 16)}
    for times, kind in ((slow, "slow"), (late, "late")):
        played = job_of(times.astype(int).tolist(), 400_000, 4)
        recorded = played.rows["own_ns"].to_numpy(np.float64)
        (one,) = suspects(played, roles(played, stages(played)), recorded, hosts)
        assert (one.names, one.kind) == (("host 1",), kind)
        (without_it, moving) = without(recorded, recorded_moving(played), [one.less])
        healthy = job_of(own.astype(int).tolist(), 400_000, 4)
        gained = replay(played, recorded, moving) - replay(played, without_it, moving)
        assert gained == pytest.approx(played.window_ns - healthy.window_ns, rel=0.05)


def test_once_late_rank_is_not_slow() -> None:
    own = [[1_000_000 + 100 * (at + rank) for rank in range(6)] for at in range(9)]
    own[4][2] += 5_000_000
    played = job_of(own)
    times = played.rows["own_ns"].to_numpy(np.float64)
    every = roles(played, stages(played))
    (one,) = once(played, every, times)
    assert (one.rank, one.step, one.still) == (2, 14, True)
    assert one.extra_ns == pytest.approx(5_000_000, rel=0.01)
    usual, _ = without(times, recorded_moving(played), [one.less])
    assert not suspects(played, every, usual, {})
    for at in (1, 5, 7):
        own[at][2] += 5_000_000
    assert not once(played, every, job_of(own).rows["own_ns"].to_numpy(np.float64))


def test_ranks_without_some_steps_keep_their_role() -> None:
    events = with_steps(synchronised([[1_000] * 5] * 6, [50] * 6), 1)
    few = events[(events["rank"] < 4) | (events["step"] < 13)]
    found = roles(job(few), [])
    assert [(role.ranks, role.steps) for role in found] == [((0, 1, 2, 3, 4), (10, 11, 12))]
    other = events.assign(
        op_type=events["op_type"].where(events["rank"] < 3, "hcom_broadcast_"),
        group=np.where(events["rank"] < 3, "g", "h"),
    )
    assert sorted(role.ranks for role in roles(job(other), [])) == [(0, 1, 2), (3, 4)]


_members = {"g": ("dp", (0, 1, 2))}


@settings(max_examples=examples(30))
@given(
    st.lists(
        st.tuples(st.lists(st.integers(0, 500), min_size=3, max_size=3), st.integers(1, 90)), min_size=2, max_size=8
    )
)
def test_wait_moving_and_absent_add_up(steps: list[tuple[list[int], int]]) -> None:
    whole = synchronised([own for own, _ in steps], [moving for _, moving in steps])
    played = job(whole[(whole["rank"] < 2).to_numpy(bool)])
    split = with_absent(played.rows, _members)
    durations = played.rows["wait_ns"] + played.rows["moving_ns"]
    assert (split["wait_ns"] + split["moving_ns"] + split["absent_ns"]).tolist() == durations.tolist()
    assert (split[["wait_ns", "moving_ns", "absent_ns"]] >= 0).all(axis=None)
    least = durations.groupby(played.rows["op"]).min().min()
    assert (split["moving_ns"] <= least).all()
    alone = with_absent(played.rows, {"g": ("dp", (0, 1))})
    assert not alone["absent_ns"].any()
    assert alone["moving_ns"].tolist() == played.rows["moving_ns"].tolist()


def test_who_is_last_is_unknown_where_an_absent_member_may_be() -> None:
    late = rows((0, "g", 0, 500_000), (1, "g", 10, 500_000), (0, "g", 600_000, 600_100), (1, "g", 600_020, 600_100))
    split = with_absent(job(late).rows, _members)
    assert split["last_rank"].isna().tolist() == [True, False] * 2
    assert split["absent_ns"].tolist() == [499_910, 0] * 2
    alone = with_absent(job(rows((0, "g", 0, 500_000), (0, "g", 600_000, 600_100))).rows, {"g": ("dp", (0,))})
    assert alone["moving_ns"].tolist() == [500_000, 100]


def test_an_absent_rank_arrives_when_the_others_have_waited_for_it() -> None:
    own = [[1_000_000, 1_000_000, 1_000_000], [1_000_000, 1_100_000, 1_500_000], [1_000_000, 900_000, 800_000]] * 2
    whole = job_of(own, each=3)
    events = with_steps(synchronised(own, [50] * len(own)), 3)
    played = job(events[(events["rank"] < 2).to_numpy(bool)])
    members = members_of(played.rows, _members)
    assert list(members.places) == [2]
    programs = [program_of(played, role) for role in roles(played, stages(played))]
    filled = completed(played, recorded_moving(played), members, programs)
    assert (filled.added, filled.unknown) == ((2,), ())
    arrived = filled.job.rows[(filled.job.rows["rank"] == 2).to_numpy(bool)]["own_ns"].to_numpy()
    recorded = whole.rows[(whole.rows["rank"] == 2).to_numpy(bool)]["own_ns"].to_numpy()
    assert arrived[[1, 4]].tolist() == recorded[[1, 4]].tolist()  # where it was last
    times = filled.job.rows["own_ns"].to_numpy(np.float64)
    assert replay(filled.job, times, filled.moving_ns) == played.window_ns
    assert (filled.job.rows["wait_ns"] >= 0).all()
    unknown = completed(played, recorded_moving(played), members, [])
    assert (unknown.added, unknown.unknown, unknown.job) == ((), (2,), played)


def test_rank_missing_the_last_collective_is_waited_for() -> None:
    whole = synchronised([[500, 600, 700]] * 4, [50_000, 90_000, 60_000, 50_000]).drop(columns="count")
    is_last = whole["start_ns"] >= whole.groupby("rank")["start_ns"].transform("max")
    hung_ns = 1_000_000_000
    hung = whole.assign(duration_ns=whole["duration_ns"] + hung_ns * is_last)[~(is_last & (whole["rank"] == 1))]
    split = with_absent(job(hung).rows, _members)
    last = split[(split["start_ns"] >= split.groupby("rank")["start_ns"].transform("max")).to_numpy(bool)]
    assert last["absent_ns"].drop(last.index[last["rank"] == 1]).min() > 0.99 * hung_ns
    assert split["moving_ns"].max() <= 91_000

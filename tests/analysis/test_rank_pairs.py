"""Sends in a group of several ranks, and ranks without steps, are joined as they belong together."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from npuprof.analysis import rank_blame
from npuprof.analysis.rank_absent import members_of
from npuprof.analysis.rank_blame import blame_of, certain_blame
from npuprof.analysis.rank_replay import job
from npuprof.analysis.rank_waits import collectives, waits
from npuprof.simulator.jobs import Faults, Plan, frames, simulate
from tests.advice.test_job import advice_of

pytestmark = pytest.mark.slow

_REPLICAS = 2
_PLAN = Plan(1, 4, _REPLICAS, steps=3, microbatches=8, layers=1, ranks_per_host=2, barrier=True)
_TIMES = ["wait_ns", "moving_ns", "last_rank"]


def job_of(*, clock_ms: float = 3.0) -> pd.DataFrame:
    """The collectives of two pipelines of four stages, on hosts whose clocks differ."""
    communication = frames.communication(simulate(_PLAN, Faults(clock_ms=clock_ms), 3)).astype({"step": "Int64"})
    ordered: pd.DataFrame = communication.sort_values(["rank", "start_ns"], ignore_index=True)
    return ordered


def in_one_group(communication: pd.DataFrame, *, receives: bool = False) -> pd.DataFrame:
    """The same job with all sends of a pipeline in one group; the higher rank of a pair may call them receives."""
    types = communication["op_type"].astype(str)
    is_send = types.str.contains("Send").to_numpy(bool)
    lowest = communication.groupby(communication["group"].astype(str))["rank"].transform("min")
    higher = is_send & (communication["rank"] > lowest).to_numpy(bool)
    pipeline = "pipeline " + (communication["rank"] % _REPLICAS).astype(str)
    merged: pd.DataFrame = communication.assign(
        group=communication["group"].astype(str).where(~is_send, pipeline),
        op_type=types.mask(higher, "hcom_receive_").mask(is_send & ~higher, "hcom_send_") if receives else types,
    )
    return merged


@pytest.mark.long
@pytest.mark.parametrize("receives", [False, True])
@pytest.mark.parametrize("clock_ms", [0.0, 50.0])
def test_sends_of_a_group_are_pairs(clock_ms: float, *, receives: bool) -> None:
    apart = job_of(clock_ms=clock_ms)
    together = in_one_group(apart, receives=receives)
    assert waits(together)[_TIMES].equals(waits(apart)[_TIMES])
    of_pairs, of_pipelines = advice_of(apart), advice_of(together)
    assert of_pipelines["pipeline_bubble"].detail == of_pairs["pipeline_bubble"].detail
    assert [one.rule for one in of_pipelines] == [one.rule for one in of_pairs]


@pytest.mark.parametrize("missing", [{4}, {2, 3}, {0, 6}])
def test_nobody_is_waited_for_who_has_no_part_in_a_send(missing: set[int]) -> None:
    """What others send to an absent rank has no other side here, and nobody is blamed for it."""
    apart = job_of()
    left = apart[~apart["rank"].isin(missing)].reset_index(drop=True)
    found, whole = waits(in_one_group(left)), waits(left)
    assert found[_TIMES].equals(whole[_TIMES])
    advice = advice_of(in_one_group(left), absent=tuple(missing))
    assert [rule for rule in ("slow_rank", "stall", "absent_ranks") if advice[rule].state == "fires"] == []


def naming_peers(communication: pd.DataFrame, *, receives: bool) -> pd.DataFrame:
    """The same job in which sends name the rank that they are for, and receives, if any, the one that they are from."""
    together, group = in_one_group(communication, receives=receives), communication["group"].astype(str)
    types = together["op_type"].astype(str)
    is_send, is_receive = types.str.contains("end"), types.str.contains("receive")
    sums = communication.drop_duplicates(["group", "rank"]).groupby(communication["group"].astype(str))["rank"].sum()
    peer = (group.map(sums) - communication["rank"]).astype("Int64")
    named: pd.DataFrame = together.assign(dst_rank=peer.where(is_send), src_rank=peer.where(is_receive))
    return named


@pytest.mark.parametrize("receives", [False, True])
def test_sends_that_name_the_other_rank_need_no_clocks(*, receives: bool) -> None:
    """Neither do they need ends: on two of three ranks operators end 2 and 4 ms later than they did."""
    apart = job_of()
    named = naming_peers(apart, receives=receives)
    found, whole = waits(named), waits(apart)
    assert found[_TIMES].equals(whole[_TIMES])
    assert set(found["group"]) == {f"pipeline {low % 2}, ranks {low} and {low + 2}" for low in range(6)} | set(
        apart["group"][~named["dst_rank"].notna() & ~named["src_rank"].notna()]
    )
    late = named.assign(duration_ns=named["duration_ns"] + 2_000_000 * (named["rank"] % 3))
    moved = waits(late)
    assert set(moved["group"]) == set(found["group"])
    assert (moved.groupby("op")["rank"].nunique() == found.groupby("op")["rank"].nunique()).all()


def test_names_of_ranks_that_do_not_agree_are_not_followed() -> None:
    apart = job_of()
    named = naming_peers(apart, receives=False)
    numbered_in_groups = named.assign(dst_rank=named["dst_rank"] % 4)
    assert waits(numbered_in_groups)[_TIMES].equals(waits(apart)[_TIMES])


def test_mutual_sends_are_joined() -> None:
    """Both begin with the send, so that the first operator of one is not the first one of the other."""
    start = [0, 5_000_000, 1_000_000, 5_100_000]
    rows = pd.DataFrame(
        {
            "rank": [0, 0, 1, 1],
            "step": pd.array([1] * 4, "Int64"),
            "group": ["pp"] * 4,
            "op_type": ["send", "recv"] * 2,
            "count": pd.array([8] * 4, "Int64"),
            "start_ns": start,
            "duration_ns": [5_400_000, 500_000, 4_500_000, 300_000],
            "src_rank": pd.array([None, 1, None, 0], "Int64"),
            "dst_rank": pd.array([1, None, 0, None], "Int64"),
        }
    )
    joined_rows = collectives(rows).set_index(["rank", "op_type"])["op"]
    assert joined_rows[0, "send"] == joined_rows[1, "recv"] != joined_rows[0, "recv"] == joined_rows[1, "send"]


def test_sends_name_absent_partners() -> None:
    apart = job_of()
    left = naming_peers(apart, receives=True).query("rank != 4").reset_index(drop=True)
    lacking = members_of(job(left).rows, {})
    assert set(lacking.places) == {4}
    assert lacking.fellows[4] == {2, 4, 6}


@pytest.mark.long
def test_orders_that_contradict_each_other_leave_waits_that_add_up() -> None:
    """Where some ranks count the first operator of a step to the step before, no order fits all ranks."""
    apart = job_of()
    first = apart.groupby(["rank", "step"])["start_ns"].transform("min") == apart["start_ns"]
    shifted = apart.assign(step=(apart["step"] - (first & (apart["rank"] % 4 > 1))).clip(lower=0))
    shifted = in_one_group(shifted).sort_values(["rank", "start_ns"], ignore_index=True)
    played = job(shifted)
    assert played.waves.blocked >= 0
    roots = certain_blame(played)
    waited = played.rows.groupby("rank")["wait_ns"].sum()
    assert (roots.groupby("rank")["wait_ns"].sum().reindex(waited.index, fill_value=0) == waited).all()


@pytest.mark.parametrize("much", [1e15, 0.0])
def test_causes_that_were_passed_on_in_a_circle_are_scaled(monkeypatch: pytest.MonkeyPatch, much: float) -> None:
    played = job(job_of())
    shares = np.arange(len(played.ranks) + 1.0) * much
    monkeypatch.setattr(rank_blame, "blamed", lambda *_: np.tile(shares, (len(played.ranks), 1)))
    waited = played.rows.groupby("rank")["wait_ns"].sum()
    roots = blame_of(played)
    assert (roots.groupby("rank")["wait_ns"].sum().reindex(waited.index, fill_value=0) == waited).all()
    of_last = roots[(roots["root_rank"] == 7).fillna(value=False).to_numpy(bool)].set_index("rank")["wait_ns"]
    expected = waited * 7 / 36 if much else waited * 0.0
    assert (abs(of_last.reindex(waited.index, fill_value=0) - expected) <= 1).all()


def test_send_and_receive_join_with_counts() -> None:
    apart = job_of()
    lowest = apart.groupby(apart["group"].astype(str))["rank"].transform("min")
    types = apart["op_type"].astype(str)
    is_send = types.str.contains("Send")
    kinds = types.mask(is_send & (apart["rank"] > lowest), "hcom_receive_").mask(
        is_send & (apart["rank"] == lowest), "hcom_send_"
    )
    assert waits(apart.assign(op_type=kinds, count=64))[_TIMES].equals(waits(apart)[_TIMES])


@pytest.mark.parametrize("some", [{1}, {2, 4}, {1, 2, 4, 7}])
def test_ranks_without_steps_have_those_of_the_others(some: set[int]) -> None:
    whole = job_of()
    lacking = whole.assign(step=whole["step"].mask(whole["rank"].isin(some), pd.NA))
    told = ["rank", "step", "group", "k", *_TIMES]
    assert waits(lacking)[told].equals(waits(whole)[told])


def test_ranks_that_all_lack_steps_are_joined_as_one() -> None:
    whole = job_of()
    none = whole.assign(step=pd.array([None] * len(whole), "Int64"))
    assert waits(none)[_TIMES].equals(waits(whole)[_TIMES])
    assert np.isnan(waits(none)["step"].to_numpy(float, na_value=np.nan)).all()

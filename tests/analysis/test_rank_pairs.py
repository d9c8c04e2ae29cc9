"""Sends in a group of several ranks, and ranks without steps, are joined as they belong together."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from npuprof.analysis.rank_waits import waits
from npuprof.simulator.jobs import Faults, Plan, frames, simulate
from tests.advice.test_job import advice_of

pytestmark = pytest.mark.slow

_REPLICAS = 2
_PLAN = Plan(1, 4, _REPLICAS, steps=3, microbatches=8, layers=1, ranks_per_host=2)
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
def test_sends_in_a_group_of_all_stages_are_of_two_ranks_each(clock_ms: float, *, receives: bool) -> None:
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


def test_a_send_and_its_receive_are_joined_though_both_have_a_count() -> None:
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

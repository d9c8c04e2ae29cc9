"""Collectives joined across ranks: clocks, waits, what-if and the critical path."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import npuprof
from npuprof.analysis.rank_blame import blame
from npuprof.analysis.rank_clocks import clocks
from npuprof.analysis.rank_kernels import Savings, of_kernels, of_ranks, saved_ns, together
from npuprof.analysis.rank_replay import critical_path, job, recorded_moving, replay, what_if
from npuprof.analysis.rank_waits import collectives, waits
from npuprof.arrays import Float64
from npuprof.errors import NpuprofError, OptionsError
from tests.budget import examples

pytestmark = pytest.mark.slow

_BASE = 1_763_600_000_000_000_123


def rows(*events: tuple[int, str, int, int], op_type: str = "hcom_allReduce_", count: int = 1) -> pd.DataFrame:
    """Collectives of rank, group, start and end."""
    frame: pd.DataFrame = pd.DataFrame(
        {
            "rank": pd.array([event[0] for event in events], "Int64"),
            "step": pd.array([None] * len(events), "Int64"),
            "group": [event[1] for event in events],
            "op_type": op_type,
            "count": count,
            "start_ns": np.array([event[2] for event in events], np.int64) + _BASE,
            "duration_ns": np.array([event[3] - event[2] for event in events], np.int64),
        }
    )
    return frame


def synchronised(own: list[list[int]], moving: list[int]) -> pd.DataFrame:
    """A job in which every rank takes part in every collective, from the times of each rank before each of them."""
    events, clock = [], 0
    for segments, transfer in zip(own, moving, strict=True):
        arrive = [clock + segment for segment in segments]
        end = max(arrive) + transfer
        events += [(rank, "g", start, end) for rank, start in enumerate(arrive)]
        clock = end
    return rows(*events)


@pytest.fixture(scope="module")
def llm(samples: Path) -> pd.DataFrame:
    """The collectives of four ranks: two pipeline stages of two."""
    runs = npuprof.load_set(samples / "torch_npu/llm_4ranks")
    return runs.table("communication")


def test_the_clocks_of_real_ranks(llm: pd.DataFrame) -> None:
    found = clocks(collectives(llm))
    assert [found.lead(rank).offset_ns / 1e3 for rank in range(4)] == pytest.approx([0, -1.5, -25.4, 1.0], abs=0.15)


def test_the_waits_of_real_ranks(llm: pd.DataFrame) -> None:
    found = waits(llm)
    sums = found.groupby("rank")[["wait_ns", "moving_ns"]].sum() / 1e6
    assert sums["wait_ns"].tolist() == pytest.approx([318.29, 339.87, 175.75, 159.67], abs=0.01)
    assert sums["moving_ns"].between(101.8, 101.9).all()
    blame = found[found["wait_ns"] > 0].groupby(["rank", "last_rank"])["wait_ns"].sum() / 1e6
    assert blame.round(1).to_dict() == {
        (0, 2): 316.1,
        (0, 3): 2.2,
        (1, 0): 11.4,
        (1, 3): 328.5,
        (2, 0): 157.3,
        (2, 3): 18.4,
        (3, 1): 159.7,
    }


def test_what_real_ranks_would_gain(llm: pd.DataFrame) -> None:
    unchanged = what_if(llm)
    assert unchanged.recorded_ns / 1e6 == pytest.approx(796.81, abs=0.01)
    assert unchanged.replayed_ns / 1e6 == pytest.approx(796.75, abs=0.01)
    assert unchanged.gain_ns == 0
    assert what_if(llm, transfer=0).gain_ns / 1e6 == pytest.approx(101.8, abs=0.05)
    assert what_if(llm, transfer=1 / 1.25).gain_ns / 1e6 == pytest.approx(20.4, abs=0.05)
    assert what_if(llm, balance="stages").gain_ns / 1e6 == pytest.approx(32.0, abs=0.05)


@pytest.mark.slow
def test_the_critical_path_of_real_ranks(llm: pd.DataFrame) -> None:
    path = critical_path(llm)
    assert path["duration_ns"].sum() == job(llm).window_ns
    own = path[path["kind"] == "own"].groupby("rank")["duration_ns"].sum() / 1e6
    assert own[2] + own[3] == pytest.approx(521.4, abs=0.1)
    assert own[0] + own[1] == pytest.approx(173.6, abs=0.1)
    assert path.loc[path["kind"] == "transfer", "duration_ns"].sum() / 1e6 == pytest.approx(101.9, abs=0.1)


@pytest.mark.slow
def test_whose_own_time_the_waits_of_real_ranks_come_from(llm: pd.DataFrame) -> None:
    found = blame(llm)
    assert found.groupby("rank")["wait_ns"].sum().tolist() == waits(llm).groupby("rank")["wait_ns"].sum().tolist()
    own = found[found["cause"] == "own"].groupby("root_rank")["wait_ns"].sum() / 1e6
    assert own.tolist() == pytest.approx([178.1, 154.9, 304.7, 355.8], abs=0.1)
    assert found.loc[found["cause"] == "moving", "wait_ns"].sum() / 1e6 == pytest.approx(0.1, abs=0.05)


def test_passed_on_wait_belongs_to_its_root() -> None:
    # Rank 2 is slow and lets rank 1 wait, which is therefore late where rank 0 waits for it.
    events = rows((1, "b", 10, 110), (2, "b", 100, 110), (0, "a", 20, 130), (1, "a", 120, 130), (0, "c", 0, 5))
    clocked = pd.concat([events, rows((1, "c", 0, 5), (2, "c", 0, 5))], ignore_index=True)
    found = blame(clocked)
    sums = found.groupby(["rank", "root_rank"])["wait_ns"].sum()
    assert sums[1, 2] == 90
    assert (sums[0, 2], sums.get((0, 1), 0)) == (90, 0)  # rank 1 is late by its wait, and by the 10 ns of "b" itself
    assert found.loc[(found["rank"] == 0) & (found["cause"] == "moving"), "wait_ns"].tolist() == [10]


_jobs = st.integers(2, 4).flatmap(
    lambda ranks: st.lists(
        st.tuples(st.lists(st.integers(0, 500), min_size=ranks, max_size=ranks), st.integers(0, 90)),
        min_size=1,
        max_size=8,
    )
)


@settings(max_examples=examples(30))
@given(_jobs)
def test_replayed_job_takes_as_long(steps: list[tuple[list[int], int]]) -> None:
    played = job(synchronised([own for own, _ in steps], [moving for _, moving in steps]))
    times = played.rows["own_ns"].to_numpy(np.int64)
    assert replay(played, times, recorded_moving(played)) == played.window_ns
    path = critical_path(synchronised([own for own, _ in steps], [moving for _, moving in steps]))
    assert path["duration_ns"].sum() == played.window_ns
    assert (path["duration_ns"] >= 0).all()
    events = synchronised([own for own, _ in steps], [moving for _, moving in steps])
    told = blame(events).groupby("rank")["wait_ns"].sum()
    waited = waits(events).groupby("rank")["wait_ns"].sum()
    assert told.to_dict() == waited[waited > 0].to_dict()


@settings(max_examples=examples(30))
@given(_jobs, st.integers(-5_000, 5_000))
def test_a_clock_that_is_ahead_changes_no_wait(steps: list[tuple[list[int], int]], ahead: int) -> None:
    recorded = synchronised([own for own, _ in steps], [moving for _, moving in steps])
    shifted = recorded.assign(start_ns=recorded["start_ns"] + ahead * (recorded["rank"] == 1).astype("int64"))
    assert clocks(collectives(shifted)).lead(1).offset_ns == ahead
    assert waits(shifted)["wait_ns"].tolist() == waits(recorded)["wait_ns"].tolist()


def test_a_slow_rank_is_predicted_as_if_it_were_not() -> None:
    slow = synchronised([[100, 150, 100]] * 5, [10] * 5)
    fast = synchronised([[100, 100, 100]] * 5, [10] * 5)
    predicted = what_if(slow, rank={1: 100 / 150}).predicted_ns
    # The first stretch of the job begins at its first arrival: what came before is not recorded.
    assert predicted - 50 * 2 / 3 <= job(fast).window_ns <= predicted
    with pytest.raises(OptionsError, match="no rank 7"):
        what_if(slow, rank={7: 0.5})
    with pytest.raises(OptionsError, match="balance"):
        what_if(slow, balance="ranks")  # type: ignore[arg-type]


def test_an_operator_with_one_profiled_member_has_no_wait() -> None:
    (one,) = waits(rows((3, "g", 0, 25))).to_dict("records")
    assert (one["wait_ns"], one["moving_ns"], one["last_rank"]) == (0, 25, 3)


def test_operators_of_a_group_whose_types_differ_are_matched_by_type() -> None:
    reduces = rows((0, "g", 0, 10), (0, "g", 40, 50), (1, "g", 0, 10))
    gathers = rows((0, "g", 20, 30), (1, "g", 20, 30), op_type="hcom_allGather_")
    found = collectives(pd.concat([reduces, gathers], ignore_index=True))
    assert found.groupby("op")["op_type"].nunique().max() == 1
    assert sorted(found["members"]) == [1, 2, 2, 2, 2]


def test_ranks_that_block_each_other_are_refused_with_the_operator() -> None:
    crossed = rows((0, "a", 0, 30), (0, "b", 40, 50), (1, "b", 0, 30), (1, "a", 40, 50))
    with pytest.raises(NpuprofError, match="waits for a member that never reaches it"):
        what_if(crossed)
    with pytest.raises(NpuprofError, match="no rank has a collective"):
        what_if(crossed[:0])


def test_ranks_whose_clocks_nothing_compares_are_not_played_one_after_another() -> None:
    def hosts(ahead: int) -> pd.DataFrame:
        return rows(
            *[
                (rank, group, start + ahead * (rank > 1), start + ahead * (rank > 1) + 90)
                for rank, group in enumerate("aabb")
                for start in (0, 100)
            ]
        )

    assert what_if(hosts(50)).predicted_ns == 240
    for answer in (what_if, critical_path):
        with pytest.raises(NpuprofError, match="no collective synchronises the clocks of ranks 0 and 2"):
            answer(hosts(5 * 3600 * 10**9))


def kernels_of(rank: int, *spans: tuple[int, int]) -> pd.DataFrame:
    """Kernels of one rank by start and end."""
    frame: pd.DataFrame = pd.DataFrame(
        {
            "rank": pd.array([rank] * len(spans), "Int64"),
            "start_ns": np.array([start for start, _ in spans], np.int64) + _BASE,
            "duration_ns": np.array([end - start for start, end in spans], np.int64),
        }
    )
    return frame


def test_faster_kernels_shorten_the_way_to_collectives() -> None:
    events = synchronised([[0, 0], [100, 140]], [10, 10])  # rank 1 is late at the second one
    kernels = kernels_of(1, (10, 60), (50, 90), (95, 100))
    played = job(events)
    half = saved_ns(of_ranks(kernels, np.array([1, 0.5, 1])), played)
    # The second kernel is alone for 30 ns. Rank 0 has no kernels, and the same collectives.
    assert half.tolist() == [0, 15, 0, 15]
    assert what_if(events, saved_ns=lambda played: half).gain_ns == 15
    with pytest.raises(NpuprofError, match="rank 0 has no kernels"):
        saved_ns(of_ranks(kernels_of(2, (0, 1)), np.ones(1)), played)


_RANGES = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20), st.integers(0, 4)), max_size=12)


def saved_each(savings: Savings) -> Float64:
    """The fraction of each of the first 80 ns after the base that is saved."""
    moments = np.zeros(80)
    for start, end, fraction in zip(*savings, strict=True):
        assert not moments[start - _BASE : end - _BASE].any()
        moments[start - _BASE : end - _BASE] = fraction
    return moments


@given(_RANGES)
def test_faster_kernel_saves_its_lone_time(rows: list[tuple[int, int, int]]) -> None:
    kernels = kernels_of(0, *((start, start + length) for start, length, _ in rows))
    expected = []
    for moment in range(80):
        running = [quarters for start, length, quarters in rows if start <= moment < start + length]
        expected.append(1 - running[0] / 4 if len(running) == 1 else 0)
    saved = of_kernels(kernels, np.array([quarters / 4 for *_, quarters in rows]))
    assert saved_each(saved).tolist() == expected


@given(_RANGES, _RANGES)
def test_time_that_is_saved_twice_counts_once(one: list[tuple[int, int, int]], two: list[tuple[int, int, int]]) -> None:
    parts = [of_kernels(kernels_of(0, *((a, a + b) for a, b, _ in rows)), np.zeros(len(rows))) for rows in (one, two)]
    either = np.maximum(saved_each(parts[0]), saved_each(parts[1]))
    assert saved_each(together(parts)).tolist() == either.tolist()


def test_what_kernels_on_the_vocabulary_cost_real_ranks(samples: Path) -> None:
    runs = npuprof.load_set(samples / "torch_npu/llm_4ranks")
    communication, kernels = runs.table("communication"), runs.table("kernels")
    shapes = kernels["input_shapes"].astype(str) + kernels["output_shapes"].astype(str)
    other = shapes.str.contains("151936") & (kernels["rank"] == 2) & ~kernels["op_type"].isin(["MatMulV3"])
    vector = other & (kernels["task_type"] == "AI_VECTOR_CORE")
    for chosen, gain in ((vector, 108.7), (other & (kernels["op_type"] != "TransData"), 105.2)):
        factors = np.where(chosen.to_numpy(bool), 0.0, 1.0)
        saved = partial(saved_ns, of_ranks(kernels, factors))
        assert what_if(communication, saved_ns=saved).gain_ns / 1e6 == pytest.approx(gain, abs=0.05)
    exponents = runs.what_if(kernel={"Exp": 0, "RealDiv": 0})
    assert 0 < exponents.gain_ns <= kernels.query("rank == 2 and op_type in ('Exp', 'RealDiv')")["duration_ns"].sum()
    assert "'Exp' x 0: 2 kernels" in str(exponents)

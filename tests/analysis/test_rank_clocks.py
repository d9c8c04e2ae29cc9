"""Clocks of generated jobs, whose true offsets and speeds are known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from npuprof.analysis.rank_blame import blame
from npuprof.analysis.rank_clocks import clocks
from npuprof.analysis.rank_order import waves
from npuprof.analysis.rank_waits import collectives, waits
from npuprof.simulator.jobs import SIZES, Faults, frames, simulate


@pytest.mark.slow
@pytest.mark.parametrize(("ranks", "steps"), [(8, 2), (64, 1)])
def test_offsets_of_milliseconds_are_found_to_a_microsecond(ranks: int, steps: int) -> None:
    job = simulate(replace(SIZES[ranks], steps=steps, ranks_per_host=4), Faults(drift=0), seed=4)
    found = clocks(collectives(frames.communication(job)))
    truth = job.clock_ns - job.clock_ns[0]
    assert np.ptp(truth) > 1_000_000
    assert np.abs(found.offsets - truth).max() < 1_000
    assert (found.rates == 0).all()


@pytest.mark.slow
def test_clocks_of_other_speeds_are_aligned_over_minutes() -> None:
    job = simulate(replace(SIZES[8], steps=2, ranks_per_host=2), Faults(clock_ms=3, drift=0), seed=5)
    recorded = frames.communication(job)
    longer = 100 * (recorded["start_ns"] - recorded["start_ns"].min())  # half a second becomes some 50 s
    ahead = np.where(recorded["rank"].isin([2, 3]), np.rint(longer * 1e-5), 0).astype(np.int64)
    start = (recorded["start_ns"].min() + longer + ahead).to_numpy(np.int64)
    end = start + 100 * recorded["duration_ns"].to_numpy(np.int64)
    drifting = recorded.assign(start_ns=start, duration_ns=end - start)
    found = clocks(collectives(drifting))
    assert found.rates[2:4] == pytest.approx(1e-5, abs=1e-6)
    assert found.rates[[0, 1, 4, 5, 6, 7]] == pytest.approx(0, abs=1e-6)  # ends jitter by 25 us here


@pytest.mark.slow
def test_slow_card_is_the_root_of_most_waits() -> None:
    table = frames.communication(simulate(replace(SIZES[64], steps=2), Faults(slow_ranks={21: 0.08}), seed=6))
    found = blame(table)
    own = found[found["cause"] == "own"].groupby("root_rank")["wait_ns"].sum()
    assert own.idxmax() == 21
    assert own[21] > 3 * own.drop(21).max()
    assert found["wait_ns"].sum() == waits(table)["wait_ns"].sum()


def test_waves_keep_each_ranks_order() -> None:
    rank, op = np.array([0, 0, 0, 1, 1, 2, 2]), np.array([0, 1, 2, 0, 2, 3, 1])
    order = waves(rank, op)
    assert order.blocked == -1
    parts = [order.rows[a:b].tolist() for a, b in zip(order.begins, order.begins[1:], strict=False)]
    assert [sorted(part) for part in parts] == [[0, 3, 5], [1, 6], [2, 4]]
    assert waves(np.array([0, 0, 1, 1]), np.array([0, 1, 1, 0])).blocked == 0

"""A device that is behind when the last step ends: the steps are then those of launches, and the report says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import npuprof
from npuprof import simulator
from npuprof.analysis.backlog import backlog
from npuprof.ranks.profile_set import ProfileSet
from npuprof.simulator import npu

_STEPS, _SUMS = 6, 8


def _job(folder: Path, ranks: int, *, waits: bool) -> ProfileSet:
    """Record ranks whose host takes the same time in each step; the last one computes twice as much."""

    def train(rank: Any) -> None:
        left = npu.ones((2048, 2048))
        rank.step()
        for _ in range(_STEPS):
            for _ in range(_SUMS * (2 if rank.rank == ranks - 1 else 1)):
                sums = left + left
            reduced = rank.all_reduce(sums.mean())
            if waits:
                reduced.item()
            rank.step()

    simulator.ranks(ranks).run(train, folder)
    return npuprof.load_set(folder)


def test_early_ending_steps_are_told(tmp_path: Path) -> None:
    run = _job(tmp_path, 1, waits=False)[0]
    advice = run.advice()
    late = advice.facts.backlog
    assert late is not None
    kernels, steps = run.kernels, run.steps
    done_ns, ended_ns = (int((table["start_ns"] + table["duration_ns"]).max()) for table in (kernels, steps))
    assert late.behind_ns == done_ns - ended_ns
    assert late.host_ns == advice.step_ns
    of_each = (done_ns - int(kernels["start_ns"].iloc[1])) / _STEPS  # the first one fills the array
    assert late.device_ns == pytest.approx(of_each, rel=0.05)
    assert "The host runs ahead: it launches a step in" in str(advice)
    assert "Together they explain" not in str(advice)
    assert "The host runs ahead" in (advice._repr_html_() or "")


def test_host_one_step_ahead_keeps_pace(tmp_path: Path) -> None:
    def train(rank: Any) -> None:
        left, ends = npu.ones((2048, 2048)), []
        rank.step()
        for _ in range(5 * _STEPS):  # the first two only fill the queue
            for _ in range(_SUMS // 2):
                left + left
            ends.append(npu.current_stream().record())
            ends[max(0, len(ends) - 2)].synchronize()
            rank.step()

    simulator.ranks(1).run(train, tmp_path)
    run = npuprof.load_set(tmp_path)[0]
    kernels, steps = run.kernels, run.steps
    done_ns, ended_ns = (int((table["start_ns"] + table["duration_ns"]).max()) for table in (kernels, steps))
    assert done_ns > ended_ns
    assert run.advice().facts.backlog is None


def test_steps_that_wait_for_the_device_are_as_they_are_marked(tmp_path: Path) -> None:
    run = _job(tmp_path, 1, waits=True)[0]
    assert run.advice().facts.backlog is None
    assert "The host runs ahead" not in str(run.advice())


def test_launches_after_steps_are_no_backlog(tmp_path: Path) -> None:
    run = _job(tmp_path, 1, waits=True)[0]
    steps = run.steps.iloc[: _STEPS // 2]  # as if the loop had ended there
    assert backlog({**run.tables, "steps": steps}, int(steps["duration_ns"].mean())) is None


@pytest.mark.long
def test_furthest_rank_is_told_from_the_cache(tmp_path: Path) -> None:
    job = _job(tmp_path, 2, waits=False)
    behind = [job[rank].advice().facts.backlog for rank in (0, 1)]
    largest = max(late.behind_ns for late in behind if late is not None)
    found = job.advice().facts.backlog
    assert found is not None
    assert found.behind_ns == largest
    made, kept = job.overview().advice, npuprof.load_set(tmp_path).overview().advice
    assert made is not None
    assert kept is not None
    assert made.lateness() == kept.lateness() != []

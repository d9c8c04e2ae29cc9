"""A pipeline whose schedule is known from its sends, and what more micro-batches would gain."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npuprof.analysis.pipeline_model import Pipeline, Schedule, StageTimes, pipeline_of, program
from tests.budget import examples

_SCHEDULES = get_args(Schedule)


def recorded(schedule: Schedule, stages: int, microbatches: int, *, tail_ns: float = 0) -> list[StageTimes]:
    """The times of stages with a forward pass of 100 and a backward pass of 200."""
    times = []
    for stage in range(stages):
        borders: list[str] = []
        before, work = [], 0.0
        for token in program(schedule, stages, microbatches, stage):
            if token in ("forward", "backward"):
                work += 100 if token == "forward" else 200
            else:
                borders.append(token)
                before.append(work)
                work = 0.0
        times.append(StageTimes(tuple(borders), np.array(before), work + tail_ns, np.zeros(len(borders))))
    return times


@pytest.mark.parametrize("schedule", _SCHEDULES)
@pytest.mark.parametrize(("stages", "microbatches"), [(2, 2), (4, 8), (4, 3), (8, 16)])
def test_even_stages_take_what_theory_says(schedule: Schedule, stages: int, microbatches: int) -> None:
    pipeline = pipeline_of(recorded(schedule, stages, microbatches, tail_ns=50))
    assert pipeline is not None
    assert pipeline.microbatches == microbatches
    assert pipeline.step_ns() == pytest.approx(300 * (microbatches + stages - 1) + 50)
    assert pipeline.theory() == (stages - 1) / (microbatches + stages - 1)
    assert pipeline.theory(2) == (stages - 1) / (2 * microbatches + stages - 1)
    assert pipeline.step_ns(2) == pytest.approx(150 * (2 * microbatches + stages - 1) + 50)


def test_the_schedule_is_that_of_the_sends() -> None:
    for schedule in _SCHEDULES:
        pipeline = pipeline_of(recorded(schedule, 4, 8))
        assert pipeline is not None
        assert pipeline.schedule == schedule
    mixed = recorded("GPipe", 4, 8)[:2] + recorded("1F1B", 4, 8)[2:]
    assert pipeline_of(mixed) is None
    assert pipeline_of([StageTimes((), np.zeros(0), 0.0, np.zeros(0))] * 2) is None


@settings(max_examples=examples(40))
@given(
    st.sampled_from(_SCHEDULES),
    st.integers(2, 6),
    st.integers(1, 8),
    st.lists(st.floats(1, 1000), min_size=96, max_size=96),
    st.floats(0, 50),
)
def test_step_is_never_shorter_than_its_busiest_stage(
    schedule: Schedule, stages: int, microbatches: int, times: list[float], moving_ns: float
) -> None:
    count = stages * microbatches
    forward, backward = (np.array(times[at : at + count]).reshape(stages, microbatches) for at in (0, 48))
    pipeline = Pipeline(schedule, microbatches, forward, backward, np.zeros(stages), moving_ns)
    assert pipeline.step_ns() >= pipeline.busiest_ns - 1e-6
    assert pipeline.step_ns() <= forward.sum() + backward.sum() + 4 * (count + stages) * moving_ns + 1e-6
    even = Pipeline(schedule, microbatches, forward * 0 + 10, backward * 0 + 20, np.zeros(stages), 0.0)
    assert even.step_ns(2) <= even.step_ns() + 1e-6

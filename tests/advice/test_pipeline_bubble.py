"""The bubble of a pipeline: what theory says, what was measured, and what more micro-batches would gain."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

import npuprof
from npuprof.advice.finding import Finding
from npuprof.advice.job_rules import pipeline_bubble
from npuprof.analysis.pipeline_model import Schedule, program
from npuprof.simulator.jobs import SIZES, Plan, simulate
from tests.advice.generated import facts_of
from tests.advice.test_job import advice_of
from tests.analysis.test_rank_waits import rows

_MS = 1_000_000


def played(schedule: Schedule, stages: int, microbatches: int, *, forward: int = 1, steps: int = 2) -> pd.DataFrame:
    """The sends of a pipeline of one rank a stage, with all ranks together at the end of each step."""
    programs = [list(program(schedule, stages, microbatches, stage)) for stage in range(stages)]
    clock = [0] * stages
    events = []
    for step in range(steps):
        at = [0] * stages
        arrived: list[int | None] = [None] * stages
        while any(place < len(tokens) for place, tokens in zip(at, programs, strict=True)):
            for stage, tokens in enumerate(programs):
                while at[stage] < len(tokens) and tokens[at[stage]] in ("forward", "backward"):
                    clock[stage] += (forward if tokens[at[stage]] == "forward" else 2 * forward) * _MS
                    at[stage] += 1
                if at[stage] < len(tokens) and arrived[stage] is None:
                    arrived[stage] = clock[stage]
            for stage in range(stages - 1):
                pair = (stage, stage + 1)
                ready = [
                    at[each] < len(programs[each]) and programs[each][at[each]] == edge and arrived[each] is not None
                    for each, edge in zip(pair, ("next", "prev"), strict=True)
                ]
                if all(ready):
                    end = max(clock[each] for each in pair) + 10_000
                    for each in pair:
                        events.append((each, f"p{stage}", clock[each], end, "hcom_send_", step))
                        clock[each], arrived[each] = end, None
                        at[each] += 1
        end = max(clock) + 100_000
        events += [(stage, "all", clock[stage], end, "hcom_allReduce_", step) for stage in range(stages)]
        clock = [end] * stages
    frame = rows(*[event[:4] for event in events])
    played_rows: pd.DataFrame = frame.assign(
        op_type=pd.Categorical([event[4] for event in events]), step=[event[5] for event in events]
    )
    return played_rows


def found_of(communication: pd.DataFrame) -> Finding:
    return advice_of(communication)["pipeline_bubble"]


@pytest.mark.parametrize("schedule", ["GPipe", "1F1B", "1F1B with joint sends and receives"])
def test_a_balanced_pipeline_has_a_bubble_with_theory_measure_and_gain(schedule: Schedule) -> None:
    found = found_of(played(schedule, 4, 8))
    assert (found.state, found.confidence, found.gain_lo_ns) == ("fires", "bounded", 0)
    assert f"4 equal stages and 8 micro-batches ({schedule}), the bubble is 27.3 %" in found.detail  # 3 of 11
    assert float(re.findall(r"within ([\d.]+) %", found.detail)[0]) <= 1
    # 33 ms become 28.5 ms with 16 micro-batches of half the size: each passes 19 times 1.5 ms.
    assert found.gain_hi_ns == pytest.approx(4.5 * _MS, rel=0.1)


def test_many_micro_batches_and_jobs_without_a_pipeline_have_none() -> None:
    assert found_of(played("1F1B", 2, 40)).state == "clean"
    parallel = rows(*[(rank, "g", 10 * at + rank, 10 * at + 5) for at in range(5) for rank in (0, 1)])
    assert found_of(parallel).state == "clean"


def test_step_lacking_on_a_rank_is_not_modelled() -> None:
    frame = played("GPipe", 4, 8)
    cut = frame[~((frame["rank"] == 3) & (frame["step"] == 1)).to_numpy(bool)]
    found = found_of(cut.reset_index(drop=True))
    assert (found.state, "4 equal stages and 8 micro-batches (GPipe)" in found.detail) == ("fires", True)
    without = frame[(frame["rank"] != 2).to_numpy(bool)].reset_index(drop=True)
    assert (found_of(without).state, found_of(without).collect.endswith("all of its ranks here")) == (
        "cannot tell",
        True,
    )


def test_sends_of_no_known_schedule_cannot_tell() -> None:
    frame = played("GPipe", 4, 4)
    sends = (frame["op_type"] == "hcom_send_") & (frame["step"] == 1)
    ends = (frame["start_ns"] + frame["duration_ns"])[sends]
    first = ends.index[ends == ends.min()]  # both sides of a send
    found = found_of(frame.drop(first).reset_index(drop=True))
    assert (found.state, "GPipe" in found.collect) == ("cannot tell", True)


@pytest.mark.slow
@pytest.mark.parametrize("plan", [replace(SIZES[8], steps=2), Plan(1, 4, 2, steps=2, jitter=0.0, barrier=True)])
def test_the_model_gives_the_step_of_generated_jobs(plan: Plan) -> None:
    job = simulate(plan, seed=3)
    found = pipeline_bubble.RULE.check(facts_of(job))
    assert found.state == "fires"
    assert f"{plan.pipeline} equal stages and {plan.microbatches} micro-batches" in found.detail
    assert float(re.findall(r"within ([\d.]+) %", found.detail)[0]) <= 1
    # A job with twice the micro-batches of half the layers takes as much less, where nothing else depends on them.
    more = simulate(replace(plan, microbatches=2 * plan.microbatches, layers=plan.layers // 2), seed=3)
    gained = (job.duration_ns - more.duration_ns) / plan.steps
    assert found.gain_hi_ns >= 0.8 * gained


@pytest.mark.slow
def test_llm_bubble_is_of_two_micro_batches(samples: Path) -> None:
    found = npuprof.load_set(samples / "torch_npu/llm_4ranks").advice()["pipeline_bubble"]
    assert (found.state, "2 equal stages and 2 micro-batches" in found.detail) == ("fires", True)
    assert float(re.findall(r"within ([\d.]+) %", found.detail)[0]) <= 1

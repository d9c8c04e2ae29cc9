"""Generated jobs: the same one with and without a fault, and the same one in memory and as text."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from npuprof.loading import load_set
from npuprof.notes import Notes
from npuprof.simulator.jobs import SIZES, Faults, Plan, frames, simulate, text
from npuprof.sources.text.communication_json import read_communication
from npuprof.sources.text.communication_times import read_times

_SMALL = replace(SIZES[8], steps=2, microbatches=4, layers=1)


@pytest.mark.parametrize(
    "fault",
    [Faults(slow_rank=5), Faults(slow_link=(2, 3)), Faults(late_host=0), Faults(heavy_stage=1)],
    ids=["card", "link", "host", "stage"],
)
def test_a_fault_makes_the_same_job_longer(fault: Faults) -> None:
    healthy, ill = simulate(_SMALL, seed=1), simulate(_SMALL, fault, seed=1)
    assert ill.duration_ns > healthy.duration_ns
    assert [len(stage.ops) for stage in ill.stages] == [len(stage.ops) for stage in healthy.stages]


def test_a_late_host_delays_each_step_by_as_much() -> None:
    healthy, late = simulate(_SMALL), simulate(_SMALL, Faults(late_host=0, late_ns=20_000_000))
    first = late.stages[0].start.min() - healthy.stages[0].start.min()  # before it no operator is recorded
    assert late.duration_ns + first - healthy.duration_ns == pytest.approx(2 * 20_000_000, rel=0.01)


@pytest.mark.parametrize(
    "plan", [_SMALL, replace(SIZES[64], steps=1), replace(_SMALL, tensor=1), replace(_SMALL, pipeline=1)]
)
def test_members_of_an_operator_end_together_after_the_last_began(plan: Plan) -> None:
    job = simulate(plan, Faults(clock_ms=0, drift=0))
    rows = frames.communication(job)
    rows["k"] = rows.groupby(["rank", "step", "group"], observed=True).cumcount()
    rows["end_ns"] = rows["start_ns"] + rows["duration_ns"]
    ops = rows.groupby(["step", "group", "k"], observed=True)
    assert (ops["op_type"].nunique() == 1).all()
    members = {group.key: len(group.members) for rank in range(job.plan.ranks) for group in job.groups(rank).values()}
    sizes = ops.size()
    assert (sizes.to_numpy() == [members[group] for group in sizes.index.get_level_values("group")]).all()
    assert (ops["end_ns"].max() - ops["end_ns"].min()).max() < 5_000
    assert (ops["end_ns"].min() > ops["start_ns"].max()).all()


@pytest.mark.slow
def test_the_text_form_is_the_job_in_memory(tmp_path: Path) -> None:
    job = simulate(replace(_SMALL, steps=1), seed=2)
    runs = load_set(text.write(job, tmp_path, kernels=True))
    assert runs.ranks == list(range(8))
    assert runs.absent == []
    key = ["rank", "group", "name"]
    read, made = (
        one.astype({"group": str, "name": str}).sort_values(key)
        for one in (runs.communication, frames.communication(job))
    )
    assert read[key].to_numpy().tolist() == made[key].to_numpy().tolist()
    for column, most in (("start_ns", 300), ("duration_ns", 0)):
        assert np.abs(read[column].to_numpy() - made[column].to_numpy()).max() <= most
    columns = list(frames.rank_step_times(job, 0))
    assert runs.step_times[columns].to_numpy().tolist() == frames.step_times(job)[columns].to_numpy().tolist()
    times = ["start_ns", "duration_ns"]
    pd.testing.assert_frame_equal(runs[3].kernels[times], frames.kernels(job, 3)[times])
    assert len(set(runs.clocks()["clock"])) == 1


def test_when_operators_ran_is_read_alone_as_with_the_rest(tmp_path: Path) -> None:
    text.write_rank(simulate(replace(_SMALL, steps=1)), 0, tmp_path / "rank0_ascend_pt")
    file = tmp_path / "rank0_ascend_pt/ASCEND_PROFILER_OUTPUT/communication.json"
    alone, whole = read_times(file), read_communication(file, Notes())["communication"]
    assert alone is not None
    columns = ["step", "kind", "name", "group", "start_ns"]
    assert alone[columns].astype(str).to_numpy().tolist() == whole[columns].astype(str).to_numpy().tolist()
    file.write_text(file.read_text().replace("Elapse", "Elapsed", 1))
    assert read_times(file) is None

"""Generated jobs: the same one with and without a fault, and the same one in memory and as text."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from npuprof.loading import load_set
from npuprof.simulator.jobs import SIZES, Faults, Plan, frames, simulate, text
from npuprof.sources.text.communication_json import read_communication
from npuprof.sources.text.communication_times import read_times
from npuprof.tables.notes import Notes

_SMALL = replace(SIZES[8], steps=2, microbatches=4, layers=1)


@pytest.mark.parametrize(
    "fault",
    [
        Faults(slow_ranks={5: 0.08}),
        Faults(slow_links={(2, 3): 4}),
        Faults(late_hosts={0: 20_000_000}),
        Faults(heavy_stages={1: 0.25}),
    ],
    ids=["card", "link", "host", "stage"],
)
def test_a_fault_makes_the_same_job_longer(fault: Faults) -> None:
    healthy, ill = simulate(_SMALL, seed=1), simulate(_SMALL, fault, seed=1)
    assert ill.duration_ns > healthy.duration_ns
    assert [len(stage.ops) for stage in ill.stages] == [len(stage.ops) for stage in healthy.stages]


def test_a_late_host_delays_each_step_by_as_much() -> None:
    healthy, late = simulate(_SMALL), simulate(_SMALL, Faults(late_hosts={0: 20_000_000}))
    first = late.stages[0].start.min() - healthy.stages[0].start.min()  # before it no operator is recorded
    assert late.duration_ns + first - healthy.duration_ns == pytest.approx(2 * 20_000_000, rel=0.01)


def test_faults_of_a_kind_add_up() -> None:
    def ends(faults: Faults) -> list[int]:
        job = simulate(_SMALL, faults, seed=1)
        return [int(job.stages[0].end[place, 0, 0]) for place in (-1, len(job.stages[0].ops) // 2 - 1)]

    healthy = ends(Faults())
    both = ends(Faults(slow_ranks={0: 0.2, 5: 0.2}))
    assert both[0] > max(ends(Faults(slow_ranks={rank: 0.2}))[0] for rank in (0, 5)) > healthy[0]
    stalled = ends(Faults(stalls={(0, 11): 200_000_000}))
    assert stalled[0] == pytest.approx(healthy[0] + 200_000_000, rel=0.01)
    assert stalled[1] == healthy[1]  # the step before it


def test_absent_and_cut_ranks_lack_files(tmp_path: Path) -> None:
    job = simulate(_SMALL, Faults(absent=frozenset({3}), truncated=frozenset({6})))
    runs = load_set(text.write(job, tmp_path))
    assert (runs.ranks, runs.absent) == ([0, 1, 2, 4, 5, 6, 7], [3])
    for rows in (frames.communication(job), runs.table("communication")):
        assert sorted(set(rows["rank"])) == [0, 1, 2, 4, 5, 7]
    assert set(frames.step_times(job)["rank"]) == set(runs.ranks)


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

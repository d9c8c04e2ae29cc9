"""Pipeline stages on hosts that share no collective: their clocks follow from sends, or arrivals are not known."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from npuprof.advice.findings import Advice
from npuprof.errors import NpuprofError
from npuprof.loading import load_set
from npuprof.simulator.jobs import Faults, Plan, simulate, text

pytestmark = pytest.mark.slow

_PLAN = Plan(2, 2, 2, steps=4, microbatches=8, jitter=0.01, ranks_per_host=4)
_FOUR_STAGES = Plan(1, 4, 2, steps=4, microbatches=8, jitter=0.01, ranks_per_host=2)
_MS = 1_000_000


def truth_ns(plan: Plan, faults: Faults) -> float:
    """What a step gains without the faults."""
    none = Faults(clock_ms=faults.clock_ms, drift=faults.drift)
    return (simulate(plan, faults, 1).duration_ns - simulate(plan, none, 1).duration_ns) / plan.steps


def operators(folder: Path, rank: int) -> Path:
    """The file of a rank's operators."""
    return folder / f"rank{rank}_ascend_pt" / "ASCEND_PROFILER_OUTPUT" / "communication.json"


def written(plan: Plan, faults: Faults, folder: Path) -> Path:
    """Write a job."""
    return text.write(simulate(plan, faults, 1), folder / "job")


def without_a_send(folder: Path, ranks: range) -> None:
    """Remove one send of each step of some ranks."""
    for rank in ranks:
        path = operators(folder, rank)
        steps = json.loads(path.read_text())
        for step in steps.values():
            sends = [name for name in step["p2p"] if "@" in name]
            del step["p2p"][sends[len(sends) // 2]]
        path.write_text(json.dumps(steps))


def in_one_group(folder: Path, ranks: int, pipelines: int) -> None:
    """Give the sends of all stages of a pipeline one group."""
    for rank in range(ranks):
        path = operators(folder, rank)
        steps = json.loads(path.read_text())
        for step in steps.values():
            group = f"77777{rank % pipelines}"
            step["p2p"] = {
                f"hcom_batchSendRecv__{group[-3:]}_{number}_1@{group}" if "@" in name else name: value
                for number, (name, value) in enumerate(step["p2p"].items())
            }
        path.write_text(json.dumps(steps))


def lose(folder: Path, rank: int, step: int, which: int) -> None:
    """Remove one send or receive of a rank."""
    path = operators(folder, rank)
    steps = json.loads(path.read_text())
    of_step = list(steps.values())[step]["p2p"]
    del of_step[[name for name in of_step if "@" in name][which]]
    path.write_text(json.dumps(steps))


def cut_short(folder: Path, rank: int, step: int) -> None:
    """Let the longest send or receive of a rank end when it began, before its other side begins."""
    path = operators(folder, rank)
    steps = json.loads(path.read_text())
    of_step = list(steps.values())[step]["p2p"]
    times = [value["Communication Time Info"] for name, value in of_step.items() if "@" in name]
    max(times, key=lambda each: each["Elapse Time(ms)"])["Elapse Time(ms)"] = 0.001
    path.write_text(json.dumps(steps))


def advised(folder: Path) -> Advice:
    """The advice on a job's folder."""
    return load_set(folder).advice()


@pytest.mark.parametrize(
    ("plan", "slow", "clock_ms", "drift"),
    [
        (_PLAN, 5, 0.3, 1e-6),
        (_PLAN, 2, 3.0, 1e-5),
        (_PLAN, 5, 2000.0, 1e-5),
        (_FOUR_STAGES, 3, 20.0, 1e-6),
        (_PLAN, 5, 20.0, 1e-3),
        pytest.param(replace(_PLAN, steps=60), 2, 20.0, 1e-4, marks=pytest.mark.long),
    ],
)
def test_a_fault_of_6_percent_is_priced_right(
    plan: Plan, slow: int, clock_ms: float, drift: float, tmp_path: Path
) -> None:
    faults = Faults(slow_ranks={slow: 0.06}, clock_ms=clock_ms, drift=drift)
    found = advised(written(plan, faults, tmp_path))["slow_rank"]
    assert (found.state, found.place, found.confidence) == ("fires", f"rank {slow}", "measured")
    assert found.gain_hi_ns == pytest.approx(truth_ns(plan, faults), rel=0.05)


def test_clocks_follow_from_sends_between_hosts(tmp_path: Path) -> None:
    job = simulate(_FOUR_STAGES, Faults(clock_ms=2000.0), 1)
    table = load_set(text.write(job, tmp_path / "job")).clocks()
    leads = (job.clock_ns - job.clock_ns[0])[table["rank"].to_numpy(int)]
    assert abs(table["offset_ns"].to_numpy(int) - leads).max() < _MS // 10


def test_sends_of_several_stages_in_one_group_tell_clocks(tmp_path: Path) -> None:
    faults = Faults(slow_ranks={5: 0.06}, clock_ms=20.0)
    folder = written(_FOUR_STAGES, faults, tmp_path)
    in_one_group(folder, _FOUR_STAGES.ranks, _FOUR_STAGES.data)
    found = advised(folder)["slow_rank"]
    assert (found.place, found.confidence) == ("rank 5", "measured")
    assert found.gain_hi_ns == pytest.approx(truth_ns(_FOUR_STAGES, faults), rel=0.05)


@pytest.mark.parametrize(("slow", "clock_ms"), [(5, 0.3), (5, 2000.0), (1, 2000.0)])
def test_lost_sends_leave_a_bound_that_holds(slow: int, clock_ms: float, tmp_path: Path) -> None:
    faults = Faults(slow_ranks={slow: 0.06}, clock_ms=clock_ms)
    folder = written(_PLAN, faults, tmp_path)
    without_a_send(folder, range(4, 8))
    advice = advised(folder)
    found = advice["slow_rank"]
    assert (found.state, found.place, found.confidence) == ("fires", f"rank {slow}", "bounded")
    assert found.gain_lo_ns <= truth_ns(_PLAN, faults) <= found.gain_hi_ns
    for rule in ("waiting", "pipeline_bubble", "exposed_communication"):
        assert advice[rule].state == "cannot tell"
        assert "clocks" in advice[rule].collect


@pytest.mark.parametrize("barrier", [False, True])
@pytest.mark.parametrize("rank", [5, 1, 6])
def test_one_lost_message_bounds_the_gain(rank: int, barrier: bool, tmp_path: Path) -> None:
    plan, faults = replace(_PLAN, barrier=barrier), Faults(slow_ranks={5: 0.06})
    folder = written(plan, faults, tmp_path)
    lose(folder, rank, 1, 3)
    _assert_bounded(advised(folder), truth_ns(plan, faults))


@pytest.mark.parametrize("barrier", [False, True])
def test_unpaired_messages_bound_the_gain(barrier: bool, tmp_path: Path) -> None:
    plan, faults = replace(_PLAN, barrier=barrier), Faults(slow_ranks={5: 0.06})
    folder = written(plan, faults, tmp_path)
    lose(folder, 1, 1, 3)
    lose(folder, 5, 1, 6)
    _assert_bounded(advised(folder), truth_ns(plan, faults))


@pytest.mark.parametrize("barrier", [False, True])
def test_crossing_bounds_tell_no_arrivals(barrier: bool, tmp_path: Path) -> None:
    plan, faults = replace(_PLAN, barrier=barrier), Faults(slow_ranks={5: 0.06})
    folder = written(plan, faults, tmp_path)
    for rank in range(4, 8):
        cut_short(folder, rank, 1)
    _assert_bounded(advised(folder), truth_ns(plan, faults))


def _assert_bounded(advice: Advice, truth: float) -> None:
    found = advice["slow_rank"]
    assert (found.state, found.place, found.confidence) == ("fires", "rank 5", "bounded")
    assert found.gain_lo_ns <= truth <= found.gain_hi_ns
    for rule in ("waiting", "pipeline_bubble", "exposed_communication"):
        assert advice[rule].state == "cannot tell", rule


def test_predicts_nothing_where_messages_do_not_pair(tmp_path: Path) -> None:
    folder = written(_PLAN, Faults(), tmp_path)
    lose(folder, 5, 1, 3)
    with pytest.raises(NpuprofError, match="ranks 1 and 5"):
        load_set(folder).what_if(transfer=0.5)


def test_no_host_without_equals_is_called_clean(tmp_path: Path) -> None:
    advice = advised(written(_PLAN, Faults(), tmp_path))  # each stage has one host for itself
    assert advice["late_host"].state == "cannot tell"
    assert advice["pipeline_imbalance"].state == "clean"
    assert advised(written(replace(_PLAN, ranks_per_host=2), Faults(), tmp_path / "2"))["late_host"].state == "clean"


def test_one_stage_of_several_cannot_be_called_even(tmp_path: Path) -> None:
    folder = written(_PLAN, Faults(), tmp_path)
    for rank in range(4, 8):
        shutil.rmtree(folder / f"rank{rank}_ascend_pt")
    assert advised(folder)["pipeline_imbalance"].state == "cannot tell"


def test_lost_sends_are_not_called_clean(tmp_path: Path) -> None:
    folder = written(_PLAN, Faults(clock_ms=2000.0), tmp_path)
    without_a_send(folder, range(4, 8))
    advice = advised(folder)
    assert advice["waiting"].state == "cannot tell"
    assert advice["slow_rank"].state == "clean"  # own times need no clocks
    assert not advice["slow_rank"].place

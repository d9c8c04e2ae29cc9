"""What is concluded of the ranks of a job together."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import npuprof
from npuprof.advice.facts import Facts
from npuprof.advice.finding import Finding
from npuprof.advice.findings import Advice, advise
from npuprof.advice.job import JobFacts
from npuprof.advice.job_findings import advise_job
from npuprof.advice.job_member import Member
from npuprof.analysis.accounting import account
from npuprof.arrays import Int64
from npuprof.errors import NpuprofError
from npuprof.ranks.profile_set import ProfileSet
from npuprof.tables.info import Info
from tests import factories
from tests.analysis.test_accounting import table
from tests.analysis.test_rank_waits import rows, synchronised


def advice_of(
    communication: pd.DataFrame,
    *,
    absent: tuple[int, ...] = (),
    groups: dict[str, tuple[str, tuple[int, ...]]] | None = None,
    moved_ns: dict[int, Int64] | None = None,
) -> Advice:
    """Findings of a job of which only the collectives are known, and one step around them for each rank."""
    members = []
    ends = communication["start_ns"] + communication["duration_ns"]
    length = int(ends.max() - communication["start_ns"].min()) + 100
    for rank in sorted(set(communication["rank"].tolist())):
        run = factories.all_tables(steps=table("steps", [(0, length)]), kernels=table("kernels", [(0, 10)]))
        accounting = account(run, int(rank))
        members.append(Member(int(rank), run, accounting, advise(run, Info(rank=int(rank)), accounting)))
    moved = dict if moved_ns is None else lambda: moved_ns
    return advise_job(JobFacts(members, communication, list(absent), simulated=False, groups=groups, moved_ns=moved))


@pytest.mark.slow
def test_llm_stages_are_uneven_without_slow_card(samples: Path) -> None:
    runs = npuprof.load_set(samples / "torch_npu/llm_4ranks")
    advice = runs.advice()
    found = advice["pipeline_imbalance"]
    assert (found.state, found.title.partition(":")[0], found.rank) == ("fires", "The stages are uneven", 2)
    assert found.gain_lo_ns == found.gain_hi_ns
    assert found.gain_hi_ns / 1e6 == pytest.approx(32.0, abs=0.05)
    assert found.place == "ranks 2 and 3"
    assert "on rank 2, 167 ms of 400 ms of kernels have a dimension of 151,936" in found.detail
    assert "109 ms of it on vector cores" in found.detail
    assert found.rows["duration_ns"].sum() / 1e6 == pytest.approx(167.2, abs=0.1)
    assert advice["slow_rank"].state == advice["waiting"].state == "clean"
    assert advice["exposed_communication"].gain_hi_ns / 1e6 == pytest.approx(101.8, abs=0.05)
    assert [one.rule for one in advice] == [
        "pipeline_imbalance",
        "cube_efficiency",
        "exposed_communication",
        "pipeline_bubble",
        "layout_and_casts",
    ]
    # Gains of findings on kernels are replayed with all ranks: those of ranks 1 and 3, without kernels, are alike.
    without = runs.what_if(kernel=dict.fromkeys(("Cast", "TransData", "Slice", "ConcatD", "TensorMove"), 0))
    casts, products = advice["layout_and_casts"], advice["cube_efficiency"]
    assert (casts.gain_lo_ns, casts.gain_hi_ns, casts.confidence) == (0, without.gain_ns, "bounded")
    assert (products.gain_lo_ns, products.confidence) == (products.gain_hi_ns, "measured")
    assert 0 < products.gain_hi_ns <= products.rows["lost_ns"].sum() * 1.001
    assert advice["layout_and_casts"].place == "rank 2"
    assert "1 step of 4 ranks" in advice.headline()


@pytest.mark.slow
def test_absent_rank_among_many_is_named(samples: Path) -> None:
    runs = npuprof.load_set(samples / "torch_npu/text/level1")
    advice = runs.advice()
    assert advice.fired[0].title == "Collectives wait for rank 5, which is not in this profile"
    assert (
        advice["slow_rank"].state == advice["pipeline_imbalance"].state == "clean"
    )  # 5.6 of 155 ms later, in one step
    assert advice["absent_ranks"].collect == "load ranks 2-7: nothing here names the ranks of groups"


@pytest.mark.parametrize(("late", "title"), [(1, "Rank 0 waits for rank 1"), (5, "Waiting for rank 5, not here")])
def test_loaded_rank_is_not_called_absent(late: int, title: str) -> None:
    members = []
    for rank in (0, 1):
        run = factories.all_tables(steps=table("steps", [(0, 1000)]), kernels=table("kernels", [(0, 10)]))
        accounting = account(run, rank)
        alone = Finding("waiting", "fires", "Waiting for rank 5, not here", 500, 0, 500, place=f"rank {late}")
        found = [alone if rank == 0 else Finding("waiting", "clean")]
        members.append(Member(rank, run, accounting, Advice(Facts(run, Info(rank=rank), accounting), found)))
    communication = synchronised([[200, 100]], [50])  # rank 0 has more to do, and speaks for both
    waiting = advise_job(JobFacts(members, communication, [5], simulated=False))["waiting"]
    assert (waiting.title, waiting.place) == (title, f"rank 0, rank {late}")
    assert ("runs[1].advice()" in waiting.action) == (late == 1)


@pytest.mark.slow
@pytest.mark.parametrize(("late", "state"), [(0, "clean"), (300, "fires")])
@pytest.mark.parametrize("ranks", [2, 6])
def test_slow_rank_is_priced_by_a_replay(late: int, state: str, ranks: int) -> None:
    own = [[1_000 + 5 * rank + (late if rank == 1 else 0) for rank in range(ranks)] for _ in range(10)]
    found = advice_of(synchronised(own, [50] * 10))["slow_rank"]
    assert (found.state, found.place) == (state, "rank 1" if late else "")
    if late:
        with_late, without = (max(map(sum, zip(*times, strict=True))) for times in (own, [[1_005] * ranks] * 10))
        # The window begins with the first collective: what the first one is late by counts, what is before it does not.
        assert (found.gain_lo_ns, found.confidence) == (0, "bounded")  # of one step, which says nothing of noise
        assert found.gain_hi_ns == pytest.approx(with_late - without, rel=0.1)


@pytest.mark.slow
def test_a_slow_rank_below_the_noise_has_no_gain() -> None:
    rng = np.random.default_rng(3)
    own = [[int(1_000 + (30 if rank == 1 else 0) + 400 * rng.random()) for rank in range(8)] for _ in range(200)]
    found = advice_of(synchronised(own, [50] * 200))["slow_rank"]
    assert found.state == "clean" or (found.gain_hi_ns, found.title) == (0, "Rank 1 is slow, hidden by noise")


def pipeline(first: int, second: int, steps: int = 8) -> pd.DataFrame:
    """Two stages of one rank each that hand data over in both directions, and take turns computing."""
    events, clock = [], 0
    arrive = [0, 0]
    for at in range(steps):
        arrive = [clock + (first if at % 2 == 0 else 5), clock + (second if at % 2 else 5)]
        end = max(arrive) + 10
        events += [(rank, "p", start, end) for rank, start in enumerate(arrive)]
        clock = end
    return rows(*events, op_type="hcom_batchSendRecv_")


@pytest.mark.slow
def test_stages_that_wait_for_each_other_are_balanced_or_not() -> None:
    sends = synchronised([[300, 1_000]] * 8, [10] * 8).assign(op_type="hcom_batchSendRecv_")
    uneven = advice_of(sends)["pipeline_imbalance"]
    assert (uneven.state, uneven.place, uneven.confidence) == ("fires", "rank 1", "bounded")
    assert uneven.title == "The stages are uneven, or rank 1 is slow"  # of a stage of one rank times do not tell
    assert uneven.rank is None  # without kernels nothing tells what the stage computes
    assert uneven.gain_hi_ns == pytest.approx(7 * 700, rel=0.12)  # what is before the first one is not known
    for first in (300, 1_000):  # in turns, the same work takes as long however it is spread
        assert advice_of(pipeline(first, 1_000))["pipeline_imbalance"].state == "clean"
    parallel = rows(*[(rank, "g", 10 * at + rank, 10 * at + 5) for at in range(5) for rank in (0, 1)])
    assert advice_of(parallel)["pipeline_imbalance"].state == "clean"


@pytest.mark.slow
def test_ranks_that_take_turns_being_late_wait_for_each_other() -> None:
    own = [[1_000 + 800 * (at % 4 == rank) for rank in range(4)] for at in range(12)]
    found = advice_of(synchronised(own, [50] * 12))
    assert found["slow_rank"].state == "clean"
    assert found["waiting"].state == "fires"
    assert found["waiting"].gain_hi_ns > 0.1 * found.step_ns
    even = advice_of(synchronised([[1_000] * 4] * 12, [50] * 12))
    assert even["waiting"].state == "clean"


@pytest.mark.slow
@pytest.mark.parametrize(("moving", "state"), [(10, "clean"), (500, "fires")])
def test_transfers_count_by_their_removal(moving: int, state: str) -> None:
    found = advice_of(synchronised([[1_000, 1_000]] * 5, [moving] * 5))["exposed_communication"]
    assert (found.state, found.cost_ns) == (state, 5 * moving)


@pytest.mark.slow
def test_work_before_steps_gains_nothing() -> None:
    job = synchronised([[1_000, 1_000]] * 9, [3_000] * 4 + [500] * 5)  # four collectives set the job up
    marked = job.assign(step=job.groupby("rank").cumcount().sub(3).where(lambda number: number > 0).astype("Int64"))
    assert advice_of(job)["exposed_communication"].cost_ns == 4 * 3_000 + 5 * 500
    found = advice_of(marked)
    assert found["exposed_communication"].cost_ns == 5 * 500
    assert found.explained_ns == 5 * 500


@pytest.mark.slow
def test_absent_ranks_mute_nothing_that_the_others_tell() -> None:
    found = advice_of(synchronised([[1_000, 1_300]] * 5, [50] * 5), absent=(2, 3))
    slow = found["slow_rank"]
    assert (slow.title, slow.gain_lo_ns, slow.confidence) == ("Rank 1 is slow", 0, "bounded")
    assert 4 * 300 <= slow.gain_hi_ns <= 5 * 300  # no replay: nothing tells which groups the absent ranks are in
    assert found["waiting"].place.startswith("rank ")  # what a rank alone tells


def test_a_set_without_ranks_says_so(tmp_path: Path) -> None:
    with pytest.raises(NpuprofError, match="no run here has a rank"):
        ProfileSet(tmp_path, []).advice()

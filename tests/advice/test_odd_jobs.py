"""Jobs that are hardly any: an answer that says what it is based on, no exception, no blame without evidence."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from npuprof.advice.finding import Finding
from npuprof.advice.findings import Advice
from npuprof.advice.job import JobFacts
from npuprof.advice.job_findings import advise_job
from npuprof.ranks.job import recorded_groups
from npuprof.simulator.jobs import SIZES, Faults, Plan, frames, simulate
from tests.advice.generated import facts_of, step_ns
from tests.advice.test_job import advice_of
from tests.analysis.test_rank_faults import with_steps
from tests.analysis.test_rank_waits import rows, synchronised

pytestmark = pytest.mark.slow

_BLAME = ("slow_rank", "late_host", "slow_link", "pipeline_imbalance", "stall", "absent_ranks")


def blamed(advice: Advice) -> list[str]:
    """The rules that name somebody; none of the rules has failed."""
    assert not [finding.detail for finding in advice.findings if finding.collect == "the rule failed"]
    assert str(advice)
    return [rule for rule in _BLAME if advice[rule].state == "fires"]


def test_ranks_that_share_no_collective_are_not_compared() -> None:
    apart = rows(*[(rank, f"g{rank}", 100 * at + 7 * rank, 100 * at + 50) for at in range(6) for rank in range(4)])
    assert not blamed(advice_of(apart))
    assert advice_of(apart)["slow_rank"].state == "cannot tell"


def test_a_job_of_one_rank_has_nobody_to_blame() -> None:
    assert not blamed(advice_of(rows((0, "g", 0, 90), (0, "g", 100, 190))))


def test_a_rank_with_another_program_is_not_compared_with_the_others() -> None:
    alike = synchronised([[1_000] * 4] * 6, [50] * 6)
    other = alike[alike["rank"] == 3].assign(op_type="hcom_broadcast_", group="h")
    mixed = pd.concat([alike[alike["rank"] < 3], other.assign(start_ns=other["start_ns"] + 400)], ignore_index=True)
    assert not blamed(advice_of(with_steps(mixed, 2)))


def test_ranks_compare_in_shared_steps() -> None:
    own = [[1_000_000 + 900 * (3 * rank + at) % 2_000 + 300_000 * (rank == 1) for rank in range(5)] for at in range(9)]
    events = with_steps(synchronised(own, [50] * 9), 1)
    late = (events["rank"] == 4) & (events["step"] < 13)
    early = (events["rank"] == 0) & (events["step"] > 16)
    found = advice_of(events[~(late | early).to_numpy(bool)])
    assert blamed(found) == ["slow_rank"]
    assert found["slow_rank"].place == "rank 1"


def test_unnumbered_steps_join_by_time() -> None:
    events = with_steps(synchronised([[1_000, 1_400]] * 6, [50] * 6), 2)
    is_other = events["rank"] == 1
    shifted = events.assign(step=events["step"] + 100 * is_other.astype("Int64"))
    assert blamed(advice_of(shifted)) == ["slow_rank"]
    # All steps take as long, and a clock that is ahead by a step and a half fits none better than another.
    assert not blamed(advice_of(shifted.assign(start_ns=shifted["start_ns"] + 4_350 * is_other)))


def test_slow_rank_is_named_despite_absent_half() -> None:
    plan = replace(SIZES[64], steps=4, microbatches=4, layers=1)
    absent = frozenset(range(32, 64))
    healthy = advise_job(facts_of(simulate(plan, Faults(absent=absent), 5)))
    assert blamed(healthy) in ([], ["absent_ranks"])
    slow = advise_job(facts_of(simulate(plan, Faults(absent=absent, slow_ranks={9: 0.2}), 5)))
    assert slow["slow_rank"].place == "rank 9"
    assert (slow["slow_rank"].gain_lo_ns, slow["slow_rank"].confidence) == (0, "bounded")


def test_groups_without_members_count_as_whole() -> None:
    found = advice_of(synchronised([[1_000] * 4] * 8, [50] * 8), absent=(4, 5))
    assert not blamed(found)
    assert "nothing here names the ranks of groups" in found["absent_ranks"].collect


def test_zero_times_do_not_fail() -> None:
    still = rows(*[(rank, "g", 0, 0) for _ in range(5) for rank in range(4)])
    blamed(advice_of(still.assign(duration_ns=np.zeros(20, np.int64))))
    crossed = rows((0, "a", 0, 30), (0, "b", 40, 50), (1, "b", 0, 30), (1, "a", 40, 50))
    blamed(advice_of(crossed))


_PIPELINE = Plan(1, 4, 2, steps=4, microbatches=8, layers=1, ranks_per_host=2)


def advice_without_groups_of_sends(faults: Faults) -> Advice:
    """Findings of a pipeline whose sends name no group, as those that torch groups on a GPU."""
    facts = facts_of(simulate(_PIPELINE, faults, 3))
    rows = facts.communication
    named = rows["group"].astype(object).mask(rows["op_type"].astype(str).str.contains("Send"))
    members = list(facts.members.values())
    return advise_job(JobFacts(members, rows.assign(group=named), [], simulated=False))


def test_time_in_sends_without_a_group_is_no_rank_s_own() -> None:
    faults = Faults(slow_ranks={3: 0.2})
    found = advice_without_groups_of_sends(faults)
    assert blamed(found) == ["slow_rank"]
    slow = found["slow_rank"]
    true_ns = step_ns(_PIPELINE, faults, 3) - step_ns(_PIPELINE, Faults(), 3)
    assert (slow.place, slow.confidence, slow.gain_lo_ns) == ("rank 3", "bounded", 0)
    assert 0.99 * true_ns < slow.gain_hi_ns < 1.6 * true_ns


@pytest.mark.long
def test_healthy_ungrouped_sends_blame_nobody() -> None:
    assert not blamed(advice_without_groups_of_sends(Faults()))


def test_the_only_rank_of_a_stage_may_be_slow_instead() -> None:
    """Its extra time looks like more work; as fast as the others the job gains more than with its work spread."""
    plan, faults = Plan(1, 4, 1, steps=4, layers=1), Faults(slow_ranks={2: 0.2})
    uneven = {one.rule: one for one in advise_job(facts_of(simulate(plan, faults, 3)))}["pipeline_imbalance"]
    true_ns = step_ns(plan, faults, 3) - step_ns(plan, Faults(), 3)
    assert (uneven.title, uneven.confidence) == ("The stages are uneven, or rank 2 is slow", "bounded")
    assert uneven.gain_lo_ns == 0
    assert true_ns / 1.05 < uneven.gain_hi_ns < 1.2 * true_ns


def test_slow_rank_of_two_differs_from_more_work() -> None:
    """Half of its ranks are slow, and times of one step say nothing of noise: the other one is not blamed."""
    plan = Plan(1, 4, 2, steps=1, microbatches=8, layers=1, ranks_per_host=8)
    found = advise_job(facts_of(simulate(plan, Faults(slow_ranks={5: 0.3}), 3)))
    assert blamed(found) == ["slow_rank"]
    assert (found["slow_rank"].place, found["slow_rank"].confidence) == ("rank 5", "bounded")


def test_lone_ranks_waits_yield_to_all_ranks() -> None:
    """With an absent rank the job's own rule on waits cannot tell, and a member that is waited for may be here."""
    job = simulate(_PIPELINE, Faults(absent=frozenset({6})), 3)
    facts, groups = facts_of(job), recorded_groups(frames.info(job, rank) for rank in job.recorded_ranks)
    alone = Finding("waiting", "fires", "Waiting for member 1 of the group", 500, 0, 500, place="member 1 of the group")
    members = [replace(member, advice=Advice(member.advice.facts, [alone])) for member in facts.members.values()]
    known = advise_job(JobFacts(members, facts.communication, [6], simulated=False, groups=groups))
    assert (known["absent_ranks"].state, known["waiting"].state) == ("clean", "cannot tell")
    unknown = advise_job(JobFacts(members, facts.communication, [6], simulated=False))
    assert (unknown["absent_ranks"].state, unknown["waiting"].state) == ("cannot tell", "fires")

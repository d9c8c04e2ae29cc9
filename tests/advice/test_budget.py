"""The budget of a step: it always adds up, and what is unknown names what would tell it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings

import npuprof
from npuprof import tables as schema
from npuprof.advice.findings import Advice, advise
from npuprof.advice.job import JobFacts
from npuprof.advice.job_findings import advise_job
from npuprof.advice.job_member import Member
from npuprof.analysis.accounting import BETWEEN_STEPS, IDLE, account
from npuprof.analysis.host_accounting import HOST
from npuprof.analysis.idle_causes import UNEXPLAINED, UNKNOWN
from npuprof.profiles.profile import Profile
from npuprof.sources.base import Decoded
from npuprof.tables.info import Info
from tests import factories
from tests.analysis.test_accounting import _Pairs, _spans, _windows, table
from tests.analysis.test_rank_waits import synchronised
from tests.budget import examples

_RECORDED = {
    "collector": "torch_npu",
    "source": "recording, raw data of torch_npu",
    "options": {"level": 0, "activities": ["cpu", "npu"], "shapes": True, "stacks": False, "name": "mine"},
}
_CALLS = table("api", [(0, 10)], name="aclrtLaunchKernel")


def advice_of(info: Info | None = None, **given: pd.DataFrame) -> Advice:
    """Findings of a step of which 14 % is a kernel's."""
    run = factories.all_tables(steps=table("steps", [(0, 100_000)]), kernels=table("kernels", [(0, 14_000)]), **given)
    return advise(run, info or Info(), account(run))


@pytest.mark.parametrize(
    ("info", "given_tables", "collect"),
    [
        ({}, {}, "collect with --level 1 --activities cpu,npu --stacks"),
        ({"options": {"activities": ["cpu", "npu"]}}, {}, "collect with --level 1 --stacks"),
        ({}, {"operators": table("operators", [(0, 14_000)])}, "collect with --level 1 --stacks"),
        ({"options": {"level": 1}}, {}, "load the whole result, this one has no calls of the host"),
        ({}, {"api": _CALLS, "python": table("python", [(0, 9)])}, "name parts of the code with npuprof.range(...)"),
        (_RECORDED, {}, "collect with %%npuprof --shapes --level 1 --stacks"),
        (
            {**_RECORDED, "code": {"/home/me/my train.py": "f()"}},
            {},
            "collect with npuprof run --collector torch_npu --shapes --level 1 --stacks '/home/me/my train.py'",
        ),
        (
            {**_RECORDED, "collector": "msprof", "options": {"level": 0, "collector": "msprof"}},
            {},
            "collect with npuprof run --collector msprof --level 1 --activities cpu,npu SCRIPT.py",
        ),
    ],
)
def test_unexplained_idle_step_says_so_first(
    info: dict[str, Any], given_tables: dict[str, pd.DataFrame], collect: str
) -> None:
    advice = advice_of(Info(**info), **given_tables)
    assert advice.idle_lines()[0].startswith(f"86.0 % idle, cause not recorded: {collect}")
    assert advice.unknown_ns == 86_000
    assert advice.remarks() == []
    assert advice.budget().iloc[-1][["part", "time_ns"]].tolist() == ["unknown", 86_000]


def test_idle_time_whose_causes_are_known_is_split_by_them() -> None:
    advice = advice_of(
        operators=table("operators", [(14_000, 50_000)], name="enumerate(DataLoader)#_Iter.__next__"),
        api=table("api", [(64_000, 30_000), (94_000, 500)]),
    )
    budget = advice.budget()
    assert budget[["part", "cause", "time_ns"]].to_numpy().tolist() == [
        ["computing", "", 14_000],
        ["idle", "dataloader", 50_000],
        ["idle", "sync_call", 30_500],
        ["unknown", UNEXPLAINED, 5_500],
    ]
    (line,) = advice.idle_lines()  # less than a tenth of the step is no first line
    assert line.startswith("idle 86.0 %: data loader 50.0 %, synchronising 30.5 %, unknown 5.5 % (collect with")


def test_the_budget_is_part_of_the_json() -> None:
    plain = advice_of().to_dict()
    assert (plain["version"], sum(row["time_ns"] for row in plain["budget"])) == (5, plain["step_ns"])
    assert {row["part"]: row["collect"] for row in plain["budget"]}["computing"] == ""


@pytest.mark.slow
@settings(max_examples=examples(60))
@given(_windows, _spans, _spans, _spans, _spans, _spans)
def test_the_budget_adds_up_to_the_step(
    windows: _Pairs, computing: _Pairs, collectives: _Pairs, copies: _Pairs, syncs: _Pairs, calls: _Pairs
) -> None:
    run = factories.all_tables(
        steps=table("steps", windows),
        kernels=table("kernels", computing),
        communication=table("communication", collectives),
        tasks=table("tasks", copies),
        api=table("api", syncs),
        operators=table("operators", calls),
    )
    accounting = account(run)
    advice = advise(run, Info(), accounting)
    budget = advice.budget()
    assert int(budget["time_ns"].sum()) == advice.step_ns
    assert (budget["time_ns"] > 0).all()
    assert not budget[["part", "cause"]].duplicated().any()
    counted = accounting.breakdown()
    not_told = counted[
        counted["cause"].isin([UNKNOWN, UNEXPLAINED]) & counted["part"].isin([*IDLE, BETWEEN_STEPS, HOST])
    ]
    assert advice.unknown_ns <= int(not_told["duration_ns"].sum())
    assert all(budget["collect"][(budget["part"] == "unknown").to_numpy(bool)])


_SAMPLES = ("torch_npu/text", "torch_npu/db", "torch_npu/llm_4ranks", "msprof", "kineto/two_ranks", "raw", "cluster")


@pytest.mark.slow
@pytest.mark.parametrize("folder", _SAMPLES)
def test_the_budget_of_each_sample_adds_up(samples: Path, folder: str) -> None:
    found = npuprof.load_set(samples / folder)
    for run in [found, *(found)]:
        try:
            advice = run.advice()
        except npuprof.NpuprofError:  # a set of runs without a rank
            continue
        assert int(advice.budget()["time_ns"].sum()) == advice.step_ns


def test_host_finding_is_of_the_costliest_rank() -> None:
    """Rank 0 is starved, and rank 1 speaks for the set, since it has more to do outside collectives."""
    members = []
    for rank, kernels in enumerate(([(0, 10)], [(0, 700), (800, 90)])):
        run = factories.all_tables(
            steps=table("steps", [(0, 1000)]),
            kernels=table("kernels", kernels),
            operators=table("operators", [(0, 990)], name="aten::item"),
        )
        accounting = account(run, rank)
        members.append(Member(rank, run, accounting, advise(run, Info(rank=rank), accounting)))
    advice = advise_job(JobFacts(members, synchronised([[100, 200]], [50]), [], simulated=False))
    assert advice["host_bound"].rank == 0
    assert sum(each.cost_ns for each in advice.findings if each.rule == "host_bound") == pytest.approx(990, abs=10)
    assert advice["host_bound"].place == "rank 0"


def test_of_a_job_the_ranks_that_lack_something_are_named() -> None:
    members = []
    for rank, given_tables in enumerate(({"api": _CALLS}, {"api": _CALLS}, {})):
        kernels = table("kernels", [(0, 140 if given_tables else 500)])
        run = factories.all_tables(steps=table("steps", [(0, 1000)]), kernels=kernels, **given_tables)
        info, accounting = Info(rank=rank, options={"level": 1}), account(run, rank)
        members.append(Member(rank, run, accounting, advise(run, info, accounting)))
    for some, begin in ((members, "on ranks 0 and 1: collect with"), (members[:2], "collect with")):
        facts = JobFacts(some, synchronised([[100, 200]], [50]), [], simulated=False)
        said = " ".join(advise_job(facts).idle_lines()).partition("cause not recorded: ")[2]
        assert said.startswith(begin)


def test_the_report_of_a_run_has_the_line_in_both_forms() -> None:
    run = factories.all_tables(steps=table("steps", [(0, 100_000)]), kernels=table("kernels", [(0, 14_000)]))
    profile = Profile(Decoded(run, factories.info(options={"level": 0})))
    for form in (str(profile), profile._repr_html_(), profile.advice()._repr_html_() or ""):
        assert "86.0 % idle, cause not recorded: collect with --level 1" in " ".join(form.split())


def launched(ahead_ns: int) -> Profile:
    """A loop whose kernels start 10 us after their launch call, on a device whose clock may be ahead of the host's."""
    count = 80
    launches = [(50_000 * at, 20_000) for at in range(count)]
    kernels = [(start + 10_000 - ahead_ns, 13_000) for start, _ in launches]
    links = schema.build(
        "links",
        {
            "kind": ["api_task"] * count,
            "source_table": ["api"] * count,
            "source_row": list(range(count)),
            "target_table": ["kernels"] * count,
            "target_row": list(range(count)),
        },
    )
    run = factories.all_tables(
        steps=table("steps", [(1_000_000 * at - 5_000, 1_000_000) for at in range(4)]),
        api=table("api", launches, name="aclrtLaunchKernel"),
        operators=table("operators", [(start - 2_000, 30_000) for start, _ in launches]),
        kernels=table("kernels", kernels, stream_id=1),
        links=links,
    )
    return Profile(Decoded(run, factories.info()))


def test_leading_device_clock_hides_no_cause() -> None:
    ahead = launched(23_000)  # kernels start 13 us before their launch
    pd.testing.assert_frame_equal(ahead.advice().budget(), launched(0).advice().budget())
    for cause in ("unexplained", "other_operators", "alloc"):
        assert ahead.what_if(cause={cause: 0}).gain_ns >= 0

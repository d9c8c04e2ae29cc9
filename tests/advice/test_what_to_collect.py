"""A rule that cannot tell names what to record, and a rule of another package is found by its entry point."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import npuprof
from npuprof.advice.findings import advise
from npuprof.advice.job import JobFacts
from npuprof.advice.job_findings import advise_job
from npuprof.advice.job_member import Member
from npuprof.advice.job_rules import JOB_RULES
from npuprof.advice.rules import RULES
from npuprof.advice.to_collect import Recorded, more_steps
from npuprof.analysis.accounting import account
from npuprof.analysis.device_words import NPU
from npuprof.profiles.profile import Profile
from npuprof.simulator import npu
from npuprof.tables.info import Info
from tests import factories
from tests.analysis.test_accounting import table
from tests.analysis.test_launches import table as launch_table

_KERNELS = table("kernels", [(0, 9)])
_HOST = {"kernels": _KERNELS, "operators": table("operators", [(0, 90)])}
_COPIES = {"tasks": table("tasks", [(0, 9)])}
_COLLECTIVES = {"kernels": _KERNELS, "communication": table("communication", [(9, 50)])}
_ALL_TO_ALL = {"kernels": _KERNELS, "communication": table("communication", [(9, 50)], op_type="hcom_alltoallv_")}
_TASKS = "collect with --level 1, or load all ranks"
_COUNTERS = "collect with --level 1 --aic-metrics PipeUtilization"
_LACKS: dict[str, tuple[dict[str, pd.DataFrame], str]] = {
    "host_bound": ({"kernels": _KERNELS}, "collect with --level 1 --activities cpu,npu"),
    "between_steps": ({"kernels": _KERNELS}, "record more steps, such as warmup=2, active=6"),
    "waiting": (_COLLECTIVES, _TASKS),
    "exposed_communication": (_COLLECTIVES, _TASKS),
    "slow_link": (_COLLECTIVES, _TASKS),
    "copies": ({"kernels": _KERNELS}, "collect with --level 1"),
    "ai_cpu": (_COPIES, "collect with --level 1 --activities cpu,npu"),
    "layout_and_casts": (_COPIES, "collect with --level 1 --activities cpu,npu"),
    "fusible_repeats": ({"kernels": _KERNELS}, _COUNTERS),
    "fused_counterparts": ({"kernels": _KERNELS}, "collect with --activities cpu,npu"),
    "unfused_optimizer": ({"kernels": _KERNELS}, "collect with --level 1 --activities cpu,npu"),
    "cube_efficiency": ({"kernels": _KERNELS}, _COUNTERS),
    "unused_cores": ({"kernels": _KERNELS}, _COUNTERS),
    "frequency_drop": ({"kernels": _KERNELS}, _COUNTERS),
    "recompute": ({"kernels": _KERNELS}, "collect with --activities cpu,npu --shapes"),
    "small_kernels": ({"kernels": _KERNELS}, "collect with --level 1 --activities cpu,npu"),
    "small_comm": (_COLLECTIVES, "collect with --level 1"),
    "unaligned_messages": (_COLLECTIVES, "collect with --level 1"),
    "contention": (_COLLECTIVES, "collect with --level 1"),
    "expert_imbalance": (_ALL_TO_ALL, "collect with --level 1"),
    "sync_batch_norm": (_COPIES, "collect with --activities cpu,npu"),
    "memory_peak": ({"kernels": _KERNELS}, "collect with --memory"),
    "first_step": ({"kernels": _KERNELS}, "record more steps, such as warmup=2, active=6"),
    "outliers": ({"kernels": _KERNELS}, "record more steps, such as warmup=2, active=6"),
    "utilization": ({"kernels": _KERNELS}, _COUNTERS),
    "environment": (_HOST, "collect with npuprof, which records these variables"),
}
_OF_JOB = {
    "absent_ranks": "load the profiles of ranks with collectives",
    "late_host": "load the profiles of several hosts, with collectives, and the hosts of the ranks",
    "outliers": "record at least six steps",
    "stall": "record at least three steps on ranks with the same work",
    "pipeline_bubble": "load the profiles of all ranks, with collectives",
    "waiting": _TASKS,
    "exposed_communication": _TASKS,
    "slow_link": _TASKS,
}


def test_each_rule_without_its_data_cannot_tell_and_names_the_option() -> None:
    assert list(_LACKS) == [rule.name for rule in RULES], (
        "_LACKS has each rule in the order of RULES: a run in which it cannot tell, and what that should collect"
    )
    for rule, (given, collect) in _LACKS.items():
        run = factories.all_tables(steps=table("steps", [(0, 100)]), **given)
        found = advise(run, Info(rank=0), account(run))[rule]
        assert (rule, found.state, found.collect) == (rule, "cannot tell", collect)


def test_each_rule_about_ranks_without_all_of_them_cannot_tell() -> None:
    assert set(_OF_JOB) == {rule.name for rule in JOB_RULES} - {"slow_rank", "fast_rank", "pipeline_imbalance"}
    members = []
    for rank in (0, 1):
        run = factories.all_tables(steps=table("steps", [(0, 100)]), **_COLLECTIVES)
        accounting = account(run, rank)
        members.append(Member(rank, run, accounting, advise(run, Info(rank=rank), accounting)))
    communication = pd.concat([run.tables["communication"].assign(rank=run.rank) for run in members])
    found = advise_job(JobFacts(members, communication, [2, 3], simulated=False))
    assert {rule: (found[rule].state, found[rule].collect) for rule in _OF_JOB} == {
        rule: ("cannot tell", collect) for rule, collect in _OF_JOB.items()
    }


def test_a_rule_of_an_installed_package_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shop_rules.py").write_text(
        "from npuprof.advice.finding import Finding, Rule\n"
        "RULE = Rule('shop', '', lambda facts: Finding('shop', 'fires', 'Ours', gain_hi_ns=facts.step_ns))\n"
    )
    about = tmp_path / "shop_rules-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: shop-rules\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[npuprof.rules]\nshop = shop_rules:RULE\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    run = factories.all_tables(steps=table("steps", [(0, 100)]), kernels=_KERNELS)
    found = advise(run, Info(), account(run))
    sys.modules.pop("shop_rules", None)
    assert (found["shop"].title, found["shop"].gain_hi_ns) == ("Ours", 100)
    assert "shop" in [one.rule for one in found]


@pytest.mark.parametrize(("chip", "named"), [("", "the chip has no name here"), ("Ascend910", "only 'Ascend910'")])
def test_counters_need_the_chips_limits(chip: str, named: str) -> None:
    """The text result of a 910A has ratios, and neither cycles nor numbers of blocks to tell the chip from."""
    columns = {"core": "AI_CORE", "op_type": "MatMul", "input_shapes": "16,16", "mac_ratio": 0.5, "vec_time_ns": 9}
    run = factories.all_tables(steps=table("steps", [(0, 100)]), kernels=table("kernels", [(0, 9)], **columns))
    found = advise(run, Info(chip=chip), account(run))
    for rule in ("fusible_repeats", "cube_efficiency", "unused_cores"):
        assert found[rule].collect.startswith("the chip's limits are missing: ")
        assert named in found[rule].collect
    known = advise(run, Info(chip="Ascend 910A"), account(run))
    assert (known["cube_efficiency"].state, known["unused_cores"].state) == ("clean", "cannot tell")
    assert known["unused_cores"].collect == "the counters of this result have no numbers of blocks"
    assert known["frequency_drop"].collect == "the counters of this result have no cycles"


def _collected(**options: Any) -> Profile:
    with npuprof.profile(collector="simulator", **options) as session:
        x = npu.ones((64, 64))
        for _ in range(5):
            x = x * 1.0
            session.step()
    return session.result


def _options_in(text: str) -> dict[str, Any]:
    """Return the options that a sentence asks to collect with."""
    named = re.findall(r"--([a-z-]+)(?: (\w[\w,]*))?", text)
    return {name.replace("-", "_"): value or True for name, value in named}


@pytest.mark.parametrize(
    "options", [{"level": "none"}, {"level": 0}, {"level": 1, "activities": "npu"}, {"level": 2, "memory": True}]
)
def test_who_collects_as_told_is_not_told_so_again(
    options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    undecided = _collected(**options).advice().cannot_tell
    wanted: dict[str, Any] = {}
    for finding in undecided:
        if finding.collect.startswith("collect with --"):
            wanted |= _options_in(finding.collect)
        else:
            assert re.search("records no operators of a framework|record more steps", finding.collect), finding.collect
    again = {finding.rule: finding.collect for finding in _collected(**options | wanted).advice().cannot_tell}
    assert [text for text in again.values() if text.startswith(("collect with --", "load the whole"))] == []


def _more_steps(info: Info, **given: pd.DataFrame) -> str:
    return more_steps(Recorded(factories.all_tables(**given), info, NPU, True))


def test_cell_reports_how_steps_are_marked() -> None:
    assert _more_steps(Info()) == "record more steps, such as warmup=2, active=6"
    for name in ("<cell [3]>", "<cell>"):
        told = _more_steps(Info(code={name: "train()"}))
        assert told == "mark steps with npuprof.step(), or profile the cell that loops with %%npuprof"
    info = Info(code={"<cell [3]>": "train()"})
    statements = {"statements": launch_table("statements", [{"line": 1}])}
    assert _more_steps(info, **statements) == "mark steps with npuprof.step(), or let it loop"
    loops = {"iterations": launch_table("iterations", [{"loop": 7}, {"loop": 2}, {"loop": 7}])}
    assert _more_steps(info, **statements, **loops).endswith("or choose a loop with --step-line (2, 7)")
    info.options["steps"] = False
    assert _more_steps(info, **statements, **loops).startswith("leave out --no-steps")
    ours = Info(code={"train.py": "train()", "<cell [3]>": "f()"}, versions={"npuprof": "1"})
    assert _more_steps(ours).startswith("record more steps with npuprof.step() in the loop, or a schedule, such as")

"""The page of findings lists the parts, the causes, the rules and the keys that there are, and its example runs."""

from __future__ import annotations

import json
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import npuprof
from npuprof import cli
from npuprof.advice.findings import advise
from npuprof.advice.job_rules import JOB_RULES
from npuprof.advice.rules import RULES
from npuprof.analysis.accounting import PARTS, account
from npuprof.analysis.host_accounting import ACTIVITIES
from npuprof.analysis.idle_causes import CAUSES
from npuprof.tables.info import Info
from tests import factories
from tests.analysis.test_accounting import table

PAGE = (Path(__file__).parents[2] / "notebooks/reference/advice.md").read_text("utf-8")


def section(title: str) -> str:
    return PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]


def test_every_part_cause_and_rule_is_listed_in_order() -> None:
    text = section("Where a step goes")
    assert re.findall(r"`(\w+)`", text.partition("|---|---|")[2].partition("\n\n")[0]) == list(PARTS)
    causes = text.partition("Idle time is attributed to")[2].partition(";")[0]
    assert re.findall(r"`(\w+)`", causes) == [cause.name for cause in CAUSES]
    host = text.partition("counts for the first of these activities")[2].partition(";")[0]
    assert re.findall(r"`(\w+)`", host) == [activity.name for activity in ACTIVITIES]
    assert re.findall(r"^\| `(\w+)`", section("Rules"), re.MULTILINE) == [rule.name for rule in RULES], (
        "the table of rules in notebooks/reference/advice.md has a row of each, in the order of RULES"
    )
    assert re.findall(r"^\| `(\w+)`", section("Ranks"), re.MULTILINE) == [rule.name for rule in JOB_RULES]


def test_the_rules_that_judge_gpus_are_listed() -> None:
    listed = section("Rules").partition("these rules judge:")[2].partition(";")[0]
    assert re.findall(r"`(\w+)`", listed) == [rule.name for rule in RULES if "GPU" in rule.devices], (
        "notebooks/reference/advice.md lists the rules that judge GPUs after 'these rules judge:', in that order"
    )


def test_the_keys_of_the_data_are_listed() -> None:
    run = factories.all_tables(steps=table("steps", [(0, 100)]), kernels=table("kernels", [(0, 90)]))
    plain = advise(run, Info(), account(run)).to_dict()
    listed = set(re.findall(r"`(\w+)`", section("As data")))
    assert set(plain) | set(plain["parts_ns"]) | set(plain["findings"][0]) <= listed


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "text/level1/rank0_ascend_pt",
        "text/level0/rank0_ascend_pt",
        "db/level1/rank0_ascend_pt",
        "llm_4ranks/rank_0_ascend_pt",
        "text/level1",
        "llm_4ranks",
    ],
)
def test_sample_findings_follow_schema_and_exit_code(
    samples: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    known = json.loads(section("As data").partition("```json\n")[2].partition("```")[0])
    validator: Any = import_module("jsonschema").Draft202012Validator
    validator.check_schema(known)
    path = str(samples / "torch_npu" / name)
    status = cli.main(["advise", path, "--json", "--fail-on", "5%"])
    plain = json.loads(capsys.readouterr().out)
    assert [error.message for error in validator(known).iter_errors(plain)] == []
    worst = max((one["gain_hi_ns"] for one in plain["findings"] if one["state"] == "fires"), default=0)
    unknown = npuprof.load(path).advice().unknown_ns
    assert status == next(
        code for time, code in ((worst, 3), (unknown, 4), (1 << 62, 0)) if 100 * time >= 5 * plain["step_ns"]
    )
    assert list(validator(known).iter_errors(plain | {"step_ns": -1}))
    assert list(validator(known).iter_errors(plain | {"more": 0}))


def test_the_example_of_a_rule_is_one() -> None:
    space: dict[str, Any] = {}
    exec(section("Write a rule").partition("```python\n")[2].partition("```")[0], space)
    run = factories.all_tables(steps=table("steps", [(0, 10**9)]), kernels=table("kernels", [(0, 2 * 10**7), (0, 5)]))
    from npuprof.advice.facts import Facts

    found = space["RULE"].check(Facts(run, Info(), account(run)))
    assert (found.rule, found.state, found.cost_ns, len(found.rows)) == ("long_kernels", "fires", 2 * 10**7, 1)

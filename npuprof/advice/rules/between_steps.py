"""The device waits between steps: the loop does something else before it begins the next one."""

from __future__ import annotations

from npuprof.advice.facts import Facts
from npuprof.advice.finding import Finding, Rule
from npuprof.advice.rules.host_bound import host_findings
from npuprof.analysis.accounting import BETWEEN_STEPS
from npuprof.analysis.device_words import GPU, NPU

NAME = "between_steps"
_THRESHOLD = 0.02  # of the step


def check(facts: Facts) -> Finding | list[Finding]:
    """Fire if the device has no work between steps for more than 2 % of the step."""
    steps = facts.accounting.steps.iloc[facts.basis.rows]
    if not (steps["closed"] & steps["basis"].isin(["steps", "kernels"])).any():
        return Finding(NAME, "cannot tell", collect=facts.needs_steps())
    cost = facts.per_step([BETWEEN_STEPS])
    if cost <= _THRESHOLD * facts.usual_ns:
        return Finding(NAME, "clean", cost_ns=cost)
    return host_findings(facts, NAME, [BETWEEN_STEPS], cost, facts.gain(cost, part=[BETWEEN_STEPS]))


RULE = Rule(NAME, "time between steps in which the device has no work", check, frozenset({GPU, NPU}))

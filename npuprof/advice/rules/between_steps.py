"""The device waits between steps: the loop does something else before it begins the next one."""

from __future__ import annotations

from npuprof.advice.facts import Facts
from npuprof.advice.finding import Finding, Rule
from npuprof.advice.host_causes import NAMED, actions_for, described
from npuprof.analysis.accounting import BETWEEN_STEPS
from npuprof.analysis.device_words import GPU, NPU

NAME = "between_steps"
_THRESHOLD = 0.02  # of the step


def check(facts: Facts) -> Finding:
    """Fire if the device has no work between steps for more than 2 % of the step."""
    steps = facts.accounting.steps.iloc[facts.basis.rows]
    if not (steps["closed"] & steps["basis"].isin(["steps", "kernels"])).any():
        return Finding(NAME, "cannot tell", collect=facts.needs_steps())
    cost = facts.per_step([BETWEEN_STEPS])
    if cost <= _THRESHOLD * facts.usual_ns:
        return Finding(NAME, "clean", cost_ns=cost)
    named = {cause: time for cause, time in facts.causes_of([BETWEEN_STEPS]).items() if time >= NAMED * facts.usual_ns}
    host = next((name for name in ("operators", "api") if len(facts.tables[name])), "")
    rows = facts.tables[host or "operators"]
    overlap = facts.overlapping(host, facts.spans([BETWEEN_STEPS])) if host else None
    return Finding(
        NAME,
        "fires",
        title=f"The {facts.device} waits between steps",
        cost_ns=cost,
        **facts.gain(cost, part=[BETWEEN_STEPS]),
        detail=", ".join(described(cause, time, facts, [BETWEEN_STEPS]) for cause, time in named.items()),
        action=actions_for(named, facts),
        table=host,
        rows=rows.iloc[:0] if overlap is None else rows.assign(idle_ns=overlap)[overlap > 0],
        parts=(BETWEEN_STEPS,),
    )


RULE = Rule(NAME, "time between steps in which the device has no work", check, frozenset({GPU, NPU}))

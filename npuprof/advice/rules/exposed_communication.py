"""Data moves between ranks while no kernel runs."""

from __future__ import annotations

from npuprof.advice.facts import Facts
from npuprof.advice.finding import Finding, Rule
from npuprof.quantities import duration, share

NAME = "exposed_communication"
_THRESHOLD = 0.05  # of the step


def check(facts: Facts) -> Finding:
    """Fire if moving data that no kernel hides takes more than 5 % of the step; waiting for ranks does not count."""
    cost = facts.per_step(["moving"])
    if not len(facts.tables["communication_tasks"]) and facts.per_step(["communication"]):
        return Finding(NAME, "cannot tell", collect="level=1, or load all ranks")
    if cost <= _THRESHOLD * facts.step_ns:
        return Finding(NAME, "clean", cost_ns=cost)
    communication = facts.tables["communication"]
    overlap = facts.overlapping("communication", facts.spans(["moving"]))
    rows = communication.assign(moving_ns=overlap)[overlap > 0]
    kinds = rows.groupby("op_type", observed=True)["moving_ns"].sum().sort_values(ascending=False)
    most = ", ".join(f"{str(kind).strip('_')} {share(int(time), int(kinds.sum()))}" for kind, time in kinds.items())
    return Finding(
        NAME,
        "fires",
        title="Communication is not hidden by kernels",
        cost_ns=cost,
        gain_hi_ns=cost,
        detail=f"{duration(cost)} of a step moves data while no kernel runs: {most}",
        action="overlap it with computing: gradient buckets (DDP bucket_cap_mb), a stream of its own, ZeRO stage",
        table="communication",
        rows=rows,
    )


RULE = Rule(NAME, "data moving between ranks while no kernel runs", check)

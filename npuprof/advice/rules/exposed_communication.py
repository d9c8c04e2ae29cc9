"""Data that moves between ranks while no kernel runs."""

from __future__ import annotations

from npuprof.advice.facts import Facts
from npuprof.advice.finding import Finding, Rule
from npuprof.advice.wording import shares_of
from npuprof.analysis.device_words import GPU, NPU
from npuprof.words.quantities import duration

NAME = "exposed_communication"
ACTION = "Overlap it with the backward pass: gradient buckets (`bucket_cap_mb`), a separate stream."
_THRESHOLD = 0.05  # of the step


def check(facts: Facts) -> Finding:
    """Fire if moving data that no kernel hides takes more than 5 % of the step; waiting for ranks does not count."""
    cost = facts.per_step(["moving"])
    if not cost and facts.per_step(["communication"]):
        return Finding(NAME, "cannot tell", collect=facts.needs(level="tasks of collectives", instead="load all ranks"))
    if cost <= _THRESHOLD * facts.usual_ns:
        return Finding(NAME, "clean", cost_ns=cost)
    communication = facts.tables["communication"]
    overlap = facts.overlapping("communication", facts.spans(["moving"]))
    rows = communication.assign(moving_ns=overlap)[overlap > 0]
    kinds = shares_of(rows.groupby("op_type", observed=True)["moving_ns"].sum())
    return Finding(
        NAME,
        "fires",
        title="Data moves between ranks while nothing computes",
        cost_ns=cost,
        gain_hi_ns=cost,
        detail=f"Data moves for {duration(cost)} of a step while no kernel runs: {kinds}",
        action=ACTION,
        table="communication",
        rows=rows,
        parts=("moving",),
    )


RULE = Rule(NAME, "data moving between ranks while no kernel runs", check, frozenset({GPU, NPU}))

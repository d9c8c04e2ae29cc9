"""Steps that take longer than the usual one, and their share of the mean."""

from __future__ import annotations

from npuprof.advice.facts import Facts
from npuprof.advice.finding import Finding, Rule
from npuprof.advice.outliers import NAME, findings, outliers


def check(facts: Facts) -> list[Finding]:
    """Fire for each line or cause that makes two or more steps longer, and for single outliers together."""
    if facts.basis.limit is None:
        return [Finding(NAME, "cannot tell", collect=facts.needs_steps())]
    return findings(facts, outliers(facts))


RULE = Rule(NAME, "steps that take longer than the usual one", check)

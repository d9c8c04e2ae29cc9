"""Steps of a job that take longer than the usual one, by the rank and the line that take the extra time."""

from __future__ import annotations

from npuprof.advice.finding import Finding
from npuprof.advice.job import JobFacts, JobRule, Times
from npuprof.advice.outliers import NAME, findings, outliers


def every(facts: JobFacts) -> list[Finding]:
    """Return a finding for each rank and line, or cause, that makes two or more steps longer, and for single ones."""
    if facts.basis.limit is None:
        return [Finding(NAME, "cannot tell", collect="record at least six steps")]
    return findings(facts, outliers(facts))


def check(facts: JobFacts) -> Finding:
    """Fire if outliers make the mean step longer: the costliest of :func:`every`."""
    return every(facts)[0]


def without(facts: JobFacts, times: Times) -> Times:  # noqa: ARG001 - every rule of a job has it
    """Return the times unchanged: a usual step has no outliers."""
    return times


RULE = JobRule(NAME, "steps of a job that take longer than the usual one", check, without)

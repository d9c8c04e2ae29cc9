"""All findings of a job: about its ranks together, and about the ranks with the most time of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from npuprof.advice.actions import for_framework
from npuprof.advice.finding import Finding
from npuprof.advice.findings import Advice, Render, Scope
from npuprof.advice.gains import Replayed, Saves
from npuprof.advice.job import JobFacts
from npuprof.advice.job_rules import (
    JOB_RULES,
    absent_ranks,
    exposed_communication,
    fast_rank,
    late_host,
    outliers,
    pipeline_bubble,
    pipeline_imbalance,
    slow_rank,
    stall,
    waiting,
)
from npuprof.advice.job_rules import slow_link as job_slow_link
from npuprof.advice.rules import between_steps, host_bound, slow_link

if TYPE_CHECKING:
    from ipywidgets import Widget

_OF_HOST = (host_bound.NAME, between_steps.NAME)
_OF_EACH_RANK = (slow_link.NAME, *_OF_HOST)
"""Rules whose subject each rank has for itself: its links, and its host, which need not be late in a collective."""
_STATES = ("cannot tell", "clean", "fires")
# Problems of a single host or rank are fixed first; what remains is spread evenly.
_IN_TURN = tuple(
    rule.NAME
    for rule in (
        outliers,
        stall,
        late_host,
        slow_rank,
        fast_rank,
        waiting,
        pipeline_imbalance,
        pipeline_bubble,
        job_slow_link,
        absent_ranks,
        exposed_communication,
    )
)


def advise_job(
    facts: JobFacts,
    explore: Callable[[Finding], Widget] | None = None,
    scope: Scope = "job",
    render: Render | None = None,
) -> Advice:
    """Run the rules about ranks on a job, and add the findings of single ranks.

    Of each rule for single ranks, the finding with the greatest gain is taken; its ``place`` names the rank. Findings
    on waiting and communication are replaced by those about all ranks: what a rank alone sees of waits names members of
    groups that may be here, and only as late as a pipeline makes them.
    """
    if not facts.step_ns:
        return Advice(facts, [], explore, scope=scope, render=render)
    every = {rule.name: _check(rule.name, facts) for rule in JOB_RULES if facts.device in rule.devices}
    if every[outliers.RULE.name][0].state == every[stall.NAME][0].state == "fires":
        every[stall.NAME] = [stall.beside_outliers(facts)]
    together = {name: found[0] for name, found in every.items()}
    alone: dict[str, list[Finding]] = {}
    spokesmen = _spokesmen(facts)
    for rank, member in facts.members.items():
        for finding in member.advice.findings:
            if rank in spokesmen or finding.rule in _OF_EACH_RANK:
                alone.setdefault(finding.rule, []).append(_rank_finding(finding, rank, facts))
    if together[absent_ranks.NAME].state != "cannot tell":  # what they are waited for is known
        alone.pop(waiting.NAME, None)
    for name in (waiting.NAME, exposed_communication.RULE.name) if facts.unmatched else ():
        alone.pop(name, None)  # a rank alone cannot tell either
    alone.pop(outliers.RULE.name, None)  # those of the job are the same for all ranks
    known = {name: finding for name, finding in together.items() if finding.state != "cannot tell" or name not in alone}
    single = [each for name in alone if name not in known for each in _of_one_rank(alone[name], facts)]
    findings = [*single, *(each for name in known for each in every[name])]
    fire = [finding.rule for finding in findings if finding.state == "fires" and finding.gain_hi_ns > 0]
    return Advice(facts, findings, explore, _together_ns(facts, fire), scope, render)


def _of_one_rank(findings: Sequence[Finding], facts: JobFacts) -> list[Finding]:
    """Return the findings of a rule on the rank where they weigh most: one, or one for each line and cause.

    Several divide the gain of a replay without all of them on all ranks as they divide that of the rank.
    """
    ranks: dict[int | None, list[Finding]] = {}
    for finding in findings:
        ranks.setdefault(finding.rank, []).append(finding)
    chosen = max(ranks.values(), key=lambda each: (max(map(_weight, each))[0], sum(_weight(one)[1] for one in each)))
    if len(chosen) == 1:
        return [_replay(chosen[0], facts)]
    whole = sum(each.gain_hi_ns for each in chosen)
    together = _replay(replace(chosen[0], gain_lo_ns=sum(each.gain_lo_ns for each in chosen), gain_hi_ns=whole), facts)
    return [
        replace(
            each,
            gain_lo_ns=together.gain_lo_ns * each.gain_hi_ns // max(whole, 1),
            gain_hi_ns=together.gain_hi_ns * each.gain_hi_ns // max(whole, 1),
            confidence=together.confidence,
            gains_ns=tuple(gain * each.gain_hi_ns // max(whole, 1) for gain in together.gains_ns),
        )
        for each in chosen
    ]


def _replay(finding: Finding, facts: JobFacts) -> Finding:
    """Return a finding of a rank with the gain of a replay without its problem on all ranks, if a replay can tell."""
    if finding.saves is None or finding.state != "fires":
        return finding

    def gain(saves: Saves) -> Replayed | None:
        saved = facts.saved_ns([finding.rule], surely=saves is not finding.saves)
        return None if saved is None else facts.replayed_without(saved)

    largest_gain = gain(finding.saves)
    if largest_gain is None:
        return finding
    return replace(
        finding,
        **facts.replayed(
            finding.saves, facts.usual_ns, lambda saves: largest_gain if saves is finding.saves else gain(saves)
        ),
    )


def _together_ns(facts: JobFacts, rules: Sequence[str]) -> int | None:
    """Return the gain of a step without any of the problems that were found; None if no replay can tell.

    Where collectives overlap computing, no replay has all of them: nothing is surely explained together.
    """
    if not facts.is_serial:
        return 0
    times, saved = facts.usual, facts.saved_ns(rules)
    for rule in sorted(JOB_RULES, key=lambda rule: _IN_TURN.index(rule.name)):
        times = rule.without(facts, times) if rule.name in rules else times
    own_ns = times.own_ns if saved is None else np.maximum(times.own_ns - saved, 0)
    return facts.gain_ns(own_ns, times.moving_ns, than_ns=facts.usual.own_ns) if rules else None


def _spokesmen(facts: JobFacts) -> Sequence[int]:
    """Return the rank of each stage with the most time outside collectives of those with kernels; else all ranks."""
    own_ns = facts.own_ns()
    with_kernels = {rank for rank, member in facts.members.items() if len(member.tables["kernels"])}
    stages = [[rank for rank in stage if rank in with_kernels] for stage in facts.stages()]
    return [max(stage, key=lambda rank: own_ns[rank]) for stage in stages if stage] or sorted(facts.members)


def _rank_finding(finding: Finding, rank: int, facts: JobFacts) -> Finding:
    waited_for = next((member for member in facts.members if finding.place == f"rank {member}"), None)
    if finding.rule == waiting.NAME and waited_for is not None:
        action = f"See what it does meanwhile: `runs[{waited_for}].advice()`."
        finding = replace(finding, title=f"Rank {rank} waits for rank {waited_for}", action=action)
    place = f"rank {rank}" + (f", {finding.place}" if finding.place else "")
    detail = f"On rank {rank}: {finding.detail}" if finding.detail else ""
    return replace(finding, place=place, detail=detail, rank=rank)


def _weight(finding: Finding) -> tuple[int, int]:
    worth = finding.cost_ns if finding.rule in _OF_HOST else finding.expected_ns
    return _STATES.index(finding.state), worth


def _check(name: str, facts: JobFacts) -> list[Finding]:
    """Return the findings of a rule; a rule that raises cannot tell."""
    try:
        rule = next(rule for rule in JOB_RULES if rule.name == name)
        every = outliers.every(facts) if rule is outliers.RULE else [rule.check(facts)]
        return [replace(finding, action=for_framework(finding.action, facts.info)) for finding in every]
    except Exception as error:  # noqa: BLE001 a report must not fail over one rule
        return [Finding(name, "cannot tell", detail=f"{type(error).__name__}: {error}", collect="the rule failed")]

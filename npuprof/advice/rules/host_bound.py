"""The device is idle because the host has not launched the next task: a finding for each line and cause."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from npuprof.advice.causes import BY_NAME, LAUNCHES, LOADER, LOCK, OTHER
from npuprof.advice.facts import Facts
from npuprof.advice.finding import Finding, Rule
from npuprof.advice.gains import Gain, gain_of
from npuprof.advice.host_causes import HostTime, HostTimes
from npuprof.advice.wording import code, lines_called
from npuprof.analysis.accounting import IDLE
from npuprof.analysis.device_words import GPU, NPU
from npuprof.analysis.idle_causes import PROFILER, UNEXPLAINED
from npuprof.analysis.what_if import HOST_CAUSES
from npuprof.lines.frames import line_text
from npuprof.words.quantities import counted, duration, share

NAME = "host_bound"
_THRESHOLD = 0.1  # of the step
_OF_PROGRAM = tuple(cause for cause in HOST_CAUSES if cause != PROFILER)
_WORTH = 0.01  # of the step: what is named on its own
_UNNAMED = {LOADER: "The data loader", LAUNCHES: "The host"}
_WITHOUT_STEPS = {"a_step": "", "in_every_step": ""}
_ENDINGS = ("s", "es", "ies"), ("", "", "y")


def check(facts: Facts) -> list[Finding]:
    """Fire if the device is idle for more than a tenth of the step, for each line and cause that matters."""
    if not facts.host_known:
        return [Finding(NAME, "cannot tell", collect=needs(facts))]
    cost = sum(facts.idle_causes.values())
    if not starved(facts):
        return [Finding(NAME, "clean", cost_ns=cost)]
    if facts.captured:
        return [_graph_finding(facts, cost)]
    return host_findings(facts, NAME, IDLE, cost, facts.gain(cost, cause=_OF_PROGRAM))


def host_findings(facts: Facts, rule: str, parts: Sequence[str], cost: int, gain: Gain) -> list[Finding]:
    """Return the findings about idle time of some parts of a step, which divide its gain among them."""
    times = HostTimes(facts, parts)
    found = times.found()
    least = _WORTH * facts.usual_ns
    named = [each for each in found if each.time_ns + each.busy_ns >= least]
    rest = sum(each.time_ns for each in found if each not in named)
    if named:  # what the division by steps left
        named[0] = replace(named[0], time_ns=named[0].time_ns + cost - sum(each.time_ns for each in found))
    findings = [_finding(facts, rule, times, each, parts, cost, gain) for each in named]
    if rest >= least or not findings:
        others = HostTime(BY_NAME[OTHER], max(rest, 0) if findings else cost)
        findings.append(_finding(facts, rule, times, others, parts, cost, gain))
    return findings


def _finding(
    facts: Facts, rule: str, times: HostTimes, found: HostTime, parts: Sequence[str], cost: int, gain: Gain
) -> Finding:
    host = next((name for name in ("operators", "api") if len(facts.tables[name])), "")
    rows = facts.tables[host or "operators"]
    overlap = facts.overlapping(host, found.spans) if host else np.zeros(0, np.int64)
    cause, cell = found.cause, times.cell
    place = lines_called(found.lines, cell) or _UNNAMED.get(cause.name, "The host")
    if found.has_others:
        place += " and others"
    several = len(found.lines) > 1 or found.has_others
    words = dict(zip(("s", "es", "ies"), _ENDINGS[several], strict=True))
    words |= {"place": place, "device": facts.device, "count": counted(found.launches, "small kernel")}
    words |= {"a_step": " a step", "in_every_step": " in every step"} if facts.accounting.has_steps else _WITHOUT_STEPS
    template = cause.title
    if cause.name == LAUNCHES and not found.launches:
        template = "{place} launch{es} small kernels one by one"
    title = template.format(**words)
    if rule != NAME:
        title += " between steps"
    if found.call and not found.has_others:
        title += f": {code(found.call)}"
    call = code(found.call) if found.call else "it"
    action = cause.action_for(facts.device, facts.info).replace("{call}", call)
    if cause.name == OTHER and not found.lines:
        action = f"Find out what the host does: {facts.what_tells(UNEXPLAINED)}."
    return Finding(
        rule,
        "fires",
        title=title,
        cost_ns=found.time_ns + found.busy_ns,
        **_part_of(facts, found, cost, gain),
        detail=_detail(facts, times, found, parts),
        action=action,
        place=lines_called(found.lines, cell),
        lines=found.lines,
        cause=cause.name,
        table=host,
        rows=rows.assign(idle_ns=overlap)[overlap > 0] if host else rows.iloc[:0],
        parts=tuple(parts),
    )


def _part_of(facts: Facts, found: HostTime, cost: int, gain: Gain) -> Gain:
    """Return the share of a cause in a gain, and the gain of a step without its waits."""
    limits = [gain[name] * found.time_ns // max(cost, 1) for name in ("gain_lo_ns", "gain_hi_ns")]
    by_step = [each * found.time_ns // max(cost, 1) for each in gain["gains_ns"]]
    predicted = gain["confidence"] == "measured"
    if found.busy_ns:
        # Without a wait the host runs ahead, which shortens a step by no more than the device is idle in it.
        of_waits = facts.gain(min(found.busy_ns, max(cost - found.time_ns, 0)), cause=["sync_call"])
        limits = [limits[0] + of_waits["gain_lo_ns"], limits[1] + of_waits["gain_hi_ns"]]
        predicted &= of_waits["confidence"] == "measured"
        by_step = [sum(pair) for pair in zip(by_step, of_waits["gains_ns"], strict=False)]
    return gain_of(*limits, predicted=predicted, sound=facts.sound, saves=gain["saves"], gains_ns=tuple(by_step))


def _detail(facts: Facts, times: HostTimes, found: HostTime, parts: Sequence[str]) -> str:
    """Return the time, the deepest line, the other threads' work, and missing records."""
    said = [f"the {facts.device} has no work for {duration(found.time_ns)} of a step"] if found.time_ns else []
    if found.busy_ns:
        said.append(f"the host waits for it for {duration(found.busy_ns)}")
    text = " and ".join(said)
    if found.deepest is not None and found.deepest not in found.lines:
        whole = share(round(1000 * found.share), 1000)
        text += f", {whole} of it in {line_text(*found.deepest)}"
    details = [text[:1].upper() + text[1:]]
    if found.cause.name == LOCK and (other := times.elsewhere(found)) is not None:
        details.append(f"meanwhile another thread runs {line_text(*other)}")
    if not found.lines:
        causes = {name: time for name, time in facts.causes_of(parts).items() if time >= _WORTH * facts.usual_ns}
        named = ", ".join(f"{duration(time)} {name.replace('_', ' ')}" for name, time in causes.items())
        details.append(f"in all {named}") if named else None
    if facts.device == NPU and "sync_call" in facts.accounting.unmeasured:
        details.append("calls that compile or wait were not recorded (`--level 1`)")
    return "; ".join(details)


def needs(facts: Facts) -> str:
    """Return how to collect the host side of a run, or why it cannot be compared with the device."""
    if not facts.joined:
        return "device and host times cannot be joined, see run.notes"
    return facts.needs("--activities cpu,npu", level="calls of the host")


def starved(facts: Facts) -> bool:
    """Return whether the device is idle for more than a tenth of the usual step; outliers do not count."""
    own_ns = facts.usual_ns - facts.causes_of(IDLE).get(PROFILER, 0)  # a step takes no longer without the profiler
    return sum(facts.idle_causes.values()) > _THRESHOLD * own_ns


def _graph_finding(facts: Facts, cost: int) -> Finding:
    """Return the finding of a run whose kernels have no launch calls, so that the causes of idle time are unknown."""
    without = facts.causes.launchers < 0
    return Finding(
        NAME,
        "fires",
        title=f"The {facts.device} is idle, and captured graphs hide why",
        cost_ns=cost,
        gain_hi_ns=cost,
        detail=f"Captured graphs launched {int(without.sum()):,} of {counted(len(without), 'kernel')}, so the host's "
        "work at that time need not be the cause",
        action="Profile a run without capturing, or capture larger graphs.",
        table="kernels",
        rows=facts.tables["kernels"][without],
        parts=IDLE,
    )


RULE = Rule(NAME, "idle time of the device while the host works on something else", check, frozenset({GPU, NPU}))

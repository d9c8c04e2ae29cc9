"""The device is idle because the host has not launched the next task."""

from __future__ import annotations

import numpy as np

from npuprof import tables as schema
from npuprof.advice.facts import Facts
from npuprof.advice.finding import Finding, Rule
from npuprof.advice.host_causes import LABELS, NAMED, actions_for, calls_text, described, idle_lines
from npuprof.analysis.accounting import IDLE
from npuprof.analysis.device_words import GPU, NPU
from npuprof.analysis.idle_causes import PROFILER
from npuprof.analysis.what_if import HOST_CAUSES
from npuprof.arrays import Int64
from npuprof.words.quantities import counted, duration

NAME = "host_bound"
_THRESHOLD = 0.1  # of the step
_BOUND = "an upper bound, since Python stacks were recorded"


def check(facts: Facts) -> Finding:
    """Fire if the device is idle for more than a tenth of the step, and name the host's activities."""
    if not facts.host_known:
        return Finding(NAME, "cannot tell", collect=needs(facts))
    causes = facts.idle_causes
    cost = sum(causes.values())
    if not starved(facts):
        return Finding(NAME, "clean", cost_ns=cost)
    if facts.captured:
        return _graph_finding(facts, cost)
    named = [cause for cause, time in causes.items() if time >= NAMED * facts.usual_ns]
    parts = [described(cause, causes[cause], facts, IDLE) for cause in named]
    times = {cause: causes[cause] for cause in named}
    drained, where = after_waits(facts)
    if drained >= NAMED * facts.usual_ns:
        parts.append(f"{duration(drained)} of it since the host waited for the {facts.device}{where}")
        times["sync_call"] = max(times.get("sync_call", 0), drained)
    host = "operators" if len(facts.tables["operators"]) else "api"
    overlap = facts.overlapping(host, facts.spans(IDLE, tuple(causes)))
    unknown = [LABELS[cause] for cause in ("op_compile", "sync_call") if cause in facts.accounting.unmeasured]
    parts += [f"{' and '.join(unknown)} not recorded (--level 1)"] if unknown and facts.device == NPU else []
    details = [", ".join(parts), f"at {lines}" if (lines := idle_lines(facts)) else "", _BOUND if facts.stacks else ""]
    return Finding(
        NAME,
        "fires",
        title=f"The host starves the {facts.device}",
        cost_ns=cost,
        **facts.gain(cost, cause=[cause for cause in HOST_CAUSES if cause != PROFILER]),
        detail="; ".join(filter(None, details)),
        action=actions_for(times, facts),
        table=host,
        rows=facts.tables[host].assign(idle_ns=overlap)[overlap > 0],
        parts=IDLE,
    )


def needs(facts: Facts) -> str:
    """Return how to collect the host side of a run, or why it cannot be compared with the device."""
    if not facts.joined:
        return "device and host times cannot be joined, see run.notes"
    return facts.needs("--activities cpu,npu", level="calls of the host")


def starved(facts: Facts) -> bool:
    """Return whether the device is idle for more than a tenth of the usual step, whatever single steps took longer."""
    own_ns = facts.usual_ns - facts.causes_of(IDLE).get(PROFILER, 0)  # a step takes no longer without the profiler
    return sum(facts.idle_causes.values()) > _THRESHOLD * own_ns


def _graph_finding(facts: Facts, cost: int) -> Finding:
    """Return the finding of a run whose kernels have no launch calls, so that the causes of idle time are unknown."""
    without = facts.causes.launchers < 0
    return Finding(
        NAME,
        "fires",
        title=f"The {facts.device} is idle, and the profile does not say why",
        cost_ns=cost,
        gain_hi_ns=cost,
        detail=f"{int(without.sum()):,} of {counted(len(without), 'kernel')} have no call of their own, since "
        "captured graphs launched them: what the host did meanwhile need not be the cause",
        action="profile a run without capturing to see the host's part; larger graphs, or more work in each",
        table="kernels",
        rows=facts.tables["kernels"][without],
        parts=IDLE,
    )


def after_waits(facts: Facts) -> tuple[int, str]:
    """Return the idle time of the usual step from the end of waits for the device to its next task, and these calls.

    The host had nothing queued behind the wait; if there is no task between several waits, the first one counts.
    """
    api = facts.tables["api"]
    rows = np.flatnonzero(schema.matching(api["name"], lambda name: "Synchronize" in name))
    ends = (api["start_ns"] + api["duration_ns"]).to_numpy(np.int64)[rows]
    order = np.argsort(ends, kind="stable")
    rows, ends, (starts, stops) = rows[order], ends[order], facts.spans(IDLE, tuple(facts.idle_causes))
    if not len(rows) or not len(starts) or not facts.joined:
        return 0, ""
    number = np.searchsorted(starts, ends, side="right") - 1
    first = (number >= 0) & (ends < stops[number]) & (np.diff(number, prepend=-1) != 0)
    idle = (stops[number] - ends)[first]
    return _usual(facts, ends[first], idle), calls_text(facts, "api", rows[first], idle)


def _usual(facts: Facts, at_ns: Int64, times_ns: Int64) -> int:
    """Return the mean over the usual steps of times, each of the step in which the device is idle at a moment."""
    rows, steps = facts.accounting.intervals, facts.accounting.steps
    rows = rows[schema.matching(rows["part"], lambda name: name in IDLE) & rows["start_ns"].notna()]
    rows = rows.sort_values("start_ns", kind="stable")
    place = np.searchsorted(rows["start_ns"].to_numpy(np.int64), at_ns, side="right") - 1
    sums = np.zeros(len(steps), np.int64)
    np.add.at(sums, rows["row"].to_numpy()[place], times_ns)
    return int(sums[facts.basis.usual_rows].sum()) // max(1, len(facts.basis.usual_rows))


RULE = Rule(NAME, "idle time of the device while the host works on something else", check, frozenset({GPU, NPU}))

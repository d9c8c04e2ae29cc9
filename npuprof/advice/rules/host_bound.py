"""The device is idle because the host has not launched the next task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np

from npuprof import tables as schema
from npuprof.advice.actions import action_for
from npuprof.advice.facts import Facts
from npuprof.advice.finding import Finding, Rule
from npuprof.advice.wording import most_lines
from npuprof.analysis.accounting import IDLE
from npuprof.analysis.device_words import GPU, NPU
from npuprof.analysis.what_if import HOST_CAUSES
from npuprof.arrays import Int64
from npuprof.quantities import counted, duration

NAME = "host_bound"
_THRESHOLD = 0.1  # of the step
_NAMED = 0.01  # of the step: causes below it are not named

_OF_DEVICE = ""  # what helps depends on the device
# The most specific first: advice about one call comes before advice about all calls.
_ACTIONS = {
    "op_compile": _OF_DEVICE,
    "sync_call": "keep values on the device: .item() and blocking copies only every n steps",
    "dataloader": "more DataLoader workers, prefetch_factor, pin_memory=True",
    "python_gc": "gc.disable(), and gc.collect() at the same step on all ranks",
    "alloc": _OF_DEVICE,
    "copy_call": "non_blocking copies from pinned memory",
    "optimizer": _OF_DEVICE,
    "backward_dispatch": _OF_DEVICE,
    "forward_dispatch": _OF_DEVICE,
    "other_operators": "fewer, larger operators",
    "python": "less Python between operators",
}
_DISPATCH = dict.fromkeys(("backward_dispatch", "forward_dispatch"), "dispatch")
_CALLS: Mapping[str, tuple[Literal["operators", "api"], str]] = {
    "op_compile": ("api", "ompile"),
    "sync_call": ("api", "Synchronize"),
    "dataloader": ("operators", "DataLoader"),
    "other_operators": ("operators", ""),
}
_LABELS = {
    "op_compile": "compiling operators",
    "sync_call": "synchronising",
    "dataloader": "data loader",
    "python_gc": "garbage collection",
    "alloc": "allocating memory",
    "copy_call": "copy calls",
    "optimizer": "optimizer",
    "backward_dispatch": "backward dispatch",
    "forward_dispatch": "forward dispatch",
    "other_operators": "other operators",
    "python": "Python",
    "unexplained": "unexplained",
}


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
    parts = [
        f"{duration(time)} {_LABELS.get(cause, cause)}{_lines(facts, cause)}"
        for cause, time in causes.items()
        if time >= _NAMED * facts.step_ns
    ]
    named = [cause for cause in _ACTIONS if causes.get(cause, 0) >= _NAMED * facts.step_ns]
    best = [_ACTIONS[cause] or action_for(_DISPATCH.get(cause, cause), facts) for cause in named]
    drained, where = after_waits(facts)
    if drained >= _NAMED * facts.step_ns:
        parts.append(f"{duration(drained)} of it since the host waited for the {facts.device}{where}")
        best = list(dict.fromkeys([_ACTIONS["sync_call"], *best]))
    host = "operators" if len(facts.tables["operators"]) else "api"
    overlap = facts.overlapping(host, facts.spans(IDLE))
    unknown = [_LABELS[cause] for cause in ("op_compile", "sync_call") if cause in facts.accounting.unmeasured]
    parts += [f"{' and '.join(unknown)} not recorded (--level 1)"] if unknown and facts.device == NPU else []
    return Finding(
        NAME,
        "fires",
        title=f"The host starves the {facts.device}",
        cost_ns=cost,
        **facts.gain(cost, cause=HOST_CAUSES),
        detail=", ".join(parts) + ("; an upper bound, since Python stacks were recorded" if facts.stacks else ""),
        action="; ".join(dict.fromkeys(filter(None, best[:3]))) or _to_see_more(facts),
        table=host,
        rows=facts.tables[host].assign(idle_ns=overlap)[overlap > 0],
        parts=IDLE,
    )


def _to_see_more(facts: Facts) -> str:
    how = "name parts of the step with npuprof.range(...)" if facts.stacks else "record operators and stacks"
    return f"{how} to see what the host does"


def needs(facts: Facts) -> str:
    """Return how to collect the host side of a run, or why it cannot be compared with the device."""
    if not facts.joined:
        return "device and host times cannot be joined, see run.notes"
    return facts.needs("--activities cpu,npu", level="calls of the host")


def starved(facts: Facts) -> bool:
    """Return whether the device is idle for more than a tenth of the step."""
    return sum(facts.idle_causes.values()) > _THRESHOLD * facts.step_ns


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


def _lines(facts: Facts, cause: str) -> str:
    """Return the source lines with the most idle time by calls of a cause, in brackets."""
    if cause not in _CALLS:
        return ""
    table, part = _CALLS[cause]
    rows = np.flatnonzero(schema.matching(facts.tables[table]["name"], lambda name: part in name))
    idle = facts.overlapping(table, facts.spans(IDLE, [cause]), rows)
    return _calls_text(facts, table, rows[idle > 0], idle[idle > 0])


def after_waits(facts: Facts) -> tuple[int, str]:
    """Return the idle time per step from the end of host waits for the device to its next task, and these calls.

    The host had nothing queued behind the wait; if there is no task between several waits, the first one counts.
    """
    api = facts.tables["api"]
    rows = np.flatnonzero(schema.matching(api["name"], lambda name: "Synchronize" in name))
    ends = (api["start_ns"] + api["duration_ns"]).to_numpy(np.int64)[rows]
    order = np.argsort(ends, kind="stable")
    rows, ends, (starts, stops) = rows[order], ends[order], facts.spans(IDLE)
    if not len(rows) or not len(starts) or not facts.joined:
        return 0, ""
    number = np.searchsorted(starts, ends, side="right") - 1
    first = (number >= 0) & (ends < stops[number]) & (np.diff(number, prepend=-1) != 0)
    idle = (stops[number] - ends)[first]
    return int(idle.sum()) // max(1, len(facts.counted)), _calls_text(facts, "api", rows[first], idle)


def _calls_text(facts: Facts, table: Literal["operators", "api"], rows: Int64, idle: Int64) -> str:
    if not len(rows):
        return ""
    lines = most_lines(facts.lines_of(table, rows), idle)
    calls = counted(len(rows), "call")
    return f" ({'; '.join([calls, *([', '.join(lines)] if lines else [])])})"


RULE = Rule(NAME, "idle time of the device while the host works on something else", check, frozenset({GPU, NPU}))

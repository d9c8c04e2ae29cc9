"""Environment variables that explain the finding of another rule."""

from __future__ import annotations

import numpy as np

from npuprof import tables as schema
from npuprof.advice.facts import Facts
from npuprof.advice.finding import Finding, Rule
from npuprof.advice.gains import Gain, gain_of
from npuprof.advice.rules import host_bound, memory_peak
from npuprof.advice.to_collect import of_cell
from npuprof.advice.wording import code
from npuprof.analysis.accounting import IDLE
from npuprof.analysis.device_words import NPU
from npuprof.analysis.what_if import HOST_CAUSES
from npuprof.arrays import Int64
from npuprof.words.commands import shell_word

NAME = "environment"
_WORTH = 0.01  # of the step
_PREFIXES = ("ASCEND_", "PYTORCH_NPU_", "HCCL_", "TASK_QUEUE_")
_OTHER_ALLOCATORS = ("mindspore", "tensorflow")  # of frameworks that do not read that variable of torch_npu
_VERBOSE = {"0": "debug", "1": "info"}


def check(facts: Facts) -> Finding:
    """Fire if a variable, set or missing, makes the host wait, allocate or log, and the run shows the effect."""
    variables = facts.info.environment
    idle = host_bound.starved(facts) and facts.host_known
    waited = _after_waits(facts)
    allocating = facts.idle_causes.get("alloc", 0)
    in_pieces = "fragmented" in memory_peak.check(facts).title
    drained = idle and waited > _WORTH * facts.usual_ns
    scattered = in_pieces or allocating > _WORTH * facts.usual_ns
    if not (idle or scattered):
        return Finding(NAME, "clean")
    is_known = facts.info.simulated or "executable" in variables
    if not is_known and not any(name.startswith(_PREFIXES) for name in variables):
        return Finding(NAME, "cannot tell", collect="collect with npuprof, which records these variables")
    problems: list[tuple[int, Gain, str, str]] = []
    if drained and variables.get("ASCEND_LAUNCH_BLOCKING") == "1":
        gain = facts.gain(waited, cause=["sync_call"])
        reason = "Each launch waits for the NPU: `ASCEND_LAUNCH_BLOCKING` is 1"
        problems.append((waited, gain, reason, _to_set(facts, "ASCEND_LAUNCH_BLOCKING", "")))
    expandable = "expandable_segments:true" in variables.get("PYTORCH_NPU_ALLOC_CONF", "").lower()
    if scattered and not expandable and facts.info.collector not in _OTHER_ALLOCATORS:
        gain = facts.gain(allocating, cause=["alloc"])
        reason = "The allocator fragments memory: expandable segments are off"
        problems.append(
            (allocating, gain, reason, _to_set(facts, "PYTORCH_NPU_ALLOC_CONF", "expandable_segments:True"))
        )
    if idle and (level := _VERBOSE.get(variables.get("ASCEND_GLOBAL_LOG_LEVEL", ""))):
        cost = sum(time for cause, time in facts.idle_causes.items() if cause in HOST_CAUSES)
        gain = gain_of(0, cost)
        reason = f"CANN logs at level {level}: `ASCEND_GLOBAL_LOG_LEVEL` is set"
        problems.append((cost, gain, reason, _to_set(facts, "ASCEND_GLOBAL_LOG_LEVEL", "3")))
    if not problems:
        return Finding(NAME, "clean")
    cost, gain, reason, action = max(problems, key=lambda problem: problem[1]["gain_hi_ns"])
    return Finding(
        NAME,
        "fires",
        title=reason,
        cost_ns=cost,
        **gain,
        detail="; ".join(f"{reason}. {action}" for *_, reason, action in problems),
        action=action,
        parts=IDLE,
    )


def _after_waits(facts: Facts) -> int:
    """Return the idle time of the usual step from the end of waits for the device to its next task.

    The host had nothing queued behind the wait; if there is no task between several waits, the first one counts.
    """
    api = facts.tables["api"]
    rows = np.flatnonzero(schema.matching(api["name"], lambda name: "Synchronize" in name))
    ends = (api["start_ns"] + api["duration_ns"]).to_numpy(np.int64)[rows]
    order = np.argsort(ends, kind="stable")
    ends, (starts, stops) = ends[order], facts.spans(IDLE, tuple(facts.idle_causes))
    if not len(rows) or not len(starts) or not facts.joined:
        return 0
    number = np.searchsorted(starts, ends, side="right") - 1
    first = (number >= 0) & (ends < stops[number]) & (np.diff(number, prepend=-1) != 0)
    idle = (stops[number] - ends)[first]
    return _usual(facts, ends[first], idle)


def _usual(facts: Facts, at_ns: Int64, times_ns: Int64) -> int:
    """Return the mean over the usual steps of times, each of the step in which the device is idle at a moment."""
    rows, steps = facts.accounting.intervals, facts.accounting.steps
    rows = rows[schema.matching(rows["part"], lambda name: name in IDLE) & rows["start_ns"].notna()]
    rows = rows.sort_values("start_ns", kind="stable")
    place = np.searchsorted(rows["start_ns"].to_numpy(np.int64), at_ns, side="right") - 1
    sums = np.zeros(len(steps), np.int64)
    np.add.at(sums, rows["row"].to_numpy()[place], times_ns)
    return int(sums[facts.basis.usual_rows].sum()) // max(1, len(facts.basis.usual_rows))


def _to_set(facts: Facts, name: str, value: str) -> str:
    """Return how to set a variable, or to unset it, before the process starts; a kernel has to start anew."""
    if of_cell(facts.info):
        return f"Restart the kernel, and begin with {code(f'%env {name}={value or 0}')}."
    command = f"export {name}={shell_word(value)}" if value else f"unset {shell_word(name)}"
    return f"Run {code(command)} before the program."


RULE = Rule(NAME, "environment variables behind another finding", check, frozenset({NPU}))

"""Environment variables that explain the finding of another rule."""

from __future__ import annotations

from npuprof.advice.facts import Facts
from npuprof.advice.finding import Finding, Rule
from npuprof.advice.gains import Gain, gain_of
from npuprof.advice.rules import host_bound, memory_peak
from npuprof.advice.to_collect import of_cell
from npuprof.analysis.accounting import IDLE
from npuprof.analysis.device_words import NPU
from npuprof.analysis.what_if import HOST_CAUSES
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
    waited, _ = host_bound.after_waits(facts)
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
        reason = "with ASCEND_LAUNCH_BLOCKING=1 each launch waits for the NPU"
        problems.append((waited, gain, reason, _to_set(facts, "ASCEND_LAUNCH_BLOCKING", "")))
    expandable = "expandable_segments:true" in variables.get("PYTORCH_NPU_ALLOC_CONF", "").lower()
    if scattered and not expandable and facts.info.collector not in _OTHER_ALLOCATORS:
        gain = facts.gain(allocating, cause=["alloc"])
        reason = "without expandable segments the allocator holds memory in pieces"
        problems.append(
            (allocating, gain, reason, _to_set(facts, "PYTORCH_NPU_ALLOC_CONF", "expandable_segments:True"))
        )
    if idle and (level := _VERBOSE.get(variables.get("ASCEND_GLOBAL_LOG_LEVEL", ""))):
        cost = sum(time for cause, time in facts.idle_causes.items() if cause in HOST_CAUSES)
        gain = gain_of(0, cost)
        problems.append((cost, gain, f"CANN logs at level {level}", _to_set(facts, "ASCEND_GLOBAL_LOG_LEVEL", "3")))
    if not problems:
        return Finding(NAME, "clean")
    cost, gain, _, _ = max(problems, key=lambda problem: problem[1]["gain_hi_ns"])
    return Finding(
        NAME,
        "fires",
        title="Environment variables slow the host down" if cost else "An environment variable costs memory",
        cost_ns=cost,
        **gain,
        detail="; ".join(reason for *_, reason, _ in problems),
        action="; ".join(action for *_, action in problems),
        parts=IDLE,
    )


def _to_set(facts: Facts, name: str, value: str) -> str:
    """Return how to set a variable, or to unset it, before the process starts; a kernel has to start anew."""
    if of_cell(facts.info):
        return f"restart the kernel, and begin with %env {name}={value or 0}"
    return f"export {name}={shell_word(value)}" if value else f"unset {shell_word(name)}"


RULE = Rule(NAME, "environment variables behind another finding", check, frozenset({NPU}))

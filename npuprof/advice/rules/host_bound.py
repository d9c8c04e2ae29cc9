"""The device is idle since the host has not launched the next task."""

from __future__ import annotations

import numpy as np
import pandas as pd

from npuprof import tables as schema
from npuprof.advice.facts import Facts
from npuprof.advice.finding import Finding, Rule
from npuprof.analysis.accounting import IDLE
from npuprof.analysis.what_if import HOST_CAUSES
from npuprof.quantities import duration

NAME = "host_bound"
_THRESHOLD = 0.1  # of the step
_NAMED = 0.01  # of the step: causes below it are not named
_MOST_LINES = 2

_DISPATCH = "TASK_QUEUE_ENABLE=2, larger batches, graph mode"
# The most specific first: what to do about one call comes before what to do about all of them.
_ACTIONS = {
    "op_compile": "torch_npu.npu.set_compile_mode(jit_compile=False), static shapes",
    "sync_call": "keep values on the device: .item() and blocking copies only every n steps",
    "dataloader": "more DataLoader workers, prefetch_factor, pin_memory=True",
    "python_gc": "gc.disable(), and gc.collect() at the same step on all ranks",
    "alloc": "PYTORCH_NPU_ALLOC_CONF=expandable_segments:True, no empty_cache() in the step",
    "copy_call": "non_blocking copies from pinned memory",
    "optimizer": "a fused optimizer (torch_npu.optim.NpuFusedAdamW)",
    "backward_dispatch": _DISPATCH,
    "forward_dispatch": _DISPATCH,
    "other_operators": "fewer, larger operators",
    "python": "less Python between operators",
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
        return Finding(NAME, "cannot tell", collect="level=1 with a framework's front end")
    causes = facts.idle_causes()
    cost = sum(causes.values())
    if cost <= _THRESHOLD * facts.step_ns:
        return Finding(NAME, "clean", cost_ns=cost)
    told = [
        f"{duration(time)} {_LABELS.get(cause, cause)}{_lines(facts, cause)}"
        for cause, time in causes.items()
        if time >= _NAMED * facts.step_ns
    ]
    best = [action for cause, action in _ACTIONS.items() if causes.get(cause, 0) >= _NAMED * facts.step_ns]
    host = "operators" if len(facts.tables["operators"]) else "api"
    overlap = facts.overlapping(host, facts.spans(IDLE))
    unknown = [_LABELS[cause] for cause in ("op_compile", "sync_call") if cause in facts.accounting.unmeasured]
    told += [f"{' and '.join(unknown)} not recorded (level=1)"] if unknown else []
    return Finding(
        NAME,
        "fires",
        title="The host starves the NPU",
        cost_ns=cost,
        **facts.gain(cost, cause=HOST_CAUSES),
        detail=", ".join(told) + ("; an upper bound, since stacks were on" if facts.stacks else ""),
        action="; ".join(dict.fromkeys(best[:3])) or "record operators and stacks to see what the host does",
        table=host,
        rows=facts.tables[host].assign(idle_ns=overlap)[overlap > 0],
    )


def _lines(facts: Facts, cause: str) -> str:
    """Return where the calls of a cause with the most idle time are, in brackets."""
    names = {"op_compile": "ompile", "sync_call": "Synchronize"}
    if cause not in names:
        return ""
    api = facts.tables["api"]
    rows = np.flatnonzero(schema.matching(api["name"], lambda name: names[cause] in name))
    idle = facts.overlapping("api", facts.spans(IDLE, [cause]))[rows]
    rows, idle = rows[idle > 0], idle[idle > 0]
    if not len(rows):
        return ""
    sums = pd.Series(idle).groupby(facts.lines_of("api", rows)).sum().sort_values(ascending=False)
    lines = [str(line) for line in sums.index if line][:_MOST_LINES]
    return f" ({len(rows)} calls{'; ' + ', '.join(lines) if lines else ''})"


RULE = Rule(NAME, "idle time of the device while the host works on something else", check)

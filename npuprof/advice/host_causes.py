"""What the host did while a device had no work: names, source lines, and what to do about each cause."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from npuprof import tables as schema
from npuprof.advice.actions import action_for
from npuprof.advice.facts import Facts
from npuprof.advice.wording import most_lines
from npuprof.analysis.accounting import IDLE
from npuprof.analysis.code_lines import has_lines
from npuprof.analysis.idle_causes import UNEXPLAINED
from npuprof.arrays import Int64
from npuprof.lines.frames import line_text
from npuprof.words.quantities import counted, duration, share

NAMED = 0.01
"""The share of a step that makes a cause worth naming."""

_MOST_KERNELS = 200_000
_MOST_LINES, _OF_LINE = 2, 0.2  # a line that is named has more than this part of the idle time
_OF_DEVICE = ""  # what helps depends on the device
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
LABELS = {
    "op_compile": "compiling operators",
    "sync_call": "synchronising",
    "dataloader": "data loader",
    "python_gc": "garbage collection",
    "profiler": "the profiler itself",
    "alloc": "allocating memory",
    "copy_call": "copy calls",
    "optimizer": "optimizer",
    "backward_dispatch": "backward dispatch",
    "forward_dispatch": "forward dispatch",
    "other_operators": "other operators",
    "python": "Python",
    "unexplained": "unexplained",
}
"""The causes as findings call them."""


def described(cause: str, time_ns: int, facts: Facts, parts: Sequence[str]) -> str:
    """Return a cause with its time in parts of a step and the lines with most of it."""
    return f"{duration(time_ns)} {LABELS.get(cause, cause)}{_lines(facts, cause, parts)}"


def actions_for(times: Mapping[str, int], facts: Facts) -> str:
    """Return what to do about causes, the one with the most time first."""
    ordered = sorted(times, key=lambda cause: -times[cause])
    return "; ".join(dict.fromkeys(filter(None, (_action(cause, facts) for cause in ordered)))) or _to_see_more(facts)


def _action(cause: str, facts: Facts) -> str:
    known = _ACTIONS.get(cause)
    return _to_see_more(facts) if known is None else known or action_for(_DISPATCH.get(cause, cause), facts)


def _to_see_more(facts: Facts) -> str:
    return f"{facts.what_tells(UNEXPLAINED)} to see what the host does"


def _lines(facts: Facts, cause: str, parts: Sequence[str]) -> str:
    """Return the source lines with the most time of calls of a cause, in brackets."""
    if cause not in _CALLS:
        return ""
    table, part = _CALLS[cause]
    rows = np.flatnonzero(schema.matching(facts.tables[table]["name"], lambda name: part in name))
    idle = facts.overlapping(table, facts.spans(parts, [cause]), rows)
    return calls_text(facts, table, rows[idle > 0], idle[idle > 0])


def idle_lines(facts: Facts) -> str:
    """Return the source lines with most of the device's idle time and their shares of it; empty without such lines.

    Times are those of :class:`npuprof.analysis.code_lines.CodeLines` in the usual steps, whatever the host did. They
    are left to ``run.code()`` where there are so many kernels that they would take longer than all findings.
    """
    if not has_lines(facts.tables) or len(facts.tables["kernels"]) > _MOST_KERNELS:
        return ""
    rows = facts.accounting.intervals
    is_idle = np.isin(rows["row"].to_numpy(), facts.basis.usual_rows)
    is_idle &= schema.matching(rows["part"], lambda part: part in IDLE)
    starts, ends, lines = facts.code_lines.idle_pieces(facts.accounting, is_idle)
    times = np.zeros(len(facts.code_lines.names) + 1, np.int64)
    np.add.at(times, lines, ends - starts)
    whole = int(rows["duration_ns"].to_numpy(np.int64)[is_idle].sum())
    longest = np.argsort(-times[:-1], kind="stable")[:_MOST_LINES]
    named = longest[times[longest] > _OF_LINE * whole].tolist()
    texts = [f"{line_text(*facts.code_lines.place(row))} ({share(int(times[row]), whole)})" for row in named]
    return " and ".join(texts)


def calls_text(facts: Facts, table: Literal["operators", "api"], rows: Int64, idle: Int64) -> str:
    """Return the number of calls and the lines with most of their time, in brackets; empty without calls."""
    if not len(rows):
        return ""
    lines = most_lines(facts.lines_of(table, rows), idle)
    calls = counted(len(rows), "call")
    return f" ({'; '.join([calls, *([', '.join(lines)] if lines else [])])})"

"""Collectives that share the memory's bandwidth with kernels."""

from __future__ import annotations

import numpy as np
import pandas as pd

from npuprof.advice.facts import Facts
from npuprof.advice.finding import Finding, Rule
from npuprof.advice.transfers import size_class, transfers_between_ranks
from npuprof.advice.wording import most_time
from npuprof.analysis.device_words import NPU
from npuprof.analysis.intervals import covering, within
from npuprof.arrays import Bools
from npuprof.words.quantities import counted, duration

NAME = "contention"
_THRESHOLD = 0.01  # of the step
_SLOW = 0.8  # of the rate alone
_LEAST = 5  # transfers alone, and beside kernels
_SMALLEST = 1 << 16  # bytes: the time of smaller transfers has other causes
_ALONE, _BESIDE = 0.1, 0.5  # share of a transfer beside kernels that memory bounds


def check(facts: Facts) -> Finding:
    """Fire if transfers beside kernels that memory bounds reach less than 0.8 of the rate of transfers alone.

    Compared are transfers over the same transport whose sizes are within a factor of two.
    """
    tasks, communication = facts.tables["communication_tasks"], facts.tables["communication"]
    if not len(communication):
        return Finding(NAME, "clean")
    if not tasks["task_type"].notna().any():
        return Finding(NAME, "cannot tell", collect=facts.needs(level="tasks of collectives"))
    if facts.limits is None:
        return Finding(NAME, "cannot tell", collect=facts.needs_limits())
    bound = (facts.efficiency["bound"] == "memory").to_numpy(bool)
    moves = _beside(facts, bound)
    slow = moves[(moves["shared"] >= _BESIDE).to_numpy(bool)]
    if len(slow) < _LEAST:
        return Finding(NAME, "clean")
    usual = _alone(moves)
    slow = slow.join(usual, on=["transport", "size_class"], how="inner")
    if len(slow) < _LEAST:
        return Finding(
            NAME, "cannot tell", collect="record more steps: every transfer of such a size ran beside kernels"
        )
    ratio = float((slow["rate"] / slow["usual"]).median())
    excess = np.maximum(slow["duration_ns"] - slow["size_bytes"] / slow["usual"], 0)
    counts = facts.starts_in_steps("communication_tasks")[slow.index.to_numpy(np.int64)]
    more = int(excess[counts].sum()) // facts.steps
    cost = min(more, facts.per_step(["moving", "waiting"]))
    if ratio >= _SLOW or cost <= _THRESHOLD * facts.usual_ns:
        return Finding(NAME, "clean", cost_ns=cost)
    kernels = facts.tables["kernels"]
    spans = covering(slow["start_ns"].to_numpy(np.int64), slow["duration_ns"].to_numpy(np.int64))
    near = bound & (facts.overlapping("kernels", spans) > 0)
    return Finding(
        NAME,
        "fires",
        title="Kernels slow collectives down: both need the memory",
        cost_ns=cost,
        gain_hi_ns=cost,
        detail=f"Beside memory-bound kernels, {counted(len(slow), 'transfer')} reach {100 * ratio:.0f} % of the rate "
        f"of lone transfers of that size and take {duration(more)} a step longer; these kernels run then: "
        f"{most_time(kernels[near], facts.steps)}",
        action="Launch the collective beside matrix products, or fuse these kernels.",
        table="communication_tasks",
        rows=tasks.loc[slow.index],
        parts=("moving",),
    )


def _beside(facts: Facts, bound: Bools) -> pd.DataFrame:
    """Return the larger transfers with their rate and the share that runs beside kernels that memory bounds."""
    moves = transfers_between_ranks(facts)
    moves = moves[(moves["size_bytes"] >= _SMALLEST).to_numpy(bool)]
    kernels = facts.tables["kernels"]
    spans = covering(*(kernels[name].to_numpy(np.int64)[bound] for name in ("start_ns", "duration_ns")))
    start, length = (moves[name].to_numpy(np.int64) for name in ("start_ns", "duration_ns"))
    return moves.assign(
        size_class=size_class(moves["size_bytes"]),
        rate=moves["size_bytes"] / np.maximum(length, 1),
        shared=within(spans, start, start + length) / np.maximum(length, 1),
    )


def _alone(moves: pd.DataFrame) -> pd.Series[float]:
    """Return the median rate of transfers alone by transport and size, where there are enough."""
    alone = moves[(moves["shared"] <= _ALONE).to_numpy(bool)]
    rates = alone.groupby(["transport", "size_class"])["rate"].agg(["median", "size"])
    return rates[rates["size"] >= _LEAST]["median"].rename("usual")


RULE = Rule(NAME, "collectives that kernels slow down", check, frozenset({NPU}))

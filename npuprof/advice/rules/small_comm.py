"""Collectives too small to reach the full rate of their links."""

from __future__ import annotations

import numpy as np
import pandas as pd

from npuprof.advice.facts import Facts
from npuprof.advice.finding import Finding, Rule
from npuprof.advice.wording import shares_of
from npuprof.analysis.accounting import moves_data
from npuprof.analysis.device_words import NPU
from npuprof.words.quantities import counted, duration

NAME = "small_comm"
_THRESHOLD = 0.01  # of the step
_SHORT_NS = 200_000
_FULL = {"RDMA": (1 << 20, 20.0), "": (4 << 20, 18.0)}
"""By transport ("" for others): bytes over a link above which it reaches its full rate, and that rate in GB/s."""


def check(facts: Facts) -> Finding:
    """Fire if small collectives take 1 % of the step more than their bytes would at the full rate of a link.

    Small collectives move data for less than 0.2 ms, or less than 4 MiB over each link (RDMA: 1 MiB). Only time in
    which data moves and no kernel runs counts. The full rate is the median of the run's large transfers, or a typical
    rate if the run has none.
    """
    communication, tasks = facts.tables["communication"], facts.tables["communication_tasks"]
    if not tasks["task_type"].notna().any() and len(communication):
        return Finding(NAME, "cannot tell", collect=facts.needs(level="tasks of collectives"))
    busiest = _busiest_links(tasks)
    moving = facts.overlapping("communication", facts.spans(["moving"]))[busiest.index]
    excess = np.maximum(moving - busiest["least_ns"].to_numpy(np.int64), 0)
    small = (busiest["moving_ns"] < _SHORT_NS) | (busiest["size_bytes"] < busiest["full_bytes"])
    is_selected = small.to_numpy(bool) & (excess > 0)
    steps = max(1, len(facts.basis.usual_rows))
    cost = int(excess[is_selected].sum()) // steps
    if cost <= _THRESHOLD * facts.usual_ns:
        return Finding(NAME, "clean", cost_ns=cost)
    rows = communication.iloc[busiest.index[is_selected]].assign(moving_ns=excess[is_selected])
    kinds = shares_of(rows.groupby("op_type", observed=True)["moving_ns"].sum())
    number = max(round(len(rows) / steps), 1)
    return Finding(
        NAME,
        "fires",
        title=f"{counted(number, 'collective')} a step {'is' if number == 1 else 'are'} too small for the links",
        cost_ns=cost,
        gain_hi_ns=cost,
        detail=f"They ({kinds}) move data for {duration(int(moving[is_selected].sum()) // steps)} a step, "
        f"{duration(cost)} more than at the full rate of a link",
        action="Send fewer, larger messages: a larger `bucket_cap_mb`, coalesced tensors.",
        table="communication",
        rows=rows,
        parts=("moving",),
    )


def _busiest_links(tasks: pd.DataFrame) -> pd.DataFrame:
    """Return the transfers of each collective over its busiest link.

    Returns
    -------
    pandas.DataFrame
        By row of ``communication``: ``size_bytes``, ``full_bytes`` (size at which the link reaches its full rate),
        ``moving_ns`` (longest sum of transfers) and ``least_ns`` (time of the bytes at full rate).
    """
    moves = tasks[moves_data(tasks) & (tasks["src_rank"] != tasks["dst_rank"]).fillna(value=False).to_numpy(bool)]
    moves = moves[(moves["op_id"].notna() & moves["size_bytes"].notna()).to_numpy(bool)]
    known = pd.DataFrame(
        {
            "op_id": moves["op_id"].astype("int64"),
            "dst": moves["dst_rank"].astype("int64"),
            "transport": moves["transport"].astype(object).where(moves["transport"] == "RDMA", ""),
            "size_bytes": moves["size_bytes"].astype("int64"),
            "moving_ns": moves["duration_ns"].astype("int64"),
        }
    )
    sums = known.groupby(["op_id", "transport", "dst"])[["size_bytes", "moving_ns"]].sum().reset_index()
    full = {transport: size for transport, (size, _) in _FULL.items()}
    sums["full_bytes"] = sums["transport"].map(full).astype("int64")
    sums["least_ns"] = (sums["size_bytes"] / sums["transport"].map(_rates(known, full))).round().astype("int64")
    return sums.groupby("op_id")[["size_bytes", "full_bytes", "moving_ns", "least_ns"]].max()


def _rates(moves: pd.DataFrame, full: dict[str, int]) -> dict[str, float]:
    """Return bytes per nanosecond of large transfers by transport, or a typical rate if there are none."""
    large = moves[(moves["size_bytes"] >= moves["transport"].map(full)) & (moves["moving_ns"] > 0)]
    rates = (large["size_bytes"] / large["moving_ns"]).groupby(large["transport"]).median()
    return {transport: float(rates.get(transport, usual)) for transport, (_, usual) in _FULL.items()}


RULE = Rule(NAME, "collectives too small for the rate of their links", check, frozenset({NPU}))

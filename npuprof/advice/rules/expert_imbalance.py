"""Experts that get more tokens than others, by the bytes of all-to-all operations."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from npuprof import tables as schema
from npuprof.advice.facts import Facts
from npuprof.advice.finding import Finding, Rule
from npuprof.advice.transfers import transfers_between_ranks
from npuprof.analysis.device_words import NPU
from npuprof.words.quantities import duration

NAME = "expert_imbalance"
_THRESHOLD = 0.01  # of the step
_UNEVEN = 1.2  # the most over the mean
_SAME = 0.001  # sizes that differ by less are padded to one capacity
_TO_ALL = re.compile(r"all_?to_?all", re.IGNORECASE)


def check(facts: Facts) -> Finding:
    """Fire if a peer gets 1.2 times the mean of the bytes of all-to-all, and that costs 1 % of the step.

    The cost is the time in which more than the mean moves, and no kernel runs. Equal bytes may be tokens that were
    padded to a common capacity, which says nothing of the experts.
    """
    communication, tasks = facts.tables["communication"], facts.tables["communication_tasks"]
    kind = "op_type" if communication["op_type"].notna().any() else "name"
    is_to_all = schema.matching(communication[kind], lambda name: bool(_TO_ALL.search(name)))
    if not is_to_all.any():
        return Finding(NAME, "clean")
    if not tasks["size_bytes"].notna().any():
        return Finding(NAME, "cannot tell", collect=facts.needs(level="tasks of collectives"))
    moves = transfers_between_ranks(facts)
    op_id = moves["op_id"].to_numpy(np.int64)
    inside = (op_id >= 0) & (op_id < len(communication)) & (moves["dst"] >= 0).to_numpy(bool)
    moves = moves[inside & is_to_all[np.where(inside, op_id, 0)]]
    group = communication["group"].astype(str).to_numpy()
    peers = moves["size_bytes"].groupby([group[moves["op_id"].to_numpy(np.int64)], moves["dst"]]).sum()
    uneven = peers.groupby(level=0).agg(["max", "mean", "size"])
    uneven = uneven[(uneven["size"] > 1).to_numpy(bool)]
    if not len(uneven):
        return Finding(NAME, "cannot tell", collect=facts.needs(level="sizes of transfers to several peers"))
    if _are_padded(moves):
        return Finding(
            NAME, "cannot tell", collect="all peers get equal bytes: tokens may be padded to the experts' capacity"
        )
    ratio = uneven["max"] / uneven["mean"]
    worst = str(ratio.idxmax())
    rows = communication[is_to_all & (group == worst)]
    exposed = facts.overlapping("communication", facts.spans(["moving", "waiting"]))[is_to_all & (group == worst)]
    spent = int(exposed.sum()) // max(1, len(facts.basis.usual_rows))
    cost = round(spent * (1 - 1 / float(ratio.max())))
    if ratio.max() <= _UNEVEN or cost <= _THRESHOLD * facts.usual_ns:
        return Finding(NAME, "clean", cost_ns=cost)
    of_group = peers[worst]
    return Finding(
        NAME,
        "fires",
        title=f"The busiest expert gets {float(ratio.max()):.1f} times the mean of tokens",
        cost_ns=cost,
        gain_hi_ns=cost,
        detail=f"Member {of_group.idxmax()} of the group gets {float(ratio.max()):.1f} times the mean of the bytes of "
        f"all-to-all operations; while no kernel runs, they take {duration(spent)} a step",
        action="Strengthen the balancing loss, cap each expert, or copy the busiest experts.",
        place=f"member {of_group.idxmax()}",
        table="communication",
        rows=rows,
        parts=("moving", "waiting"),
    )


def _are_padded(moves: pd.DataFrame) -> bool:
    """Return whether each operation sends the same number of bytes to all peers."""
    sizes = moves.groupby(["op_id", "dst"])["size_bytes"].sum().groupby(level=0).agg(["min", "max"])
    return bool((sizes["max"] - sizes["min"] <= _SAME * sizes["max"]).all())


RULE = Rule(NAME, "experts with uneven numbers of tokens", check, frozenset({NPU}))

"""Messages whose size is no multiple of 512 bytes, which the links move more slowly."""

from __future__ import annotations

import numpy as np

from npuprof.advice.facts import Facts
from npuprof.advice.finding import Finding, Rule
from npuprof.advice.transfers import size_class, transfers_between_ranks
from npuprof.advice.wording import shares_of
from npuprof.analysis.device_words import NPU
from npuprof.words.quantities import counted, duration

NAME = "unaligned_messages"
_ALIGNED = 512  # bytes
_THRESHOLD = 0.01  # of the step
_OF_OPERATION = 0.05  # below, they are the rest of a buffer, which any has
_OTHER_ROAD = ("RDMA",)  # network cards move packets, whatever the size


def check(facts: Facts) -> Finding:
    """Fire if messages that are no multiple of 512 bytes take 5 % of their operations, and 1 % of the step.

    Smaller messages count for nothing. The gain is bounded by their time, or by what they take longer than aligned
    ones of such a size in the run would.
    """
    tasks, communication = facts.tables["communication_tasks"], facts.tables["communication"]
    if not len(communication):
        return Finding(NAME, "clean")
    if not tasks["size_bytes"].notna().any():
        return Finding(NAME, "cannot tell", collect=facts.needs(level="tasks of collectives"))
    moves = transfers_between_ranks(facts)
    moves = moves[~moves["transport"].isin(_OTHER_ROAD).to_numpy(bool)]
    odd = ((moves["size_bytes"] % _ALIGNED != 0) & (moves["size_bytes"] > _ALIGNED)).to_numpy(bool)
    whole = communication["duration_ns"].to_numpy(np.int64)
    op_id = moves["op_id"].to_numpy(np.int64)
    inside = (op_id >= 0) & (op_id < len(whole))
    of_operation = np.bincount(op_id[inside & odd], moves["duration_ns"][inside & odd], len(whole))
    slow = odd & inside & (of_operation > _OF_OPERATION * whole)[np.where(inside, op_id, 0)]
    rows = moves[slow]
    exposed = facts.overlapping("communication_tasks", facts.spans(["moving"]), rows.index.to_numpy(np.int64))
    cost = int(exposed.sum()) // max(1, len(facts.basis.usual_rows))
    if cost <= _THRESHOLD * facts.usual_ns:
        return Finding(NAME, "clean", cost_ns=cost)
    kinds = shares_of(rows["duration_ns"].groupby(communication["op_type"].astype(str).to_numpy()[rows["op_id"]]).sum())
    moves = moves.assign(size_class=size_class(moves["size_bytes"]), rate=moves["size_bytes"] / moves["duration_ns"])
    usual = moves[~odd].groupby(["transport", "size_class"])["rate"].median().rename("usual")
    joined = moves[slow].join(usual, on=["transport", "size_class"])
    least = (joined["size_bytes"] / joined["usual"]).fillna(0.0).to_numpy(np.float64)
    excess = int(np.maximum(exposed - least, 0).sum()) // max(1, len(facts.basis.usual_rows))
    return Finding(
        NAME,
        "fires",
        title="Messages move slowly: their sizes are no multiple of 512 bytes",
        cost_ns=cost,
        gain_hi_ns=excess,
        detail=f"{counted(len(rows), 'message')} ({kinds}), the largest of {int(rows['size_bytes'].max()):,} bytes, "
        f"move for {duration(cost)} a step while no kernel runs",
        action="Pad flat buffers to multiples of 512 bytes for each rank.",
        table="communication_tasks",
        rows=tasks.loc[rows.index],
        parts=("moving",),
    )


RULE = Rule(NAME, "messages of unaligned sizes", check, frozenset({NPU}))

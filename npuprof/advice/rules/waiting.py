"""Collectives that wait for a rank that arrives late."""

from __future__ import annotations

import numpy as np
import pandas as pd

from npuprof.advice.facts import Facts
from npuprof.advice.finding import Finding, Rule
from npuprof.analysis.accounting import SPLIT_UNKNOWN
from npuprof.analysis.device_words import GPU, NPU
from npuprof.analysis.rank_pairs import POINT_TO_POINT
from npuprof.analysis.rank_peers import knows_neighbours_only, late_peers, numbered_as_ranks
from npuprof.words.quantities import counted, duration

NAME = "waiting"
_THRESHOLD = 0.02  # of the step
_MOST_OPS = 2
_LEAST_NS = 100_000  # that the last member comes after the others in a collective
_WORTH = 0.01  # of the step: what a member is named for


def check(facts: Facts) -> Finding:
    """Fire if waiting for other ranks takes more than 2 % of the step, and name the rank that arrives last.

    Nobody is named for sends and receives: stages of a pipeline wait for each other though none of them is late.
    """
    unsplit = facts.per_step(["communication"], [SPLIT_UNKNOWN])
    cost = facts.per_step(["waiting"])
    if not cost and unsplit > _THRESHOLD * facts.usual_ns:
        return Finding(
            NAME,
            "cannot tell",
            cost_ns=unsplit,
            collect=facts.needs(level="tasks of collectives", instead="load all ranks"),
        )
    if cost <= _THRESHOLD * facts.usual_ns:
        return Finding(NAME, "clean", cost_ns=cost)
    tasks = facts.tables["communication_tasks"]
    late = late_peers(tasks[facts.starts_in_steps("communication_tasks")])
    rows = facts.tables["communication"]
    steps = facts.steps
    collectives = late["op_id"].nunique()
    late = _of_several(late[(late["latest_ns"] - late["next_ns"] >= _LEAST_NS).to_numpy(bool)], rows)
    sums = late.groupby(["group", "peer"])["latest_ns"].sum()
    if not len(sums) or sums.max() < _WORTH * facts.usual_ns * steps:
        return _for_anyone(cost, rows)
    group, peer = sums.index[int(sums.argmax())]
    of_peer = late[((late["group"] == group) & (late["peer"] == peer)).to_numpy(bool)]
    possible = int((of_peer["latest_ns"] - of_peer["next_ns"]).sum()) // steps
    name = _name(facts, int(peer))
    worst = of_peer.sort_values("latest_ns", ascending=False).head(_MOST_OPS)
    when = " and ".join(
        f"{duration(int(time))} ({_op(rows, int(op))})"
        for op, time in zip(worst["op_id"], worst["latest_ns"], strict=True)
    )
    return Finding(
        NAME,
        "fires",
        title=f"Collectives wait for {name}, which is not in this profile",
        cost_ns=cost,
        gain_hi_ns=min(possible, cost),
        detail=f"It comes last in {len(of_peer):,} of {counted(collectives, 'collective')}, late by {when}",
        action=f"Profile {name}, and load it together with this one.",
        place=name,
        table="communication",
        rows=rows[rows.index.isin(of_peer["op_id"])],
        parts=("waiting",),
    )


def _of_several(late: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """Return the last members of collectives, without sends and receives, with the number of each group."""
    is_send = rows["op_type"].astype(str).str.contains(POINT_TO_POINT, case=False, regex=True).to_numpy(bool)
    op = late["op_id"].to_numpy(np.int64)
    place = np.where((op >= 0) & (op < len(rows)), op, len(rows))  # the last is of those without a row
    group = np.append(pd.factorize(rows["group"])[0], -1)[place]
    return late.assign(group=group)[~np.append(is_send, False)[place]]


def _for_anyone(cost: int, rows: pd.DataFrame) -> Finding:
    return Finding(
        NAME,
        "fires",
        title="Collectives wait for other ranks",
        cost_ns=cost,
        gain_hi_ns=cost,
        detail=f"{counted(len(rows), 'collective')} wait; the profile does not say for which rank",
        action="Load all ranks together: `npuprof.load` of their common folder.",
        table="communication",
        rows=rows,
        parts=("waiting",),
    )


def _name(facts: Facts, peer: int) -> str:
    """Return the name of a member: its rank if this run's number within the group equals its rank, else its number.

    A run that waits for one neighbour alone, of several members, cannot tell it from those that it waits for.
    """
    tasks = facts.tables["communication_tasks"]
    if knows_neighbours_only(tasks):
        return f"a rank beyond neighbour {peer}"
    return f"rank {peer}" if numbered_as_ranks(tasks, facts.info.rank) else f"member {peer} of the group"


def _op(communication: pd.DataFrame, row: int) -> str:
    name = communication["op_type"].iloc[row] if 0 <= row < len(communication) else None
    return f"collective {row + 1}{'' if pd.isna(name) else ', ' + str(name).strip('_')}"


RULE = Rule(NAME, "time in collectives until the last rank arrives", check, frozenset({GPU, NPU}))

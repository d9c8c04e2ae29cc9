"""The members of a group that a rank waited for, by its own tasks: members without a run, too."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd

from npuprof.analysis.rank_waits import LEAST_WAIT_NS
from npuprof.arrays import Bools, Int64


def late_peers(tasks: pd.DataFrame) -> pd.DataFrame:
    """Return the last member to arrive at each collective.

    The waits of a plane for a member add up to how late that member is. In a ring the first wait of a plane is for the
    neighbour, and a later one for the member that is last.

    Returns
    -------
    pandas.DataFrame
        ``op_id``, ``peer`` (number of the member within its group), ``latest_ns`` (how late it is) and ``next_ns``
        (how late the second-to-last member is).
    """
    names = ("op_id", "peer", "latest_ns", "next_ns")
    empty: pd.DataFrame = pd.DataFrame({name: np.zeros(0, np.int64) for name in names})
    waits = tasks[(tasks["task_type"] == "Notify_Wait").to_numpy(bool)]
    waits = waits[(waits["op_id"].notna() & waits["dst_rank"].notna()).to_numpy(bool)]
    if not len(waits):
        return empty
    of_plane = waits.groupby(["op_id", "plane_id", "dst_rank"], dropna=False)["duration_ns"].sum().reset_index()
    of_peer = of_plane.groupby(["op_id", "dst_rank"])["duration_ns"].max().reset_index()
    ordered = of_peer.sort_values(["op_id", "duration_ns"], ascending=[True, False], kind="stable")
    latest = ordered.drop_duplicates("op_id")
    second = ordered[ordered.duplicated("op_id")].drop_duplicates("op_id").set_index("op_id")["duration_ns"]
    return pd.DataFrame(
        {
            "op_id": latest["op_id"].to_numpy(np.int64),
            "peer": latest["dst_rank"].to_numpy(np.int64),
            "latest_ns": latest["duration_ns"].to_numpy(np.int64),
            "next_ns": second.reindex(latest["op_id"]).fillna(0).to_numpy(np.int64),
        }
    )


def knows_neighbours_only(tasks: pd.DataFrame) -> bool:
    """Return whether a rank waits for one neighbour alone, of several members: that tells not for whom it waits."""
    waits = tasks[(tasks["task_type"] == "Notify_Wait").to_numpy(bool)]
    numbers = set(tasks["src_rank"].dropna().unique().tolist())
    members = numbers | set(tasks["dst_rank"].dropna().unique().tolist())
    return waits["dst_rank"].nunique() == 1 and (len(members) > 2 or max(members) > 1)


def numbered_as_ranks(tasks: pd.DataFrame, rank: int | None) -> bool:
    """Return whether members of a group are numbered by their ranks."""
    return set(tasks["src_rank"].dropna().unique().tolist()) == {rank}


def waited_for(tables: Mapping[str, pd.DataFrame], rank: int) -> pd.DataFrame:
    """Return the member that a rank waited for longest in each of its collectives with a group, in order of start.

    Returns
    -------
    pandas.DataFrame
        ``peer``, a rank, and ``latest_ns``; -1 and 0 where the tasks do not tell. Empty if no task does.
    """
    rows, tasks = tables["communication"], tables["communication_tasks"]
    nothing: pd.DataFrame = pd.DataFrame({"peer": [], "latest_ns": []}, dtype="int64")
    if not len(tasks) or knows_neighbours_only(tasks):
        return nothing
    late = late_peers(_with_ranks(tasks, rank))
    if not len(late):
        return nothing
    op = late["op_id"].to_numpy(np.int64)
    inside = (op >= 0) & (op < len(rows))
    peer, latest = np.full(len(rows), -1), np.zeros(len(rows), np.int64)
    peer[op[inside]] = late["peer"].to_numpy(np.int64)[inside]
    latest[op[inside]] = late["latest_ns"].to_numpy(np.int64)[inside]
    known = rows["group"].notna().to_numpy(bool)
    order = np.argsort(rows["start_ns"].to_numpy(np.int64)[known], kind="stable")
    return pd.DataFrame({"peer": peer[known][order], "latest_ns": latest[known][order]})


def _with_ranks(tasks: pd.DataFrame, rank: int) -> pd.DataFrame:
    """Return the tasks whose members are ranks, by that; none if only their numbers within groups are known."""
    if "dst_global_rank" in tasks and tasks["dst_global_rank"].notna().any():
        known = tasks[tasks["dst_global_rank"].notna().to_numpy(bool)]
        return known.assign(dst_rank=known["dst_global_rank"])
    return tasks if numbered_as_ranks(tasks, rank) else tasks.iloc[:0]


def with_late_peers(waits: pd.DataFrame, late: Callable[[int], pd.DataFrame]) -> pd.DataFrame:
    """Add the waits for absent ranks that the tasks of collectives show.

    Returns
    -------
    pandas.DataFrame
        The same with more ``absent_ns`` and less ``moving_ns``, and the absent rank as ``last_rank``.
    """
    rank, op = waits["rank"].to_numpy(np.int64), waits["op"].to_numpy(np.int64)
    here = set(np.unique(rank).tolist())
    moving, absent = waits["moving_ns"].to_numpy(np.int64).copy(), waits["absent_ns"].to_numpy(np.int64).copy()
    waited = waits["wait_ns"].to_numpy(np.int64)
    longest = np.zeros(int(op.max(initial=-1)) + 1, np.int64)
    last_peer = np.full(len(longest), -1, np.int64)
    for member in sorted(here):
        rows = slice(*np.searchsorted(rank, (member, member + 1)))
        of_member = late(member)
        if len(of_member) != rows.stop - rows.start:
            continue
        peer, latest = of_member["peer"].to_numpy(np.int64), of_member["latest_ns"].to_numpy(np.int64)
        is_absent = (peer >= 0) & ~np.isin(peer, list(here))
        beyond = _beyond(latest, waited[rows] + absent[rows], moving[rows], is_absent)
        moving[rows] -= beyond
        absent[rows] += beyond
        later = is_absent & (latest > np.maximum(longest[op[rows]], LEAST_WAIT_NS))
        longest[op[rows][later]], last_peer[op[rows][later]] = latest[later], peer[later]
    named = last_peer[op] >= 0
    last = waits["last_rank"].astype("Int64").mask(named, pd.Series(last_peer[op], index=waits.index, dtype="Int64"))
    return waits.assign(moving_ns=moving, absent_ns=absent, last_rank=last)


def _beyond(latest: Int64, known: Int64, moving: Int64, is_absent: Bools) -> Int64:
    """Return the time that looks like moving data, but is a longer wait for an absent rank than is known already."""
    return np.where(is_absent, np.clip(latest - known, 0, moving), 0)

"""The purposes of a job's groups: tensor, pipeline, data and expert parallelism."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from npuprof.analysis.rank_pairs import POINT_TO_POINT

_TO_ALL = r"all_?to_?all"
WORLD = "all"
"""The kind of a group of all ranks."""

_NAMES = {"default_group": WORLD, "dp_cp": "dp", "exp": "ep"}  # Megatron's names


@dataclass(frozen=True)
class RankGroup:
    """Ranks that communicate."""

    key: str  # the group's name in `communication`
    kind: str  # `tp`, `pp`, `dp`, `ep` or another kind that the framework names; `all` for all ranks; empty if unknown
    ranks: tuple[int, ...]  # its members, ascending
    recorded: bool  # whether a file has the kind; otherwise it is inferred from the ranks and operators
    sends: bool  # whether its ranks use point-to-point sends


def rank_groups(rows: pd.DataFrame, recorded: Mapping[str, tuple[str, tuple[int, ...]]]) -> list[RankGroup]:
    """Return the communicating groups of a job.

    Without a recorded kind: ranks that send to each other are a pipeline, ranks with an all-to-all expert parallel,
    neighbouring ranks tensor parallel, ranks at equal distances data parallel.
    """
    grouped = rows[["group", "rank", "op_type"]].drop_duplicates().groupby("group", observed=True)
    members = {str(key): tuple(sorted(set(of_group))) for key, of_group in grouped["rank"]}
    types = {str(key): "|".join(sorted(set(map(str, of_group)))) for key, of_group in grouped["op_type"]}
    world = len(set(rows["rank"].tolist()))
    communicating = []
    for key, ranks in members.items():
        sends = bool(re.search(POINT_TO_POINT, types[key], re.IGNORECASE))
        kind, named = recorded.get(key, ("", ()))
        communicating.append(
            RankGroup(key, _NAMES.get(kind, kind), named or ranks, recorded=True, sends=sends)
            if kind
            else RankGroup(key, _infer(ranks, types[key], world, sends=sends), ranks, recorded=False, sends=sends)
        )
    return sorted(communicating, key=lambda group: (group.kind, group.ranks))


def _infer(ranks: Sequence[int], types: str, world: int, *, sends: bool) -> str:
    if len(ranks) < 2:
        return ""
    if sends:
        return "pp"
    if len(ranks) == world:
        return WORLD
    if re.search(_TO_ALL, types, re.IGNORECASE):
        return "ep"
    distances = np.unique(np.diff(ranks))
    if len(distances) > 1:
        return ""
    return "tp" if distances[0] == 1 else "dp"


def pipelines(groups: Sequence[RankGroup], ranks: Sequence[int]) -> list[tuple[int, ...]]:
    """Return the ranks of each pipeline, by stage: ranks that send to each other, directly or via other ranks."""
    lowest = {rank: rank for rank in ranks}
    for group in groups:
        members = [rank for rank in group.ranks if rank in lowest]
        if group.sends and len(members) > 1:
            roots = {lowest[rank] for rank in members}
            lowest = {rank: min(roots) if root in roots else root for rank, root in lowest.items()}
    together: dict[int, list[int]] = {}
    for rank, root in sorted(lowest.items()):
        together.setdefault(root, []).append(rank)
    return [tuple(members) for members in together.values() if len(members) > 1]


def groups_by_kind(groups: Sequence[RankGroup], rows: pd.DataFrame, steps: int) -> pd.DataFrame:
    """Return the communication costs by kind of group.

    Returns
    -------
    pandas.DataFrame
        ``kind``, ``basis`` (``recorded`` or ``inferred``), ``groups``, ``size`` (of the largest), ``operators``,
        ``wait_ns`` and ``moving_ns``: per rank and step, averaged over all ranks of such groups. Kinds of groups that
        overlap, such as ``mp`` and ``embd``, do not add up.
    """
    costs = _costs(groups, rows)
    kinds = []
    for (kind, basis), of_kind in costs.groupby(["kind", "basis"], sort=True):
        times = max(1, of_kind["rank"].nunique() * steps)
        kinds.append(
            {
                "kind": kind,
                "basis": basis,
                "groups": of_kind["group"].nunique(),
                "size": int(of_kind["size"].max()),
                "operators": round(int(of_kind["operators"].sum()) / times),
                "wait_ns": int(of_kind["wait_ns"].sum()) // times,
                "moving_ns": int(of_kind["moving_ns"].sum()) // times,
            }
        )
    columns = ["kind", "basis", "groups", "size", "operators", "wait_ns", "moving_ns"]
    frame: pd.DataFrame = pd.DataFrame(kinds, columns=columns)
    return frame.sort_values(["wait_ns", "moving_ns"], ascending=False, ignore_index=True)


def _costs(groups: Sequence[RankGroup], rows: pd.DataFrame) -> pd.DataFrame:
    """Return the number of operators and the times of each rank in each group."""
    by_key = {group.key: group for group in groups}
    sums = rows.groupby(["group", "rank"], observed=True)[["wait_ns", "moving_ns"]].agg(["sum", "size"])
    keys = [str(key) for key, _ in sums.index]
    return pd.DataFrame(
        {
            "kind": [by_key[key].kind or "unknown" for key in keys],
            "basis": ["recorded" if by_key[key].recorded else "inferred" for key in keys],
            "group": keys,
            "rank": sums.index.get_level_values("rank").to_numpy(np.int64),
            "size": [len(by_key[key].ranks) for key in keys],
            "wait_ns": sums["wait_ns", "sum"].to_numpy(np.int64),
            "moving_ns": sums["moving_ns", "sum"].to_numpy(np.int64),
            "operators": sums["wait_ns", "size"].to_numpy(np.int64),
        }
    )

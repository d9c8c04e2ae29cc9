"""The ranks of a job, from references in the files of its runs.

Source: sources/RESULTS.md sections 1.1, 4 and 6.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from npuprof.sources.cluster.analysis import CLUSTER_ANALYSIS
from npuprof.sources.global_ranks import DecodedRun, Groups, global_ranks_of, groups_of, world_size
from npuprof.tables.info import Info

_HOST_KEYS = ("host", "hostname")


def referenced_ranks(info: Info) -> set[int]:
    """Return all ranks that a run or a cluster analysis refers to: by world size, groups and its own rank."""
    metadata = info.metadata
    ranks = set(global_ranks_of([info.rank]))
    if info.source == CLUSTER_ANALYSIS:  # in other formats the metadata may be the user's
        ranks.update(global_ranks_of(metadata.get("ranks")))
    ranks.update(range(world_size(info)))
    for group in _mapping(metadata.get("parallel_group_info")).values():
        ranks.update(global_ranks_of(_mapping(group).get("global_ranks")))
    return set(range(max(ranks, default=-1) + 1))  # ranks are numbered from 0


def communicating_ranks(runs: Iterable[DecodedRun]) -> set[int]:
    """Return all ranks in the transfers of some runs."""
    return ranks_of_groups(groups_of(run for run in runs if run.info.rank is not None))


def ranks_of_groups(groups: Groups) -> set[int]:
    """Return all ranks that are known to be members of groups."""
    return {rank for members in groups.members.values() for rank in members.values()}


def host_of(info: Info) -> str | None:
    """Return the host of a run; None if no file has it."""
    return next((info.environment[key] for key in _HOST_KEYS if info.environment.get(key)), None)


def places_of_ranks(clusters: Iterable[Info]) -> dict[int | None, dict[str, Any]]:
    """Return host and device of each rank, from analyses of the whole cluster."""
    lists = [info.metadata.get("rank_devices") for info in clusters]
    places = [each for devices in lists if isinstance(devices, list) for each in devices if isinstance(each, dict)]
    return {each["rank"]: each for each in places if isinstance(each.get("rank"), int)}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}

"""Which ranks a job had: what the files of its runs tell of ranks beside their own.

Source: sources/RESULTS.md sections 1.1, 4 and 6.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from npuprof.info import Info
from npuprof.sources.cluster.analysis import CLUSTER_ANALYSIS
from npuprof.sources.global_ranks import Run, global_ranks_of, groups_of, world_size

_HOST_KEYS = ("host", "hostname")


def ranks_told(info: Info) -> set[int]:
    """Return every rank that a run or an analysis of a cluster tells of.

    They come from the world's size, from the groups of ranks that talk to each other, and from its own rank.
    """
    metadata = info.metadata
    ranks = set(global_ranks_of([info.rank]))
    if info.source == CLUSTER_ANALYSIS:  # elsewhere the metadata may be its user's
        ranks.update(global_ranks_of(metadata.get("ranks")))
    ranks.update(range(world_size(info)))
    for group in _mapping(metadata.get("parallel_group_info")).values():
        ranks.update(global_ranks_of(_mapping(group).get("global_ranks")))
    return set(range(max(ranks, default=-1) + 1))  # ranks are numbered from 0


def ranks_moving(runs: Iterable[Run]) -> set[int]:
    """Return every rank of the job that takes part in the transfers of some runs, as far as these tell."""
    groups = groups_of(run for run in runs if run.info.rank is not None)
    return {rank for members in groups.members.values() for rank in members.values()}


def host_of(info: Info) -> str | None:
    """Return the name of the host that a run was recorded on, where a file tells it."""
    return next((info.environment[key] for key in _HOST_KEYS if info.environment.get(key)), None)


def place_of_ranks(clusters: Iterable[Info]) -> dict[int | None, dict[str, Any]]:
    """Return host and device of each rank, as analyses of the whole cluster tell them."""
    told = [info.metadata.get("rank_devices") for info in clusters]
    places = [one for devices in told if isinstance(devices, list) for one in devices if isinstance(one, dict)]
    return {one["rank"]: one for one in places if isinstance(one.get("rank"), int)}


def in_words(ranks: Iterable[int], limit: int = 40) -> str:
    """Write ranks as ``0-3, 7``, the first of them where there are many stretches."""
    stretches: list[list[int]] = []
    for rank in sorted(ranks):
        if stretches and rank == stretches[-1][1] + 1:
            stretches[-1][1] = rank
        else:
            stretches.append([rank, rank])
    words = [str(first) if first == last else f"{first}-{last}" for first, last in stretches[:limit]]
    return ", ".join(words) + (", ..." if len(stretches) > limit else "")


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}

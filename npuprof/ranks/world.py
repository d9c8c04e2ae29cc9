"""Which ranks a run had: what its files tell of ranks beside its own.

Source: formats/results.md sections 1.1 and 6.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from npuprof.info import Info
from npuprof.sources.cluster.reading import CLUSTER_ANALYSIS

MAX_WORLD = 1_000_000
_HOST_KEYS = ("host", "hostname")


def ranks_told(info: Info) -> set[int]:
    """Give every rank that a run or an analysis of a cluster tells of.

    They come from the world's size, from the groups of ranks that talk to each other, and from its own rank.
    """
    metadata = info.metadata
    ranks = set(_ranks([info.rank]))
    if info.source == CLUSTER_ANALYSIS:  # elsewhere the metadata may be its user's
        ranks.update(_ranks(metadata.get("ranks")))
    ranks.update(range(_world_size(_mapping(metadata.get("distributed_args")))))
    for group in _mapping(metadata.get("parallel_group_info")).values():
        ranks.update(_ranks(_mapping(group).get("global_ranks")))
    return set(range(max(ranks, default=-1) + 1))  # ranks are numbered from 0


def host_of(info: Info) -> str | None:
    """Give the name of the host that a run was recorded on, where a file tells it."""
    return next((info.environment[key] for key in _HOST_KEYS if info.environment.get(key)), None)


def place_of_ranks(clusters: Iterable[Info]) -> dict[int | None, dict[str, Any]]:
    """Give host and device of each rank, as analyses of the whole cluster tell them."""
    told = [one for info in clusters for one in info.metadata.get("rank_devices", []) if isinstance(one, dict)]
    return {one["rank"]: one for one in told if isinstance(one.get("rank"), int)}


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


def _world_size(arguments: Mapping[str, Any]) -> int:
    size = arguments.get("world_size")
    return size if isinstance(size, int) and not isinstance(size, bool) and 0 < size <= MAX_WORLD else 0


def _ranks(value: Any) -> list[int]:
    parts = value if isinstance(value, list) else []
    return [one for one in parts if isinstance(one, int) and not isinstance(one, bool) and 0 <= one < MAX_WORLD]


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}

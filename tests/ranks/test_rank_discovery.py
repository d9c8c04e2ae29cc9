"""Which ranks there must have been."""

from __future__ import annotations

from typing import Any

import pytest

from npuprof.ranks.rank_discovery import host_of, places_of_ranks, referenced_ranks
from npuprof.tables.info import Info


@pytest.mark.parametrize(
    ("info", "count"),
    [
        (Info(), 0),
        (Info(rank=2), 3),
        (Info(metadata={"distributed_args": {"world_size": 4}}), 4),
        (Info(rank=1, metadata={"parallel_group_info": {"g": {"global_ranks": [0, 5]}, "h": {}}}), 6),
        (Info(source="cluster analysis", metadata={"ranks": [0, 7]}), 8),
        (Info(metadata={"ranks": [0, 7]}), 0),  # its user's own
    ],
)
def test_every_rank_that_is_named_is_known(info: Info, count: int) -> None:
    assert referenced_ranks(info) == set(range(count))


@pytest.mark.parametrize("wrong", [None, "4", True, -1, 10**12, {"size": 4}])
def test_other_values_are_no_rank(wrong: Any) -> None:
    groups = {"g": {"global_ranks": [wrong]}, "h": wrong, "i": {"global_ranks": wrong}}
    told = {"distributed_args": {"world_size": wrong}, "parallel_group_info": groups}
    assert not referenced_ranks(Info(metadata=told))
    assert not referenced_ranks(Info(metadata={"distributed_args": wrong, "parallel_group_info": wrong}))


def test_hosts_are_taken_from_the_files() -> None:
    assert [host_of(Info(environment=told)) for told in ({"host": "a"}, {"hostname": "b"}, {"host": ""}, {})] == [
        "a",
        "b",
        None,
        None,
    ]
    told = {"rank_devices": [{"rank": 3, "device": 1, "host": "b"}, "x", {"rank": None}]}
    assert places_of_ranks([Info(), Info(metadata=told)]) == {3: {"rank": 3, "device": 1, "host": "b"}}

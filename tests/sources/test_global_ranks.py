"""Numbers of ranks within groups become ranks of the whole run, as far as files tell, and no further."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.analysis.traffic import rank_traffic
from npuprof.sources.base import Decoded
from npuprof.sources.global_ranks import add_global_ranks, groups_of
from npuprof.sources.raw.metadata.dictionaries import hash_of
from npuprof.tables.notes import Notes
from tests import factories

PIPELINE, WORLD = "10.0.0.1%eth0_60000_0_17", "10.0.0.1%eth0_60000_1_18"


def run(
    rank: int | None,
    sent: dict[str, tuple[int, list[int]]],
    *,
    operators: str = "hcom_send__{digits}_0_1",
    **metadata: Any,
) -> Decoded:
    """A run that sends a kilobyte in each group: by the group's name its own number there, and the receivers'."""
    rows = [(group, own, other) for group, (own, others) in sent.items() for other in others]
    groups = list(sent)
    made = factories.all_tables(
        communication=tables.build(
            "communication",
            {
                "start_ns": np.arange(len(groups)),
                "duration_ns": np.ones(len(groups), np.int64),
                "device_id": np.zeros(len(groups), np.int64),
                "name": [operators.format(digits=str(hash_of(group))[-3:]) for group in groups],
                "group": groups,
            },
        ),
        communication_tasks=tables.build(
            "communication_tasks",
            {
                "start_ns": np.arange(len(rows)),
                "duration_ns": np.ones(len(rows), np.int64),
                "device_id": np.zeros(len(rows), np.int64),
                "op_id": pd.array([groups.index(group) for group, _, _ in rows], "Int64"),
                "src_rank": pd.array([own for _, own, _ in rows], "Int64"),
                "dst_rank": pd.array([other for _, _, other in rows], "Int64"),
                "size_bytes": pd.array([1_000] * len(rows), "Int64"),
            },
        ),
    )
    return Decoded(made, factories.info(rank=rank, metadata=metadata))


def info(**groups: list[int]) -> dict[str, Any]:
    names = {"pipeline": PIPELINE, "world": WORLD}
    return {names[name]: {"group_name": name, "global_ranks": ranks} for name, ranks in groups.items()}


def ranks_of(decoded: Decoded) -> list[tuple[Any, Any]]:
    add_global_ranks(decoded, decoded.notes)
    tasks = decoded.tables["communication_tasks"]
    sides = (
        tasks[f"{side}_global_rank"].astype(object).where(tasks[f"{side}_global_rank"].notna(), None)
        for side in ("src", "dst")
    )
    return list(zip(*sides, strict=True))


def test_members_are_known_by_name_or_hash() -> None:
    told = info(pipeline=[2, 6], world=list(range(8)))
    for pipeline in (PIPELINE, str(hash_of(PIPELINE))):
        decoded = run(6, {pipeline: (1, [0, 1]), WORLD: (6, [7])}, parallel_group_info=told)
        assert ranks_of(decoded) == [(6, 2), (6, 6), (6, 7)]
        assert decoded.tables["communication_tasks"]["dst_rank"].tolist() == [0, 1, 7]
        assert not len(decoded.notes)


def test_a_timeline_names_its_groups_only_in_the_names_of_operators() -> None:
    digits = str(hash_of(PIPELINE))[-3:]
    decoded = run(
        6, {"Group 0": (1, [0])}, operators=f"hcom_send__{digits}_0_1", parallel_group_info=info(pipeline=[2, 6])
    )
    assert ranks_of(decoded) == [(6, 2)]


def test_without_metadata_the_rank_is_its_own() -> None:
    decoded = run(6, {PIPELINE: (1, [0]), "other": (0, [1])})
    assert ranks_of(decoded) == [(6, None), (6, None)]
    (note,) = decoded.notes.to_frame().to_dict("records")
    assert "only the number in its group is known" in note["message"]
    assert note["count"] == 2
    traffic = rank_traffic(decoded.tables, {})
    assert traffic["src_rank"].tolist() == ["6", "6"]
    assert traffic["dst_rank"].tolist() == [f"0 of …{PIPELINE[-3:]}", "1 of …her"]


def test_largest_group_is_all_ranks() -> None:
    decoded = run(0, {PIPELINE: (0, [1]), WORLD: (0, [1, 2, 3])})
    assert ranks_of(decoded) == [(0, None), (0, 1), (0, 2), (0, 3)]
    assert str(hash_of(WORLD)) in decoded.notes.to_frame()["message"].iloc[-1]
    assert ranks_of(run(6, {PIPELINE: (0, [1])})) == [(6, None)]
    assert ranks_of(run(0, {PIPELINE: (0, [1]), WORLD: (0, [1])})) == [(0, None), (0, None)]


def test_group_of_all_ranks_is_recognised() -> None:
    decoded = run(0, {PIPELINE: (0, [1, 2]), WORLD: (0, [2])}, distributed_args={"world_size": 3})
    assert ranks_of(decoded) == [(0, 1), (0, 2), (0, 2)]
    assert not len(decoded.notes)


def test_members_are_in_order() -> None:
    assert ranks_of(run(1, {PIPELINE: (1, [0, 2]), WORLD: (1, [0, 2])})) == [(1, 0), (1, None)] * 2


def test_the_runs_of_a_set_know_the_groups_together() -> None:
    runs = [run(rank, {PIPELINE: (number, [1 - number]), "second": (0, [1])}) for number, rank in enumerate((2, 6))]
    members = groups_of(runs).members
    assert members[str(hash_of(PIPELINE))] == {0: 2, 1: 6}


def test_damaged_metadata_has_no_members() -> None:
    damaged: list[Any] = [[], {PIPELINE: []}, {PIPELINE: {"global_ranks": [True, -1, "2"]}}, {PIPELINE: {}}]
    for told in damaged:
        decoded = run(None, {PIPELINE: (0, [1]), "other": (0, [1])}, parallel_group_info=told)
        assert ranks_of(decoded) == [(None, None)] * 2


def test_a_saved_profile_keeps_its_ranks_and_notes() -> None:
    decoded = run(6, {PIPELINE: (1, [0]), "other": (0, [1])})
    first = ranks_of(decoded)
    notes = decoded.notes.to_frame()
    again = Decoded(decoded.tables, decoded.info, Notes.from_frame(notes))
    assert ranks_of(again) == first
    pd.testing.assert_frame_equal(again.notes.to_frame(), notes)

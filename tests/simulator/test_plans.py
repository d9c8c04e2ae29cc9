"""What communication operators do, step by step: who sends how much to whom, and what it costs."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npuprof.simulator.plans import LINKS, Kind, Plan, Topology, plan

HCCS, ROCE = LINKS["HCCS"], LINKS["ROCE"]
MIB = 1 << 20


def sent(of: Plan) -> int:
    return sum(move.size_bytes for stage in of.stages for move in stage.moves)


def duration_ns(of: Plan) -> int:
    return sum(stage.duration_ns for stage in of.stages)


def test_step_costs_latency_and_bandwidth() -> None:
    assert HCCS.duration_ns(0) == HCCS.latency_ns
    assert HCCS.duration_ns(28_000) == HCCS.latency_ns + 1000
    assert ROCE.duration_ns(MIB) > HCCS.duration_ns(MIB)


def test_links_of_a_server_work_at_once() -> None:
    found = plan("all_reduce", range(4), 1, 4 * MIB, Topology())
    scatter, gather = found.stages
    assert found.algorithm == "MESH"
    assert found.planes == 3
    assert [(move.plane, move.peer, move.size_bytes, move.kind) for move in scatter.moves] == [
        (0, 0, MIB, "reduce"),
        (1, 2, MIB, "reduce"),
        (2, 3, MIB, "reduce"),
    ]
    assert {move.kind for move in gather.moves} == {"copy"}
    assert duration_ns(found) == 2 * HCCS.duration_ns(MIB)


def test_equal_places_across_servers_form_rings() -> None:
    found = plan("all_reduce", range(4), 1, 4 * MIB, Topology(per_server=2))
    assert found.algorithm == "MESH-RING"
    assert [(move.peer, move.size_bytes, move.link) for stage in found.stages for move in stage.moves] == [
        (0, 2 * MIB, "HCCS"),
        (3, MIB, "ROCE"),
        (3, MIB, "ROCE"),
        (0, 2 * MIB, "HCCS"),
    ]
    assert duration_ns(found) == 2 * HCCS.duration_ns(2 * MIB) + 2 * ROCE.duration_ns(MIB)


def test_servers_with_different_numbers_of_ranks_form_one_ring() -> None:
    topology = Topology(per_server=2)
    plans = [plan("all_reduce", range(3), rank, 3 * MIB, topology) for rank in range(3)]
    assert {one.algorithm for one in plans} == {"RING"}
    assert [one.stages[0].moves[0].link for one in plans] == ["HCCS", "ROCE", "ROCE"]
    assert {duration_ns(one) for one in plans} == {4 * ROCE.duration_ns(MIB)}  # the slowest hop sets the pace


@pytest.mark.parametrize("per_server", [1, 2, 3, 4, 8])
@pytest.mark.parametrize(("kind", "factor"), [("all_reduce", 2 * 7 / 8), ("reduce_scatter", 7 / 8), ("all_gather", 7)])
def test_ranks_send_at_least_the_minimum(kind: Kind, factor: float, per_server: int) -> None:
    topology = Topology(per_server)
    for rank in range(8):
        least = factor * 8 * MIB
        assert sent(plan(kind, range(8), rank, 8 * MIB, topology)) >= least


@pytest.mark.parametrize("per_server", [1, 2, 3, 8])
@pytest.mark.parametrize("root", [0, 3, 5])
def test_broadcast_reaches_everybody(per_server: int, root: int) -> None:
    plans = {rank: plan("broadcast", range(6), rank, 6 * MIB, Topology(per_server), root) for rank in range(6)}
    assert sent(plans[root]) > 0
    received = Counter[int]()
    for one in plans.values():
        for stage in one.stages:
            for move in stage.moves:
                received[move.peer] += move.size_bytes
    assert all(received[rank] >= 6 * MIB - 2 for rank in range(6) if rank != root)


def test_one_rank_alone_does_nothing() -> None:
    assert plan("all_reduce", [3], 3, MIB, Topology()).stages == ()


@pytest.mark.parametrize(("receiver", "link"), [(1, HCCS), (9, ROCE)])
def test_a_send_is_one_move_of_the_sender(receiver: int, link: object) -> None:
    sender, other = (plan("send", (0, receiver), rank, MIB, Topology()) for rank in (0, receiver))
    assert [sent(sender), sent(other)] == [MIB, 0]
    assert duration_ns(sender) == duration_ns(other) == getattr(link, "duration_ns")(MIB)  # noqa: B009 - a parameter


@pytest.mark.slow
@given(
    st.sampled_from(["all_reduce", "all_gather", "reduce_scatter", "broadcast"]),
    st.sets(st.integers(0, 20), min_size=1, max_size=9).map(sorted),
    st.integers(1, 9),
    st.integers(0, 10**9),
    st.data(),
)
def test_all_ranks_take_the_same_stages_at_the_same_pace(
    kind: Kind, ranks: list[int], per_server: int, size_bytes: int, data: st.DataObject
) -> None:
    root = data.draw(st.sampled_from(ranks))
    plans = [plan(kind, ranks, rank, size_bytes, Topology(per_server), root) for rank in ranks]
    assert len({one.algorithm for one in plans}) == 1
    paces = {tuple(stage.duration_ns for stage in one.stages) for one in plans}
    longest = max(paces, key=len)
    if kind == "broadcast":  # those that are alone in their server need not share what they have
        assert all(longest[: len(pace)] == pace for pace in paces)
    else:
        assert paces == {longest}
    for rank, one in zip(ranks, plans, strict=True):
        for stage in one.stages:
            assert stage.moves
            assert {move.peer for move in stage.moves} <= set(ranks)
            planes = [move.plane for move in stage.moves]
            assert planes == list(range(len(planes)))
            assert all(move.size_bytes == 0 or move.peer != rank for move in stage.moves)

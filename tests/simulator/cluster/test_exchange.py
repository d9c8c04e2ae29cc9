"""Where ranks meet, and what becomes of those that wait in vain."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from npuprof.simulator.cluster.exchange import Exchange, RankError
from tests import pace


def together(*work: Callable[[], object]) -> list[object]:
    """Run functions in threads of their own; gives what each returned or raised."""
    results: list[object] = [None] * len(work)

    def run(number: int) -> None:
        try:
            results[number] = work[number]()
        except RankError as error:
            results[number] = str(error)

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(len(work))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=pace.seconds(20))
        assert not thread.is_alive()
    return results


def test_everybody_gets_all_offers_in_the_order_of_the_group() -> None:
    exchange = Exchange(3)

    def meet(rank: int) -> Callable[[], object]:
        return lambda: [exchange.meet(turn, rank, (0, 1, 2), rank * 10 + turn, "") for turn in range(50)]

    expected = [[turn, 10 + turn, 20 + turn] for turn in range(50)]
    assert together(*map(meet, range(3))) == [expected] * 3
    assert not exchange._meetings


def test_groups_meet_apart() -> None:
    exchange = Exchange(4)
    found = together(
        *(lambda rank=rank: exchange.meet(rank % 2, rank, (rank % 2, rank % 2 + 2), rank, "") for rank in range(4))
    )
    assert found == [[0, 2], [1, 3], [0, 2], [1, 3]]


def test_a_deadlock_of_ranks_is_reported_with_its_place() -> None:
    exchange = Exchange(2)
    found = together(
        lambda: exchange.meet("a", 0, (0, 1), None, "recv(x) from rank 1"),
        lambda: exchange.meet("b", 1, (0, 1), None, "all_reduce(y)"),
    )
    for message in found:
        assert "no rank can go on: rank 0 is in recv(x) from rank 1; rank 1 is in all_reduce(y)" in str(message)
        assert "same order" in str(message)


def test_a_wait_for_a_rank_that_has_ended_is_reported() -> None:
    exchange = Exchange(2)
    found = together(lambda: exchange.meet("a", 0, (0, 1), None, "broadcast(x)"), lambda: exchange.leave(1))
    assert "rank 0 is in broadcast(x)" in str(found[0])


def test_a_failure_ends_the_waiting_of_the_others() -> None:
    exchange = Exchange(3)
    found = together(
        lambda: exchange.meet("a", 0, (0, 1, 2), None, "x"),
        lambda: exchange.meet("a", 1, (0, 1, 2), None, "x"),
        lambda: exchange.leave(2, "rank 2 has failed: ZeroDivisionError"),
    )
    assert found[:2] == ["rank 2 has failed: ZeroDivisionError"] * 2
    with pytest.raises(RankError, match="ZeroDivisionError"):
        exchange.meet("b", 0, (0, 1), None, "later")

"""Work spread over processes: what ends one of them is lost alone, and told as it progresses."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence

import pytest

from npuprof.progress import Progress, watched
from npuprof.ranks import executors
from npuprof.ranks.executors import Work, spread


def _end_at_13(items: Sequence[int]) -> list[int]:
    if 13 in items:
        os.kill(os.getpid(), signal.SIGKILL)
    return [2 * item for item in items]


def _double(items: Sequence[int]) -> list[int]:
    return [2 * item for item in items]


@pytest.mark.long
def test_an_item_that_kills_its_process_is_lost_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "processes_for", lambda sizes: 2)
    fates: list[str] = []

    def lost(item: int, fate: str) -> int:
        fates.append(fate)
        return -item

    found = dict(spread(Work(_end_at_13, lost, "numbers"), range(20), [1] * 20, None))
    assert found == {item: -13 if item == 13 else 2 * item for item in range(20)}
    assert "killed" in fates[0]


def test_progress_shows_the_rate_and_the_remaining_time() -> None:
    seen: list[Progress] = []
    with watched(seen.append):
        assert dict(spread(Work(_double, lambda item, fate: item, "numbers"), [1, 2], [1, 1], None)) == {0: 2, 1: 4}
    assert [one.done for one in seen] == [1, 2]
    assert str(seen[1]).startswith("numbers, ")
    assert "a second, 0 s left: 2 ranks of 2 ranks" in str(seen[1])

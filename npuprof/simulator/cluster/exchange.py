"""Where ranks meet: each offers something and gets what all the others offered, as soon as the last has come."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from npuprof.errors import NpuprofError


class RankError(NpuprofError, RuntimeError):
    """A simulated rank failed, or waits for another one that will not come."""


@dataclass
class _Meeting:
    expected: tuple[int, ...]
    offers: dict[int, Any] = field(default_factory=dict)
    fetched: int = 0

    @property
    def is_complete(self) -> bool:
        return len(self.offers) == len(self.expected)


class Exchange:
    """The meetings of some ranks, each in a thread of its own.

    Parameters
    ----------
    size
        How many ranks there are.
    """

    def __init__(self, size: int) -> None:
        self._condition = threading.Condition()
        self._meetings: dict[Hashable, _Meeting] = {}
        self._waiting: dict[int, str] = {}
        self._running = set(range(size))
        self._failure = ""

    def meet(self, key: Hashable, rank: int, expected: Sequence[int], offer: Any, what: str) -> list[Any]:
        """Wait for all that are expected; gives their offers in the order of `expected`.

        Parameters
        ----------
        key
            Which meeting it is, the same for all of them.
        rank
            Who comes.
        expected
            Who must come.
        offer
            What the others get.
        what
            What the rank is doing, for messages.

        Raises
        ------
        RankError
            If a rank has failed, or every rank that still runs waits for one that cannot come.
        """
        with self._condition:
            meeting = self._meetings.setdefault(key, _Meeting(tuple(expected)))
            meeting.offers[rank] = offer
            self._waiting[rank] = what
            if meeting.is_complete:
                for one in meeting.expected:
                    self._waiting.pop(one, None)
                self._condition.notify_all()
            self._look_for_deadlock()
            self._condition.wait_for(lambda: meeting.is_complete or self._failure)
            if not meeting.is_complete:
                raise RankError(self._failure)
            meeting.fetched += 1
            if meeting.fetched == len(meeting.expected):
                del self._meetings[key]
            return [meeting.offers[one] for one in meeting.expected]

    def leave(self, rank: int, failure: str = "") -> None:
        """Note that a rank comes no more; a failure ends the waiting of all others."""
        with self._condition:
            self._running.discard(rank)
            self._failure = self._failure or failure
            self._look_for_deadlock()
            self._condition.notify_all()

    def _look_for_deadlock(self) -> None:
        if self._running and not self._failure and self._running <= self._waiting.keys():
            told = "; ".join(f"rank {rank} is in {self._waiting[rank]}" for rank in sorted(self._running))
            gone = "" if len(self._running) == len(self._waiting) else ", the others have ended"
            self._failure = (
                f"no rank can go on: {told}{gone}. All ranks of a group must call the same collectives in the same "
                "order, and each send needs its recv"
            )
            self._condition.notify_all()

"""Results that a set computes once."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

_Result = TypeVar("_Result")


class Memo:
    """Results by name, each with the state that it was computed from."""

    def __init__(self, state: Callable[[], Hashable]) -> None:
        self._state = state
        self._results: dict[str, tuple[Hashable, Any]] = {}

    def known(self, name: str) -> Any:
        """Return a result of any state; None if it was not computed."""
        return self._results.get(name, (None, None))[1]

    def once(self, name: str, compute: Callable[[], _Result]) -> _Result:
        """Return a result that is computed at the first call."""
        return self._result(name, None, compute)

    def of_state(self, name: str, compute: Callable[[], _Result]) -> _Result:
        """Return a result that is computed again when the state has changed."""
        return self._result(name, self._state(), compute)

    def _result(self, name: str, state: Hashable, compute: Callable[[], _Result]) -> _Result:
        if name not in self._results or self._results[name][0] != state:
            self._results[name] = state, compute()
        return self._results[name][1]

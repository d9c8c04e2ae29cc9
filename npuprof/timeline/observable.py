"""Observable state, the base of the explorer's state classes."""

from __future__ import annotations

from collections.abc import Callable


class Observable:
    """State that notifies its listeners of every change."""

    def __init__(self) -> None:
        self._listeners: list[Callable[[], None]] = []

    def listen(self, listener: Callable[[], None]) -> None:
        """Register a function to call after every change."""
        self._listeners.append(listener)

    def _notify(self) -> None:
        for listener in self._listeners:
            listener()

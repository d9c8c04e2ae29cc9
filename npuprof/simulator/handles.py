"""Handles: the integers that pyACL gives for configurations, streams, events ...; 0 stands for failure."""

from __future__ import annotations

import itertools
from typing import TypeVar

_T = TypeVar("_T")
_FIRST = 0x5500_0000_0000
_STEP = 0x40


class Handles:
    """Objects by handle."""

    def __init__(self) -> None:
        self._objects: dict[int, object] = {}
        self._numbers = itertools.count(_FIRST + _STEP, _STEP)

    def add(self, value: object) -> int:
        """Return a new handle for an object."""
        handle = next(self._numbers)
        self._objects[handle] = value
        return handle

    def get(self, handle: int, kind: type[_T]) -> _T | None:
        """Return the object of a handle, or ``None`` if there is none of this kind."""
        value = self._objects.get(handle)
        return value if isinstance(value, kind) else None

    def remove(self, handle: int, kind: type[_T]) -> _T | None:
        """Return the object of a handle and forget the handle."""
        value = self.get(handle, kind)
        if value is not None:
            del self._objects[handle]
        return value

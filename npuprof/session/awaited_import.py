"""Waiting for the first import of one of some modules: done by a finder that stands before Python's own."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


class AwaitedImport(MetaPathFinder):
    """Calls a function once, right after the first of some modules has been imported.

    Parameters
    ----------
    names
        The modules.
    imported
        The function; what it raises reaches the import.
    """

    def __init__(self, names: Sequence[str], imported: Callable[[], object]) -> None:
        self._names = frozenset(names)
        self._imported = imported
        self._asks_others = False
        sys.meta_path.insert(0, self)

    @property
    def waiting(self) -> bool:
        """Whether none of the modules has been imported yet."""
        return self in sys.meta_path

    def cancel(self) -> None:
        """Wait no longer."""
        with suppress(ValueError):
            sys.meta_path.remove(self)

    def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
        """Return what the other finders find, made to tell of the end of its import; None for other modules."""
        if fullname not in self._names or self._asks_others:
            return None
        self._asks_others = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._asks_others = False
        if spec is not None and spec.loader is not None:
            with suppress(AttributeError):  # a loader without room for it: then the others are waited for
                self._tell_of_the_end(spec.loader)
        return spec

    def _tell_of_the_end(self, loader: object) -> None:
        execute: Callable[[ModuleType], None] = loader.exec_module  # type: ignore[attr-defined]  # all loaders have it

        def exec_module(module: ModuleType) -> None:
            execute(module)
            if self.waiting:
                self.cancel()
                self._imported()

        loader.exec_module = exec_module  # type: ignore[attr-defined]  # as above

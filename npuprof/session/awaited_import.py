"""The first import of a module that decides which front end a process uses."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


# The start of a child has a finder of its own (startup/sitecustomize.py): it runs in Pythons that lack npuprof.
class AwaitedImport(MetaPathFinder):
    """Calls `imported` once, after the first import of one of the modules `names`; its exceptions reach the import."""

    def __init__(self, names: Sequence[str], imported: Callable[[], object]) -> None:
        self._names = frozenset(names)
        self._imported = imported
        self._searching = False
        sys.meta_path.insert(0, self)

    @property
    def waiting(self) -> bool:
        """Whether none of the modules has been imported yet."""
        return self in sys.meta_path

    def cancel(self) -> None:
        """Stop waiting."""
        with suppress(ValueError):
            sys.meta_path.remove(self)

    def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
        """Find the spec with the other finders and hook the end of the import; None for other modules."""
        if fullname not in self._names or self._searching:
            return None
        self._searching = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._searching = False
        if spec is not None and spec.loader is not None:
            with suppress(AttributeError):  # a loader with fixed attributes cannot be hooked
                self._hook(spec.loader)
        return spec

    def _hook(self, loader: object) -> None:
        execute: Callable[[ModuleType], None] = loader.exec_module  # type: ignore[attr-defined]  # all loaders have it

        def exec_module(module: ModuleType) -> None:
            execute(module)
            if self.waiting:
                self.cancel()
                self._imported()

        loader.exec_module = exec_module  # type: ignore[attr-defined]  # as above

"""Imports in folders where a file has the name of a module of the standard library, such as ``calendar.py``.

Beside a notebook, the user's own file comes first: pandas would import it, and fail.
"""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType


class _StandardLibrary(MetaPathFinder):
    """Finds modules of the standard library before all others, and notes those that a file of the user's hides."""

    def __init__(self) -> None:
        self.hidden: list[str] = []
        folders = {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}
        self._path = [*folders, *(entry for entry in sys.path if entry.endswith("lib-dynload"))]

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module of the standard library; None leaves it to the other finders."""
        if path is not None or fullname not in sys.stdlib_module_names:
            return None
        spec = PathFinder.find_spec(fullname, self._path, target)
        usual = PathFinder.find_spec(fullname, None, target) if spec is not None else None
        if spec is not None and usual is not None and usual.origin != spec.origin:
            self.hidden.append(fullname)
        return spec


@contextmanager
def standard_library_first() -> Iterator[None]:
    """Import modules of the standard library in the block even where a file of the user's has the name of one.

    Such a module is forgotten at the end of the block: the user's code goes on to import the file.
    """
    finder = _StandardLibrary()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in finder.hidden:
            sys.modules.pop(name, None)

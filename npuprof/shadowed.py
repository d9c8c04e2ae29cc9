"""Imports in folders where a file has the name of a module of the standard library, such as ``calendar.py``.

Beside a notebook, the user's own file comes first: pandas would import it, and fail.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType


@cache
def _standard_folders() -> set[str]:
    return {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}


class _StandardLibrary(MetaPathFinder):
    """Finds modules of the standard library before all others, and notes those that a file of the user's hides.

    Other threads, on which the user's code may run meanwhile, import as without it.
    """

    def __init__(self) -> None:
        self.hidden: list[str] = []
        self._thread = threading.get_ident()
        self._path = [*_standard_folders(), *(entry for entry in sys.path if entry.endswith("lib-dynload"))]

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module of the standard library; None leaves it to the other finders."""
        if path is not None or fullname not in sys.stdlib_module_names or threading.get_ident() != self._thread:
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


def shadowing_files() -> list[str]:
    """Return the files and folders before the standard library on the path that have the name of one of its modules."""
    stdlib = _standard_folders()
    first = next((at for at, entry in enumerate(sys.path) if entry in stdlib), len(sys.path))
    found = []
    for entry in sys.path[:first]:
        with suppress(OSError):  # not a folder
            found += [
                f"{entry}{os.sep}{name}"
                for name in os.listdir(entry or os.curdir)  # noqa: PTH208 - pathlib would be imported for it
                if name.partition(".")[0] in sys.stdlib_module_names
            ]
    return found

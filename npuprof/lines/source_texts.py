"""The text of the user's code that a recording keeps: of files that stacks name, never of installed packages."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable, Iterable
from types import FunctionType

from npuprof.lines.frames import Frame, cell_name
from npuprof.words.texts import repaired

_MOST_FILE = 256 << 10
_MOST_BYTES = 1 << 20  # of all files together: they are part of recording.json
_MOST_FILES = 200
_MOST_WRAPPERS = 8  # around a function that is decorated


def source_texts(
    frames: Iterable[tuple[str, str]], number_of: Callable[[str], int], known: Iterable[str] = ()
) -> dict[str, str]:
    """Return the texts of the user's files, by their names in tables."""
    texts: dict[str, str] = {}
    seen, left = set(known), _MOST_BYTES
    for file, function in frames:
        name = cell_name(file, number_of(file)) or file
        if name in seen or len(texts) == _MOST_FILES:
            continue
        if not Frame(file, 1, function).is_users:
            continue  # another function of the file may be the user's
        seen.add(name)
        text = "".join(linecache.getlines(file))  # which also has cells
        if text and len(text) <= min(_MOST_FILE, left):
            texts[name] = repaired(text)
            left -= len(text)
    return texts


def defined_files() -> list[tuple[str, str]]:
    """Return file and function of the functions, also of classes, that cells have defined."""
    functions = []
    for value in list(vars(sys.modules["__main__"]).values()):
        for each in list(vars(value).values()) if isinstance(value, type) else [value]:
            function = getattr(each, "__func__", None) if isinstance(each, classmethod | staticmethod) else each
            for _ in range(_MOST_WRAPPERS):
                if not isinstance(function, FunctionType):
                    break
                functions.append((function.__code__.co_filename, function.__name__))
                function = vars(function).get("__wrapped__")
    return functions


def imported_files() -> list[tuple[str, str]]:
    """Return file and function of each module of this process, for a front end whose stacks are not known yet."""
    files = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
    return [(file, "<module>") for file in files if isinstance(file, str) and file.endswith(".py")]

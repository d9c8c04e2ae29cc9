"""Frames of Python stacks, as frameworks and npuprof write them: whose code they are of."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection
from functools import lru_cache
from pathlib import Path
from types import CodeType
from typing import NamedTuple

_FRAME = re.compile(r"(.+)\((\d{1,9})\): (.*)", re.DOTALL)
FOLDERS_OF_PYTHON = frozenset(
    [
        *("asyncio", "collections", "concurrent", "ctypes", "email", "encodings", "http", "importlib", "json"),
        *("logging", "multiprocessing", "re", "unittest", "urllib"),
    ]
)
"""Folders of Python's library, as names without the folders of sys.path begin with them."""

# Files of Python and of installed packages. Frameworks drop the folders of sys.path from their names, so that a name
# begins with the package. What a string, an import or a built-in function ran has no file, but what was typed into
# IPython is the user's.
_INSTALLED = re.compile(
    r"(?:^|[/\\])(?:(?:site|dist)-packages|lib(?:64)?[/\\]python\d+\.\d+t?)[/\\]"
    r"|^(?:torch|torch_npu|torchvision|transformers|mindspore|numpy)[/\\]"
    rf"|^(?:{'|'.join(sorted(FOLDERS_OF_PYTHON))})[/\\]"
    r"|^<(?!ipython-input|stdin|cell)"
)
_PACKAGE = Path(__file__).parents[1]
_PACKAGE_NAME = _PACKAGE.name
_PLACES = tuple({f"{_PACKAGE}{os.sep}", f"{_PACKAGE.resolve()}{os.sep}"})
_SEPARATORS = re.compile(r"[/\\]+")
_MODULE = re.compile(r"(?:\w+/)*\w+\.py")
_SHELL = re.compile(r"(?:^|[/\\](?:site|dist)-packages[/\\])(?:IPython|ipykernel)[/\\]")
_KERNEL_CELL = re.compile(r"(?:^|[/\\])ipykernel_\d+[/\\]\d+\.py$")
_TERMINAL_CELL = re.compile(r"<ipython-input-(\d+)-\w+>$")
_NUMBER_IN_TERMINAL = re.compile(r"^(<ipython-input-)\d+-(?=\w+>$)")
_NAMED_CELL = re.compile(r"<cell(?: \[(\d{1,9})\])?>")


class Frame(NamedTuple):
    """A function in a stack: ``torch/nn/functional.py(12): linear``."""

    file: str  # its file, which frameworks write without the folders of `sys.path`
    line: int  # A line of the function: where it was entered, or stood
    function: str  # its name; empty for a function that torch's tracer could not name

    @classmethod
    def parse(cls, text: str) -> Frame | None:
        """Return the frame of a text; None for built-in functions, modules and any other text."""
        match = _FRAME.fullmatch(text)
        return None if match is None else cls(match[1], int(match[2]), match[3])

    @property
    def is_users(self) -> bool:
        """Whether it is of the user's code: not of an installed package, Python's library or npuprof."""
        return not (_is_installed(self.file) or self.is_npuprofs)

    @property
    def is_of_shell(self) -> bool:
        """Whether it is of IPython or ipykernel, which run cells."""
        return _is_of_shell(self.file)

    @property
    def is_of_cell(self) -> bool:
        """Whether it is the code of a whole cell, or of one of its statements, rather than of a function in it."""
        return is_whole(self.function) and bool(cell_text(self.file) or cell_name(self.file))

    @property
    def is_npuprofs(self) -> bool:
        """Whether it is of npuprof, whose functions a framework's tracer also records.

        The folder of this package decides, and that of an installed one on any machine. Any other folder called npuprof
        may be the user's: the file must be one of this package and have that function, at that line where the folders
        are known; where they are not, most likely those of an installed package of any version, at any line.
        """
        if _PACKAGE_NAME not in self.file:
            return False
        if self.file.startswith(_PLACES):
            return True
        path = "/" + self.file.replace("\\", "/")
        folder, package, module = path.rpartition(f"/{_PACKAGE.name}/")
        if not package or not _MODULE.fullmatch(module):
            return False
        return folder.endswith(("/site-packages", "/dist-packages")) or any(
            self.function in (name, "") and (not folder or (first <= self.line <= last and name != "<module>"))
            for name, first, last in _functions(module)
        )


@lru_cache(maxsize=1_024)
def _is_installed(file: str) -> bool:
    """Return whether a file is of an installed package or of Python's library."""
    return _INSTALLED.search(file) is not None or file.removesuffix(".py") in sys.stdlib_module_names


@lru_cache(maxsize=1_024)
def _is_of_shell(file: str) -> bool:
    return _SHELL.search(file) is not None


def is_whole(function: str) -> bool:
    """Return whether a name stands for the code of a whole file, cell or statement."""
    return function.startswith(("<module>", "<cell line"))


@lru_cache(maxsize=256)
def _functions(path: str) -> list[tuple[str, int, int]]:
    """Return name, first and last line of each function in a file of this package; none if it has no such file."""
    try:
        codes = [compile((_PACKAGE / path).read_bytes(), path, "exec", dont_inherit=True)]
    except OSError:
        return []
    for code in codes:  # grows by what is defined within
        codes += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return [(code.co_name, code.co_firstlineno, max(line or 0 for _, _, line in code.co_lines())) for code in codes]


def cell_name(file: str, number: int = 0) -> str:
    """Return the name of an IPython cell's code, ``<cell [3]>`` or ``<cell>``; empty for any other file."""
    if terminal := _TERMINAL_CELL.match(file):
        return f"<cell [{terminal[1]}]>"
    if number:
        return f"<cell [{number}]>"
    return "<cell>" if _KERNEL_CELL.search(file) else ""


def same_text(file: str) -> str:
    """Return what cells of one text have in common in the names of their code's files; the name of any other file."""
    return _NUMBER_IN_TERMINAL.sub(r"\1", file)


def cell_text(file: str) -> str:
    """Return the name of a cell as people read it, ``In [12]`` for ``<cell [12]>``; empty for any other file.

    A cell whose number is not known is ``the cell``.
    """
    match = _NAMED_CELL.fullmatch(file)
    if match is None:
        return ""
    return f"In [{match[1]}]" if match[1] else "the cell"


def in_full(file: str, paths: Collection[str]) -> str:
    """Return the path that a file's name is of, or is the end of, if that is only one; else an empty text."""
    if file in paths:
        return file
    *_, name = parts = _SEPARATORS.split(file)
    ends = [path for path in paths if path.endswith(name) and ["", *_SEPARATORS.split(path)][-len(parts) :] == parts]
    return ends[0] if file and len(ends) == 1 else ""


def line_text(file: str, line: int) -> str:
    """Return a line as people read it: ``In [12], line 14``, or ``main.py:14`` without the folders of the file."""
    cell = cell_text(file)
    return f"{cell}, line {line}" if cell else f"{_SEPARATORS.split(file)[-1]}:{line}"


def frame_text(name: str) -> str:
    """Return a frame as people read it: ``In [12], line 14: f`` for ``<cell [12]>(14): f``; any other name unchanged.

    The code of a whole cell is named by the line that runs in it, or by the cell alone where that is its first line:
    sampled stacks and tracers only know where the code begins.
    """
    if not name.startswith("<cell") or (frame := Frame.parse(name)) is None or not (cell := cell_text(frame.file)):
        return name
    if not is_whole(frame.function):
        return f"{cell}, line {frame.line}: {frame.function}"
    return f"{cell}, line {frame.line}" if frame.line > 1 else cell

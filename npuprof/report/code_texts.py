"""The text of the code that a run names: as it was recorded, or as it is below a folder that the user gave."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from npuprof.lines.frames import cell_name, in_full

_MOST_BYTES = 1 << 20  # of a file; a longer one was not written by hand
_LINE_END = re.compile(r"\r\n|\r|\n")  # as Python counts lines
_DEFINITION = re.compile(r"(\s*)(?:async\s+def|def|class)\b")
_PARTS = re.compile(r"[/\\]+")


class CodeTexts:
    """The lines of files by name, as stacks write it.

    Parameters
    ----------
    root
        The folder below which other files are looked for; None for none. Nothing outside of it is read.

    Attributes
    ----------
    notes
        What the texts rest on, after they were read.
    """

    def __init__(
        self,
        recorded: Mapping[str, str],
        root: Path | None = None,
        started_ns: int | None = None,
        *,
        of_cell: bool = True,
    ) -> None:
        self._recorded = recorded
        self._of_cell = of_cell
        self._root = None if root is None else root.resolve()
        self._started_ns = started_ns
        self._read: dict[str, list[str]] = {}
        self.notes: list[str] = []

    @property
    def cell(self) -> str:
        """The name of the profiled cell, whose text comes first; empty without one."""
        first = next(iter(self._recorded), "") if self._of_cell else ""
        return first if first.startswith("<cell") or cell_name(first) else ""

    def lines(self, file: str) -> list[str]:
        """Return the lines of a file; none if its text is not known."""
        if file not in self._read:
            text = self._recorded.get(in_full(file, self._recorded), "") or self._below_root(file)
            self._read[file] = _LINE_END.split(text.rstrip()) if text else []
        return self._read[file]

    def _below_root(self, file: str) -> str:
        """Return the text of the file below the root with as many folders of its name as there are."""
        if self._root is None or not file.endswith(".py"):
            return ""
        parts = [part for part in _PARTS.split(file) if part not in ("", ".")]
        for begin in range(len(parts)):
            path = (self._root / PurePosixPath(*parts[begin:])).resolve()
            try:
                if path.is_relative_to(self._root) and path.is_file():
                    return self._text(path, file)
            except OSError as error:
                self.notes.append(f"{path} cannot be read ({error.strerror or error}): {file} is shown without text")
                return ""
        return ""

    def _text(self, path: Path, file: str) -> str:
        with path.open("rb") as opened:
            facts, content = os.fstat(opened.fileno()), opened.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            self.notes.append(f"{path} is larger than {_MOST_BYTES >> 20} MiB: {file} is shown without text")
            return ""
        if self._started_ns is not None and facts.st_mtime_ns > self._started_ns:
            self.notes.append(f"{path} was changed after the run began: its lines may have moved")
        return content.decode("utf-8", "replace")


def head_of(texts: Sequence[str], place: int) -> int:
    """Return the line at which the function or class around a line begins, or the line itself."""
    indent = len(texts[place]) - len(texts[place].lstrip())
    for at in range(place, -1, -1):
        if (match := _DEFINITION.match(texts[at])) and len(match[1]) < indent:
            return at
    return place


def is_head_alone(text: str) -> bool:
    """Return whether a line begins a function or a class without its body."""
    return bool(_DEFINITION.match(text)) and text.rstrip().endswith((":", "(", ","))

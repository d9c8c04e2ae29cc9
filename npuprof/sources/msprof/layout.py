"""Find the files of ``msprof --export``: the newest export of each module, its slices in order.

Source: sources/RESULTS.md section 1.3.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

OUTPUT = "mindstudio_profiler_output"
ANALYZED = "analyze"
_ANALYZED_FILES = ("communication.json", "communication_matrix.json")
_OLD_FOLDERS = ("timeline", "summary")
_MAX_LISTED = 100_000
_SIDE = re.compile(r"host|device_(\d{1,4})")
_NAME = re.compile(
    r"(?P<module>[a-z][a-z0-9_]*?)(?:_slice_(?P<slice>\d{1,6}))?_(?P<stamp>\d{14})\.(?P<suffix>csv|json)(?:\.gz)?"
)
_OLD_NAME = re.compile(
    r"(?P<module>[a-z][a-z0-9_]*?)_(?P<numbers>\d{1,9}(?:_\d{1,9}){0,2})(?:_slice_(?P<slice>\d{1,6}))?"
    r"\.(?P<suffix>csv|json)(?:\.gz)?"
)


@dataclass(frozen=True)
class File:
    """An exported file: its module, its device, model and iteration numbers (old results), and its slice number."""

    path: Path
    module: str
    suffix: str
    numbers: str
    slice: int
    stamp: str


@dataclass(frozen=True)
class ExportPart:
    """The files of one export folder, or of one device of an old result; `device` is None if the files name it."""

    files: tuple[File, ...]
    device: int | None = None

    def of(self, module: str, suffix: str) -> list[File]:
        """Return the files of a module in order."""
        return [file for file in self.files if (file.module, file.suffix) == (module, suffix)]


@dataclass(frozen=True)
class ExportFiles:
    """The paths of the parts of a result."""

    root: Path  # the `PROF_*` directory
    parts: tuple[ExportPart, ...]  # the export folder, or each device of the layout of CANN 5 and 6
    analyzed: Path | None = None  # the folder of `communication.json` and `communication_matrix.json`, if any
    older: int = 0  # the number of files of earlier exports, which are not read

    @property
    def is_old(self) -> bool:
        """Whether it is the layout of CANN 5 and 6."""
        return any(part.device is not None for part in self.parts)


def find(path: Path) -> ExportFiles | None:
    """Return the layout of a result of msprof; None for other paths and for an unreadable directory."""
    try:
        return _find(path)
    except OSError:
        return None


def find_files(folder: Path) -> ExportFiles | None:
    """Return the layout of a folder of exported files, such as copies; None for other paths."""
    try:
        files, older = _newest(_name_files(folder)) if folder.is_dir() else ([], 0)
    except OSError:
        return None
    return ExportFiles(folder, (ExportPart(tuple(files)),), older=older) if files else None


def _find(path: Path) -> ExportFiles | None:
    if not path.is_dir():
        return None
    folder = path if path.name == OUTPUT else path / OUTPUT
    root = folder.parent
    analyzed = root / ANALYZED if any((root / ANALYZED / name).is_file() for name in _ANALYZED_FILES) else None
    if folder.is_dir():
        files, older = _newest(_name_files(folder))
        if files:
            return ExportFiles(root, (ExportPart(tuple(files)),), analyzed, older)
    parts = tuple(part for part in _old_parts(path) if part.files)
    return ExportFiles(path, parts, analyzed) if parts else None


def _name_files(folder: Path) -> Iterator[File]:
    for entry in islice(folder.iterdir(), _MAX_LISTED):
        match = _NAME.fullmatch(entry.name)
        if match and entry.is_file():
            yield File(entry, match["module"], match["suffix"], "", int(match["slice"] or 0), match["stamp"])


def _newest(files: Iterable[File]) -> tuple[list[File], int]:
    """Return the newest export of each module, from its first slice on, and the number of other files."""
    groups: defaultdict[tuple[str, str], list[File]] = defaultdict(list)
    for file in files:
        groups[file.module, file.suffix].append(file)
    kept_files: list[File] = []
    total = 0
    for group in groups.values():
        total += len(group)
        first = min(file.slice for file in group)
        since = max(file.stamp for file in group if file.slice == first)
        newest: dict[int, File] = {}
        for file in sorted(group, key=lambda file: (file.slice, file.stamp)):
            if file.stamp >= since:
                newest.setdefault(file.slice, file)
        kept_files.extend(newest.values())
    return sorted(kept_files, key=lambda file: (file.module, file.suffix, file.slice)), total - len(kept_files)


def _old_parts(root: Path) -> Iterator[ExportPart]:
    """Yield the parts of ``device_N/{timeline,summary}`` and ``host/{timeline,summary}``."""
    sides = sorted((entry for entry in islice(root.iterdir(), _MAX_LISTED)), key=lambda entry: entry.name)
    for side in sides:
        match = _SIDE.fullmatch(side.name)
        if match is None:
            continue
        listed = [file for name in _OLD_FOLDERS if (side / name).is_dir() for file in _old_named(side / name)]
        files = sorted(listed, key=lambda file: (file.module, _numbers(file), file.slice))
        yield ExportPart(tuple(files), int(match[1] or 0))


def _old_named(folder: Path) -> Iterator[File]:
    for entry in islice(folder.iterdir(), _MAX_LISTED):
        match = _OLD_NAME.fullmatch(entry.name)
        if match and entry.is_file():
            yield File(entry, match["module"], match["suffix"], match["numbers"], int(match["slice"] or 0), "")


def _numbers(file: File) -> list[int]:
    return [int(number) for number in file.numbers.split("_") if number]

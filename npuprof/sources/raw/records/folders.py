"""Slices of a ``data`` folder, their completeness (numbers, ``.done`` marks), and their names before 2021.

Source: raw/FORMAT.md sections 2 and 2.1.
"""

from __future__ import annotations

import os
import re
import stat
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

_SLICE = re.compile(r"(?P<stream>.+)\.slice_(?P<number>\d{1,9})(?P<mark>\.done)?")
_NOT_DATA = (".done", ".complete", ".zip")
_SIZE = re.compile(rb"filesize:(\d{1,18})")
_MARK_BYTES = 4096
_FULL_BYTES = 32 << 10  # a smaller slice is none that was full when the next was begun
_ALIKE = 100  # sizes that differ by less than one part in so many


@dataclass(frozen=True)
class Slice:
    """A slice of a stream.

    Attributes
    ----------
    number
        Its place among the slices.
    path, size
        The file and its bytes.
    is_marked
        Whether it has a ``.done`` mark.
    written
        The bytes that its mark tells of; None without one.
    """

    number: int
    path: Path
    size: int
    is_marked: bool = False
    written: int | None = None


@dataclass
class Folder:
    """What a ``data`` folder holds.

    Attributes
    ----------
    streams
        Slices in order, by the modern name of their stream.
    gone
        By stream, the numbers of slices of which only the marks are left, and the bytes that these tell of.
    others
        Names of files that are no slices.
    has_marks
        Whether any slice has a mark: then all that were written to their end have.
    """

    streams: Mapping[str, list[Slice]] = field(default_factory=dict)
    gone: Mapping[str, dict[int, int]] = field(default_factory=dict)
    others: list[str] = field(default_factory=list)
    has_marks: bool = False

    def problems(self) -> Iterator[tuple[str, str, int]]:
        """Iterate over what is missing, or more than was written, as ``(stream, message, count)``."""
        for stream in dict.fromkeys((*self.streams, *self.gone)):
            for message, count in self._problems_of(self.streams.get(stream, []), self.gone.get(stream, {})):
                if count:
                    yield stream, message, count

    def _problems_of(self, slices: list[Slice], gone: Mapping[int, int]) -> Iterator[tuple[str, int]]:
        numbers = {one.number for one in slices}
        first = min(numbers | gone.keys(), default=0)
        yield "slices before its first one are missing", first
        missing = max(numbers | gone.keys(), default=0) - first + 1 - len(numbers | gone.keys()) if numbers else 0
        yield "slices between its first and its last one are missing", missing
        yield f"slices are missing, with the {sum(gone.values())} bytes that their .done marks tell of", len(gone)
        changes = [one.size - one.written for one in slices if one.written is not None]
        yield "bytes are missing in its slices, by their .done marks", -sum(change for change in changes if change < 0)
        yield "bytes more than the .done marks of its slices tell", sum(change for change in changes if change > 0)
        empty = sum(one.size == 0 and one.written is None for one in slices)
        yield "slices are empty: what was recorded in them is missing", empty
        yield "its last slice is as full as those before it: later ones may be missing", int(_ends_full(slices))
        unmarked = sum(not one.is_marked for one in slices) if self.has_marks else 0
        yield "slices without a .done mark: the collector may not have written all of them", unmarked


def _ends_full(slices: list[Slice]) -> bool:
    """Return whether the last of several slices is full: a run ends so by chance, or because later slices are gone."""
    sizes = [one.size for one in slices]
    return len(sizes) > 1 and min(sizes) >= _FULL_BYTES and (max(sizes) - min(sizes)) * _ALIKE < max(sizes)


def read_folder(folder: Path) -> Folder:
    """List a ``data`` folder.

    Raises
    ------
    OSError
        If it cannot be listed.
    """
    found: dict[str, list[Slice]] = defaultdict(list)
    marks: dict[str, Path] = {}
    files: list[tuple[re.Match[str], Path, int]] = []
    others: list[str] = []
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        match, size = _SLICE.fullmatch(entry.name), _size(Path(entry.path))
        if size is None:
            continue
        if match is not None and match["mark"]:
            marks[entry.name.removesuffix(".done")] = Path(entry.path)
        elif match is not None:
            files.append((match, Path(entry.path), size))
        elif not entry.name.endswith(_NOT_DATA):
            others.append(entry.name)
    for match, path, size in files:
        mark = marks.pop(path.name, None)
        one = Slice(int(match["number"]), path, size, mark is not None, _written(mark) if mark else None)
        found[modern_name(match["stream"])].append(one)
    has_marks = any(one.is_marked for slices in found.values() for one in slices)
    streams = {stream: sorted(slices, key=lambda one: (one.number, one.path)) for stream, slices in found.items()}
    return Folder(streams, _gone(marks), others, has_marks)


def _gone(marks: Mapping[str, Path]) -> dict[str, dict[int, int]]:
    gone: dict[str, dict[int, int]] = defaultdict(dict)
    for name, path in marks.items():
        match = _SLICE.fullmatch(name)
        if match is not None:
            gone[modern_name(match["stream"])][int(match["number"])] = _written(path) or 0
    return gone


def _written(mark: Path) -> int | None:
    try:
        with mark.open("rb") as file:
            told = _SIZE.search(file.read(_MARK_BYTES))
    except OSError:
        return None
    return int(told[1]) if told else None


def _size(path: Path) -> int | None:
    try:
        status = path.stat()
    except OSError:  # a link that leads nowhere or in a circle, or a file that went away
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


_OLD = re.compile(r"(?P<stream>[A-Za-z_.]+?)(\.\d+)?\.(dev|host)\.profiler_default_tag\.(?P<device>\d{1,4})")
_RENAMED: Mapping[str, str] = {
    "hwts.log.data": "hwts.data",
    "hwts.log.aiv.data": "hwts.aiv_data",
    "training_trace": "training_trace.data",
}
_SLICE_OF_OLD_CHIP = re.compile(r"(hwts|aicore|aiVectorCore|training_trace)\.[\w.]+\.slice_\d{1,9}")
_DEVICE = re.compile(r"(?:hwts|aicore|aiVectorCore|training_trace|ts_track)\.[\w.]+\.(\d{1,4})")
_MAX_LISTED = 100_000


def modern_name(stream: str) -> str:
    """Return the name that a stream has today: ``hwts.log.data.45.dev.profiler_default_tag.1`` is ``hwts.data.1``."""
    match = _OLD.fullmatch(stream)
    return f"{_RENAMED.get(match['stream'], match['stream'])}.{match['device']}" if match else stream


def old_folder(path: Path) -> Path | None:
    """Find the folder around a ``data`` folder of an old chip's slices: `path`, or the one above; None without any.

    Raises
    ------
    OSError
        If a folder cannot be listed.
    """
    if _holds_old_slices(path / "data"):
        return path
    return path.parent if path.name == "data" and _holds_old_slices(path) else None


def devices_of(streams: Iterable[str]) -> list[int]:
    """Return the devices whose records an old folder holds, from the (modern) names of its streams."""
    return sorted({int(match[1]) for match in map(_DEVICE.fullmatch, streams) if match})


def _holds_old_slices(folder: Path) -> bool:
    if not folder.is_dir():
        return False
    for number, entry in enumerate(folder.iterdir()):
        if _SLICE_OF_OLD_CHIP.fullmatch(entry.name):
            return True
        if number > _MAX_LISTED:
            break
    return False

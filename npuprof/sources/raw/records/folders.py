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

from npuprof.words.quantities import counted

_SLICE = re.compile(r"(?P<stream>.+)\.slice_(?P<number>\d{1,9})(?P<mark>\.done)?")
_NOT_DATA = (".done", ".complete", ".zip")
_SIZE = re.compile(rb"filesize:(\d{1,18})")
_MARK_BYTES = 4096
_FULL_BYTES = 32 << 10  # a smaller slice cannot have been full when the next one was begun
_ALIKE = 100  # inverse of the relative difference of sizes


@dataclass(frozen=True)
class Slice:
    """A slice of a stream."""

    number: int  # its number among the slices
    # path, size: the file, and its size in bytes.
    path: Path
    size: int
    is_marked: bool = False  # whether it has a `.done` mark
    written: int | None = None  # the size in its mark; None without a mark


@dataclass
class Folder:
    """Contents of a ``data`` folder."""

    streams: Mapping[str, list[Slice]] = field(default_factory=dict)  # slices in order, by today's name of their stream
    # By stream, the numbers of slices of which only the marks remain, and the sizes in the marks.
    gone: Mapping[str, dict[int, int]] = field(default_factory=dict)
    others: list[str] = field(default_factory=list)  # names of other files
    has_marks: bool = False  # whether any slice has a mark: then all complete slices have one

    def problems(self) -> Iterator[tuple[str, str, int, bool]]:
        """Yield missing and surplus data as ``(stream, message, count, is_lost)``."""
        for stream in dict.fromkeys((*self.streams, *self.gone)):
            for message, count, is_lost in self._problems_of(self.streams.get(stream, []), self.gone.get(stream, {})):
                if count:
                    yield stream, message, count, is_lost

    def _problems_of(self, slices: list[Slice], gone: Mapping[int, int]) -> Iterator[tuple[str, int, bool]]:
        numbers = {part.number for part in slices}
        first = min(numbers | gone.keys(), default=0)
        yield "slices before its first one are missing", first, True
        missing = max(numbers | gone.keys(), default=0) - first + 1 - len(numbers | gone.keys()) if numbers else 0
        yield "slices between its first and its last one are missing", missing, True
        yield f"slices are missing, with {counted(sum(gone.values()), 'byte')} by their .done marks", len(gone), True
        changes = [part.size - part.written for part in slices if part.written is not None]
        yield (
            "bytes are missing in its slices, by their .done marks",
            -sum(change for change in changes if change < 0),
            True,
        )
        yield "bytes more than in the .done marks of its slices", sum(change for change in changes if change > 0), False
        empty = sum(part.size == 0 and not part.written for part in slices)  # the collector writes none without data
        yield "slices are empty: what was recorded in them is missing", empty, True
        yield "its last slice is as full as those before it: later ones may be missing", int(_ends_full(slices)), False
        unmarked = sum(not part.is_marked for part in slices) if self.has_marks else 0
        yield "slices without a .done mark: the collector may not have written all of them", unmarked, False


def tables_of(stream: str) -> tuple[str, ...]:
    """Return the tables that lack rows if records of a stream are missing; none for one of descriptions."""
    bare = _KINDS.sub("", stream)
    return next((tables for name, tables in _TABLES.items() if bare.startswith(name)), ())


_KINDS = re.compile(r"^(?:(?:un)?aging\.)?(?:additional\.|compact\.)?")
_DEVICE_TABLES = ("tasks", "kernels", "communication", "communication_tasks")
_TABLES = {
    "stars_soc": _DEVICE_TABLES,
    "ts_track": _DEVICE_TABLES,
    "hwts": _DEVICE_TABLES,
    "api_event": ("api", "links"),
    "task_track": ("links",),
    "hccl_info": ("communication_tasks",),
    "msproftx": ("marks",),
    "memory_op": ("memory", "allocations"),
    "task_memory": ("memory", "allocations"),
    "npu_mem": ("memory",),
    "npu_module_mem": ("memory",),
    **dict.fromkeys(("hbm", "ddr", "llc", "pcie", "hccs", "nic", "roce", "dvpp", "qos", "sio", "lpm"), ("counters",)),
}


def _ends_full(slices: list[Slice]) -> bool:
    """Return whether the last of several slices is full: by chance, or because later slices are missing."""
    sizes = [part.size for part in slices]
    return len(sizes) > 1 and min(sizes) >= _FULL_BYTES and (max(sizes) - min(sizes)) * _ALIKE < max(sizes)


def read_folder(folder: Path) -> Folder:
    """List a ``data`` folder."""
    by_stream: dict[str, list[Slice]] = defaultdict(list)
    marks: dict[str, Path] = {}
    files: list[tuple[re.Match[str], Path, int]] = []
    other_names: list[str] = []
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        match, size = _SLICE.fullmatch(entry.name), _size(Path(entry.path))
        if size is None:
            continue
        if match is not None and match["mark"]:
            marks[entry.name.removesuffix(".done")] = Path(entry.path)
        elif match is not None:
            files.append((match, Path(entry.path), size))
        elif not entry.name.endswith(_NOT_DATA):
            other_names.append(entry.name)
    for match, path, size in files:
        mark = marks.pop(path.name, None)
        part = Slice(int(match["number"]), path, size, mark is not None, _written_bytes(mark) if mark else None)
        by_stream[modern_name(match["stream"])].append(part)
    has_marks = any(part.is_marked for slices in by_stream.values() for part in slices)
    streams = {
        stream: sorted(slices, key=lambda part: (part.number, part.path)) for stream, slices in by_stream.items()
    }
    return Folder(streams, _missing_slices(marks), other_names, has_marks)


def _missing_slices(marks: Mapping[str, Path]) -> dict[str, dict[int, int]]:
    gone: dict[str, dict[int, int]] = defaultdict(dict)
    for name, path in marks.items():
        match = _SLICE.fullmatch(name)
        if match is not None:
            gone[modern_name(match["stream"])][int(match["number"])] = _written_bytes(path) or 0
    return gone


def _written_bytes(mark: Path) -> int | None:
    try:
        with mark.open("rb") as file:
            size = _SIZE.search(file.read(_MARK_BYTES))
    except OSError:
        return None
    return int(size[1]) if size else None


def _size(path: Path) -> int | None:
    try:
        status = path.stat()
    except OSError:  # a dangling or cyclic link, or a file that was removed meanwhile
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
    """Return today's name of a stream: ``hwts.log.data.45.dev.profiler_default_tag.1`` is ``hwts.data.1``."""
    match = _OLD.fullmatch(stream)
    return f"{_RENAMED.get(match['stream'], match['stream'])}.{match['device']}" if match else stream


def old_folder(path: Path) -> Path | None:
    """Return the folder around a ``data`` folder of an old chip's slices: `path`, or its parent; else None."""
    if _holds_old_slices(path / "data"):
        return path
    return path.parent if path.name == "data" and _holds_old_slices(path) else None


def devices_of(streams: Iterable[str]) -> list[int]:
    """Return the devices of an old folder's records, by the current names of its streams."""
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

"""The form of a raw recording, apart from what it tells: its files, the keys of its control files, its records' marks.

Read from raw/FORMAT.md sections 2 and 4 to 6, not from the writer's layouts.
"""

from __future__ import annotations

import json
import re
import struct
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

Marks = tuple[object, ...]
Names = dict[str, str]

DICTIONARIES = {
    "unaging.additional.type_info_dic": re.compile(r"\d+_\d+:\S.*"),
    "unaging.additional.hash_dic": re.compile(r"\d+:.+"),
}
RUNTIME = 5000
SECTION = re.compile(r"\[(Host|Device\d+)\]")


class Kind(NamedTuple):
    """Records of one kind: their size, the bytes that hold values, and what marks them as this kind."""

    size: int
    used: tuple[tuple[int, int], ...]
    marks: Callable[[bytes, Names], Marks]


def _host(data: bytes, names: Names) -> Marks:
    magic, level, number, _, length = struct.unpack_from("<HHIII", data)
    # The runtime hands out its numbers as names are first used.
    return magic, level, names.get(f"{level}_{number}") if level == RUNTIME else number, length


def _api(data: bytes, names: Names) -> Marks:
    magic, level = struct.unpack_from("<HH", data)
    return magic, level


def _stamp(data: bytes, names: Names) -> Marks:
    magic, tag = struct.unpack_from("<HH", data, 32)
    return *_host(data, names), magic, tag, struct.unpack_from("<H", data, 24)


def _allocation(data: bytes, names: Names) -> Marks:
    return *_host(data, names), *struct.unpack_from("<I", data, 68)


def _task(data: bytes, names: Names) -> Marks:
    head, magic, kind = *struct.unpack_from("<HH", data), data[21] >> 5
    return magic, head & 63, kind


def _function(data: bytes, names: Names) -> Marks:
    return tuple(data[:2])


def _event(at: int) -> Callable[[bytes, Names], Marks]:
    def marks(data: bytes, names: Names) -> Marks:
        event: Marks = struct.unpack_from("<I", data, at)
        return event

    return marks


_ENTRIES = tuple((8 + 16 * place, 20 + 16 * place) for place in range(55))
_NPU_MEM = Kind(32, ((0, 8), (16, 32)), _event(4))
KINDS = {
    "aging.api_event.data": Kind(40, ((0, 40),), _api),
    "aging.compact.task_track": Kind(64, ((0, 53),), _host),
    "aging.compact.node_basic_info": Kind(64, ((0, 52),), _host),
    "aging.compact.memcpy_info": Kind(64, ((0, 42),), _host),
    "aging.additional.tensor_info": Kind(256, ((0, 256),), _host),
    "aging.additional.context_id_info": Kind(256, ((0, 40),), _host),
    "aging.additional.task_memory_info": Kind(256, ((0, 72),), _allocation),
    "aging.additional.msproftx": Kind(256, ((0, 28), (32, 256)), _stamp),
    "stars_soc.data": Kind(64, ((0, 24),), _task),
    "ffts_profile.data": Kind(128, ((0, 8), (16, 22), (28, 40), (48, 128)), _task),
    "lpmFreqConv.data": Kind(888, ((0, 4), *_ENTRIES), lambda _data, _names: ()),
    "ts_track.data": Kind(40, ((0, 4), (8, 38)), _function),
    "l2_cache.data": Kind(72, ((0, 6), (8, 72)), lambda data, _names: struct.unpack_from("<H", data)),
    "hbm.data": Kind(24, ((0, 24),), _event(16)),
    "npu_mem.data": _NPU_MEM,
    "npu_mem.app": _NPU_MEM,
}


class Form:
    """A ``PROF_*`` directory, of which only the form is asked.

    Parameters
    ----------
    path
        The directory.
    """

    def __init__(self, path: Path) -> None:
        self.sides = [path / "host", *sorted(path.glob("device_*"))]
        self._marks: dict[str, set[Marks]] = {}

    @staticmethod
    def plain(name: str, side: Path) -> str:
        """Return a file's name without the number of its device."""
        number = side.name.removeprefix("device_")
        return name if side.name == "host" else re.sub(rf"\.{number}(?=\.|$)", ".#", name)

    @cached_property
    def controls(self) -> dict[str, set[str]]:
        """Names of the control files, host and device apart."""
        found: dict[str, set[str]] = {}
        for side in self.sides:
            names = {self.plain(path.name, side) for path in side.iterdir() if path.is_file()}
            found.setdefault(side.name.partition("_")[0], names)
            assert found[side.name.partition("_")[0]] == names
        return found

    def content(self, prefix: str) -> list[dict[str, Any]]:
        """Return the JSON control files of a name."""
        found = []
        for side in self.sides:
            (path,) = [each for each in side.glob(f"{prefix}*") if each.suffix != ".done"]
            (line,) = path.read_text().splitlines()
            found.append(json.loads(line))
        return found

    def logs(self) -> set[tuple[str, tuple[str, ...]]]:
        """Return the keys of the start logs' lines, in order; a section is a line without a key."""
        found = set()
        for side in self.sides:
            for path in side.glob("*_start.log*"):
                if path.suffix == ".done":
                    continue
                lines = path.read_text().splitlines()
                keys = tuple(line.partition(": ")[0] if ": " in line else "[]" for line in lines)
                assert all(SECTION.fullmatch(line) or re.fullmatch(r"\w+: \d+", line) for line in lines), path
                found.add((self.plain(path.name, side), keys))
        return found

    @cached_property
    def slices(self) -> dict[str, list[Path]]:
        """The slices of each stream, by its name without device and slice."""
        found = defaultdict(list)
        for side in self.sides:
            for path in sorted((side / "data").iterdir()):
                if path.suffix == ".done":
                    continue
                stream, _, number = path.name.partition(".slice_")
                assert number.isdecimal(), path.name
                found[self.plain(stream, side)].append(path)
        return {name.removesuffix(".#"): paths for name, paths in found.items()}

    def done(self) -> set[tuple[bool, str]]:
        """Return the forms of the marks that say that a file is complete: whether they tell its size, and the rest."""
        found = set()
        files = [each for side in self.sides for each in (*side.iterdir(), *(side / "data").iterdir())]
        for path in files:
            if path.is_file() and path.suffix != ".done":
                text = path.with_name(f"{path.name}.done").read_text()
                size = str(path.stat().st_size)
                found.add((size in text, text.replace(size, "#")))
        return found

    def lines(self, dictionary: str) -> list[str]:
        text = b"".join(path.read_bytes() for path in self.slices.get(dictionary, ())).decode()
        assert not text or text.endswith("\n")
        return text.split("\n")[:-1]

    @cached_property
    def names(self) -> Names:
        pairs = (line.split(":", 1) for line in self.lines("unaging.additional.type_info_dic"))
        return {pair[0]: pair[-1] for pair in pairs}

    def records(self, stream: str) -> Iterable[bytes]:
        kind = KINDS[stream]
        by_side: dict[Path, bytes] = defaultdict(bytes)
        for path in sorted(self.slices.get(stream, ()), key=lambda each: int(each.name.rpartition("_")[2])):
            by_side[path.parent] += path.read_bytes()
        for data in by_side.values():
            assert len(data) % kind.size == 0, f"{stream} holds part of a record"
            for at in range(0, len(data), kind.size):
                yield data[at : at + kind.size]

    def marks(self, stream: str) -> set[Marks]:
        """Return what marks the records of a stream, after a look at the bytes that hold nothing."""
        if stream not in self._marks:
            kind = KINDS[stream]
            gaps = _gaps(kind)
            found = set()
            for data in self.records(stream):
                assert not any(any(data[first:end]) for first, end in gaps), f"{stream}: a reserved byte is not zero"
                found.add(kind.marks(data, self.names))
            self._marks[stream] = found
        return self._marks[stream]


def _gaps(kind: Kind) -> list[tuple[int, int]]:
    ends = [0, *(end for _, end in kind.used)]
    starts = [*(first for first, _ in kind.used), kind.size]
    return [(first, end) for first, end in zip(ends, starts, strict=True) if first < end]

"""What the vendor's parser demands of a recording, as data and as checks that any recording can be put to.

The records are described here once more, from raw/FORMAT.md and not from the writer's layouts.
"""

from __future__ import annotations

import json
import re
import struct
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

SLICE_BYTES = 2 << 20
NO_CONTEXT = 0xFFFFFFFF
FLIP, DESTROYED = 98, 0xFFFF


class Layout(NamedTuple):
    """A stream of the host: bytes of a record, the level and the type that its records carry, the header's stamp."""

    size: int
    level: int
    type: int
    values: str  # of `struct`, after the header of 24 bytes


HEADER = "<HHIIIQ"
HOST = {
    "compact.node_basic_info": Layout(64, 10000, 0, "QIQII"),
    "compact.task_track": Layout(64, 5000, 802, "HHHHQQHHB"),
    "compact.memcpy_info": Layout(64, 5000, 801, "QQH"),
    "additional.tensor_info": Layout(256, 10000, 1, "QI55I"),
    "additional.context_id_info": Layout(256, 10000, 4, "QI55I"),
    "additional.task_memory_info": Layout(256, 10000, 6, "QqQQQII"),
    "additional.msproftx": Layout(256, 20500, 0, "HHIHHIIIIi8sQQQQi156s"),
}
API = "<HHIIIQQQ"
DEVICE = {
    "stars_soc.data": 64,
    "ffts_profile.data": 128,
    "lpmFreqConv.data": 888,
    "ts_track.data": 40,
    "l2_cache.data": 72,
    "hbm.data": 24,
    "npu_mem.data": 32,
    "npu_mem.app": 32,
}
DICTIONARIES = {"unaging.additional.hash_dic", "unaging.additional.type_info_dic"}
LEVELS = {20500, 20000, 10000, 5000}
TASK_TYPES = {
    0: "KERNEL_AICORE",
    2: "EVENT_RECORD",
    3: "EVENT_WAIT",
    5: "MEMCPY_ASYNC",
    66: "KERNEL_AIVEC",
    FLIP: "FLIP_TASK",
    108: "KERNEL_MIX_AIC",
    109: "KERNEL_MIX_AIV",
}
SQE_TYPES = {0, 2, 4, 5, 11, 17}
# Events whose counters a metric set is computed from, and those among them that are shares of the cycles.
METRICS = {
    "ArithmeticUtilization": ((0x49, 0x4A, 0x4B, 0x4C, 0x4D, 0x4E, 0x4F), (0x49, 0x4A, 0x4B, 0x4C, 0x4D, 0x4E, 0x4F)),
    "PipeUtilization": ((0x8, 0xA, 0x9, 0xB, 0xC, 0xD, 0x54, 0x55), (0x8, 0xA, 0x9, 0xB, 0xC, 0xD)),
    "Memory": ((0x15, 0x16, 0x31, 0x32, 0x12, 0x13, 0xF, 0x10), ()),
    "MemoryL0": ((0x1B, 0x1C, 0x21, 0x22, 0x27, 0x29, 0x28, 0x2A), ()),
    "ResourceConflictRatio": ((0x64, 0x65, 0x66), (0x64, 0x65, 0x66)),
    "MemoryUB": ((0x43, 0x44, 0x37, 0x38), ()),
    "L2Cache": ((0x500, 0x502, 0x504, 0x506, 0x508, 0x50A), ()),
    "MemoryAccess": ((0x50D, 0x50E, 0x50C, 0x32, 0x206, 0x20C, 0x3E, 0x3D), ()),
}
# Keys of the control files that are looked up without a default, and their types.
INFO = {
    "version": str,
    "platform_version": str,
    "pid": str,
    "pid_name": str,
    "devices": str,
    "hostname": str,
    "hostUid": str,
    "memoryTotal": int,
    "cpuNums": int,
    "sysClockFreq": int,
    "netCard": list,
    "CPU": list,
    "DeviceInfo": list,
    "drvVersion": int,
    "cannVersion": str,
    "rank_id": int,
}
DEVICE_INFO = {
    "hwts_frequency": str,
    "aic_frequency": str,
    "aiv_frequency": str,
    "ai_core_num": int,
    "aiv_num": int,
}
SAMPLE = {
    "devices": str,
    "ai_core_profiling": str,
    "ai_core_metrics": str,
    "ai_core_profiling_events": str,
    "ai_core_profiling_mode": str,
    "aicore_sampling_interval": int,
    "aiv_profiling": str,
    "aiv_metrics": str,
    "aiv_profiling_events": str,
    "aiv_profiling_mode": str,
    "aiv_sampling_interval": int,
    "profLevel": str,
    "prof_level": str,
    "llc_profiling": str,
    "qosEvents": str,
    "msprofBinPid": int,
    "instrProfilingFreq": int,
}
STEP_TAGS = {11, 60000, 60001}  # tags 0, 1 and 4 would make the parser look for a model that there is none of


class Api(NamedTuple):
    magic: int
    level: int
    type: int
    thread: int
    request: int
    begin: int
    end: int
    item: int


class Record(NamedTuple):
    magic: int
    level: int
    type: int
    thread: int
    length: int
    time: int
    values: tuple[Any, ...]


class Recording:
    """A ``PROF_*`` directory, opened as the vendor's parser opens one.

    Parameters
    ----------
    path
        The directory.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.sides = [path / "host", *sorted(path.glob("device_*"))]
        self.device_ids = [int(side.name.removeprefix("device_")) for side in self.sides[1:]]

    @staticmethod
    def conf(side: Path, prefix: str) -> Path:
        (found,) = [each for each in side.iterdir() if each.name.startswith(prefix) and not each.name.endswith("done")]
        return found

    def json(self, side: Path, prefix: str) -> dict[str, Any]:
        (line,) = self.conf(side, prefix).read_text().splitlines()
        content: dict[str, Any] = json.loads(line)
        return content

    def log(self, side: Path, prefix: str) -> dict[str, int]:
        lines = [line.split(":") for line in self.conf(side, prefix).read_text().splitlines()]
        return {words[0]: int(words[1]) for words in lines if len(words) == 2}

    def data(self, side: Path, prefix: str) -> bytes:
        """Return a stream, its slices in order of their numbers."""
        files = [each for each in (side / "data").glob(f"{prefix}.slice_*") if not each.name.endswith("done")]
        return b"".join(each.read_bytes() for each in sorted(files, key=lambda each: int(each.name.split("_")[-1])))

    def host(self, kind: str) -> list[Record]:
        layout = HOST[kind]
        data = self.data(self.sides[0], f"aging.{kind}")
        rows = []
        for at in range(0, len(data), layout.size):
            magic, level, number, thread, length, time = struct.unpack_from(HEADER, data, at)
            values = struct.unpack_from("<" + layout.values, data, at + 24)
            rows.append(Record(magic, level, number, thread, length, time, values))
        return rows

    def device(self, device_id: int, name: str) -> list[bytes]:
        data = self.data(self.path / f"device_{device_id}", f"{name}.{device_id}")
        size = DEVICE[name]
        return [data[at : at + size] for at in range(0, len(data), size)]

    @cached_property
    def apis(self) -> list[Api]:
        data = self.data(self.sides[0], "aging.api_event.data")
        # Of calls that begin together the outer level comes first.
        return sorted((Api(*row) for row in struct.iter_unpack(API, data)), key=lambda api: (api.begin, -api.level))

    @cached_property
    def tracks(self) -> list[Record]:
        return self.host("compact.task_track")

    def dictionary(self, name: str) -> dict[str, str]:
        lines = self.data(self.sides[0], f"unaging.additional.{name}").decode().split("\n")
        assert lines.pop() == ""
        pairs = [line.split(":", 1) for line in lines]
        assert all(len(pair) == 2 and pair[1] for pair in pairs)
        assert len({key for key, _ in pairs}) == len(pairs)
        return dict(pairs)

    @cached_property
    def types(self) -> dict[tuple[int, int], str]:
        keys = {key: re.fullmatch(r"(\d+)_(\d+)", key) for key in self.dictionary("type_info_dic")}
        names = self.dictionary("type_info_dic")
        assert all(keys.values())
        return {(int(match[1]), int(match[2])): names[key] for key, match in keys.items() if match}

    @cached_property
    def hashes(self) -> dict[int, str]:
        return {int(key): name for key, name in self.dictionary("hash_dic").items()}


def vendor_hash(name: str) -> int:
    """Return the collector's hash of a name. Source: raw/FORMAT.md section 2.6."""
    high = low = 0
    for byte in struct.unpack(f"{len(name.encode())}b", name.encode()):
        high, low = (high * 29 + byte) % 2**32, (low * 131 + byte) % 2**32
    return high << 32 | low


def batches(stamps: list[tuple[int, Any]], flips: list[int], *, before: bool) -> Iterator[tuple[Any, int]]:
    """Return how many flips a task follows; the two halves of the parser differ at equal stamps (`before`)."""
    ordered = sorted(flips)
    for stamp, task in stamps:
        yield task, (bisect_right if before else bisect_left)(ordered, stamp)


def host_keys(recording: Recording, device_id: int) -> dict[tuple[int, int, int], Record]:
    """Return the launched tasks of a device by stream, batch and task id, as the halves of the parser count batches."""
    own = [track for track in recording.tracks if track.values[0] == device_id]
    found = []
    for before in (False, True):
        keys: dict[tuple[int, int, int], Record] = {}
        for stream in {track.values[1] for track in own}:
            mine = [track for track in own if track.values[1] == stream]
            flips = [track.time for track in mine if track.values[4] == FLIP]
            tasks = [(track.time, track) for track in mine if track.values[4] != FLIP]
            for track, batch in batches(tasks, flips, before=before):
                key = stream, batch, track.values[2]
                assert key not in keys, f"two tasks have the key {key}"
                keys[key] = track
        found.append(keys)
    assert found[0] == found[1]
    return found[0]


def device_keys(recording: Recording, device_id: int) -> dict[tuple[int, int, int, int], tuple[int, int]]:
    """Return start and end of the tasks of a device by stream, batch, task and context."""
    flips: dict[int, list[int]] = defaultdict(list)
    for data in recording.device(device_id, "ts_track.data"):
        if data[1] == 0x0E:
            tick, stream = struct.unpack_from("<QH", data, 8)
            flips[stream].append(tick)
    found: dict[tuple[int, int, int, int], list[int]] = {}
    for data in recording.device(device_id, "stars_soc.data"):
        head, _, stream, task, tick, _, context = struct.unpack_from("<HHHHQHH", data)
        function, end = head & 0b111110, head & 1
        if function not in (0, 0b100010):
            continue
        key = stream, bisect_left(sorted(flips[stream]), tick), task, context if function else NO_CONTEXT
        times = found.setdefault(key, [-1, -1])
        assert times[end] == -1, f"the task {key} begins or ends twice"
        times[end] = tick
    assert all(0 <= start < end for start, end in found.values())
    return {key: (times[0], times[1]) for key, times in found.items()}

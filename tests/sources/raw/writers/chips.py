"""Raw directories of other chips than the 910B that tests write, by the specification and not the decoder's layouts."""

from __future__ import annotations

import json
import struct
from pathlib import Path

from tests.sources.raw.writers.directory import DEVICE_COUNTER, RawDirectory


class HwtsDirectory(RawDirectory):
    """A recording of a 910A (or with `platform_version` "4" of a 310P); its device counts 10 ns ticks."""

    def __init__(self, path: Path, platform_version: str = "1", devices: int = 1) -> None:
        super().__init__(path, platform_version, devices)
        self._count = {"hwts.data.0": -1, "hwts.aiv_data.0": -1, "aicore.data.0": -1, "aiVectorCore.data.0": -1}
        self.set_facts(hwts_frequency="100.000000")

    def set_facts(self, **facts: object) -> None:
        file = self.path / "device_0" / "info.json.0"
        info = json.loads(file.read_text())
        info["DeviceInfo"][0] |= facts
        file.write_text(json.dumps(info))

    def _next(self, stream: str) -> int:
        self._count[stream] = (self._count[stream] + 1) % 16
        return self._count[stream]

    def log(
        self, tag: int, stamp: int, stream: int, task: int, *, kind: int = 0, log: str = "data", lost: bool = False
    ) -> None:
        """A record of the scheduler's log: tag 0 for a start, 1 for an end; a lost one only takes its count."""
        name = f"hwts.{log}.0"
        head = (tag | self._next(name) << 4, kind, 0x6BD3, 0, task)
        if not lost:
            record = struct.pack("<BBHHHQ12I", *head, DEVICE_COUNTER + stamp, stream, *[0] * 11)
            self.streams[f"device_0/data/{name}"] += record

    def task(self, begin: int, end: int, stream: int, task: int, *, sqe: int = 0, device: int = 0) -> None:
        assert device == 0
        self.log(0, begin, stream, task, kind=sqe)
        self.log(1, end, stream, task, kind=sqe)

    def state(self, stamp: int, stream: int, task: int, state: int, *, kind: int = 1) -> None:
        """A state of a task in ts_track: 0 received, 1 started, 2 ended."""
        head = (0, 0x0C, 40, 0, DEVICE_COUNTER + stamp)
        record = struct.pack("<BBHIQHHHBBQQ", *head, stream, task, kind, state, 0, 0, 0)
        self.streams["device_0/data/ts_track.data.0"] += record

    def flip(self, stamp: int, stream: int, number: int) -> None:
        record = struct.pack("<BBHIQHHHH16x", 0, 0x0E, 40, 0, DEVICE_COUNTER + stamp, stream, number, 0, 0)
        self.streams["device_0/data/ts_track.data.0"] += record

    def counters(self, stream: int, task: int, cycles: int, *values: int, core: str = "aicore") -> None:
        name = f"{core}.data.0"
        head = (self._next(name) << 4, 0, 0, 0, task, 0, 0, cycles, 0)
        record = struct.pack("<BBHHHII10Q8I", *head, *values, *[0] * (8 - len(values)), stream, *[0] * 7)
        self.streams[f"device_0/data/{name}"] += record

    def sample(self, core: int, cycles: int, *values: int, stream: str = "aicore") -> None:
        """What a core counted by time, not by task; 5 is the device's own time at its anchor."""
        head = (1, 0, 0, 0, 0)
        record = struct.pack("<BBHHH8QQQBB6x", *head, *values, *[0] * (8 - len(values)), cycles, 5 + 9, 8, core)
        self.streams[f"device_0/data/{stream}.data.0"] += record

    def trace(self, stamp: int, index: int, tag: int, model: int) -> None:
        """A record of training_trace as it is today."""
        record = struct.pack("<BBHIQQQHHHH", 0, 0x0A, 40, 0, DEVICE_COUNTER + stamp, index, model, 3, 0, tag, 0)
        self.streams["device_0/data/training_trace.data.0"] += record

    def trace_2020(self, stamp: int, tag: int) -> None:
        """A record of training_trace as it was in 2020."""
        record = struct.pack("<QHHQ", tag, 7, 3, DEVICE_COUNTER + stamp)
        self.streams["device_0/data/training_trace.data.0"] += record

    def write_one_of_each(self) -> None:
        for number in range(6):
            self.launch(1000 * number, f"op {number}", 3 + number % 2, number // 2)
            self.counters(3 + number % 2, number // 2, 1000, *range(8))
        self.log(0, 9000, 5, 1, kind=2, log="aiv_data")
        self.log(1, 9050, 5, 1, kind=2, log="aiv_data")
        self.counters(5, 1, 1000, *range(8), core="aiVectorCore")
        self.log(4, 9100, 5, 2)
        for stamp, state in ((100, 0), (110, 1), (150, 2)):
            self.state(stamp, 6, 1, state)
        self.flip(2000, 3, 1)
        for tag in (0, 2, 3, 4):
            self.trace(1000 * tag, 1, tag, 7)


class V6Directory(RawDirectory):
    """A recording of a 950. Task ids have 32 bits; the device's records hold no stream."""

    def __init__(self, path: Path, platform_version: str = "15", devices: int = 1) -> None:
        super().__init__(path, platform_version, devices)

    def _soc(
        self, function: int, kind: int, task: int, stamp: int, word: int = 0, *, stream: str = "stars_soc"
    ) -> None:
        record = struct.pack("<HHIQHH3I", function | kind << 10, 0x6BD3, task, DEVICE_COUNTER + stamp, word, 0, 0, 0, 0)
        self.streams[f"device_0/data/{stream}.data.0"] += record

    def task(self, begin: int, end: int, stream: int, task: int, *, sqe: int = 0, device: int = 0) -> None:
        """A task as the device logs it: `stream` is the host's, no record holds it."""
        assert device == 0
        self._soc(0, sqe, task, begin)
        self._soc(1, sqe, task, end)

    def track(
        self, stamp: int, stream: int, task: int, kind: int = 0, *, thread: int = 7, device: int = 0, batch: int = 0
    ) -> None:
        assert batch == 0
        body = struct.pack("<HHIIIQ", device, 0, stream, task, kind, 0)
        self._host("aging.compact.task_track_v2", 5000, 808, stamp, thread, 24, body)

    def old_track(self, stamp: int, stream: int, task: int, kind: int = 0) -> None:
        """A launch in the first form of task_track, whose batch field is the high half of the id here."""
        super().track(stamp, stream, task & 0xFFFF, kind, batch=task >> 16)

    def fused(self, begin: int, end: int, task: int, kind: int, mission: int) -> None:
        for function, stamp in ((0b010110, begin), (0b010111, end)):
            self._soc(function, 2, task, stamp, kind | mission << 5)

    def block(self, begin: int, end: int, task: int, block: int, *, core: int, core_type: int = 0) -> None:
        for function, stamp in ((0b100100, begin), (0b100101, end)):
            head = (function, 0x6BD3, task, DEVICE_COUNTER + stamp)
            record = struct.pack("<HHIQBBHBBHHHI", *head, 0, 0, 0, core_type, core, 0, 0, block, 0)
            self.streams["device_0/data/stars_block.data.0"] += record

    def counters(
        self,
        begin: int,
        end: int,
        task: int,
        cycles: int,
        *values: int,
        core_type: int = 0,
        flags: int = 1,
        function: int = 0b101010,
        block: int = 0,
        core: int = 0,
    ) -> None:
        """Counters of a core of a task; flags: 1 main core, 2 MIX, 4 overflow."""
        head = (function, 0, task, cycles, 0, flags, 0, core_type, core, 0, 0, block, 0)
        stamps = (DEVICE_COUNTER + begin, DEVICE_COUNTER + end)
        record = struct.pack("<HHIQBBHBBHHHI10QQQ", *head, *values, *[0] * (10 - len(values)), *stamps)
        self.streams["device_0/data/ffts_profile.data.0"] += record

    def step(self, stamp: int, index: int, tag: int, model: int = 0xFFFFFFFF) -> None:
        record = struct.pack("<BBHIQQQHHI", 0, 0x0A, 40, 0, DEVICE_COUNTER + stamp, index, model, tag, 3, 0)
        self.streams["device_0/data/ts_track.data.0"] += record

    def monitor(self, stamp: int, function: int, die: int, form: str, *values: int) -> None:
        """A record of the chip's own monitors, of 64 bytes."""
        head = struct.pack("<HHIQ", function | die << 10, 0x6BD3, 0, DEVICE_COUNTER + stamp)
        record = head + struct.pack("<" + form, *values)
        self.streams["device_0/data/stars_soc_profile.data.0"] += record.ljust(64, b"\0")

    def sample(self, core: int, cycles: int, *values: int, stream: str = "aicore") -> None:
        """What a core counted by time, not by task; 5 is the device's own time at its anchor."""
        head = (1, 0, 0, 0, 0)
        record = struct.pack("<BBHHH10QQQBB6x", *head, *values, *[0] * (10 - len(values)), cycles, 5 + 9, 10, core)
        self.streams[f"device_0/data/{stream}.data.0"] += record

    def write_one_of_each(self) -> None:
        for number in range(6):
            task = number * 40_000
            self.launch(1000 * number, f"op {number}", 3 + number % 2, task)
            begin = 500 * number + 50
            self.counters(begin, begin + 40, task, 1000, *range(10), flags=3 if number % 2 else 1)
            self.counters(begin, begin + 45, task, 1000, *range(10), core_type=1, flags=2)
            self.block(begin, begin + 20, task, 0, core=number)
        self.fused(100, 120, 40_000, 4, 2)
        self.step(0, 1, 60000)
        self.step(2000, 1, 60001)

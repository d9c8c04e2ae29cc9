"""Raw directories that tests write, a record at a time, by the specification and not by the decoder's layouts."""

from __future__ import annotations

import json
import struct
from collections import defaultdict
from pathlib import Path

UTC_US, MONO_NS, HOST_COUNTER, DEVICE_COUNTER = 1_763_600_000_000_000, 36_471_000_000_000, 3_647_100_000_000, 1_000_000
START_NS = UTC_US * 1000

Tensor = tuple[int, int, int, tuple[int, ...]]
"""Kind (0 input, 1 output), format, dtype, shape."""


class RawDirectory:
    """A ``PROF_*`` directory in the making. Times are ticks after the start: 10 ns of the host, 20 ns of a device."""

    def __init__(self, path: Path, platform_version: str = "5", devices: int = 1) -> None:
        self.path = path
        self.streams: dict[str, bytearray] = defaultdict(bytearray)
        self.hashes: dict[str, int] = {}
        info = {"platform_version": platform_version, "CPU": [{"Frequency": "100.000000"}]}
        facts = {"hwts_frequency": "50.000000", "aic_frequency": "1000", "ai_core_num": 20, "aiv_num": 40}
        start = {"collectionTimeBegin": str(UTC_US), "clockMonotonicRaw": str(MONO_NS)}
        anchor = f"[Host]\nclock_monotonic_raw: {MONO_NS}\ncntvct: {HOST_COUNTER}\ncntvct_diff: 0\n"
        self._write("host", {"info.json": info, "sample.json": {}, "start_info": start, "host_start.log": anchor})
        events = "0x8,0xa,0x9,0xb,0xc,0xd,0x54,0x55"
        sample = {"ai_core_profiling_events": events, "aiv_profiling_events": events}
        for device in range(devices):
            files: dict[str, object] = {
                f"info.json.{device}": {**info, "DeviceInfo": [facts]},
                "sample.json": sample,
                f"start_info.{device}": start,
                f"host_start.log.{device}": anchor,
                f"dev_start.log.{device}": f"clock_monotonic_raw: 5\ncntvct: {DEVICE_COUNTER}\n",
            }
            self._write(f"device_{device}", files)

    def _write(self, side: str, files: dict[str, object]) -> None:
        (self.path / side / "data").mkdir(parents=True)
        for name, content in files.items():
            text = content if isinstance(content, str) else json.dumps(content)
            (self.path / side / name).write_text(text)

    def finish(self) -> Path:
        """Write the streams, each as one slice, and give the directory."""
        lines = "".join(f"{number}:{name}\n" for name, number in self.hashes.items())
        (self.path / "host/data/unaging.additional.hash_dic.slice_0").write_text(lines)
        types = "10000_5:launch\n5000_1001:KernelLaunch\n20000_1:aclnnOp\n"
        (self.path / "host/data/unaging.additional.type_info_dic.slice_0").write_text(types)
        for name, content in self.streams.items():
            (self.path / f"{name}.slice_0").write_bytes(content)
        return self.path

    def hash_of(self, name: str) -> int:
        return self.hashes.setdefault(name, 1000 + len(self.hashes))

    def api(self, level: int, kind: int, begin: int, end: int | None, *, thread: int = 7, item: str = "") -> None:
        stamps = (HOST_COUNTER + begin, (1 << 64) - 1 if end is None else HOST_COUNTER + end)
        record = struct.pack("<HHIIIQQQ", 0x5A5A, level, kind, thread, 0, *stamps, self.hash_of(item) if item else 0)
        self.streams["host/data/aging.api_event.data"] += record

    def _host(self, stream: str, level: int, kind: int, stamp: int, thread: int, length: int, body: bytes) -> None:
        header = struct.pack("<HHIIIQ", 0x5A5A, level, kind, thread, length, HOST_COUNTER + stamp)
        size = 64 if ".compact." in stream else 256
        self.streams[f"host/data/{stream}"] += (header + body).ljust(size, b"\0")

    def node(self, stamp: int, name: str, op_type: str, *, thread: int = 7, core: int = 2, blocks: int = 8) -> None:
        body = struct.pack("<QIQII", self.hash_of(name), core, self.hash_of(op_type), blocks, 1)
        self._host("aging.compact.node_basic_info", 10000, 0, stamp, thread, 33, body)

    def tensors(self, stamp: int, name: str, *tensors: Tensor, thread: int = 7) -> None:
        body = struct.pack("<QI", self.hash_of(name), len(tensors))
        for kind, form, dtype, shape in tensors:
            body += struct.pack("<III8I", kind, form, dtype, *shape, *[0] * (8 - len(shape)))
        self._host("aging.additional.tensor_info", 10000, 1, stamp, thread, 232, body)

    def contexts(self, stamp: int, name: str, *ids: int, thread: int = 7) -> None:
        body = struct.pack(f"<QI{len(ids)}I", self.hash_of(name), len(ids), *ids)
        self._host("aging.additional.context_id_info", 10000, 4, stamp, thread, 232, body)

    def track(
        self, stamp: int, stream: int, task: int, kind: int = 66, *, thread: int = 7, device: int = 0, batch: int = 0
    ) -> None:
        body = struct.pack("<HHHHQQ", device, stream, task, batch, kind, 0)
        self._host("aging.compact.task_track", 5000, 802, stamp, thread, 24, body)

    def copy(self, stamp: int, size: int, most: int, direction: int, *, thread: int = 7) -> None:
        body = struct.pack("<QQH", size, most, direction)
        self._host("aging.compact.memcpy_info", 5000, 801, stamp, thread, 18, body)

    def task(self, begin: int, end: int, stream: int, task: int, *, sqe: int = 2, device: int = 0) -> None:
        for function, stamp in ((0, begin), (1, end)):
            record = struct.pack("<HHHHQ", function | sqe << 10, 0x6BD3, stream, task, DEVICE_COUNTER + stamp)
            self.streams[f"device_{device}/data/stars_soc.data.{device}"] += record.ljust(64, b"\0")

    def part(self, begin: int, end: int, stream: int, task: int, context: int, kind: int) -> None:
        for function, stamp in ((34, begin), (35, end)):
            record = struct.pack("<HHHHQ", function, 0x6BD3, stream, task, DEVICE_COUNTER + stamp)
            record += struct.pack("<HHHH", kind, context, 4 << 13, 0)
            self.streams["device_0/data/stars_soc.data.0"] += record.ljust(64, b"\0")

    def step(self, stamp: int, index: int, tag: int, model: int = 0xFFFFFFFF) -> None:
        record = struct.pack("<BBHIQQQHHHH", 0, 0x0A, 0, 0, DEVICE_COUNTER + stamp, index, model, 3, 0, tag, 0)
        self.streams["device_0/data/ts_track.data.0"] += record

    def launch(self, at: int, name: str, stream: int, task: int, *, thread: int = 7, device: int = 0) -> None:
        """An operator launched at `at`, which runs 100 to 200 host ticks later."""
        self.api(20000, 1, at, at + 50, thread=thread)
        self.api(10000, 5, at + 5, at + 45, thread=thread, item=name)
        self.api(5000, 1001, at + 10, at + 30, thread=thread)
        self.track(at + 20, stream, task, thread=thread, device=device)
        self.node(at + 40, name, "Op", thread=thread)
        self.task((at + 100) // 2, (at + 200) // 2, stream, task, device=device)

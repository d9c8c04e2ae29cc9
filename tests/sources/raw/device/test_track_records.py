"""What the task scheduler wrote of single tasks comes back as rows."""

from __future__ import annotations

import struct
from pathlib import Path

from npuprof.sources import raw
from tests.sources.raw.writers.directory import DEVICE_COUNTER, START_NS, RawDirectory

_STREAM = "device_0/data/ts_track.data.0"


def test_each_function_is_a_frame_in_order_of_time(tmp_path: Path) -> None:
    directory = RawDirectory(tmp_path / "PROF_test")

    def put(function: int, tick: int, body: bytes) -> None:
        head = struct.pack("<BBHIQ", 0, function, 0, 0, DEVICE_COUNTER + tick)
        directory.streams[_STREAM] += (head + body).ljust(40, b"\0")

    directory.step(5, 1, 60000)
    put(0x0B, 30, struct.pack("<HHB", 3, 4, 2))
    put(0x0B, 20, struct.pack("<HHB", 3, 4, 1))
    put(0x0C, 40, struct.pack("<HHHB", 3, 5, 66, 1))
    put(0x0F, 50, struct.pack("<HHI", 3, 6, 24))
    put(0x0F, -500_000, struct.pack("<HHI", 3, 6, 24))
    put(0x3D, 60, b"")
    decoded = raw.read(directory.finish())
    found = {name: frame.astype(object).to_numpy().tolist() for name, frame in decoded.statistics.items()}
    assert found == {
        "scheduler_copy": [[0, START_NS + 400, 3, 4, "started"], [0, START_NS + 600, 3, 4, "ended"]],
        "scheduler_task": [[0, START_NS + 800, 3, 5, "KERNEL_AIVEC", 1]],
        "scheduler_blocks": [[0, START_NS + 1000, 3, 6, 24]],
    }
    notes = decoded.notes.to_frame().set_index("message")["count"]
    assert notes["ts_track: records of other functions are not decoded"] == 1
    assert notes["ts_track: records from before the collection began skipped"] == 1

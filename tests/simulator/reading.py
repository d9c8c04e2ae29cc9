"""Reads raw recordings with plain `struct`, from raw/FORMAT.md and not from the writer's layouts."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any, NamedTuple

API = "<HHIIIQQQ"
HEADER = "<HHIIIQ"


class Track(NamedTuple):
    time: int
    thread: int
    device: int
    stream: int
    task: int
    flip: int
    task_type: int
    name: int
    blocks: int
    mix: int


class Soc(NamedTuple):
    function: int
    counter: int
    sqe: int
    stream: int
    task: int
    tick: int


def slices(recording: Path, stream: str) -> list[Path]:
    found = [path for path in recording.glob(f"*/data/{stream}.slice_*") if path.suffix != ".done"]
    return sorted(found, key=lambda path: int(path.name.rpartition("_")[2]))


def stream(recording: Path, name: str) -> bytes:
    return b"".join(path.read_bytes() for path in slices(recording, name))


def cut(data: bytes, size: int) -> list[bytes]:
    assert len(data) % size == 0
    return [data[at : at + size] for at in range(0, len(data), size)]


def streams(recording: Path) -> set[str]:
    """Names of the streams that exist, without slice numbers."""
    paths = recording.glob("*/data/*.slice_*")
    return {path.name.partition(".slice_")[0] for path in paths if path.suffix != ".done"}


def apis(recording: Path) -> list[tuple[int, ...]]:
    return list(struct.iter_unpack(API, stream(recording, "aging.api_event.data")))


def tracks(recording: Path) -> list[Track]:
    rows = []
    for data in cut(stream(recording, "aging.compact.task_track"), 64):
        _, _, _, thread, _, time = struct.unpack_from(HEADER, data)
        device, stream_id, task, flip, task_type, name, blocks, _, mix = struct.unpack_from("<HHHHQQHHB", data, 24)
        rows.append(Track(time, thread, device, stream_id, task, flip, task_type, name, blocks, mix))
    return rows


def soc(recording: Path, device: int = 0) -> list[Soc]:
    rows = []
    for data in cut(stream(recording, f"stars_soc.data.{device}"), 64):
        head, magic, stream_id, task, tick = struct.unpack_from("<HHHHQ", data)
        assert magic == 0x6BD3
        rows.append(Soc(head & 63, head >> 6 & 15, head >> 10, stream_id, task, tick))
    return rows


def dictionary(recording: Path, name: str) -> dict[str, str]:
    lines = stream(recording, f"unaging.additional.{name}").decode().splitlines()
    return {key: value for key, _, value in (line.partition(":") for line in lines)}


def api_names(recording: Path) -> list[str]:
    types = dictionary(recording, "type_info_dic")
    return [types[f"{level}_{number}"] for _, level, number, *_ in apis(recording)]


def content(recording: Path, path: str) -> Any:
    return json.loads((recording / path).read_text())


def anchor(recording: Path, path: str) -> tuple[int, int]:
    """Return monotonic ns and counter of a start log."""
    lines = (recording / path).read_text().splitlines()
    values = dict(line.split(": ") for line in lines if ": " in line)
    return int(values["clock_monotonic_raw"]), int(values["cntvct"])


def device_ns(recording: Path, tick: int, device: int = 0) -> int:
    """Host monotonic ns of a device counter, by the formula of the format."""
    host_ns, _ = anchor(recording, f"device_{device}/host_start.log.{device}")
    _, counter = anchor(recording, f"device_{device}/dev_start.log.{device}")
    mhz = float(content(recording, f"device_{device}/info.json.{device}")["DeviceInfo"][0]["hwts_frequency"])
    return host_ns + (tick - counter) * 1000 // round(mhz)

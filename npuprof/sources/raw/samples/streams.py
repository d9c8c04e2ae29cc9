"""Sampled streams of a device, binary or text: their records, and the clock of their timestamps.

Source: raw/FORMAT.md sections 3 and 6.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from npuprof.arrays import Bools, Float64, Int64, Records
from npuprof.sources.raw.device.reader import RawDevice
from npuprof.sources.raw.records.slices import Streams
from npuprof.tables.notes import Notes

_REACH_NS = 366 * 86_400_000_000_000  # as for counters: no profile lasts a year
_VERSIONS = ("1.0", "2.0")
_NARROW_BYTES, _TURN = 4, 1 << 32
_FIRST_STAMPS = 9
_ROWS_AT_ONCE = 1 << 16


def layout_version(device: RawDevice, stream: str) -> str | None:
    """Return the layout version of hbm, llc and npu_mem; None, with a note, for an unknown version."""
    version = str(device.side.info.get("version") or _VERSIONS[0])
    if version in _VERSIONS:
        return version
    if f"{stream}.data.{device.id}" in device.streams.names():
        device.notes.info(f"device {device.id}", f"{stream}: layout version {version[:20]} is not decoded")
    return None


def read_us(device: RawDevice, stream: str, record: np.dtype[Any]) -> tuple[Records, Int64]:
    """Read a stream (by full name) whose `stamp` is microseconds since the device's start; return also UTC ns.

    32-bit stamps wrap after 71.6 minutes and are unwrapped.
    """
    records = _read(device, stream, record)
    stamps = records["stamp"]
    if stamps.dtype.itemsize == _NARROW_BYTES and len(stamps):
        stamps = _unwrap(device, stream, stamps)
    return _within(device, stream, (records, stamps), np.uint64(_REACH_NS // 1000), 0, 1000, device.clock.start_ns)


def _read(device: RawDevice, stream: str, record: np.dtype[Any]) -> Records:
    """Read the records of a stream without repetitions: a preallocated file contains only zeros."""
    records = device.streams.read(stream, record)
    words = records.view(np.uint32).reshape(-1, record.itemsize // 4)
    is_new = np.ones(len(records), bool)
    for low in range(1, len(records), _ROWS_AT_ONCE):
        high = min(low + _ROWS_AT_ONCE, len(records))
        is_new[low:high] = (words[low:high] != words[low - 1 : high - 1]).any(axis=1)
    if bool(is_new.all()):
        return records
    impossible(device, stream, "records that repeat the one before", ~is_new)
    return np.ascontiguousarray(words[is_new]).view(record).reshape(-1)


def _unwrap(device: RawDevice, stream: str, stamps: npt.NDArray[Any]) -> Int64:
    """Unwrap 32-bit stamps: each is within 35.8 minutes of the previous record.

    A damaged stamp does not affect later ones.
    """
    # the shortest signed difference between neighbours, whether or not they wrap
    steps = np.diff(stamps).view(np.int32)
    backwards = int(np.count_nonzero(steps < 0))
    if backwards:
        device.notes.warning(f"device {device.id}", f"{stream}: samples out of order, kept", backwards)
    unwrapped = np.concatenate(([0], np.cumsum(steps, dtype=np.int64))) + int(stamps[0])
    # The file begins before the first wrap, even if its first stamp is damaged.
    return unwrapped - int(np.median(unwrapped[:_FIRST_STAMPS])) // _TURN * _TURN


def read_host_ns(device: RawDevice, stream: str, record: np.dtype[Any]) -> tuple[Records, Int64]:
    """Read a stream whose `stamp` is the host's CLOCK_MONOTONIC_RAW in ns; return also its UTC ns."""
    records = _read(device, stream, record)
    base = device.side.host_anchor.get("clock_monotonic_raw")
    if base is None:  # an old recording without control files
        impossible(device, stream, "records without the host's clock_monotonic_raw", np.ones(len(records), bool))
        return records[:0], np.empty(0, np.int64)
    return _within(
        device, stream, (records, records["stamp"]), np.uint64(base + _REACH_NS), base, 1, device.clock.start_ns
    )


def read_device_ns(device: RawDevice, stream: str, record: np.dtype[Any]) -> tuple[Records, Int64]:
    """Read a stream whose `stamp` is the device's CLOCK_MONOTONIC_RAW in ns; return also its UTC ns."""
    records = _read(device, stream, record)
    base = device_mono_ns(device)
    if base is None:
        impossible(device, stream, "records without the device's clock_monotonic_raw", np.ones(len(records), bool))
        return records[:0], np.empty(0, np.int64)
    return _within(
        device, stream, (records, records["stamp"]), np.uint64(base + _REACH_NS), base, 1, device.clock.start_ns
    )


def device_mono_ns(device: RawDevice) -> int | None:
    """Return the device's CLOCK_MONOTONIC_RAW at its anchor; None if it is missing or implausible."""
    value = device.side.device_anchor.get("clock_monotonic_raw")
    return value if value is not None and 0 <= value < 1 << 62 else None


def impossible(device: RawDevice, stream: str, subject: str, bad: Bools) -> None:
    """Note records that are skipped."""
    device.skip(stream, f"{subject} skipped", int(np.count_nonzero(bad)))


def _within(
    device: RawDevice,
    stream: str,
    stamped: tuple[Records, npt.NDArray[Any]],
    most: np.uint64,
    base: int,
    factor: int,
    start_ns: int,
) -> tuple[Records, Int64]:
    records, stamps = stamped[0], stamped[1].astype(np.uint64)  # a negative stamp becomes far too large
    good = (stamps <= most) & (stamps >= np.uint64(max(0, base - _REACH_NS)))
    impossible(device, stream, "impossible time stamps", ~good)
    return records[good], (stamps[good].astype(np.int64) - base) * factor + start_ns


_MAX_BYTES = 256 << 20
_MAX_LINE = 4096
_YEAR_NS = 366 * 86_400_000_000_000
_LARGEST = 1e18  # larger counts and rates are damage, whatever the unit


def lines(streams: Streams, stream: str, notes: Notes) -> Iterator[str]:
    """Yield the non-empty lines of a stream; overlong and zeroed lines are skipped and counted.

    Zeros at the end are of a file that was longer than what was written. At most 256 MiB are read: about an hour of the
    largest streams at 20 ms per sample.
    """
    content = streams.read_bytes(stream)
    if len(content) > _MAX_BYTES:
        notes.warning(stream, f"bytes beyond the first {_MAX_BYTES >> 20} MiB not read", len(content) - _MAX_BYTES)
        content = content[:_MAX_BYTES]
    damaged = 0
    whole_lines = content.tobytes()
    for line in (whole_lines.rstrip(b"\0") or whole_lines).split(b"\n"):
        text = line.decode("utf-8", "replace").replace("\0", " ").strip() if len(line) <= _MAX_LINE else ""
        damaged += not text and (b"\0" in line or len(line) > _MAX_LINE)
        if text:
            yield text
    if damaged:
        notes.warning(stream, "a line is damaged; skipped", damaged)


def counted_lines(streams: Streams, stream: str, notes: Notes) -> Iterator[str]:
    """Yield the :func:`lines` of a stream; afterwards register their number in the ledger."""
    count = 0
    for line in lines(streams, stream, notes):
        count += 1
        yield line
    if count:
        notes.ledger.read(streams.account(stream), count)


def whole(text: str) -> int | None:
    """Parse a non-negative decimal of at most 18 digits; return None for anything else."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None


def number(text: str) -> float | None:
    """Parse a finite non-negative decimal of plausible size; return None for others (``nan``, ``inf``, ``1e300``)."""
    try:
        value = float(text) if len(text) <= 32 and text.isascii() else -1.0
    except ValueError:
        return None
    return value if 0 <= value < _LARGEST else None


def device_table(device: RawDevice, stream: str, needed: int, optional: int = 0) -> tuple[Int64, Float64]:
    """Read a device's text stream after its header: lines of a timestamp (CLOCK_MONOTONIC_RAW, ns) and numbers.

    Returns
    -------
    UTC nanoseconds, and numbers of shape (lines, needed + optional), NaN for a missing optional value.
    """
    name = f"{stream}.data.{device.id}"
    stamps: list[int] = []
    values: list[list[float]] = []
    damaged = 0
    for line in lines(device.streams, name, device.notes):
        fields = line.split()
        stamp = whole(fields[0].rstrip(":"))
        numbers = [number(field) for field in fields[1 : 1 + needed + optional]]
        values_of_line = [value for value in numbers if value is not None]
        if stamp is None or len(values_of_line) < max(needed, len(numbers)):
            damaged += not _is_header(fields)
            continue
        stamps.append(stamp)
        values.append(values_of_line + [np.nan] * (needed + optional - len(values_of_line)))
    if stamps or damaged:
        device.notes.ledger.read(device.streams.account(name), len(stamps) + damaged)
    device.skip(stream, "a line is damaged; skipped", damaged)
    return _to_utc(device, stream, np.array(stamps, np.int64), np.array(values).reshape(-1, needed + optional))


def _is_header(fields: list[str]) -> bool:
    words = "".join(fields)
    return words[:1].isalpha() and not any(map(str.isdigit, words)) and fields[0].lower() not in ("nan", "inf")


def _to_utc(device: RawDevice, stream: str, stamps: Int64, values: Float64) -> tuple[Int64, Float64]:
    base = device_mono_ns(device)
    good = np.zeros(len(stamps), bool) if base is None else np.abs(stamps - base) <= _YEAR_NS
    impossible(device, stream, "impossible time stamps", ~good)
    return stamps[good] - (base or 0) + device.clock.start_ns, values[good]

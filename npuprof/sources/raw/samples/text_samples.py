"""Sampled streams that are text: lines of numbers, read with bounds and without trust.

Source: raw/FORMAT.md section 6.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from npuprof.arrays import Float64, Int64
from npuprof.notes import Notes
from npuprof.sources.raw.device.reader import Device
from npuprof.sources.raw.records.slices import Streams
from npuprof.sources.raw.samples.streams import device_mono_ns, impossible

_MAX_BYTES = 256 << 20
_MAX_LINE = 4096
_REACH_NS = 366 * 86_400_000_000_000
_LARGEST = 1e18  # counts and rates beyond this are damage, whatever they count


def lines(streams: Streams, stream: str, notes: Notes) -> Iterator[str]:
    """Yield the lines of a stream that hold a word; absurdly long ones are skipped and counted.

    At most 256 MiB are read: at 20 ms a sample that is the better part of an hour of the largest of these streams.
    """
    content = streams.read_bytes(stream)
    if len(content) > _MAX_BYTES:
        notes.warning(stream, f"bytes beyond the first {_MAX_BYTES >> 20} MiB not read", len(content) - _MAX_BYTES)
        content = content[:_MAX_BYTES]
    overlong = 0
    for line in content.tobytes().split(b"\n"):
        if len(line) > _MAX_LINE:
            overlong += 1
            continue
        text = line.decode("utf-8", "replace").replace("\0", " ").strip()
        if text:
            yield text
    if overlong:
        notes.warning(stream, "damaged lines skipped", overlong)


def counted_lines(streams: Streams, stream: str, notes: Notes) -> Iterator[str]:
    """Iterate over the :func:`lines` of a stream; when they have ended, the ledger has their number."""
    count = 0
    for line in lines(streams, stream, notes):
        count += 1
        yield line
    if count:
        notes.ledger.read(streams.account(stream), count)


def whole(text: str) -> int | None:
    """Read a non-negative decimal of at most 18 digits; None for anything else."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None


def number(text: str) -> float | None:
    """Read a finite non-negative decimal of sane size; None for anything else (``nan``, ``inf``, ``1e300``)."""
    try:
        value = float(text) if len(text) <= 32 and text.isascii() else -1.0
    except ValueError:
        return None
    return value if 0 <= value < _LARGEST else None


def device_table(device: Device, stream: str, needed: int, optional: int = 0) -> tuple[Int64, Float64]:
    """Read a text stream of a device: a stamp (CLOCK_MONOTONIC_RAW, ns) and numbers a line, below a header line.

    Parameters
    ----------
    device, stream
        The device, and the stream's name without ``.data.N``.
    needed, optional
        How many numbers follow the stamp in every line, and how many more may.

    Returns
    -------
    UTC nanoseconds, and numbers of shape (lines, needed + optional), NaN where an optional one is missing.
    """
    name = f"{stream}.data.{device.id}"
    stamps: list[int] = []
    values: list[list[float]] = []
    damaged = 0
    for line in lines(device.streams, name, device.notes):
        fields = line.split()
        stamp = whole(fields[0].rstrip(":"))
        numbers = [number(field) for field in fields[1 : 1 + needed + optional]]
        found = [value for value in numbers if value is not None]
        if stamp is None or len(found) < max(needed, len(numbers)):
            damaged += not _is_header(fields)
            continue
        stamps.append(stamp)
        values.append(found + [np.nan] * (needed + optional - len(found)))
    if stamps or damaged:
        device.notes.ledger.read(device.streams.account(name), len(stamps) + damaged)
    device.skip(stream, "damaged lines skipped", damaged)
    return _placed(device, stream, np.array(stamps, np.int64), np.array(values).reshape(-1, needed + optional))


def _is_header(fields: list[str]) -> bool:
    words = "".join(fields)
    return words[:1].isalpha() and not any(map(str.isdigit, words)) and fields[0].lower() not in ("nan", "inf")


def _placed(device: Device, stream: str, stamps: Int64, values: Float64) -> tuple[Int64, Float64]:
    base = device_mono_ns(device)
    good = np.zeros(len(stamps), bool) if base is None else np.abs(stamps - base) <= _REACH_NS
    impossible(device, stream, "impossible time stamps", ~good)
    return stamps[good] - (base or 0) + device.clock.start_ns, values[good]

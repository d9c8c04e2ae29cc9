"""The clock of FRAMEWORK files: timestamps to nanoseconds of the UTC epoch, exactly.

Timestamps are CLOCK_MONOTONIC_RAW nanoseconds, or values of the system counter if ``syscnt_enable`` is set. UTC comes
from the raw directory, which pairs it with the same clock, else from npuprof's recording, else from
``profiler_info.json``: its pair is from the end of the run and of CLOCK_MONOTONIC, which time servers slew. Its error
is the difference of the two clocks, which grows with the uptime of the host.

Source: collectors/FRONTENDS.md section 2, and raw/FORMAT.md section 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from npuprof.sources.raw.metadata.clocks import CounterClock, epoch_offset, host_clock, parse_frequency
from npuprof.sources.raw.metadata.control_files import RecordedSide, whole_number
from npuprof.tables.notes import Notes

_SOURCE = "profiler_info.json"
_COUNTING = "mindspore"
_LIMIT = 4_000_000_000_000_000_000  # sums of two timestamps stay in 63 bits


def framework_clock(
    info: dict[str, Any], sides: Sequence[RecordedSide], notes: Notes, collector: str = "torch_npu", epoch_ns: int = 0
) -> CounterClock:
    """Choose the clock of FRAMEWORK files.

    Parameters
    ----------
    collector
        The writer of the files. MindSpore always writes the system counter of the raw directory's host side.
    epoch_ns
        UTC of CLOCK_MONOTONIC_RAW 0 in epoch nanoseconds, if a recording has it, otherwise 0.
    """
    start, end = _part(info, "start_info"), _part(info, "end_info")
    offset_ns = _offset_of_sides(sides)
    from_raw = offset_ns is not None
    if offset_ns is None:
        offset_ns = _is_plausible(epoch_ns) or _offset_of_end(end, notes)
    if collector == _COUNTING and from_raw:
        return host_clock(list(sides), offset_ns, Notes())  # the reader of the raw directory adds the same note
    monotonic_ns = _is_plausible(start.get("start_monotonic")) or 0
    if start.get("syscnt_enable") is not True:
        return CounterClock(monotonic_ns, monotonic_ns + offset_ns, Fraction(1))
    if from_raw:
        clock = host_clock(list(sides), offset_ns, Notes())  # the reader of the raw directory adds the same note
        if clock.ns_per_tick != 1:
            return clock
    mhz = parse_frequency(start.get("freq"))
    if mhz is None:
        notes.warning(_SOURCE, "the frequency of the system counter is missing; 100 MHz is assumed")
        mhz = Fraction(100)
    return CounterClock(_is_plausible(start.get("start_cnt")) or 0, monotonic_ns + offset_ns, 1000 / mhz)


def _offset_of_sides(sides: Sequence[RecordedSide]) -> int | None:
    silent = Notes()  # a warning means that the offset is unknown
    offset_ns = epoch_offset(sides, silent)
    return None if len(silent) else offset_ns


def _offset_of_end(end: dict[str, Any], notes: Notes) -> int:
    stopped_ns, monotonic_ns = _is_plausible(end.get("collectionTimeEnd")), _is_plausible(end.get("MonotonicTimeEnd"))
    if stopped_ns is None or monotonic_ns is None:
        notes.warning(_SOURCE, "no file has the time of day: times of the framework count from the host's boot")
        return 0
    notes.info(
        _SOURCE,
        "the time of day comes from a clock that may be slewed: the error of times grows with the uptime of the host",
    )
    return stopped_ns - monotonic_ns


def _is_plausible(value: object) -> int | None:
    number = whole_number(value)
    return number if number is not None and 0 <= number < _LIMIT else None


def _part(parent: dict[str, Any], key: str) -> dict[str, Any]:
    part = parent.get(key)
    return part if isinstance(part, dict) else {}

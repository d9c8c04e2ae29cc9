"""The clock of FRAMEWORK files: stamps to nanoseconds of the UTC epoch, exactly.

Stamps are CLOCK_MONOTONIC_RAW nanoseconds, or values of the system counter where ``syscnt_enable`` says so.
The time of day comes from the raw directory beside the files, which pairs it with the same clock. Only without
one does npuprof's own recording tell it, and without that ``profiler_info.json``, by a pair of the end of the run; the
front end takes that pair from CLOCK_MONOTONIC, which time servers slew, so that it can be off by the difference of both
clocks, which grows with the uptime of the host.

Source: collectors/FRONTENDS.md section 2, and raw/FORMAT.md section 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from npuprof.notes import Notes
from npuprof.sources.raw.metadata.clocks import Clock, epoch_offset, host_clock, parse_frequency
from npuprof.sources.raw.metadata.control_files import Side, whole_number

_SOURCE = "profiler_info.json"
_COUNTING = "mindspore"
_LIMIT = 4_000_000_000_000_000_000  # sums of two stamps stay in 63 bits


def framework_clock(
    told: dict[str, Any], sides: Sequence[Side], notes: Notes, collector: str = "torch_npu", epoch_ns: int = 0
) -> Clock:
    """Choose the clock of FRAMEWORK files.

    Parameters
    ----------
    told
        ``profiler_info.json``.
    sides
        The control files of the raw directory beside them; none where there is no such directory.
    notes
        Takes what had to be assumed.
    collector
        Whose files they are. MindSpore always writes the counter that the raw directory's host side has.
    epoch_ns
        When CLOCK_MONOTONIC_RAW stood at 0, where the recording tells it: UTC epoch nanoseconds; else 0.
    """
    start, end = _part(told, "start_info"), _part(told, "end_info")
    offset_ns = _offset_of_sides(sides)
    from_raw = offset_ns is not None
    if offset_ns is None:
        offset_ns = _sane(epoch_ns) or _offset_of_end(end, notes)
    if collector == _COUNTING and from_raw:
        return host_clock(list(sides), offset_ns, Notes())  # what it has to say, reading the raw directory says
    monotonic_ns = _sane(start.get("start_monotonic")) or 0
    if start.get("syscnt_enable") is not True:
        return Clock(monotonic_ns, monotonic_ns + offset_ns, Fraction(1))
    if from_raw:
        clock = host_clock(list(sides), offset_ns, Notes())  # what it has to say, reading the raw directory says
        if clock.ns_per_tick != 1:
            return clock
    mhz = parse_frequency(start.get("freq"))
    if mhz is None:
        notes.warning(_SOURCE, "the frequency of the system counter is missing; 100 MHz is assumed")
        mhz = Fraction(100)
    return Clock(_sane(start.get("start_cnt")) or 0, monotonic_ns + offset_ns, 1000 / mhz)


def _offset_of_sides(sides: Sequence[Side]) -> int | None:
    silent = Notes()  # whether it holds a warning tells whether the offset is known
    offset_ns = epoch_offset(sides, silent)
    return None if len(silent) else offset_ns


def _offset_of_end(end: dict[str, Any], notes: Notes) -> int:
    stopped_ns, monotonic_ns = _sane(end.get("collectionTimeEnd")), _sane(end.get("MonotonicTimeEnd"))
    if stopped_ns is None or monotonic_ns is None:
        notes.warning(_SOURCE, "nothing tells the time of day: times of the framework count from the host's boot")
        return 0
    notes.info(
        _SOURCE,
        "the time of day comes from a clock that may be slewed: the longer the host has run, the more times may be off",
    )
    return stopped_ns - monotonic_ns


def _sane(value: object) -> int | None:
    number = whole_number(value)
    return number if number is not None and 0 <= number < _LIMIT else None


def _part(parent: dict[str, Any], key: str) -> dict[str, Any]:
    part = parent.get(key)
    return part if isinstance(part, dict) else {}

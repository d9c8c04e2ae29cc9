"""Clocks of a raw directory: counter values to nanoseconds of the UTC epoch, in exact integers.

An old recording without control files has a relative clock: its times count from the first record.

Source: raw/FORMAT.md sections 3 and 7.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from npuprof.arrays import Bools, Int64, Uint64
from npuprof.sources.raw.metadata.control_files import RecordedSide, whole_number
from npuprof.sources.raw.records import chip_layouts
from npuprof.sources.raw.records.slices import Streams
from npuprof.tables.notes import Notes

_FREQUENCY = re.compile(r"\d{1,4}(\.\d{0,6})?")
_MAX_MHZ = 9000  # with six decimals, the arithmetic below stays within 63 bits
_REACH_NS = 366 * 86_400_000_000_000  # no profile lasts a year: times further away are damage
_LIMIT = 4_000_000_000_000_000_000  # sums of two timestamps stay within 63 bits
_MAX_COUNTER = (1 << 63) - 1
_NANOSECOND_COUNTER_MHZ = Fraction(1000)
_DEFAULT_DEVICE_MHZ = Fraction(50)
_DEVICE_MHZ = {"1": Fraction(100)}  # by platform version


def parse_frequency(value: Any) -> Fraction | None:
    """Parse a frequency in MHz exactly from a string or a number; return None for other values.

    Real files hold ``"100.000000"``, ``"49.999001"``, ``1000`` and ``""``.
    """
    if isinstance(value, bool):
        return None
    text = str(value).strip() if isinstance(value, (str, int, float)) else ""
    if not _FREQUENCY.fullmatch(text):
        return None
    mhz = Fraction(text)
    return mhz if 0 < mhz <= _MAX_MHZ else None


@dataclass(frozen=True)
class CounterClock:
    """A counter with a known frequency and an anchor on the UTC clock; linear, without drift correction."""

    anchor_counter: int  # the counter's value at the anchor
    anchor_ns: int  # UTC epoch nanoseconds at the anchor
    ns_per_tick: Fraction  # the exact length of a tick

    def reaches(self, counters: Uint64) -> Bools:
        """Return a mask of the values within a year of the anchor; the rest is damaged."""
        ticks = int(_REACH_NS / self.ns_per_tick)
        low, high = max(0, self.anchor_counter - ticks), max(0, self.anchor_counter + ticks)
        return (counters >= np.uint64(low)) & (counters <= np.uint64(min(high, _MAX_COUNTER)))

    def to_ns(self, counters: Uint64) -> Int64:
        """Convert counter values to UTC epoch nanoseconds, rounded down; otherwise exact."""
        ticks = counters.astype(np.int64) - self.anchor_counter
        numerator, denominator = self.ns_per_tick.numerator, self.ns_per_tick.denominator
        if denominator == 1:
            return ticks * numerator + self.anchor_ns
        whole, remainder = np.divmod(ticks, denominator)
        return whole * numerator + remainder * numerator // denominator + self.anchor_ns


@dataclass(frozen=True)
class DeviceCounters:
    """The clocks of a device."""

    counter: CounterClock  # the device counter (records of stars, PMU, time-stamp track, frequency)
    start_ns: int  # UTC epoch nanoseconds of the device's start, the base of sampled files


def epoch_offset(sides: Iterable[RecordedSide], notes: Notes) -> int:
    """Return the offset of the host's CLOCK_MONOTONIC_RAW to UTC epoch nanoseconds.

    Each ``start_info`` and ``end_info`` holds both clocks, the time of day in microseconds: files differ by up to a
    microsecond and by the drift. The first ``start_info`` is used or, if it is unusable, another file, with a note.
    """
    ordered = sorted(sides, key=lambda side: side.device_id is not None)
    pairs = [(f"{side.label}/start_info", side.start, "collectionTimeBegin") for side in ordered]
    pairs += [(f"{side.label}/end_info", side.end, "collectionTimeEnd") for side in ordered]
    for place, (name, facts, key) in enumerate(pairs):
        utc_us, mono_ns = whole_number(facts.get(key)), whole_number(facts.get("clockMonotonicRaw"))
        if utc_us is not None and mono_ns is not None and _is_plausible(utc_us * 1000) and _is_plausible(mono_ns):
            if place:
                notes.warning(
                    pairs[0][0],
                    f"it lacks the time of day or a clockMonotonicRaw of 0 or more: {name} is used, and all times may "
                    "be off by a microsecond and the clocks' drift over the run",
                )
            return utc_us * 1000 - mono_ns
    notes.warning("start_info", "no start_info or end_info has the time of day: times count from the host's boot")
    return 0


def host_clock(sides: list[RecordedSide], utc_ns: int, notes: Notes) -> CounterClock:
    """Return the clock of the host counter, with the best anchor in the directory."""
    mhz = _host_frequency(sides, notes)
    if mhz == _NANOSECOND_COUNTER_MHZ:
        return CounterClock(0, utc_ns, Fraction(1))
    for side in sides:  # the host folder first; a device folder has another reading of the two clocks
        mono, counter = side.host_anchor.get("clock_monotonic_raw"), side.host_anchor.get("cntvct")
        if mono is not None and counter is not None and _is_plausible(mono) and _is_plausible(counter):
            if side.device_id is not None:
                notes.warning("host_start.log", f"the host's anchor is missing; that of {side.label} is used")
            difference = side.host_anchor.get("cntvct_diff", 0)
            return _clock(counter - (difference if _is_plausible(abs(difference)) else 0), mono + utc_ns, mhz)
    notes.warning("host_start.log", "no host anchor: host times assume that its counter started at zero with the clock")
    return _clock(0, utc_ns, mhz)


def device_clock(side: RecordedSide, utc_ns: int, notes: Notes) -> DeviceCounters | None:
    """Return the clocks of a device; None, with an error note, if its anchor is missing."""
    mono, counter = side.host_anchor.get("clock_monotonic_raw"), side.device_anchor.get("cntvct")
    if mono is None or counter is None or not _is_plausible(mono) or not _is_plausible(counter):
        notes.error(side.label, "host_start.log or dev_start.log is missing: its times cannot be placed; not decoded")
        return None
    mhz = parse_frequency(side.device_fact("hwts_frequency"))
    if mhz is None:
        mhz = _DEVICE_MHZ.get(str(side.info.get("platform_version")), _DEFAULT_DEVICE_MHZ)
        notes.warning(side.label, f"hwts_frequency is missing; {mhz} MHz is assumed")
    return DeviceCounters(_clock(counter, mono + utc_ns, mhz), mono + utc_ns)


def _host_frequency(sides: list[RecordedSide], notes: Notes) -> Fraction:
    for side in sides:
        value = side.cpu_fact("Frequency")
        if value == "":
            return _NANOSECOND_COUNTER_MHZ  # x86: timestamps are nanoseconds
        mhz = parse_frequency(value)
        if mhz is not None:
            return mhz
    notes.warning("info.json", "the host counter's frequency is missing; its stamps are taken as nanoseconds")
    return _NANOSECOND_COUNTER_MHZ


def _clock(counter: int, anchor_ns: int, mhz: Fraction) -> CounterClock:
    return CounterClock(counter, anchor_ns, 1000 / mhz)


def _is_plausible(value: int) -> bool:
    return 0 <= value < _LIMIT


_MHZ = Fraction(100)  # the 910A is the only chip with recordings of this kind


def relative_clock(side: RecordedSide, streams: Streams, notes: Notes) -> DeviceCounters:
    """Return a clock that is zero at the first task record of a device, with a note."""
    counters = streams.read(f"hwts.data.{side.device_id}", chip_layouts.HWTS)["counter"]
    notes.warning(
        side.label,
        f"host_start.log or dev_start.log is missing: times count from the first task record, at {_MHZ} MHz (910A)",
    )
    middle = int(np.partition(counters, len(counters) // 2)[len(counters) // 2]) if len(counters) else 0
    around = CounterClock(min(middle, 1 << 62), 0, 1000 / _MHZ)
    sound = counters[around.reaches(counters)]  # a damaged timestamp must not become the origin
    return DeviceCounters(CounterClock(int(sound.min()) if len(sound) else 0, 0, 1000 / _MHZ), 0)

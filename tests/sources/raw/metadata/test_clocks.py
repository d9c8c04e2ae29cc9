from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npuprof.sources.raw.metadata.clocks import CounterClock, device_clock, epoch_offset, host_clock, parse_frequency
from npuprof.sources.raw.metadata.control_files import RecordedSide
from npuprof.tables.notes import Notes

_frequencies = st.sampled_from(["100.000000", "49.999001", "50", "1000", "1800", "8999.999999", "0.000001", "24.576"])


@settings(deadline=None)
@given(_frequencies, st.integers(0, 1 << 62), st.integers(0, 1 << 60), st.lists(st.integers(-(10**13), 10**13)))
def test_conversion_is_that_of_exact_fractions(text: str, anchor: int, anchor_ns: int, ticks: list[int]) -> None:
    mhz = parse_frequency(text)
    assert mhz is not None
    clock = CounterClock(anchor, anchor_ns, 1000 / mhz)
    counters = np.array([max(0, anchor + tick) for tick in ticks], np.uint64)
    counters = counters[clock.reaches(counters)]
    exact = [math.floor((int(counter) - anchor) * Fraction(1000) / mhz) + anchor_ns for counter in counters]
    assert clock.to_ns(counters).tolist() == exact


def test_a_day_at_a_decimal_frequency_keeps_every_tick() -> None:
    # 20 ppm off 50 MHz: over a day a float or a rounded frequency would be 1.7 s away
    clock = CounterClock(0, 0, 1000 / Fraction("49.999001"))
    ticks = np.array([49_999_001 * 86_400], np.uint64)
    assert clock.to_ns(ticks).tolist() == [86_400 * 10**9]


@pytest.mark.parametrize("counter", [(1 << 64) - 1, 1 << 63, 0])
def test_a_value_more_than_a_year_away_is_refused(counter: int) -> None:
    clock = CounterClock(3_647_113_054_733 * 10_000, 0, Fraction(10))
    assert not clock.reaches(np.array([counter], np.uint64))[0]


@pytest.mark.parametrize(
    ("value", "mhz"),
    [
        ("100.000000", Fraction(100)),
        ("49.999001", Fraction(49_999_001, 1_000_000)),
        (1000, Fraction(1000)),
        (49.5, Fraction(99, 2)),
        ("", None),
        ("0", None),
        ("-50", None),
        ("1e300", None),
        ("9999.5", None),
        (True, None),
        (None, None),
        (["50"], None),
    ],
)
def test_frequencies_come_as_strings_or_numbers(value: object, mhz: Fraction | None) -> None:
    assert parse_frequency(value) == mhz


def _side(device_id: int | None = None, **facts: object) -> RecordedSide:
    name = "host" if device_id is None else f"device_{device_id}"
    return RecordedSide(Path(name), device_id, **facts)  # type: ignore[arg-type]  # facts are the fields of a RecordedSide


def test_an_empty_frequency_means_nanoseconds() -> None:
    clock = host_clock([_side(cpu={"Frequency": ""})], 7, Notes())
    assert clock.to_ns(np.array([1234], np.uint64)).tolist() == [1241]


def test_the_counter_difference_corrects_the_host_anchor() -> None:
    side = _side(
        cpu={"Frequency": "100.000000"},
        host_anchor={"clock_monotonic_raw": 1000, "cntvct": 500, "cntvct_diff": 7},
    )
    assert host_clock([side], 0, Notes()).to_ns(np.array([500], np.uint64)).tolist() == [1070]


def test_without_a_host_anchor_the_devices_reading_serves() -> None:
    notes = Notes()
    cpu = {"Frequency": "100"}
    anchored = _side(0, cpu=cpu, host_anchor={"clock_monotonic_raw": 1000, "cntvct": 500})
    clock = host_clock([_side(cpu=cpu), anchored], 0, notes)
    assert clock.to_ns(np.array([501], np.uint64)).tolist() == [1010]
    assert "device_0" in notes.to_frame()["message"][0]


def test_the_end_of_collection_also_has_the_wall_clock() -> None:
    side = _side(end={"collectionTimeEnd": "1763600000000001", "clockMonotonicRaw": "1000"})
    assert epoch_offset([side], Notes()) == 1_763_600_000_000_000_000


def test_damaged_start_is_reported_in_order() -> None:
    pair = {"collectionTimeBegin": "1763600000000000", "clockMonotonicRaw": "1000"}
    end = {"collectionTimeEnd": "1763600000000002", "clockMonotonicRaw": "2170"}
    notes = Notes()
    exact = epoch_offset([_side(start=pair, end=end)], notes)
    assert not len(notes)
    damaged = {**pair, "clockMonotonicRaw": "-1000"}
    assert epoch_offset([_side(start=damaged, end=end), _side(0, start=pair)], notes) == exact
    assert epoch_offset([_side(start=damaged, end=end)], notes) == exact + 830
    told = notes.to_frame()
    assert told["severity"].tolist() == ["warning"] * 2
    assert told["source"].tolist() == ["host/start_info"] * 2
    assert told["message"].str.contains("device_0/start_info is used|host/end_info is used").all()


def test_a_device_without_an_anchor_is_not_placed() -> None:
    notes = Notes()
    assert device_clock(_side(0, host_anchor={"clock_monotonic_raw": 1}), 0, notes) is None
    assert notes.to_frame()["severity"].tolist() == ["error"]

"""Stamps become UTC nanoseconds without a float, by the best pair of clocks that there is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npuprof.sources.framework.clock import framework_clock
from npuprof.sources.raw.metadata.control_files import RecordedSide, read_sides
from npuprof.tables.notes import Notes
from tests.sources.framework.writer import EPOCH_OFFSET_NS, START_NS, profiler_info

OTHER_OFFSET_US = 1_763_700_000_000_000


def sides(folder: Path, frequency: str = "", log: bool = True) -> list[RecordedSide]:
    """Write the control files of a raw directory whose clocks differ from profiler_info.json."""
    host = folder / "PROF_1" / "host"
    host.mkdir(parents=True)
    info = {"CPU": [{"Id": 0, "Frequency": frequency}]}
    start = {"clockMonotonicRaw": "2000000", "collectionTimeBegin": str(OTHER_OFFSET_US + 2000)}
    (host / "info.json").write_text(json.dumps(info))
    (host / "start_info").write_text(json.dumps(start))
    if log:
        (host / "host_start.log").write_text("[Host]\nclock_monotonic_raw: 1000000\ncntvct: 500\ncntvct_diff: 0\n")
    return read_sides(folder / "PROF_1", Notes())


def convert(
    told: dict[str, Any],
    stamp: int,
    found: list[RecordedSide] | None = None,
    notes: Notes | None = None,
    epoch_ns: int = 0,
) -> int:
    clock = framework_clock(told, found or [], Notes() if notes is None else notes, epoch_ns=epoch_ns)
    stamps = np.array([stamp], np.uint64)
    assert clock.reaches(stamps).all()
    return int(clock.to_ns(stamps)[0])


def test_run_end_gives_the_wall_clock() -> None:
    notes = Notes()
    assert convert(profiler_info(), START_NS + 17, notes=notes) == START_NS + 17 + EPOCH_OFFSET_NS
    assert "may be slewed" in notes.to_frame()["message"][0]


def test_a_raw_directory_knows_the_time_of_day_better(tmp_path: Path) -> None:
    notes = Notes()
    assert convert(profiler_info(), START_NS + 17, sides(tmp_path), notes) == START_NS + 17 + OTHER_OFFSET_US * 1000
    assert not len(notes)


def test_recording_and_raw_directory_outrank_run_end(tmp_path: Path) -> None:
    notes, own = Notes(), EPOCH_OFFSET_NS + 5_000_000
    assert convert(profiler_info(), START_NS + 17, notes=notes, epoch_ns=own) == START_NS + 17 + own
    counted = profiler_info(syscnt_enable=True, freq=100, start_cnt=7)
    assert convert(counted, 10, notes=notes, epoch_ns=own) == START_NS + 30 + own
    told = convert(profiler_info(), START_NS + 17, sides(tmp_path), notes, epoch_ns=own)
    assert told == START_NS + 17 + OTHER_OFFSET_US * 1000
    assert not len(notes)


def test_a_host_that_runs_for_years_is_no_damage() -> None:
    uptime_ns = 3 * 366 * 86_400_000_000_000
    assert convert(profiler_info(start_monotonic=uptime_ns), uptime_ns + 5) == uptime_ns + 5 + EPOCH_OFFSET_NS


@pytest.mark.parametrize("freq", [100, 100.0, "100"])
def test_the_system_counter_is_converted_exactly(freq: Any) -> None:
    told = profiler_info(syscnt_enable=True, freq=freq, start_cnt=(1 << 53) + 1)
    assert convert(told, (1 << 53) + 4) == START_NS + 30 + EPOCH_OFFSET_NS


def test_the_raw_directory_knows_the_system_counter_too(tmp_path: Path) -> None:
    told = profiler_info(syscnt_enable=True, freq=100, start_cnt=0)
    assert convert(told, 507, sides(tmp_path, "25")) == 1_000_000 + 7 * 40 + OTHER_OFFSET_US * 1000


def test_missing_frequency_is_left_to_front_end(tmp_path: Path) -> None:
    told = profiler_info(syscnt_enable=True, freq=50, start_cnt=3)
    assert convert(told, 4, sides(tmp_path)) == START_NS + 20 + OTHER_OFFSET_US * 1000


@pytest.mark.parametrize("told", [{}, {"start_info": 3, "end_info": None}, {"start_info": {"start_monotonic": "x"}}])
def test_without_any_pair_times_count_from_the_boot(told: dict[str, Any]) -> None:
    notes = Notes()
    assert convert(told, 17, notes=notes) == 17
    assert "count from the host's boot" in notes.to_frame()["message"][0]


def test_a_counter_of_unknown_frequency_is_reported() -> None:
    notes = Notes()
    told = profiler_info(syscnt_enable=True, freq=0, start_cnt=0)
    assert convert(told, 1, notes=notes) == START_NS + 10 + EPOCH_OFFSET_NS
    assert "100 MHz is assumed" in "".join(notes.to_frame()["message"])

"""Clocks: known to be one where files tell so, else estimated from collectives and said to be."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from npuprof import tables
from npuprof.loading import open_path
from npuprof.ranks.clocks import MIN_COLLECTIVES, Boot, Offset, boot_of, clock_table, offsets, same_clocks
from npuprof.ranks.profile_set import ProfileSet

UTC = 1_736_408_883_674_584_732
BOOTED = 1_736_000_000_000_000_000
GROUP = "739319275709983152"


def _collectives(
    ahead_ns: int, *, late: list[int] | None = None, group: str = GROUP, count: int = 9, name: str = "hcom_allReduce_"
) -> pd.DataFrame:
    """Make operators that end every millisecond, by a clock so much ahead; `late` is when each rank's began."""
    ends = UTC + np.arange(count) * 1_000_000 + ahead_ns
    durations = np.array((late or [200_000]) * count)[:count]
    return tables.build(
        "communication",
        {
            "start_ns": ends - durations,
            "duration_ns": durations,
            "device_id": np.zeros(count, np.int64),
            "name": pd.Categorical([f"{name}_152_{number}_1" for number in range(count)]),
            "group": pd.Categorical([group] * count),
        },
    )


def _boot(offset_ns: int, told_ns: int = UTC) -> Boot:
    return Boot(BOOTED + offset_ns, told_ns)


@pytest.mark.parametrize(
    ("hosts", "boots", "expected"),
    [
        ([], [], []),
        (["a", "b", "a"], [None] * 3, [0, 1, 0]),
        ([None, None, None], [_boot(0), None, _boot(2_000)], [0, None, 0]),
        ([None, None], [_boot(0), _boot(5_000_000)], [0, 1]),
        ([None, None], [_boot(0), _boot(5_000_000, UTC + 3600 * 10**9)], [0, 0]),  # the monotonic clock drifts
        (["a", "b"], [_boot(0), _boot(0)], [0, 1]),  # two hosts that were switched on together
        (["a", None], [_boot(0), _boot(10)], [0, 0]),
    ],
)
def test_runs_of_one_host_share_a_clock(
    hosts: list[str | None], boots: list[Boot | None], expected: list[int | None]
) -> None:
    assert same_clocks(hosts, boots) == expected


def test_the_host_s_start_follows_from_the_end_of_the_recording(tmp_path: Path) -> None:
    output = tmp_path / "ASCEND_PROFILER_OUTPUT"
    output.mkdir()
    info = tmp_path / "profiler_info_0.json"
    told = {
        "start_info": {"start_monotonic": 5},
        "end_info": {"collectionTimeEnd": UTC, "MonotonicTimeEnd": UTC - BOOTED},
    }
    info.write_text(json.dumps(told))
    assert boot_of(tmp_path) == Boot(BOOTED, UTC)
    for wrong in ("{}", "[]", "{", json.dumps({"start_info": {}, "end_info": {"collectionTimeEnd": "x"}})):
        info.write_text(wrong)
        assert boot_of(tmp_path) is None
    assert boot_of(tmp_path / "missing") is None


def test_an_offset_is_found_to_the_nanosecond_where_ends_coincide() -> None:
    found = offsets({0: [_collectives(0)], 1: [_collectives(123_456_789, late=[5_000, 900_000, 70])]}, 0)
    assert found == {0: Offset(0, 0, 0), 1: Offset(123_456_789, 9, 0)}


def test_an_offset_by_way_of_another_clock() -> None:
    other = "839319275709983152"
    both = [_collectives(1000), _collectives(1000, group=other)]
    found = offsets({4: [_collectives(0)], 5: both, 6: [_collectives(-70, group=other)]}, 4)
    assert {clock: one.nanoseconds for clock, one in found.items()} == {4: 0, 5: 1000, 6: -70}


@pytest.mark.parametrize(
    "other",
    [
        _collectives(5, count=MIN_COLLECTIVES - 1),
        _collectives(5, group="839319275709983152"),  # a group of its own
        _collectives(5, name="hcom_send_"),  # ends where it likes
        tables.empty("communication"),
    ],
)
def test_too_little_in_common_is_no_estimate(other: pd.DataFrame) -> None:
    assert set(offsets({0: [_collectives(0)], 1: [other]}, 0)) == {0}


def test_ends_that_do_not_fit_are_no_estimate() -> None:
    scattered = _collectives(0)
    scattered["duration_ns"] += np.arange(len(scattered)) ** 2 * 5_000_000
    assert set(offsets({0: [_collectives(0)], 1: [scattered]}, 0)) == {0}


def test_local_numbers_of_groups_are_not_compared() -> None:
    found = offsets({0: [_collectives(0, group="Group 0")], 1: [_collectives(40, group="Group 3")]}, 0)
    assert found[1].nanoseconds == 40


def test_the_table_says_what_each_figure_is_worth() -> None:
    operators = [_collectives(0), _collectives(7), _collectives(3_000_000), tables.empty("communication")]
    table = clock_table([0, 1, 2, 3], ["a", "a", "b", None], [None] * 4, operators)
    assert table["clock"].tolist() == [0, 0, 1, pd.NA]
    assert table["basis"].tolist() == ["same clock", "same clock", "estimate", "unknown"]
    assert table["offset_ns"].tolist() == [0, 0, 3_000_000 - 7, pd.NA]
    assert table["collectives"].tolist() == [0, 0, 9, pd.NA]
    assert len(clock_table([], [], [], [])) == 0


@pytest.mark.slow
def test_ranks_of_a_real_run_are_of_one_host(samples: Path) -> None:
    folder = samples / "torch_npu" / "llm_pp2dp2"
    first, second = (boot_of(folder / f"rank_{rank}_ascend_pt") for rank in (0, 1))
    assert first is not None
    assert second is not None
    assert second.started_ns - first.started_ns == 1590
    assert first.fits(second)
    runs = open_path(samples / "torch_npu" / "text" / "level1")
    assert isinstance(runs, ProfileSet)
    assert runs.clocks()["basis"].tolist() == ["same clock", "same clock"]

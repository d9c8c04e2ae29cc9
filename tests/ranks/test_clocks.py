"""Clocks: known to be one where files tell so, else estimated from collectives and said to be."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from npuprof import tables
from npuprof.analysis import rank_clocks
from npuprof.analysis.rank_waits import collectives
from npuprof.loading import open_path
from npuprof.ranks.clocks import MIN_COLLECTIVES, Boot, boot_of, clock_table, run_clocks, same_clocks
from npuprof.ranks.profile_set import ProfileSet
from npuprof.ranks.together import labelled

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
        ([None, None, None], [_boot(9_000_000), _boot(0), _boot(9_000_100)], [0, 1, 0]),  # whoever was started first
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


def _table(
    operators: list[pd.DataFrame], hosts: list[str | None] | None = None, ranks: list[int | None] | None = None
) -> pd.DataFrame:
    """Return the clocks of runs with these operators; of equal ranks the last one is the newest session."""
    known: list[int | None] = [*range(len(operators))] if ranks is None else ranks
    hosts = hosts or [None] * len(operators)
    newest = {rank: row for row, rank in enumerate(known) if rank is not None}
    frames = [
        operators[row].assign(rank=pd.array([rank] * len(operators[row]), "Int64")) for rank, row in newest.items()
    ]
    estimated = rank_clocks.clocks(collectives(pd.concat([frame for frame in frames if len(frame)] or frames)))
    return clock_table(known, hosts, run_clocks(hosts, [None] * len(operators), estimated, newest))


def test_an_offset_is_found_to_the_nanosecond_where_ends_coincide() -> None:
    table = _table([_collectives(0), _collectives(123_456_789, late=[5_000, 900_000, 70])])
    assert table["offset_ns"].tolist() == [0, 123_456_789]
    assert table["basis"].tolist() == ["estimate"] * 2
    assert table["collectives"].tolist() == [9, 9]
    assert table["drift_ns_per_s"].tolist() == [0, 0]


def test_an_offset_by_way_of_another_clock() -> None:
    other = "839319275709983152"
    both = pd.concat([_collectives(1000), _collectives(1000, group=other)])
    assert _table([_collectives(0), both, _collectives(-70, group=other)])["offset_ns"].tolist() == [0, 1000, -70]


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
    assert _table([_collectives(0), other])["basis"].tolist() == ["unknown", "unknown"]


def test_ends_that_do_not_fit_are_no_estimate() -> None:
    scattered = _collectives(0)
    scattered["duration_ns"] += np.arange(len(scattered)) ** 2 * 5_000_000
    assert _table([_collectives(0), scattered])["basis"].tolist() == ["unknown", "unknown"]


def test_local_numbers_of_groups_are_not_compared() -> None:
    """Group 0 is each rank's first group: the end of the hash, which is in the names of operators, counts."""
    assert _table([_collectives(0, group="Group 0"), _collectives(40, group="Group 3")])["offset_ns"].tolist() == [
        0,
        40,
    ]


def test_the_newest_session_of_a_rank_counts() -> None:
    old, new = _collectives(5_000), _collectives(7)
    table = _table([_collectives(0), old, new], ["a", "b", "b"], [0, 1, 1])
    assert table["offset_ns"].tolist() == [0, 7, 7]
    assert table["basis"].tolist() == ["estimate", "same clock", "estimate"]


def test_the_table_says_what_each_figure_is_worth() -> None:
    operators = [_collectives(0), tables.empty("communication"), _collectives(3_000_000), tables.empty("communication")]
    table = _table(operators, ["a", "a", "b", None])
    assert table["clock"].tolist() == [0, 0, 1, pd.NA]
    assert table["basis"].tolist() == ["estimate", "same clock", "estimate", "unknown"]
    assert table["offset_ns"].tolist() == [0, 0, 3_000_000, pd.NA]
    assert table["collectives"].tolist() == [9, pd.NA, 9, pd.NA]


def test_fast_clock_is_corrected_at_each_moment() -> None:
    ends = UTC + np.arange(12) * 2_000_000_000
    slow = tables.build(
        "communication",
        {
            "start_ns": ends - 500,
            "duration_ns": np.full(12, 500),
            "device_id": np.zeros(12, np.int64),
            "name": pd.Categorical([f"hcom_allReduce__152_{at}_1" for at in range(12)]),
            "group": pd.Categorical([GROUP] * 12),
        },
    )
    fast = slow.assign(start_ns=ends - 500 + 1_000 * np.arange(12))  # 500 ns a second
    table = _table([slow, fast])
    assert table["drift_ns_per_s"][1] == pytest.approx(500, rel=1e-6)
    assert table["offset_ns"][1] == pytest.approx(5_500, abs=1)
    frames = [one.assign(rank=rank) for rank, one in enumerate((slow, fast))]
    lead = rank_clocks.clocks(collectives(pd.concat(frames))).lead(1)
    moved = labelled(fast, run=1, rank=1, host=None, devices=[0], ahead=lead)
    assert (moved["start_ns"] - slow["start_ns"]).abs().max() <= 1


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
    assert runs.clocks()["clock"].tolist() == [0, 0]

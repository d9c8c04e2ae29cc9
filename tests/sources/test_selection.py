"""What a user may ask for of a run, and which intervals that is."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npuprof import tables
from npuprof.errors import OptionsError, SourceError
from npuprof.sources.selection import Selection, Windows, choose

MOMENT_NS = 1_763_600_000_000_000_123
STAMP = pd.Timestamp(MOMENT_NS)


def chosen(*asked: Any) -> Selection:
    selection = choose(*asked)
    assert selection is not None
    return selection


def steps(*rows: tuple[int | None, int, int]) -> pd.DataFrame:
    number, start, end = zip(*rows, strict=True)
    return tables.build(
        "steps",
        {
            "step": pd.array(number, dtype="Int64"),
            "start_ns": np.array(start),
            "duration_ns": np.array(end) - np.array(start),
        },
    )


def test_nothing_asked_for_is_everything() -> None:
    assert choose(None, None, None) is None


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        (MOMENT_NS, MOMENT_NS),
        (np.int64(MOMENT_NS), MOMENT_NS),
        (np.uint64(MOMENT_NS), MOMENT_NS),
        (STAMP, MOMENT_NS),
        (STAMP.tz_localize("UTC").tz_convert("Asia/Shanghai"), MOMENT_NS),
        (STAMP.to_datetime64(), MOMENT_NS),
        (np.datetime64("2025-11-20T00:53:20", "s"), 1_763_600_000_000_000_000),
        (datetime(2025, 11, 20, 0, 53, 20), 1_763_600_000_000_000_000),  # one without a zone is UTC
        (datetime(2025, 11, 20, 1, 53, 20, tzinfo=timezone(timedelta(hours=1))), 1_763_600_000_000_000_000),
        (pd.Timedelta(seconds=1.5), 1_500_000_100),
        (timedelta(milliseconds=2), 2_000_100),
        (np.timedelta64(7, "us"), 7_100),
        (pd.Timedelta(nanoseconds=-50), 50),
    ],
)
def test_moments_keep_their_nanoseconds(moment: Any, expected: int) -> None:
    windows = chosen(None, moment, None).windows(tables.empty("steps"), 100)
    assert (windows.starts.tolist(), windows.ends.tolist()) == ([expected], [np.iinfo(np.int64).max])
    windows = chosen(None, None, moment).windows(tables.empty("steps"), 100)
    assert (windows.starts.tolist(), windows.ends.tolist()) == ([np.iinfo(np.int64).min], [expected])


@pytest.mark.parametrize(
    "moment",
    [
        1.5,
        float(MOMENT_NS),
        np.float64(1),
        True,
        np.bool_(True),
        "2025-11-20",
        "1 s",
        pd.NaT,
        [1],
        1 << 63,
        np.uint64(1 << 63),
        np.datetime64("NaT", "s"),
        np.timedelta64("NaT", "ns"),
        np.datetime64("9999-01-01", "s"),
        timedelta(days=200_000),
    ],
)
def test_another_moment_is_refused_with_what_to_write(moment: Any) -> None:
    with pytest.raises(OptionsError, match=r"start is .*(nanoseconds of the epoch as a whole number|cannot hold)"):
        choose(None, moment, None)


@pytest.mark.parametrize("asked", [3, np.int64(3), [3], (3, 3), {3}, range(3, 4), np.array([3]), iter([3])])
def test_steps_may_be_a_number_or_several(asked: Any) -> None:
    assert chosen(asked, None, None).steps == (3,)


@pytest.mark.parametrize("asked", [[], "3", ["3"], [3.0], [True], 3.5, range(10**12), [None]])
def test_other_steps_are_refused(asked: Any) -> None:
    with pytest.raises(OptionsError, match="steps"):
        choose(asked, None, None)


def test_steps_and_a_stretch_exclude_each_other() -> None:
    with pytest.raises(OptionsError, match="pass either steps or start and end, not both"):
        choose(3, 1, None)


@pytest.mark.parametrize("end", [100, 99, pd.Timedelta(0)])
def test_a_stretch_that_ends_before_it_begins_is_refused(end: Any) -> None:
    with pytest.raises(OptionsError, match="not after its start at 100 ns"):
        chosen(None, 100, end).windows(tables.empty("steps"), 0)


def test_steps_are_found_by_number_and_merged() -> None:
    found = steps((1, 0, 10), (2, 10, 20), (None, 20, 30), (3, 40, 50), (3, 60, 70), (4, 70, 80))
    windows = chosen([1, 2, 3], None, None).windows(found, 0)
    assert list(zip(windows.starts.tolist(), windows.ends.tolist(), strict=True)) == [(0, 20), (40, 50), (60, 70)]


def test_unknown_step_names_existing_ones() -> None:
    found = steps(*((number, number, number + 1) for number in (3, 4, 5, 9)), (None, 20, 30))
    with pytest.raises(SourceError, match=r"has no step 1-2, 8; its steps are 3-5, 9$"):
        chosen([1, 2, 3, 8], None, None).windows(found, 0)
    with pytest.raises(SourceError, match="no numbered steps: select an interval"):
        chosen([1], None, None).windows(tables.empty("steps"), 0)


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(1, 5)), max_size=4),
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 9)), min_size=1, max_size=20),
)
def test_what_overlaps_is_what_shares_an_instant(
    stretches: list[tuple[int, int]], spans: list[tuple[int, int]]
) -> None:
    inside = {at for start, length in stretches for at in range(start, start + length)}
    found = steps(*((1, start, start + length) for start, length in stretches), (2, 0, 1))
    windows = chosen([1] if stretches else [2], None, None).windows(found, 0)
    inside = inside or {0}
    starts, lengths = (np.array(column) for column in zip(*spans, strict=True))
    shared = [bool(inside & set(range(start, start + max(length, 1)))) for start, length in spans]
    assert windows.touch(starts, starts + lengths).tolist() == shared


def test_no_stretch_holds_anything() -> None:
    nothing = Windows(np.empty(0, np.int64), np.empty(0, np.int64))
    assert not nothing.touch(np.array([1]), np.array([2])).any()

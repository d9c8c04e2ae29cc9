"""Compare what two runs hold: every table, value by value, and what is computed of them."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from npuprof.profiles.profile import Profile


def assert_same_frames(one: Mapping[str, pd.DataFrame], other: Mapping[str, pd.DataFrame]) -> None:
    """Fail unless both have the same rows, columns, dtypes and values; empty tables have their schema's columns."""
    assert {name for name, frame in one.items() if len(frame)} == {name for name, frame in other.items() if len(frame)}
    for name, frame in one.items():
        if not len(frame):
            continue
        assert list(frame.columns) == list(other[name].columns), name
        for column in frame:
            mine, theirs = frame[column], other[name][column]
            if mine.dtype != "object":
                assert str(mine.dtype) == str(theirs.dtype), (name, column)
            values, others = (each.astype(object).where(each.notna(), None).tolist() for each in (mine, theirs))
            assert values == others, (name, column)


def assert_same_run(one: Profile, other: Profile) -> None:
    """Fail unless both have the same tables, sums, facts and breakdown."""
    assert_same_frames(one.tables, other.tables)
    assert_same_frames(one.statistics, other.statistics)
    pd.testing.assert_frame_equal(one.breakdown(), other.breakdown())  # which completes the facts
    facts, others = (
        {name: value for name, value in run.info.to_dict().items() if name not in ("recording", "source")}
        for run in (one, other)
    )
    assert facts == others

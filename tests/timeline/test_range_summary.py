from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npuprof.profiles.profile import Profile
from npuprof.sources.base import Decoded
from npuprof.tables.notes import Notes
from npuprof.timeline.overview import OVERVIEW_PARTS, overview
from npuprof.timeline.range_summary import RangeSummary
from npuprof.timeline.state import Timeline
from tests import factories

_TABLES = factories.profile(60)
_TIMELINE = Timeline(_TABLES, factories.info())


def _summed(start: int, length: int) -> RangeSummary:
    first = _TIMELINE.whole[0]
    return _TIMELINE.summary(first + start, first + start + length)


@pytest.mark.slow
@given(st.integers(0, 2_400_000), st.integers(1, 2_400_000))
def test_ranges_count_only_what_lies_within(start: int, length: int) -> None:
    told = _summed(start, length)

    kernels = _TABLES["kernels"]
    begin = kernels["start_ns"].to_numpy()
    inside = np.minimum(begin + kernels["duration_ns"].to_numpy(), told.end_ns) - np.maximum(begin, told.start_ns)
    inside = inside[inside > 0]
    by_name = [one for one in told.by_name if one.where == "kernels"]
    by_lane = [one for one in told.by_lane if one.where == "Device"]
    assert sum(one.count for one in by_name) == sum(one.count for one in by_lane) == len(inside)
    assert sum(one.sum_ns for one in by_name) == sum(one.sum_ns for one in by_lane) == inside.sum()
    assert max((one.max_ns for one in by_name), default=0) == inside.max(initial=0)
    assert all(one.p95_ns <= one.max_ns for one in told.by_name)


@pytest.mark.slow
def test_the_code_makes_the_same_table() -> None:
    told = _summed(300_000, 900_000)
    run = Profile(Decoded(tables=_TABLES, info=factories.info(), notes=Notes()))
    *lines, last = told.code.splitlines()
    space = {"run": run}
    exec("\n".join(lines), space)

    frame = eval(last, space)

    listed = [
        (one.name, one.count, one.sum_ns, one.p95_ns, one.max_ns) for one in told.by_name if one.where == "kernels"
    ]
    assert sorted(frame[["count", "sum", "p95", "max"]].itertuples(name=None)) == sorted(listed)


def test_parts_fill_the_range_of_a_step() -> None:
    step = _TABLES["steps"].iloc[1]
    first = _TIMELINE.whole[0]

    told = _summed(int(step["start_ns"]) - first + 1_000, 100_000)

    assert sum(part.duration_ns for part in told.parts) == 100_000
    assert {part.part for part in told.parts} >= {"computing"}


def test_the_overview_shares_out_the_time_of_the_devices() -> None:
    start, end = _TIMELINE.whole

    strip = overview(_TABLES, start, end, 50)

    assert strip.shares.shape == (len(OVERVIEW_PARTS), 50)
    assert strip.devices == 1
    assert (strip.shares.sum(axis=0) <= 1 + 1e-6).all()
    computing = sum(part.duration_ns for part in _TIMELINE.summary(start, end).parts if part.part == "computing")
    assert strip.shares[0].sum() * (end - start) / 50 == pytest.approx(computing, rel=0.02)

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from npuprof.errors import OptionsError
from npuprof.timeline.own_tracks import with_tracks
from npuprof.timeline.state import Timeline
from tests import factories

_HOSTILE = "<img src=x onerror=alert(1)>"


def test_rows_become_a_track_of_their_own_and_samples_a_counter() -> None:
    tables = factories.profile(60)
    kernels = tables["kernels"]
    longest = kernels.nlargest(5, "duration_ns")[["start_ns", "duration_ns", "name"]]
    samples = pd.DataFrame({"time_ns": kernels["start_ns"][:9], "value": np.arange(9), "unit": "W"})
    timeline = Timeline(with_tracks(tables, {_HOSTILE: longest, "power": samples}), factories.info())
    titles = [group.title for group in timeline.groups]
    assert titles.index(_HOSTILE) == titles.index("Marks") + 1
    lane = timeline.rows[titles.index(_HOSTILE)][0].lane
    numbers = np.flatnonzero(timeline.lanes_of_slices() == lane)
    spans = sorted(timeline.slices.span(number) for number in numbers.tolist())
    assert spans == sorted((start, start + length) for start, length in longest.iloc[:, :2].to_numpy().tolist())
    assert set(timeline.slices.names(numbers)) == set(longest["name"])
    recorded = len(tables["marks"])
    assert [row.title for row in timeline.rows[titles.index("Marks")] if row.title] == ["marks"]
    assert timeline.slices.names(np.arange(recorded) + timeline.slices.first["marks"]) == Timeline(
        tables, factories.info()
    ).slices.names(np.arange(recorded) + timeline.slices.first["marks"])
    line = next(line for line in timeline.lines if "power" in line.title)
    assert (line.unit, line.value.tolist()) == ("W", list(range(9)))


def test_a_run_without_marks_can_have_tracks_too() -> None:
    tables = factories.all_tables(kernels=factories.profile(10)["kernels"])
    own = {"mine": tables["kernels"][["start_ns", "duration_ns"]]}
    timeline = Timeline(with_tracks(tables, own), factories.info())
    assert [group.title for group in timeline.groups] == ["mine", "Device"]


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (pd.DataFrame({"a": [1]}), "needs start_ns, duration_ns and name"),
        (pd.DataFrame({"start_ns": [1.5], "duration_ns": [1]}), "must be whole nanoseconds"),
        (pd.DataFrame({"start_ns": pd.array([1, None], "Int64"), "duration_ns": [1, 1]}), "must be whole nanoseconds"),
        (pd.DataFrame({"start_ns": [1], "duration_ns": [-1]}), "durations below 0"),
    ],
)
def test_what_is_no_track_is_refused(frame: pd.DataFrame, reason: str) -> None:
    with pytest.raises(OptionsError, match=reason):
        with_tracks(factories.profile(5), {"mine": frame})

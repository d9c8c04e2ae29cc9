"""The time axis that figures share."""

from __future__ import annotations

import numpy as np
import pytest

from npuprof.figures.time_axis import time_axis
from npuprof.tables.info import Info
from npuprof.timeline.figure import timeline
from tests import factories


@pytest.mark.slow
@pytest.mark.parametrize("launches", [1, 20, 2_000])
def test_it_is_the_timelines_own(launches: int) -> None:
    run = factories.profile(launches)
    axis = time_axis(run, factories.START_NS + np.array([0, 30_000]))
    drawn = timeline(run, Info()).layout.xaxis
    assert axis.look["ticksuffix"] == drawn.ticksuffix
    assert axis.look["range"][0] <= drawn.range[0] < drawn.range[1] <= axis.look["range"][1]  # opens on the steps
    first_bar = min(min(trace.base) for trace in timeline(run, Info()).data if trace.type == "bar")
    assert first_bar == 0
    assert axis.first_ns == factories.START_NS - 1_000  # the outermost Python call


def test_places_are_exact_to_the_nanosecond() -> None:
    axis = time_axis(factories.profile(1), factories.START_NS + np.array([0, 1]))
    assert axis.unit_ns == 1_000
    places = axis.places(axis.first_ns + np.array([0, 1, 1_000]))
    assert places.tolist() == [0.0, 0.001, 1.0]


def test_samples_elsewhere_lengthen_it_and_keep_its_zero() -> None:
    run = factories.profile(20)
    late = factories.START_NS + 10**10
    axis = time_axis(run, np.array([late, late + 5]))
    assert axis.first_ns == factories.START_NS - 1_000
    assert axis.last_ns == late + 5


def test_a_run_without_slices_counts_from_its_first_sample() -> None:
    axis = time_axis(factories.all_tables(), np.array([70, 50, 90]))
    assert (axis.first_ns, axis.last_ns, axis.unit) == (50, 90, "ns")

"""Two runs side by side."""

from __future__ import annotations

import pytest

from npuprof.analysis import comparison
from npuprof.notes import Notes
from npuprof.profiles import Profile
from npuprof.sources.base import Decoded
from tests.factories import all_tables, info, profile


def _run(launches: int) -> Profile:
    tables = profile(launches) if launches else all_tables()
    return Profile(Decoded(tables=tables, info=info(), notes=Notes()))


def test_differences_are_exact_and_the_greatest_comes_first() -> None:
    before, after = _run(20), _run(60)
    compared = comparison.kernels(before.kernels, after.kernels)
    assert compared["difference_ns"].abs().is_monotonic_decreasing
    total = int(after.kernels["duration_ns"].sum() - before.kernels["duration_ns"].sum())
    assert compared["difference_ns"].sum() == total
    assert compared["after_count"].sum() == 60


def test_a_run_without_kernels_has_none() -> None:
    compared = comparison.kernels(_run(0).kernels, _run(10).kernels)
    assert compared["before_count"].tolist() == [0] * len(compared)
    assert compared["after_count"].sum() == 10


@pytest.mark.slow
def test_key_figures_that_a_run_does_not_tell_are_absent() -> None:
    figures = comparison.key_figures(_run(0).summary, _run(20).summary).set_index("figure")
    assert figures["before_ns"].isna()["device idle"]
    assert figures["difference_ns"].isna()["device idle"]
    assert figures["after_ns"]["device idle"] == sum(device.idle_ns for device in _run(20).summary.devices)

"""A run without a device shows what its host did."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import npuprof
from npuprof import tables
from npuprof.analysis.summary import summarise
from npuprof.exports.text import grids, key_figures
from npuprof.info import Info
from tests import factories


def operators() -> dict[str, object]:
    """Build a linear around its product, an add on another thread meanwhile, and an entry of the queue."""
    return {
        "start_ns": np.array([0, 10, 50, 200]),
        "duration_ns": np.array([100, 80, 100, 1_000]),
        "name": ["aten::linear", "aten::mm", "aten::add", "queued"],
        "thread_id": np.array([1, 1, 2, 2]),
        "kind": ["op", "op", "op", "enqueue"],
        "id": np.arange(4),
    }


def test_operators_are_counted_and_their_time_is_reported_once_on_any_thread() -> None:
    run = factories.all_tables(operators=tables.build("operators", operators()))
    summary = summarise(run, Info(started_ns=0, stopped_ns=600), top=2)
    assert (summary.host.alone, summary.host.operators, summary.host.operators_ns) == (True, 3, 150)
    assert dict(key_figures(summary)) == {
        "wall time": "600 ns",
        "operators": "3",
        "time in operators": "150 ns (25.0 % of the wall time)",
    }
    (grid,) = grids(summary)
    assert grid.title == "2 operators with the most time"
    assert grid.rows == [("aten::add", "1", "100 ns"), ("aten::linear", "1", "100 ns")]


def test_python_is_shown_where_it_is_all_there_is() -> None:
    summary = summarise(factories.all_tables(python=factories.profile(30)["python"]), Info())
    figures = dict(key_figures(summary))
    assert list(figures) == ["wall time", "Python calls"]
    assert figures["Python calls"] == "7"
    assert [grid.headings[0] for grid in grids(summary)] == ["Python function"]


@pytest.mark.slow
def test_a_run_with_a_device_is_summed_by_its_device() -> None:
    summary = summarise(factories.profile(30), factories.info())
    assert not summary.host.alone
    assert "operators" not in dict(key_figures(summary))
    assert "operator" not in [grid.headings[0] for grid in grids(summary)]


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["mindspore/cpu/case_cpu", "torch_npu/host_only_raw"])
def test_real_runs_without_a_device_have_no_dash(samples: Path, folder: str) -> None:
    summary = npuprof.load(next((samples / folder).iterdir())).summary
    figures = dict(key_figures(summary))
    assert int(figures["operators"].replace(",", "")) > 0
    assert "\N{EN DASH}" not in figures.values()
    assert grids(summary)

"""A run without a device shows what its host did."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import npuprof
from npuprof import tables
from npuprof.analysis.summary import summarise
from npuprof.profiles.profile import Profile
from npuprof.report.facts import key_figures, tables_of
from npuprof.sources.base import Decoded
from npuprof.tables.info import Info
from npuprof.tables.notes import Notes
from tests import factories
from tests.analysis.test_launches import training
from tests.analysis.test_memory_peak import blocks


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


def test_operators_are_counted_once_on_any_thread() -> None:
    run = factories.all_tables(operators=tables.build("operators", operators()))
    summary = summarise(run, Info(started_ns=0, stopped_ns=1_200), top=2)
    assert (summary.host.alone, summary.host.operators, summary.host.operators_ns) == (True, 3, 150)
    assert dict(key_figures(summary)) == {
        "wall time": "1.20 µs",
        "operators": "3",
        "time in operators": "150 ns (12.5 % of the wall time)",
    }
    assert [grid.title for grid in tables_of(summary)] == [
        "Host time of the run, which has no steps",
        "Operators with the most time",
    ]
    did, most = tables_of(summary)
    assert did.rows == [("other operators", "1.15 µs", "95.8 %"), ("unexplained", "50 ns", "4.2 %")]  # with the queue
    assert most.rows == [("aten::add", "1", "100 ns", "50.0 %"), ("aten::mm", "1", "80 ns", "40.0 %")]


def test_report_explains_host_time() -> None:
    run = training() | {name: factories.all_tables()[name] for name in ("kernels", "links")}
    run["operators"]["input_shapes"] = pd.Categorical(["4;2", "4;2", *[None] * 4])
    run["operators"]["name"] = run["operators"]["name"].cat.rename_categories({"AddmmBackward0": "Optimizer.step#SGD"})
    run["allocations"] = blocks(("aten::addmm", 4_096, 100, None))
    run["steps"] = tables.build("steps", {"step": [0], "start_ns": [0], "duration_ns": [1_000]})
    summary = summarise(run, Info(started_ns=0, stopped_ns=1_000), top=2)
    assert dict(key_figures(summary))["mean step"] == "1.00 µs"
    found = {grid.headings[0]: grid for grid in tables_of(summary)}
    assert list(found) == ["what the host did", "line", "module", "operator", "Python function", "what for", "call"]
    did = found["what the host did"]
    assert did.title == "Host time of 1 step"
    assert [row[:2] for row in did.rows] == [
        ("Python", "440 ns"),
        ("forward", "300 ns"),
        ("optimizer", "200 ns"),
        ("other operators", "60 ns"),
    ]
    assert found["line"].rows == [("main.py: train", "2", "180 ns", "50.0 %")]
    assert found["module"].rows == [("Linear_0", "2", "180 ns", "50.0 %")]
    assert found["operator"].rows == [
        ("aten::addmm", "4;2", "1", "160 ns", "44.4 %"),
        ("Optimizer.step#SGD", "–", "1", "100 ns", "27.8 %"),
    ]
    assert found["Python function"].rows[0] == ("/home/me/main.py(10): train", "1", "700 ns", "1.00 µs")
    assert found["what for"].rows == [("forward", "main.py: train", "aten::linear", "1", "4.00 KiB", "100.0 %")]


def test_page_has_host_bar_and_headline() -> None:
    run = factories.all_tables(operators=tables.build("operators", operators()))
    page = Profile(Decoded(run, Info(started_ns=0, stopped_ns=600), Notes()))._repr_html_()
    assert "No device was recorded." in page
    assert not re.search("NPU(?!prof)|CANN|Ascend", page)


def test_python_is_shown_where_it_is_all_there_is() -> None:
    summary = summarise(factories.all_tables(python=factories.profile(30)["python"]), Info())
    figures = dict(key_figures(summary))
    assert list(figures) == ["wall time", "Python calls"]
    assert figures["Python calls"] == "7"
    assert [grid.headings[0] for grid in tables_of(summary)] == ["what the host did", "Python function"]


@pytest.mark.slow
def test_a_run_with_a_device_is_summed_by_its_device() -> None:
    summary = summarise(factories.profile(30), factories.info())
    assert not summary.host.alone
    assert "operators" not in dict(key_figures(summary))
    assert "operator" not in [grid.headings[0] for grid in tables_of(summary)]


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["mindspore/cpu/case_cpu", "torch_npu/host_only_raw"])
def test_real_runs_without_a_device_have_no_dash(samples: Path, folder: str) -> None:
    summary = npuprof.load(next((samples / folder).iterdir())).summary
    figures = dict(key_figures(summary))
    assert int(figures["operators"].replace(",", "")) > 0
    assert "\N{EN DASH}" not in figures.values()
    assert tables_of(summary)

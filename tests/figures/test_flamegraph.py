from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npuprof.analysis.call_tree import call_tree
from npuprof.figures.flamegraph import Weight, flamegraph, folded
from npuprof.info import Info
from tests import factories

MANY_NAMES = tuple(f"kernel_{i}" for i in range(3_000))


@pytest.mark.parametrize("weight", ["host", "device", "count"])
@pytest.mark.parametrize("most", [3, 20, 2_000])
def test_callees_never_exceed_their_caller(weight: Weight, most: int) -> None:
    figure = flamegraph(factories.profile(6_000, kernel_names=MANY_NAMES), Info(), weight=weight, max_nodes=most)

    (trace,) = figure.data
    assert trace.type == "icicle"
    assert trace.branchvalues == "total"
    assert len(trace.ids) == len(set(trace.ids)) <= most
    below = _sums_below(trace)
    values = dict(zip(trace.ids, trace.values, strict=True))
    assert all(below[node] <= values[node] for node in below if node)
    assert below["all"] == values["all"] == below[""]


def test_folding_loses_no_time() -> None:
    tree = call_tree(factories.profile(6_000, kernel_names=MANY_NAMES))

    nodes = folded(tree, "device_ns", 100)

    assert len(nodes) <= 100
    assert nodes.loc[nodes["parent"] < 0, "device_ns"].sum() == tree["self_device_ns"].sum()
    # Only kernels have device time of their own, so a caller's is that of its callees to the nanosecond.
    callees = nodes[nodes["parent"] >= 0].groupby("parent")["device_ns"].sum()
    assert (callees == nodes["device_ns"].iloc[callees.index]).all()
    assert nodes["folded"].sum() > 0


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(-1, 40), st.integers(0, 20)), max_size=40), st.integers(2, 45))
def test_folding_any_tree_keeps_its_total(rows: list[tuple[int, int]], most: int) -> None:
    tree = _tree(rows)

    nodes = folded(tree, "host_ns", most)

    assert len(nodes) <= most
    assert nodes.loc[nodes["parent"] < 0, "host_ns"].sum() == tree["self_host_ns"].sum()
    assert (nodes["parent"].to_numpy() < np.arange(len(nodes))).all()
    callees = nodes[nodes["parent"] >= 0].groupby("parent")["host_ns"].sum()
    assert (callees <= nodes["host_ns"].iloc[callees.index]).all()
    if (tree["host_ns"] > 0).sum() <= most:
        assert (nodes["folded"] == 0).all()


def test_the_rest_tells_how_many_it_stands_for() -> None:
    figure = flamegraph(factories.profile(6_000, kernel_names=MANY_NAMES), Info(), weight="device", max_nodes=50)

    assert any(label.endswith(" more)") for label in figure.data[0].labels)


def test_names_show_as_they_are_and_not_as_markup() -> None:
    run = factories.profile(20, kernel_names=("<script>alert(1)</script>", "$x$"))

    (trace,) = flamegraph(run, Info(), weight="device").data

    text = " ".join([*trace.labels, *trace.hovertext])
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "&#36;x&#36;" in text
    assert "<script" not in text


def test_a_simulated_run_says_so() -> None:
    assert "simulated NPU" in flamegraph(factories.profile(5), factories.info()).layout.title.text
    assert "simulated" not in flamegraph(factories.profile(5), factories.info(simulated=False)).layout.title.text


def test_a_run_without_the_weight_says_so() -> None:
    figure = flamegraph(factories.all_tables(), Info(), weight="device")

    assert not figure.data
    assert figure.layout.annotations[0].text == "no device time in this run"


def test_wrong_arguments_are_refused_with_what_is_allowed() -> None:
    with pytest.raises(ValueError, match="one of host, device, count"):
        flamegraph(factories.all_tables(), Info(), weight="time")  # type: ignore[arg-type]  # the wrong value is the point
    with pytest.raises(ValueError, match="at least 3"):
        flamegraph(factories.all_tables(), Info(), max_nodes=2)


def _sums_below(trace: Any) -> dict[str, int]:
    sums: dict[str, int] = defaultdict(int)
    for parent, value in zip(trace.parents, trace.values, strict=True):
        sums[parent] += value
    return sums


def _tree(rows: list[tuple[int, int]]) -> pd.DataFrame:
    """A call tree from (any number for the parent, own time) of each node."""
    parents = [number % (row + 1) - 1 for row, (number, _) in enumerate(rows)]
    totals = [own for _, own in rows]
    depths: list[int] = []
    for parent in parents:
        depths.append(depths[parent] + 1 if parent >= 0 else 0)
    for row in range(len(rows) - 1, -1, -1):
        if parents[row] >= 0:
            totals[parents[row]] += totals[row]
    tree: pd.DataFrame = pd.DataFrame(
        {
            "parent": np.array(parents, np.int64),
            "depth": np.array(depths, np.int64),
            "layer": ["api"] * len(rows),
            "name": [f"n{row}" for row in range(len(rows))],
            "count": np.ones(len(rows), np.int64),
            "self_host_ns": np.array([own for _, own in rows], np.int64),
            "total_count": np.ones(len(rows), np.int64),
            "host_ns": np.array(totals, np.int64),
            "device_ns": np.zeros(len(rows), np.int64),
        }
    )
    return tree

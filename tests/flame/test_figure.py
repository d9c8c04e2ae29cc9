from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

from npuprof.errors import OptionsError
from npuprof.figures.colours import MATCH
from npuprof.flame.figure import Orientation, Weight, flamegraph
from npuprof.tables.info import Info
from tests import factories

pytestmark = pytest.mark.slow

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


def test_a_folded_frame_has_the_number_of_its_callees() -> None:
    figure = flamegraph(factories.profile(6_000, kernel_names=MANY_NAMES), Info(), weight="device", max_nodes=50)

    assert any(label.endswith(" more)") for label in figure.data[0].labels)


def test_names_show_as_they_are_and_not_as_markup() -> None:
    run = factories.profile(20, kernel_names=("<script>alert(1)</script>", "$x$"))

    (trace,) = flamegraph(run, Info(), weight="device").data

    text = " ".join([*trace.labels, *trace.hovertext])
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "&#36;x&#36;" in text
    assert "<script" not in text


@pytest.mark.slow
def test_a_simulated_run_says_so() -> None:
    assert "simulated NPU" in flamegraph(factories.profile(5), factories.info()).layout.title.text
    assert "simulated" not in flamegraph(factories.profile(5), factories.info(simulated=False)).layout.title.text


def test_a_step_and_a_thread_can_be_drawn_alone() -> None:
    run = factories.profile(60)

    whole = flamegraph(run, Info())
    step = flamegraph(run, Info(), step=1)
    both = flamegraph(run, Info(), step=1, thread=101)

    assert whole.data[0].values[0] > step.data[0].values[0] > both.data[0].values[0] > 0
    assert "step 1, thread 101" in both.layout.title.text
    assert not any("train.py" in label for label in both.data[0].labels)


@pytest.mark.slow
def test_a_part_of_the_run_without_the_weight_says_so() -> None:
    run = factories.profile(60)
    only_one = run["api"]["thread_id"] == 100

    figure = flamegraph(run | {"links": run["links"][only_one.to_numpy()]}, Info(), thread=101, weight="device")

    assert not figure.data
    assert figure.layout.annotations[0].text == "no device time in thread 101"


@pytest.mark.slow
@pytest.mark.parametrize("root", ["aten::linear", ["train.py(1): main", "train.py(20): step"]])
def test_a_frame_can_be_put_at_the_top(root: str | list[str]) -> None:
    figure = flamegraph(factories.profile(60), Info(), root=root)

    (trace,) = figure.data
    name = root if isinstance(root, str) else root[-1]
    assert (trace.ids[0], trace.labels[0], trace.parents[0]) == ("all", name, "")
    assert name in figure.layout.title.text
    assert _sums_below(trace)[""] == trace.values[0]
    with pytest.raises(OptionsError, match="there is no frame 'none' in this run; the widest are"):
        flamegraph(factories.profile(60), Info(), root="none")


@pytest.mark.slow
@pytest.mark.parametrize(("orientation", "flip"), [("icicle", ""), ("flame", "y")])
def test_callers_are_above_or_below(orientation: Orientation, flip: str) -> None:
    (trace,) = flamegraph(factories.profile(60), Info(), orientation=orientation).data

    assert (trace.tiling.flip or "") == flip


def test_matches_are_outlined_and_the_title_has_their_share() -> None:
    figure = flamegraph(factories.profile(60), Info(), search="ATEN::ADD|copy", regex=True)

    (trace,) = figure.data
    outlined = {label for label, colour in zip(trace.labels, trace.marker.line.color, strict=True) if colour == MATCH}
    assert outlined == {"aten::add", "aten::copy_"}
    assert "frames, " in figure.layout.title.text
    assert "% of host time" in figure.layout.title.text
    nothing = flamegraph(factories.profile(60), Info(), search="<b>")
    assert "&lt;b&gt;: no match" in nothing.layout.title.text


def test_a_run_without_the_weight_says_so() -> None:
    figure = flamegraph(factories.all_tables(), Info(), weight="device")

    assert not figure.data
    assert figure.layout.annotations[0].text == "no device time in this run"


def test_wrong_arguments_are_refused_with_what_is_allowed() -> None:
    with pytest.raises(ValueError, match="one of host, device, count"):
        flamegraph(factories.all_tables(), Info(), weight="time")  # type: ignore[arg-type]  # the wrong value is the point
    with pytest.raises(ValueError, match="one of icicle, flame"):
        flamegraph(factories.all_tables(), Info(), orientation="v")  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(ValueError, match="no step 8"):
        flamegraph(factories.all_tables(), Info(), step=8)
    with pytest.raises(ValueError, match="at least 3"):
        flamegraph(factories.all_tables(), Info(), max_nodes=2)


def _sums_below(trace: Any) -> dict[str, int]:
    sums: dict[str, int] = defaultdict(int)
    for parent, value in zip(trace.parents, trace.values, strict=True):
        sums[parent] += value
    return sums

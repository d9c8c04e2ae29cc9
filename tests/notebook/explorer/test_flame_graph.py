from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from npuprof.flame.fold import Root
from npuprof.flame.scope import Scope
from npuprof.flame.state import FlameGraph
from npuprof.notebook.explorer.flame_graph import FlameGraphView
from tests import factories
from tests.analysis.test_launches import training

_HOSTILE = "<img src=x onerror=alert(1)>"


def _flame(launches: int = 200, **how: Any) -> FlameGraph:
    return FlameGraph(factories.profile(launches, **how), factories.info())


def _all(widget: Any, kind: str) -> list[Any]:
    found = [widget] if type(widget).__name__ == kind else []
    return found + [one for child in getattr(widget, "children", ()) for one in _all(child, kind)]


def _button(view: FlameGraphView, name: str) -> Any:
    return next(button for button in _all(view.widget, "Button") if button.description == name)


def _choice(view: FlameGraphView, name: str) -> Any:
    return next(choice for choice in _all(view.widget, "Dropdown") if choice.description == name)


def _toggle(view: FlameGraphView, option: str) -> Any:
    return next(one for one in _all(view.widget, "ToggleButtons") if option in one._options_values)


def _said(view: FlameGraphView) -> str:
    return "\n".join(str(one.value) for one in _all(view.widget, "HTML"))


def _click(view: FlameGraphView, frame: int) -> None:
    """Do what a page does when a frame is clicked."""
    view.figure.widget._asked(None, {"kind": "frame", "frame": frame}, None)


def _lit(view: FlameGraphView) -> Any:
    return np.frombuffer(view.figure.widget.picture["lit"], np.uint8)


def _frame(flame: FlameGraph, name: str) -> int:
    picture = flame.picture()
    return next(frame for frame in range(len(picture.frames)) if picture.name(frame) == name)


@pytest.mark.slow
def test_one_figure_is_refilled_by_clicks_and_buttons() -> None:
    flame = _flame()
    view = FlameGraphView(flame)
    figure = view.figure.widget
    whole = len(figure.picture["names"])
    assert _button(view, "Up").disabled

    _click(view, _frame(flame, "train.py(20): step"))

    assert flame.path() == ["train.py(1): main", "train.py(20): step"]
    assert "everything › train.py(1): main › train.py(20): step" in _said(view)
    assert view.figure.widget is figure
    assert 0 < len(figure.picture["names"]) < whole
    assert figure.picture["names"][0] == "train.py(20): step"
    _button(view, "Up").click()
    assert flame.path() == ["train.py(1): main"]
    _button(view, "All").click()
    assert len(figure.picture["names"]) == whole
    assert _button(view, "All").disabled


@pytest.mark.slow
def test_weight_part_and_shape_are_chosen_by_controls() -> None:
    flame = _flame()
    view = FlameGraphView(flame)

    _toggle(view, "device").value = "device"
    _choice(view, "Step").value = 1
    _choice(view, "Thread").value = 101
    _toggle(view, "flame").value = "flame"

    assert (flame.weight, flame.scope, flame.orientation) == ("device", Scope(1, 101), "flame")
    picture = view.figure.widget.picture
    assert picture["upwards"]
    assert picture["title"].startswith("simulated NPU · device time: ")
    _choice(view, "Step").value = ""
    assert flame.scope == Scope(None, 101)


def test_modules_are_offered_where_they_were_recorded() -> None:
    run = training()
    flame = FlameGraph(run, factories.info())
    view = FlameGraphView(flame)
    flame.search("main.py")
    assert "main.py(10): train" in view.figure.widget.picture["names"][1]

    _toggle(view, "module").value = "module"

    names = set(view.figure.widget.picture["names"])
    assert {"nn.Module: Linear_0", "(outside of modules)"} <= names
    assert not any("main.py" in name for name in names)
    assert "no match" in _said(view)
    _toggle(view, "module").value = "call"
    assert "1 frame" in _said(view)


def test_only_what_a_run_has_is_offered() -> None:
    kernels = factories.profile(5)["kernels"]
    view = FlameGraphView(FlameGraph(factories.all_tables(kernels=kernels), factories.info()))

    assert [list(one._options_values) for one in _all(view.widget, "ToggleButtons")] == [
        ["device", "count"],
        ["icicle", "flame"],
    ]
    assert not _all(view.widget, "Dropdown")


@pytest.mark.slow
def test_a_search_shows_its_share_and_an_invalid_pattern_its_error() -> None:
    flame = _flame()
    view = FlameGraphView(flame)
    (text,), (regex,) = _all(view.widget, "Text"), _all(view.widget, "Checkbox")

    text.value = "aten::softmax"
    assert re.search(r'role="status">3 frames, [\d.]+ % of host time<', _said(view))
    assert _lit(view).sum() == 3
    _button(view, "Next").click()
    assert flame.picture().name(flame.cursor) == "aten::softmax"
    assert view.figure.widget.cursor == flame.cursor

    regex.value = True
    text.value = "("
    assert "cannot be read" in _said(view)
    assert (_lit(view) == 1).all()
    text.value = ""
    assert "cannot be read" not in _said(view)


@pytest.mark.slow
def test_keys_of_the_browser_arrive_and_others_are_let_pass() -> None:
    flame = _flame()
    view = FlameGraphView(flame)

    for content in ({"kind": "key", "key": "ArrowDown"}, {"kind": "key", "key": 7}, {"kind": "frame"}, {}, "text"):
        view.figure.widget._asked(None, content, None)

    assert flame.picture().name(flame.cursor) == "train.py(1): main"
    assert "train.py(1): main" in _said(view)


def test_names_are_escaped_wherever_they_are_shown() -> None:
    flame = _flame(kernel_names=[_HOSTILE])
    view = FlameGraphView(flame)
    _toggle(view, "device").value = "device"
    _click(view, _frame(flame, _HOSTILE))

    said = _said(view)
    assert flame.path()[-1] == _HOSTILE
    assert "&lt;img" in said
    assert "<img" not in said


def test_a_run_with_nothing_to_show_says_so() -> None:
    flame = FlameGraph(factories.all_tables(), factories.info())

    view = FlameGraphView(flame)

    assert view.figure.widget.picture["nothing"] == "no number of calls and kernels in this run"
    assert flame.root == Root()


@pytest.mark.slow
def test_callers_and_callees_of_a_clicked_frame_are_below_and_lead_on() -> None:
    flame = _flame(kernel_names=(_HOSTILE, "Add"))
    view = FlameGraphView(flame)
    assert _all(view.widget, "FlameCanvas") == [view.figure.widget]
    flame.weigh("device")
    _click(view, _frame(flame, "launch"))
    _, callers, callees = _all(view.widget, "FlameCanvas")
    assert callers.picture["names"][0] == callees.picture["names"][0] == "launch"
    assert callers.picture["upwards"]
    assert not callees.picture["upwards"]
    assert {"aten::add", "aten::layer_norm"} <= set(callers.picture["names"])
    assert "above and callees below of <b>launch</b>" in _said(view)
    callees._asked(None, {"kind": "frame", "frame": callees.picture["names"].index(_HOSTILE)}, None)
    assert callees.picture["names"] == [_HOSTILE]
    assert "launch" in callers.picture["names"]
    assert "of <b>&lt;img src=x" in _said(view)
    assert flame.path()[-1] == "launch"  # the graph itself stays
    for nonsense in ({"kind": "frame", "frame": 10**9}, {"kind": "frame"}, {"kind": "key", "key": "u"}):
        callers._asked(None, nonsense, None)
    assert callees.picture["names"] == [_HOSTILE]

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from npuprof.notebook.explorer.explore import Explorer
from npuprof.notebook.explorer.later import Later
from npuprof.notebook.explorer.tabs import _TABS, Tab, register
from npuprof.notebook.explorer.timeline import TimelineView
from npuprof.notes import Notes
from npuprof.profiles import Profile
from npuprof.sources.base import Decoded
from tests import factories

_HOSTILE = "<img src=x onerror=alert(1)>"


def _run(launches: int = 50, **how: Any) -> Profile:
    return Profile(Decoded(tables=factories.profile(launches, **how), info=factories.info(), notes=Notes()))


def _texts(widget: Any) -> str:
    """Everything that a widget and those in it say as HTML."""
    own = [str(widget.value)] if widget.__class__.__name__ == "HTML" else []
    return "\n".join(own + [_texts(child) for child in getattr(widget, "children", ())])


def _buttons(widget: Any) -> dict[str, Any]:
    found = {widget.description: widget} if widget.__class__.__name__ == "Button" else {}
    for child in getattr(widget, "children", ()):
        found.update(_buttons(child))
    return found


def test_absent_data_hides_its_tab() -> None:
    assert Explorer(_run()).titles == [
        *("Overview", "Timeline", "Flame graph", "Operators", "Kernels", "API"),
        *("Memory", "Communication", "Steps", "Marks"),
    ]
    empty = Profile(Decoded(tables=factories.all_tables(), info=factories.info(), notes=Notes()))
    assert Explorer(empty).titles == ["Overview"]


def test_a_tab_is_built_when_it_is_first_opened_and_once() -> None:
    built: list[Explorer] = []
    before = list(_TABS)

    def build(explorer: Explorer) -> Any:
        import ipywidgets

        built.append(explorer)
        return ipywidgets.HTML("made")

    try:
        register(Tab("Extra", lambda _: True, build))
        explorer = Explorer(_run())
        assert explorer.titles[-1] == "Extra"
        assert not built
        for title in ("Extra", "Overview", "Extra"):
            explorer.open(title)
        assert built == [explorer]
        assert "made" in _texts(explorer.widget)
    finally:
        _TABS[:] = before


def test_a_view_that_fails_tells_so_in_its_tab() -> None:
    before = list(_TABS)

    def fail(_: Explorer) -> Any:
        raise RuntimeError("<b>no</b>")

    try:
        register(Tab("Overview", lambda _: True, fail))
        explorer = Explorer(_run())
        assert "could not be made: RuntimeError: &lt;b&gt;no&lt;/b&gt;" in _texts(explorer.widget)
    finally:
        _TABS[:] = before


def test_every_tab_can_be_built() -> None:
    explorer = Explorer(_run())

    for title in explorer.titles:
        explorer.open(title)

    assert "could not be made" not in _texts(explorer.widget)


def test_the_profile_makes_its_explorer() -> None:
    assert "npuprof-explorer" in _run().explore()._dom_classes


def test_rows_of_a_table_light_up_in_the_timeline() -> None:
    explorer = Explorer(_run())

    explorer.light_up("kernels", np.array([7]))

    assert explorer.timeline.selected == explorer.timeline.slices.first["kernels"] + 7
    assert "SoftmaxV2" in _texts(explorer.widget) or "Add" in _texts(explorer.widget)


def test_one_figure_is_refilled() -> None:
    explorer = Explorer(_run(5_000))
    view = TimelineView(explorer.timeline)
    figure, bars = view.figure.widget, view.figure.widget.data[0]
    whole = np.array(bars.base)

    for name in ("Zoom in", "Move ▶", "Zoom in"):
        _buttons(view.widget)[name].click()

    assert view.figure.widget is figure
    assert figure.data[0] is bars
    assert len(bars.base) != len(whole) or (np.array(bars.base) != whole).any()
    assert view.figure.size_bytes <= 300_000


def test_zooming_in_the_figure_asks_for_the_visible_window() -> None:
    explorer = Explorer(_run(5_000))
    view = TimelineView(explorer.timeline)
    first = explorer.timeline.whole[0]

    view.figure.widget.layout.xaxis.range = [0.05, 0.0501]

    assert explorer.timeline.window == (first + 50_000_000, first + 50_100_000)
    assert "slices</b>" not in "".join(view.figure.widget.data[0].hovertext)


@pytest.mark.parametrize("window", [[float("nan"), 1.0], [float("inf"), 1.0], [3.0, 1.0], [1e18, 2e18]])
def test_impossible_windows_of_the_browser_are_survived(window: list[float]) -> None:
    explorer = Explorer(_run())
    view = TimelineView(explorer.timeline)

    view.figure.widget.layout.xaxis.range = window

    assert explorer.timeline.window[0] < explorer.timeline.window[1]


def test_a_selected_kernel_is_outlined_told_and_has_arrows() -> None:
    explorer = Explorer(_run())
    view = TimelineView(explorer.timeline)

    explorer.timeline.select(explorer.timeline.slices.first["kernels"] + 10)

    (outline,) = view.figure.widget.layout.shapes
    start, end = explorer.timeline.slices.span(explorer.timeline.selected or 0)
    assert outline.x1 - outline.x0 == pytest.approx((end - start) / 1e9)
    assert len(view.figure.widget.data[2].x) == 9
    assert "caused by" in _texts(view.widget)
    assert "kernels, row 10" in _texts(view.widget)


def test_names_are_escaped_wherever_they_are_told() -> None:
    explorer = Explorer(_run(kernel_names=[_HOSTILE]))
    view = TimelineView(explorer.timeline)
    explorer.timeline.select(explorer.timeline.slices.first["kernels"])

    for title in explorer.titles:
        explorer.open(title)

    said = _texts(view.widget) + _texts(explorer.widget)
    assert "&lt;img" in said
    assert "<img" not in said
    assert "<img" not in str(view.figure.widget.to_dict())


def test_asking_often_works_once() -> None:
    done: list[int] = []

    async def ask() -> None:
        later = Later(lambda: done.append(1), 0.02)
        later.ask()
        await asyncio.sleep(0.005)
        assert len(done) == 1
        for _ in range(20):
            later.ask()
        await asyncio.sleep(0.06)

    asyncio.run(ask())
    assert len(done) == 2
    Later(lambda: done.append(2), 60).ask()  # no loop to wait in
    assert done[-1] == 2

"""The panel's widgets, without a front end."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ipywidgets as widgets
import pytest

from npuprof.notebook.controller import Controller
from npuprof.notebook.panel.controller import PanelController
from npuprof.notebook.panel.state import MODES, Opened
from npuprof.notebook.panel.view import PanelView, opened_view
from npuprof.profiles.profile import Profile
from npuprof.session import history as run_history
from npuprof.simulator import npu
from npuprof.sources.base import Decoded
from npuprof.tables.notes import Notes
from tests import factories
from tests.difference import runs


@pytest.fixture
def panel(tmp_path: Path) -> Iterator[PanelController]:
    for run in run_history.ended_runs():
        run_history.forget(run.directory)
    cells = Controller(lambda session: None)
    panel = PanelController(cells, in_background=lambda work: work())
    panel.choose("collector", "simulator")
    panel.choose("activities", ("npu",))
    panel.choose("output", str(tmp_path))
    yield panel
    cells.end(show=lambda session: None)


@pytest.fixture
def view(panel: PanelController) -> Iterator[PanelView]:
    view = PanelView(panel)
    yield view
    view.close()


def _all(widget: Any) -> Iterator[Any]:
    yield widget
    for child in getattr(widget, "children", ()):
        yield from _all(child)


def _find(view: PanelView, kind: type[Any], label: str) -> Any:
    (found,) = [one for one in _all(view.widget) if isinstance(one, kind) and one.description == label]
    return found


def _press(view: PanelView, label: str) -> None:
    _find(view, widgets.Button, label).click()
    view.refresh()


def _record(view: PanelView, name: str) -> None:
    _find(view, widgets.Text, "Name").value = name
    _press(view, "Start")
    float((npu.ones((8, 8)) + 1).sum())
    _press(view, "Stop")


def _unfold(view: PanelView) -> None:
    (fold,) = [one for one in _all(view.widget) if "no front end here has" in getattr(one, "description", "")]
    fold.value = True


def _html(view: PanelView) -> str:
    return "".join(one.value for one in _all(view.widget) if isinstance(one, widgets.HTML))


@pytest.mark.slow
def test_a_run_by_buttons_is_listed_and_opened(view: PanelView) -> None:
    assert _find(view, widgets.Button, "Stop").disabled
    _press(view, "Start")
    assert _find(view, widgets.Button, "Start").disabled
    assert "Recording" in _html(view)
    _press(view, "Stop")
    assert view._runs.page["total"] == 1
    assert len(view._opened.children) > 1


@pytest.mark.slow
def test_opening_another_run_closes_the_former_and_no_other_widget(view: PanelView) -> None:
    users = widgets.IntSlider()
    _record(view, "one")
    former = list(_all(view._opened))[1:]
    assert all(one.comm is not None for one in former)
    _record(view, "two")
    assert all(one.comm is None for one in former)
    assert users.comm is not None
    _press(view, "Close")
    assert view._opened.children == ()
    assert users.comm is not None
    users.close()


@pytest.mark.slow
def test_a_directory_of_many_runs_opens_in_an_explorer_of_all(
    view: PanelView, panel: PanelController, tmp_path: Path
) -> None:
    for rank in range(2):
        decoded = Decoded(factories.profile(10), factories.info(rank=rank), Notes())
        Profile(decoded).save(tmp_path / "ranks" / f"rank{rank}")
    panel.load(str(tmp_path / "ranks"))
    view.refresh()
    (tabs,) = [one for one in _all(view._opened) if isinstance(one, widgets.Tab)]
    assert {"Runs", "One run", "Timeline", "Steps", "Communication"} <= set(tabs.titles)


def _opened(*runs: Profile) -> list[Any]:
    return opened_view(Opened("two runs", runs))


@pytest.mark.slow
def test_two_runs_are_compared_by_a_step_with_their_figures() -> None:
    before, after = (runs.run([[("MatMul", "8,8", time)]], name=name) for name, time in (("slow", 900), ("<b>", 500)))
    html, waterfall, flame = _opened(before, after)
    assert "As long as before" in html.value  # the NPU idles in the time it gained
    assert "\u2212400 ns" in html.value
    assert "<b>" not in html.value
    assert waterfall.data[0].type == "bar"
    assert flame.data[0].type == "icicle"


def test_run_without_device_time_is_not_comparable() -> None:
    (message,) = _opened(runs.run([[("MatMul", "8,8", 900)]]), runs.profile({}))
    assert "nothing to compare" in message.value


@pytest.mark.slow
def test_names_are_escaped(view: PanelView, panel: PanelController) -> None:
    name = "<script>alert(1)<b>"
    _record(view, name)
    panel.answer({"kind": "action", "action": "rename", "rows": panel.runs.page().ids})
    view.refresh()
    assert "&lt;script&gt;" in _html(view)
    assert "<script>" not in _html(view)


@pytest.mark.slow
def test_disabled_control_reports_its_reason(view: PanelView) -> None:
    _find(view, widgets.Dropdown, "Level").value = 0
    view.refresh()
    metrics = _find(view, widgets.Dropdown, "Metrics")
    assert metrics.disabled
    assert "needs level 1 or 2" in _html(view)
    _find(view, widgets.Dropdown, "Level").value = 2
    view.refresh()
    assert not metrics.disabled
    _unfold(view)
    assert _find(view, widgets.Checkbox, "modules").disabled


@pytest.mark.slow
@pytest.mark.parametrize("broken", ["start", "stop", "load"])
def test_raising_callback_is_reported_in_the_panel(
    panel: PanelController, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr(panel, broken, fail)
    view = PanelView(panel)
    _find(view, widgets.Button, "Stop").disabled = False
    _press(view, broken.capitalize())
    assert "ZeroDivisionError: oh" in _html(view)
    view.close()


def test_every_control_has_a_name(view: PanelView) -> None:
    controls: Callable[[Any], bool] = lambda one: isinstance(one, (widgets.Button, widgets.Checkbox, widgets.Dropdown))  # noqa: E731
    assert [one for one in _all(view.widget) if controls(one) and not one.description] == []


def test_unavailable_options_are_folded(view: PanelView) -> None:
    shown = {one.description for one in _all(view.widget) if isinstance(one, widgets.Checkbox)}
    assert "memory" in shown
    assert "sys io" not in shown
    _unfold(view)
    assert "sys io" in {one.description for one in _all(view.widget) if isinstance(one, widgets.Checkbox)}
    described = re.findall(r'data-npuprof-describes="(npuprof-option-[\w-]+)">([^<]+)<', _html(view))
    classes = {name for one in _all(view.widget) for name in getattr(one, "_dom_classes", ())}
    assert {name for name, _ in described} <= classes
    texts = dict(described)
    assert texts["npuprof-option-memory"].startswith("Sample the device&#x27;s memory.")
    assert "no such hardware" in texts["npuprof-option-sys_io"]


def test_changing_mode_is_not_chosen_again(panel: PanelController, view: PanelView) -> None:
    """GIVEN the next cell begins, and ends its mode, as another thread shows that mode THEN it stays ended."""
    panel.mode = MODES[1]
    observers: list[Any] = view._mode._trait_notifiers["value"]["change"]
    observers.insert(0, lambda _: setattr(panel, "mode", MODES[0]))
    view.refresh()
    assert panel.mode == MODES[0]
    observers.pop(0)

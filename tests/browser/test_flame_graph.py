"""The flame graph in a page: zooming, searching, weighing, by mouse and by keyboard; what the kernel is asked for."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from npuprof.arrays import Int64
from npuprof.flame.scope import Scope, scoped
from npuprof.flame.tree import merged_calls
from npuprof.notebook.explorer.flame_graph import FlameGraphView
from npuprof.profiles.selection import SelectedRows
from npuprof.timeline.state import Timeline
from npuprof.words.quantities import duration
from tests import factories
from tests.analysis.test_launches import training
from tests.browser.canvas_page import CanvasPage
from tests.browser.notebook_page import OpenNotebook, settle

pytestmark = pytest.mark.browser

_SOURCE = """\
import sys
sys.path.insert(0, {root!r})
from npuprof.tables.notes import Notes
from npuprof.profiles.profile import Profile
from npuprof.sources.base import Decoded
from tests import factories
run = Profile(Decoded(tables=factories.profile(2_000), info=factories.info(), notes=Notes(), statistics={{}}))
run.explore()
"""
_HOSTILE = "<img src=x onerror='window.pwned=1'>"
_PICTURE = "() => document.querySelector('.flamebox canvas').toDataURL()"
_DRAWN = "document.querySelector('.npuprof-flame-canvas')?.dataset.drawn"

Open = Callable[..., "Shown"]


class Shown(CanvasPage):
    """A flame graph in a page.

    Attributes
    ----------
    chosen
        What was selected: rows by table, and a name.
    selected
        What the kernel says is selected.
    """

    def __init__(self, page: Any, tables: Mapping[str, pd.DataFrame]) -> None:
        self.tables, self.selected = tables, SelectedRows()
        self.chosen: list[tuple[Mapping[str, Int64], str]] = []
        view = FlameGraphView(
            tables,
            factories.info(),
            origin_ns=factories.START_NS,
            selected=lambda: self.selected,
            select=lambda rows, name: self.chosen.append((rows, name)),
            explorer="one",
        )
        super().__init__(page, view)
        page.locator(".npuprof-flame-canvas[data-drawn]").wait_for()

    def asked(self) -> list[str]:
        """What the kernel was asked for since the last time."""
        kinds: list[str] = self.page.evaluate("() => sent.splice(0).map((one) => one.kind)")
        return kinds

    def button(self, name: str) -> Any:
        """A button of the view."""
        return self.page.get_by_role("button", name=name, exact=True)

    def push(self, name: str) -> None:
        """Press a button."""
        self.button(name).click()
        self.settle()

    def said(self, part: str) -> str:
        """The text of a part of the view."""
        return str(self.page.locator(f".npuprof-flame {part}").first.inner_text())

    def rows(self) -> list[list[str]]:
        """What is shown as a table: name and what is known."""
        canvas = self.page.locator(".npuprof-flame-canvas").first
        if not canvas.locator(".visible").is_visible():
            canvas.get_by_role("button", name="Table", exact=True).click()
        found: list[list[str]] = canvas.locator(".visible tbody tr").evaluate_all(
            "rows => rows.map((row) => [...row.cells].slice(0, 2).map((cell) => cell.textContent))"
        )
        return found

    def zoom(self, name: str) -> None:
        """Go to the frame of a name by keys, and zoom into it."""
        field = self.page.get_by_label("Search frames")
        field.fill(name)
        self.push("Next")
        field.fill("")
        self.page.locator(".npuprof-flame-canvas").first.focus()
        self.press("Enter")


@pytest.fixture
def open_flame(browser: Any) -> Iterator[Open]:
    """Show the flame graph of a run in a page without JupyterLab."""
    pages = []

    def open_(tables: Mapping[str, pd.DataFrame]) -> Shown:
        pages.append(browser.new_page(viewport={"width": 1000, "height": 1400}))
        return Shown(pages[-1], tables)

    yield open_
    for page in pages:
        page.close()


def _title(amount_ns: int) -> str:
    return f"simulated NPU · host time: {duration(amount_ns)}"


def test_click_zooms_without_asking_the_kernel(open_flame: Open) -> None:
    shown = open_flame(factories.profile(6_000, kernel_names=[f"MatMulV3_{at:05d}" for at in range(6_000)]))
    page = shown.page
    shown.push("device time")
    assert shown.button("Up").is_disabled()
    assert any(name.endswith(" more)") for name, _ in shown.rows())
    whole = page.evaluate(_PICTURE)
    assert shown.asked() == ["tree"]
    box = page.locator(".flamebox canvas").bounding_box()
    page.mouse.click(box["x"] + 20, box["y"] + 28)
    shown.settle()
    assert page.evaluate(_PICTURE) != whole
    path = shown.said(".long")
    assert path.startswith("everything › ")
    assert shown.rows()[0][0] == path.removeprefix("everything › ")
    page.mouse.click(box["x"] + 20, box["y"] + 8)  # the one at the root goes up
    shown.settle()
    assert shown.said(".long") == "everything"
    assert page.evaluate(_PICTURE) == whole
    assert shown.asked() == []
    assert shown.errors == []


def test_a_step_a_thread_and_modules_are_asked_of_the_kernel(open_flame: Open) -> None:
    tables = factories.profile(200)
    shown = open_flame(tables)
    shown.push("host time")
    calls = merged_calls(tables)
    shown.page.get_by_label("Step", exact=True).select_option("1")
    shown.settle()
    sums = scoped(calls, tables, Scope(step=1))
    assert shown.said(".said") == f"{_title(int(sums['host'].exclusive.sum()))}, step 1"
    shown.page.get_by_label("Thread", exact=True).select_option("101")
    shown.settle()
    sums = scoped(calls, tables, Scope(1, 101))
    assert shown.said(".said") == f"{_title(int(sums['host'].exclusive.sum()))}, step 1, thread 101"
    assert shown.asked() == ["tree", "sums", "sums"]
    assert not shown.button("modules").count()
    modules = open_flame(training())
    modules.push("host time")
    modules.page.get_by_label("Search frames").fill("main.py")
    assert "1 frame" in modules.said(".bar [role=status]")
    modules.push("modules")
    names = {name for name, _ in modules.rows()}
    assert {"nn.Module: Linear_0", "(outside of modules)"} <= names
    assert not any("main.py" in name for name in names)
    assert modules.said(".bar [role=status]") == "no match"
    modules.push("all calls")
    assert "1 frame" in modules.said(".bar [role=status]")


def test_frame_and_slices_select_each_other(open_flame: Open) -> None:
    tables = factories.profile(200)
    shown = open_flame(tables)
    shown.push("host time")
    shown.selected = SelectedRows(factories.START_NS + 50_000, factories.START_NS + 150_000)
    view = shown.view
    assert isinstance(view, FlameGraphView)
    shown.do(lambda: view.follow(shown.selected))
    sums = scoped(merged_calls(tables), tables, Scope(), (shown.selected.start_ns or 0, shown.selected.end_ns or 0))
    assert shown.said(".said") == f"{_title(int(sums['host'].exclusive.sum()))}, from 50.0 µs to 150 µs"
    shown.selected = SelectedRows()
    shown.do(lambda: view.follow(shown.selected))
    assert "from" not in shown.said(".said")
    assert shown.button("Select its slices").is_disabled()
    shown.zoom("aten::linear")
    shown.push("Select its slices")
    ((rows, name),) = shown.chosen
    assert name == "aten::linear"
    assert set(tables["operators"]["name"].iloc[rows["operators"]]) == {"aten::linear"}
    assert len(rows["kernels"]) == len(rows["operators"]) > 0
    for nonsense in ({"kind": "choose", "paths": [-1, 10**9, "x"]}, {"kind": "choose"}, {"kind": "x"}, "text"):
        view.canvas._asked(None, nonsense, None)
    assert len(shown.chosen) == 1


def test_page_with_the_run_asks_no_selection(open_flame: Open) -> None:
    tables = factories.profile(300)
    shown = open_flame(tables)
    timeline = Timeline(tables, factories.info())
    page = shown.page
    shown.hold(timeline)
    assert shown.asked() == ["tree"]  # before the run was there
    shown.push("host time")
    low, high = 40_000, 300_000
    page.evaluate("([low, high]) => hear({ kind: 'range', marked: [low, high], summary: null }, [])", [low, high])
    shown.settle()
    window = (low + timeline.origin, high + timeline.origin)
    sums = scoped(merged_calls(tables), tables, Scope(), window)
    assert shown.said(".said").startswith(_title(int(sums["host"].exclusive.sum())) + ", from ")
    kernels = np.flatnonzero((tables["kernels"]["name"].astype(str) == "SoftmaxV2").to_numpy())[2:]
    page.evaluate(
        """slices => {
            hear({ kind: 'range', marked: null }, []);
            hear({ kind: 'matches', version: 1, text: 'some', searching: true },
                [new DataView(Uint32Array.from(slices).buffer)]);
        }""",
        (kernels + timeline.slices.first["kernels"]).tolist(),
    )
    shown.settle()
    shown.push("device time")
    total = int(tables["kernels"]["duration_ns"].iloc[kernels].sum())
    assert shown.said(".said") == f"simulated NPU · device time: {duration(total)}, of what is selected"
    assert shown.asked() == []
    page.get_by_label("Step", exact=True).select_option("1")
    shown.settle()
    assert shown.asked() == ["sums"]
    shown.zoom("aten::softmax")
    page.get_by_label("Step", exact=True).select_option("")
    page.evaluate("() => npuprofHeld.all.splice(0).forEach((one) => one.letGo())")  # others need the room
    shown.settle()
    assert shown.said(".long").endswith("aten::softmax")
    assert (
        shown.said(".said") == f"simulated NPU · device time: {duration(int(tables['kernels']['duration_ns'].sum()))}"
    )
    assert shown.asked() == []
    assert shown.errors == []


@pytest.mark.slow
def test_kernel_is_asked_for_merged_selections(open_flame: Open) -> None:
    tables = factories.profile(20_000)
    shown = open_flame(tables)
    timeline = Timeline(tables, factories.info())
    shown.hold(timeline, is_merged=True)
    calls = merged_calls(tables)
    shown.push("host time")
    whole = calls.whole(tables)["host"]
    assert shown.said(".said") == _title(int(whole.exclusive.sum()))
    shown.zoom("aten::linear")
    assert shown.asked() == ["tree"]  # before the run was there
    low, high = timeline.origin + 10_000_000, timeline.origin + 90_000_000
    shown.selected = SelectedRows(low, high)
    shown.do(lambda: shown.view.follow(shown.selected))
    sums = scoped(calls, tables, Scope(), (low, high))
    assert shown.said(".said").startswith(_title(int(sums["host"].exclusive.sum())) + ", from ")
    assert shown.said(".long").endswith("aten::linear")
    assert shown.asked() == ["sums"]
    assert shown.errors == []


def test_closed_view_loses_nothing(open_flame: Open) -> None:
    shown = open_flame(factories.profile(200))
    page = shown.page
    page.evaluate(
        """() => {
            const el = document.createElement('div');
            el.id = 'second';
            document.body.prepend(el);
            globalThis.closeSecond = showAgain(el);
        }"""
    )
    shown.settle()
    second = page.locator("#second")
    second.get_by_role("button", name="host time", exact=True).click()
    second.get_by_label("Search frames").fill("softmax")
    second.locator(".npuprof-flame-canvas").first.focus()
    shown.press("ArrowDown", "ArrowDown", "Enter")
    page.evaluate("() => { closeSecond(); document.getElementById('second').remove(); }")
    shown.settle()
    assert shown.said(".long") == "everything › train.py(1): main › train.py(20): step"
    assert shown.said(".said").startswith("simulated NPU · host time: ")
    assert page.get_by_label("Search frames").input_value() == "softmax"
    assert page.locator(".sandwich").is_visible()
    shown.push("Up")
    assert shown.said(".long") == "everything › train.py(1): main"
    assert shown.asked() == ["tree"]
    assert shown.errors == []


def test_root_and_search_are_there_when_the_page_is_loaded_again(open_flame: Open) -> None:
    shown = open_flame(factories.profile(200))
    shown.push("host time")
    shown.push("flame")
    shown.page.get_by_label("Step", exact=True).select_option("1")
    shown.settle()
    shown.zoom("aten::linear")
    shown.page.get_by_label("Search frames").fill("launch")
    shown.settle()
    parts = (".long", ".said", ".bar [role=status]", ".sandwich h4")
    before = [shown.said(part) for part in parts]
    assert before[0].endswith("aten::linear")
    shown.page.evaluate("() => { close(); openAgain(); }")
    shown.page.locator(".npuprof-flame-canvas[data-drawn]").first.wait_for()
    shown.settle()
    assert [shown.said(part) for part in parts] == before
    assert shown.page.get_by_label("Search frames").input_value() == "launch"
    assert shown.page.get_by_label("Step", exact=True).input_value() == "1"
    shown.push("Up")
    assert not shown.said(".long").endswith("aten::linear")
    assert shown.errors == []


def test_a_search_has_its_share_and_an_invalid_pattern_its_error(open_flame: Open) -> None:
    shown = open_flame(factories.profile(200))
    shown.push("host time")
    field, found = shown.page.get_by_label("Search frames"), ".bar [role=status]"
    field.fill("aten::softmax")
    assert shown.said(found).startswith("3 frames, ")
    assert shown.said(found).endswith(" % of host time")
    shown.push("Next")
    assert shown.said(".long[role=status]").startswith("aten::softmax · ")
    shown.page.get_by_label("regular expression").check()
    field.fill("(")
    assert "cannot be read" in shown.said(found)
    field.fill("")
    assert shown.said(found) == ""
    assert shown.errors == []


def test_only_what_a_run_has_is_offered(open_flame: Open) -> None:
    shown = open_flame(factories.all_tables(kernels=factories.profile(5)["kernels"]))
    groups = shown.page.get_by_role("group")
    assert [one.split() for one in groups.all_inner_texts()] == [
        ["Width", "by", "device", "time", "slices"],
        ["Shape", "icicle", "flame"],
    ]
    assert not shown.page.locator(".npuprof-flame select").count()


def test_hostile_names_stay_text(open_flame: Open) -> None:
    shown = open_flame(factories.profile(30, kernel_names=[_HOSTILE, "<script>window.pwned=2</script>"]))
    page = shown.page
    shown.push("device time")
    shown.zoom(_HOSTILE)
    assert _HOSTILE[:30] in shown.said(".long")
    page.locator(".flamebox canvas").first.hover(position={"x": 50, "y": 8})
    page.locator(".tip", has_text="onerror").wait_for()
    (name, about), *_ = shown.rows()  # the root: the widest comes first
    assert name == _HOSTILE
    assert "launch" in about
    beside = page.locator(".sandwich h4")
    assert _HOSTILE in beside.inner_text()
    assert page.evaluate("() => window.pwned") is None
    assert page.locator(".npuprof-flame img").count() == 0


def test_clicked_frame_lists_callers_and_callees(open_flame: Open) -> None:
    shown = open_flame(factories.profile(200, kernel_names=(_HOSTILE, "Add")))
    page = shown.page
    assert not page.locator(".sandwich").is_visible()
    shown.push("device time")
    shown.zoom("launch")
    callers, callees = (page.locator(".sandwich .npuprof-flame-canvas").nth(at) for at in (0, 1))
    assert callers.locator(".said").inner_text() == "callers of launch"
    assert callees.locator(".said").inner_text().startswith("callees of launch: ")
    callees.locator("canvas").click(position={"x": 40, "y": 28})
    shown.settle()
    assert callees.locator(".said").inner_text().startswith(f"callees of {_HOSTILE}")
    assert shown.said(".long").endswith("launch")  # the graph itself stays


@pytest.mark.parametrize(("width", "dark"), [pytest.param(1400, False, marks=pytest.mark.exhaustive), (900, True)])
def test_keys_and_controls_in_jupyterlab(open_notebook: OpenNotebook, tmp_path: Path, width: int, dark: bool) -> None:
    more = "import time\nprint('begun', flush=True)\nwhile True: time.sleep(0.1)"
    notebook = open_notebook([_SOURCE.format(root=str(Path(__file__).parents[2])), more], width=width, dark=dark)
    page = notebook.page
    notebook.run(0)
    page.locator(".npuprof-explorer").get_by_role("tab", name="Flame graph", exact=True).click()
    page.wait_for_function(f"() => Number({_DRAWN}) > 0")
    settle(page)
    page.locator(".flamebox canvas").first.click(position={"x": 40, "y": 8})  # the root: nothing is above it
    for key in ("d", "d"):
        page.keyboard.press(key)
    status = page.locator(".npuprof-flame [role=status]")
    page.get_by_role("button", name="host time", exact=True).click()
    page.locator(".flamebox canvas").first.click(position={"x": 40, "y": 8})
    for key in ("ArrowDown", "ArrowDown", "ArrowDown"):
        page.keyboard.press(key)
    status.filter(has_text="model.py(7): forward").wait_for()
    page.keyboard.press("Enter")
    page.locator(".npuprof-flame", has_text="everything › train.py(1): main › train.py(20): step").wait_for()
    page.keyboard.press("0")
    assert page.locator(".jp-Notebook .jp-Cell").count() == 2  # D, D deletes a cell elsewhere
    page.locator(".npuprof-flame").screenshot(path=tmp_path / f"host_{width}.png")

    notebook.start(1).locator(".jp-OutputArea-output", has_text="begun").wait_for()
    page.get_by_role("button", name="device time", exact=True).click()
    page.locator(".npuprof-flame-canvas .said", has_text="device time").wait_for()
    field = page.locator(".npuprof-flame").get_by_label("Search frames")
    field.fill("softmax")
    field.press("Enter")
    status.filter(has_text="% of device time").first.wait_for()
    page.locator(".npuprof-flame").screenshot(path=tmp_path / f"searched_{width}.png")
    callers, callees = (page.locator(".npuprof-flame-canvas").nth(at) for at in (1, 2))
    for half, said in ((callers, "callers of model.py(7): forward"), (callees, "callees of model.py(7): forward: ")):
        half.and_(page.locator("[data-drawn]")).filter(has_text=said).wait_for()
        assert int(half.get_attribute("data-frames")) > 1
    assert not page.locator(".npuprof-flame .failed").count()
    callees.locator("canvas").click(position={"x": 40, "y": 28})  # the first of those that it called
    callers.filter(has_text="callers of layers.py(3): call").wait_for()
    assert "callees of layers.py(3): call" in callees.inner_text()
    wide = page.evaluate("() => document.querySelector('.npuprof-flame').scrollWidth")
    assert wide <= page.evaluate("() => document.querySelector('.npuprof-flame').clientWidth") + 1
    assert "*" in page.locator(".jp-Cell").nth(1).locator(".jp-InputPrompt").inner_text()


def _text(view: memoryview) -> str:
    return base64.b64encode(bytes(view)).decode()

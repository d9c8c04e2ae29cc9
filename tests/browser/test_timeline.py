"""The timeline on a canvas, without JupyterLab: what the hand does, and what is asked of the kernel."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

from npuprof import tables as schema
from npuprof.browser.script import script
from npuprof.notebook.explorer import timeline as module
from npuprof.notebook.explorer.canvas import CanvasWidget
from npuprof.notebook.explorer.timeline import TimelineView
from npuprof.profiles.profile import Profile
from npuprof.sources.base import Decoded
from npuprof.tables.notes import Notes
from npuprof.timeline.state import Timeline
from tests import factories
from tests.browser.canvas_page import CanvasPage
from tests.browser.key_presses import NAMELESS

pytestmark = pytest.mark.browser

Open = Callable[..., CanvasPage]
_HOSTILE = "<img src=x onerror='window.pwned=1'>"


@pytest.fixture
def open_timeline(browser: Any) -> Iterator[Open]:
    """Show the timeline of a run in a page."""
    pages = []

    def open_(
        launches: int = 300,
        *,
        width: int = 1200,
        dark: bool = False,
        counters: Callable[[int, int], dict[str, Any]] | None = None,
        **how: Any,
    ) -> CanvasPage:
        tables = factories.profile(launches, **how)
        if counters is not None:
            run = Timeline(tables, factories.info())
            tables["counters"] = schema.build("counters", counters(*run.whole))
        one = tables["python"].iloc[:1]  # as deep as frameworks call
        deep = [one.assign(start_ns=one["start_ns"] + at, duration_ns=one["duration_ns"] - 2 * at) for at in range(12)]
        tables["python"] = pd.concat(deep, ignore_index=True)
        page = browser.new_page(viewport={"width": width, "height": 1000})
        pages.append(page)
        return CanvasPage(page, TimelineView(Timeline(tables, factories.info())), dark=dark)

    module._layout.clear()
    yield open_
    module._layout.clear()
    for page in pages:
        page.close()


def _sent(shown: CanvasPage, kind: str) -> int:
    found: int = shown.page.evaluate("kind => sent.filter((one) => one.kind === kind).length", kind)
    return found


def _pixels(shown: CanvasPage) -> str:
    """The picture, to compare it."""
    found: str = shown.page.evaluate("() => document.querySelector('.stick > canvas').toDataURL()")
    return found


@pytest.mark.parametrize(("width", "height"), [(900, 420), (1400, 1000)])
def test_menus_are_whole_and_lead_back(open_timeline: Open, width: int, height: int) -> None:
    shown = open_timeline()
    page = shown.page
    page.set_viewport_size({"width": width, "height": height})
    page.evaluate("() => { document.getElementById('place').style.overflow = 'hidden' }")
    for title in ("Lanes", "Go to", "Export"):
        summary = page.locator("summary", has_text=title)
        summary.focus()
        page.keyboard.press("Enter")
        menu = page.locator("details", has=summary).locator(".menu")
        menu.wait_for()
        box = menu.bounding_box()
        assert box["x"] >= 0, title
        assert box["y"] >= 0, title
        assert box["x"] + box["width"] <= width, title
        assert box["y"] + box["height"] <= height, title
        page.keyboard.press("Tab")
        assert menu.evaluate("menu => menu.contains(document.activeElement)"), title
        page.keyboard.press("Escape")
        menu.wait_for(state="hidden")
        assert page.evaluate("() => document.activeElement.textContent") == title
    page.locator("summary", has_text="Lanes").click()
    page.locator(".menu:popover-open").wait_for()
    page.mouse.click(5, height - 5)  # a click elsewhere closes it
    page.locator(".menu").first.wait_for(state="hidden")


def test_slice_details_have_units_and_raw_values(open_timeline: Open) -> None:
    shown = open_timeline()
    page, timeline = shown.page, shown.view._timeline
    assert page.locator(".selection").is_hidden()  # it takes no room until there is a slice
    shown.press("l")
    page.mouse.click(shown.box["x"] + 5, shown.box["y"] + 5)
    shown.settle()  # what is there is not selected after the kernel is
    shown.do(lambda: timeline.select(timeline.slices.first["kernels"]))
    selection = page.locator(".selection")
    facts = dict(zip(selection.locator("dt").all_inner_texts(), selection.locator("dd").all_inner_texts(), strict=True))
    assert facts["duration"] == "21.0 µs"
    selection.get_by_role("button", name="Raw values").click()
    facts = dict(zip(selection.locator("dt").all_inner_texts(), selection.locator("dd").all_inner_texts(), strict=True))
    assert facts["duration_ns"] == "21000"
    assert page.evaluate("() => document.activeElement.ariaPressed") == "true"
    shown.do(timeline.clear)
    assert selection.is_hidden()


def test_every_control_has_a_name(open_timeline: Open) -> None:
    page = open_timeline().page
    for details in page.locator("details").all():
        details.evaluate("details => { details.open = true }")
    page.keyboard.press("t")
    assert page.evaluate(NAMELESS) == []


def test_every_key_after_a_click_in_the_plot(open_timeline: Open) -> None:
    shown = open_timeline()
    page, timeline = shown.page, shown.view._timeline
    box = shown.box
    whole = shown.window
    assert _sent(shown, "window") == 0  # the first picture is there without a question
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + 60)
    assert page.evaluate("() => document.activeElement.classList.contains('npuprof-timeline')")

    shown.press("0", "w")
    assert shown.window[1] - shown.window[0] == pytest.approx((whole[1] - whole[0]) / 2, rel=0.01)
    before = shown.window
    shown.press("d")
    assert shown.window[0] > before[0]
    shown.press("a", "s")
    assert shown.window == pytest.approx(whole, abs=2)
    shown.press("l")
    kernel = timeline.selected
    assert kernel is not None
    shown.press("ArrowUp")
    assert timeline.slices.row(timeline.selected or 0)[0] == "api"
    shown.press("ArrowDown")
    assert timeline.selected == kernel
    shown.press("ArrowRight", "ArrowLeft")
    assert timeline.selected == kernel
    shown.press("m")
    assert timeline.slices.name(timeline.selected or 0) == timeline.slices.name(kernel)
    assert timeline.selected != kernel
    shown.press("M")
    shown.press("f")
    start, end = timeline.slices.span(kernel)
    assert shown.window[1] - shown.window[0] == pytest.approx(3 * (end - start), rel=0.01)
    for key in ("]", "]", "["):
        shown.press(key)
    assert shown.window[1] - shown.window[0] == pytest.approx(timeline.tables["steps"]["duration_ns"].iloc[0], rel=0.01)
    shown.press("i")
    assert timeline.marked is not None
    shown.press("b", "0")
    shown.press("r")
    assert page.locator(".bookmarks button").count() == 2
    assert timeline.marked == timeline.whole
    shown.press("b")
    kept = page.locator(".bookmarks > span")
    assert kept.count() == 2
    last = kept.last.inner_text()
    kept.first.get_by_role("button", name="×").click()
    assert kept.all_inner_texts() == [last]  # the other one stays
    page.locator(".npuprof-timeline").focus()
    shown.press("t")
    assert page.locator(".visible tbody tr").count() > 20
    shown.press("PageDown", "PageUp", "?")
    for key in ("Esc", "Page up", "zoom in, zoom out"):
        assert key in page.locator(".help").inner_text()
    shown.press("Escape")
    assert not page.locator(".help").is_visible()
    shown.press("/")
    page.keyboard.type("softmax")
    shown.press("Enter")
    assert page.locator(".found").inner_text().startswith("1 of 120 matches")
    shown.press("Escape", "n", "n", "p")
    assert page.locator(".found").inner_text().startswith("2 of 120 matches")
    shown.press("c")
    assert timeline.matches is None
    shown.press("Escape")
    assert not page.evaluate("() => document.activeElement.classList.contains('npuprof-timeline')")
    assert shown.errors == []


def test_the_hand_moves_the_picture_before_the_kernel_answers(open_timeline: Open) -> None:
    shown = open_timeline(20_000)
    page, box = shown.page, shown.box
    x, y = box["x"] + box["width"] / 2, box["y"] + 60
    whole = _pixels(shown)
    page.evaluate("() => { silent = true; }")
    page.mouse.move(x, y)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -900)
    page.keyboard.up("Control")
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    low, high = shown.window
    assert high - low < 0.2 * (shown.view._timeline.whole[1] - shown.view._timeline.whole[0])
    coarse = _pixels(shown)
    assert coarse != whole
    asked = page.evaluate("() => { silent = false; return sent.findLast((one) => one.kind === 'window'); }")
    assert asked["start"] < low  # a screen beside
    assert asked["end"] > high
    assert asked["pixels"] > 3 * box["width"]  # and a level finer

    answers = shown._answer(asked)
    page.evaluate("messages => tell(messages)", answers)
    shown.settle()
    assert _pixels(shown) != coarse  # it is refined
    questions = _sent(shown, "window")
    page.mouse.down()
    page.mouse.move(x - 0.2 * box["width"], y, steps=4)
    page.mouse.up()
    shown.settle()
    assert shown.window[0] == pytest.approx(low + 0.2 * (high - low), rel=0.02)
    assert _sent(shown, "window") <= questions + 1
    assert shown.errors == []


def test_a_clicked_slice_is_described_and_arrows_lead_on(open_timeline: Open, tmp_path: Path) -> None:
    shown = open_timeline(40)
    page, box, timeline = shown.page, shown.box, shown.view._timeline
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + 8)  # the topmost lane: the steps
    shown.settle()
    assert "steps, row 1" in page.locator(".selection").inner_text()
    step = timeline.tables["steps"].iloc[1]
    first = timeline.whole[0]
    assert shown.window == (step["start_ns"] - first, step["start_ns"] - first + step["duration_ns"])

    start, end = timeline.slices.span(kernel := timeline.slices.first["kernels"] + 16)
    shown.do(lambda: timeline.reveal(kernel))
    low, high = shown.window
    lane = page.locator(".label", has_text="stream 2").bounding_box()
    x = box["x"] + ((start + end) / 2 - first - low) / (high - low) * box["width"]
    page.mouse.move(x, lane["y"] + 8)
    tip = page.locator(".tip")
    tip.wait_for()
    assert timeline.slices.name(kernel) in tip.inner_text()
    assert tip.bounding_box()["y"] > lane["y"] + 17  # it does not cover what it tells of
    page.get_by_role("button", name="launch").click()
    shown.settle()
    assert "api, row 16" in page.locator(".selection").inner_text()
    page.screenshot(path=tmp_path / "selected.png")
    assert shown.errors == []


def test_a_range_is_dragged_summed_and_copied(open_timeline: Open) -> None:
    shown = open_timeline()
    page, box, timeline = shown.page, shown.box, shown.view._timeline
    page.keyboard.down("Shift")
    page.mouse.move(box["x"] + 0.2 * box["width"], box["y"] + 70)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.4 * box["width"], box["y"] + 70, steps=3)
    page.mouse.up()
    page.keyboard.up("Shift")
    shown.settle()
    assert timeline.marked is not None
    span = timeline.whole[1] - timeline.whole[0]
    assert timeline.marked[1] - timeline.marked[0] == pytest.approx(0.2 * span, rel=0.02)
    panel = page.locator(".panel.range")
    assert "MatMulV3_ND_FP16" in panel.inner_text()
    panel.get_by_role("button", name="By lane").click()
    assert "stream 2" in panel.inner_text()
    panel.get_by_role("button", name="Time of the device").click()
    assert "computing" in panel.inner_text()
    panel.get_by_role("button", name="Copy as DataFrame code").click()
    assert f"start, end = {timeline.marked[0]}, {timeline.marked[1]}" in page.locator(".copied code").inner_text()
    assert shown.errors == []


def test_counters_overlay_sum_and_show_values(open_timeline: Open) -> None:
    samples, number = 400, np.arange(800)
    shown = open_timeline(
        counters=lambda first, last: {
            "time_ns": first + number // 2 * ((last - first) // samples),
            "device_id": number % 2,
            "counter": factories.names(["HBM read"], number * 0),
            "value": np.where(number // 2 == 250, 900.0, 200.0 + number % 2 * 150),
            "unit": factories.names(["GB/s"], number * 0),
        }
    )
    page, timeline = shown.page, shown.view._timeline
    page.evaluate("() => { document.querySelector('.frame').scrollTop = 1e5; }")
    shown.settle()
    lane = page.locator(".label", has_text="HBM read")
    assert lane.count() == 1
    box, y = shown.box, lane.bounding_box()["y"] + 20
    before = _pixels(shown)
    page.mouse.click(box["x"] + box["width"] * 250.3 / samples, y)  # beside the peak
    shown.settle()
    told = page.locator(".said").inner_text()
    assert "HBM read device 0 900 GB/s, HBM read device 1 900 GB/s" in told
    step = (timeline.whole[1] - timeline.whole[0]) // samples
    assert timeline.cursor == timeline.origin + 250 * step
    shown.press("t")
    assert page.locator(".visible tr", has_text="HBM read device 1").locator("td").all_inner_texts()[1:] == [
        *("GB/s", "350", "900", "900")
    ]
    page.get_by_text("Lanes", exact=True).click()
    page.get_by_label("Counters of several devices").select_option("sum")
    shown.settle()
    assert page.locator(".label", has_text="HBM read, sum of 2").count() == 1
    assert module._layout["joined"] == "sum"
    assert _pixels(shown) != before
    page.locator(".npuprof-timeline").focus()
    shown.press("c")
    assert shown.view._timeline.cursor is None
    assert shown.errors == []


def test_lanes_open_hide_pin_move_and_are_remembered(open_timeline: Open) -> None:
    shown = open_timeline()
    page = shown.page
    titles = "() => [...document.querySelectorAll('.label')].map((one) => one.innerText)"
    assert page.evaluate(titles)[:2] == ["steps", "marks"]
    page.get_by_role("button", name="Python: show 8 more rows").click()
    shown.settle()
    lanes = page.evaluate("() => sent.findLast((one) => one.kind === 'window')?.lanes.length ?? 0")
    assert page.get_by_role("button", name="Python: fold").count() == 1
    page.get_by_text("Lanes", exact=True).click()
    page.get_by_label("Marks", exact=True).uncheck()
    page.get_by_role("button", name="Operators: keep on top").click()
    page.get_by_role("button", name="Device: move down").click()
    shown.settle()
    assert page.evaluate("() => document.querySelector('.labels.pinned').innerText").startswith("operators")
    assert "marks" not in page.evaluate(titles)
    assert module._layout["hidden"] == ["Marks"]
    assert module._layout["opened"] == ["Python"]
    order = module._layout["order"]
    assert order.index("Overlap") < order.index("Device")
    assert lanes >= 0
    assert shown.errors == []


def test_groups_and_lanes_have_the_names_that_the_user_gives(open_timeline: Open) -> None:
    shown = open_timeline()
    page = shown.page
    titles = "() => [...document.querySelectorAll('.label')].map((one) => one.innerText)"
    hostile = f"{_HOSTILE}\u202e" + "x" * 200
    page.get_by_text("Lanes", exact=True).click()
    page.get_by_role("button", name="Steps: rename").click()
    field = page.get_by_role("textbox", name="Name: another name of Steps; empty: as it was")
    assert field.input_value() == "Steps"
    field.fill(hostile)
    field.press("Enter")
    shown.settle()
    assert page.evaluate(titles)[0].startswith("<img src=x")
    assert len(module._layout["names"]["Steps"]) == 100
    page.locator(".label", has_text="stream 3").dblclick()
    page.get_by_role("textbox", name="Name: another name of stream 3; empty: as it was").fill("copies")
    page.keyboard.press("Enter")
    shown.settle()
    assert "copies" in page.evaluate(titles)
    assert "stream 3" not in page.evaluate(titles)
    page.locator(".label", has_text="copies").dblclick()
    page.get_by_role("textbox", name="Name: another name of stream 3; empty: as it was").fill("")
    page.keyboard.press("Enter")
    shown.settle()
    assert "stream 3" in page.evaluate(titles)
    page.get_by_text("Lanes", exact=True).click()
    page.get_by_role("button", name="As they were").click()
    shown.settle()
    assert page.evaluate(titles)[0] == "steps"
    assert page.evaluate("() => window.pwned") is None
    assert shown.errors == []


def test_rows_are_taller_lower_and_folded_again(open_timeline: Open) -> None:
    shown = open_timeline()
    page = shown.page
    tall = "() => Math.round(document.querySelector('.label').getBoundingClientRect().height) + 1"
    page.get_by_text("Lanes", exact=True).click()
    seen = [page.evaluate(tall)]
    for name in ("taller rows", "taller rows", "lower rows", "lower rows", "lower rows"):
        page.get_by_role("button", name=f"Steps: {name}").click()
        shown.settle()
        seen.append(page.evaluate(tall))
    assert seen == [18, 28, 28, 18, 12, 12]  # as far as it goes
    assert module._layout["sizes"] == {"Steps": 12}
    rows = page.locator(".label").count()
    page.get_by_role("button", name="Python: show 8 more rows").click()
    page.get_by_role("button", name="Python: fold").click()
    assert page.locator(".label").count() == rows
    assert module._layout["opened"] == []
    page.get_by_text("Lanes", exact=True).click()  # the click elsewhere has closed the menu
    page.get_by_role("button", name="As they were").click()
    shown.settle()
    assert page.evaluate(tall) == 18
    assert shown.errors == []


def test_a_part_of_the_strip_is_dragged_or_clicked(open_timeline: Open) -> None:
    shown = open_timeline()
    page, (low, high) = shown.page, shown.window
    whole = high - low
    strip = page.locator(".strip").bounding_box()
    left, wide = strip["x"], strip["width"]
    y = strip["y"] + strip["height"] / 2
    page.mouse.move(left + 0.6 * wide, y)
    page.mouse.down()
    page.mouse.move(left + 0.5 * wide, y)
    page.mouse.move(left + 0.3 * wide, y)  # to the left: the part is the same
    page.mouse.up()
    shown.settle()
    assert shown.window == pytest.approx((low + 0.3 * whole, low + 0.6 * whole), abs=0.01 * whole)
    page.mouse.click(left + 0.8 * wide, y)
    shown.settle()
    assert shown.window == pytest.approx((low + 0.65 * whole, low + 0.95 * whole), abs=0.01 * whole)
    page.mouse.click(left + wide, y)  # at the end: no further than the run
    shown.settle()
    assert shown.window[1] <= high + 0.051 * whole
    assert shown.errors == []


def test_names_are_cut_at_the_end_that_differs_least(browser: Any) -> None:
    page = browser.new_page()
    names = page.evaluate(
        f"""() => {{
            {script().replace("export default", "const made =")}
            return [
                cut("MatMulV3_forward_1", 12, "LayerNormV4"), cut("MatMulV3_forward_2", 12, "MatMulV3_forward_1"),
                cut("Add", 12, "Add"), cut("MatMulV3", 2, ""),
                titleEnd("thread 4711 of the loader, 1", ["thread 4711 of the loader, 2"], 20),
                titleEnd("thread 4711 of the loader, 1", ["main thread", undefined], 20),
                titleEnd("rank 1", ["rank 2"], 20),
            ];
        }}"""
    )
    page.close()
    assert names == [
        *("MatMulV3_fo…", "…3_forward_2", "Add", ""),
        *("…11 of the loader, 1", "thread 4711 of the loader, 1", "rank 1"),
    ]


@pytest.mark.parametrize(("width", "dark"), [(1200, False), (700, True)])
def test_it_fits_and_follows_the_theme(open_timeline: Open, tmp_path: Path, width: int, dark: bool) -> None:
    shown = open_timeline(width=width, dark=dark)
    page = shown.page
    page.screenshot(path=tmp_path / "fits.png")
    assert page.evaluate("() => document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
    corner = "() => [...document.querySelector('.stick > canvas').getContext('2d').getImageData(2, 300, 1, 1).data]"
    paper = page.evaluate(corner)
    assert (max(paper[:3]) < 60) == dark
    if not dark:
        page.emulate_media(forced_colors="active")
        shown.settle()
        assert page.evaluate(corner) != [0, 0, 0, 0]
    assert shown.errors == []


def test_hostile_names_stay_text_and_no_answer_is_said(open_timeline: Open) -> None:
    shown = open_timeline(20_000, kernel_names=[_HOSTILE, "<script>window.pwned=2</script>"])
    page, timeline = shown.page, shown.view._timeline
    page.locator(".npuprof-timeline").focus()
    shown.press("l", "r", "t")
    assert "onerror" in page.locator(".panels").inner_text()
    assert page.evaluate("() => window.pwned") is None
    assert page.locator(".npuprof-timeline :is(img, script)").count() == 0

    page.evaluate("() => { silent = true; }")
    page.clock.install(time=0)
    for key in "0wwww":
        page.keyboard.press(key)
    page.clock.run_for(20_000)
    assert "The kernel has not answered" in page.locator(".failed").inner_text()
    page.evaluate("() => { silent = false; }")
    page.get_by_role("button", name="Try again").click()
    page.locator(".failed").wait_for(state="hidden")
    assert timeline.selected is not None
    assert np.isfinite(shown.window).all()


def _exported(shown: CanvasPage, what: str, to: Path) -> Path:
    """Choose a file of the menu, and return where it was saved."""
    page = shown.page
    with page.expect_download() as waiting:
        page.locator("summary", has_text="Export").click()
        page.get_by_role("button", name=what).click()
    waiting.value.save_as(to / waiting.value.suggested_filename)
    shown.settle()
    return to / str(waiting.value.suggested_filename)


def test_the_window_is_taken_along(open_timeline: Open, browser: Any, tmp_path: Path) -> None:
    shown = open_timeline(kernel_names=["MatMulV3_ND_FP16", _HOSTILE, "</script><script>window.pwned=3</script>"])
    timeline = shown.view._timeline
    shown.page.mouse.click(shown.box["x"] + 300, shown.box["y"] + 60)
    shown.press("0", *"wwwww")
    low, high = (round(moment) + timeline.origin for moment in shown.window)

    picture = _exported(shown, "PNG", tmp_path).read_bytes()
    assert picture.startswith(b"\x89PNG")
    wide = int.from_bytes(picture[16:20], "big")
    assert wide == pytest.approx(2 * (176 + shown.box["width"]), abs=2)

    drawing = ElementTree.parse(_exported(shown, "SVG", tmp_path)).getroot()  # it is well-formed
    texts = [one.text or "" for one in drawing.iter("{http://www.w3.org/2000/svg}text")]
    assert any("stream 2" in text for text in texts)
    assert any(text.startswith("MatMul") for text in texts)
    assert len(drawing.findall("{http://www.w3.org/2000/svg}rect")) > 100

    written = json.loads(_exported(shown, "Chrome trace", tmp_path).read_text())
    trace, base = written["traceEvents"], int(written["otherData"]["base_ns"])
    slices = [(base + round(one["ts"] * 1e3), round(one["dur"] * 1e3)) for one in trace if one["ph"] == "X"]
    assert all(start <= high and start + long >= low for start, long in slices)
    tasks = timeline.tables["tasks"]
    inside = (tasks["start_ns"] <= high) & (tasks["start_ns"] + tasks["duration_ns"] >= low)
    named = [one for one in trace if one["ph"] == "X" and "Task Type" in one["args"]]
    assert 0 < int(inside.sum()) == len(named) < len(tasks)

    shown.page.locator("summary", has_text="Export").click()
    shown.page.get_by_role("button", name="Line of code").click()
    line = shown.page.locator(".copied code").inner_text()
    run = Profile(Decoded(tables=dict(timeline.tables), info=timeline.info, notes=Notes()))
    again = next(one for one in _all(eval(line, {"run": run})) if isinstance(one, CanvasWidget))
    assert again.setup["window"] == [moment - timeline.origin for moment in timeline.window]

    _moves_alone(browser, _exported(shown, "HTML", tmp_path), tmp_path)
    assert shown.errors == []


def _all(widget: Any) -> list[Any]:
    return [widget, *(one for child in getattr(widget, "children", ()) for one in _all(child))]


def _moves_alone(browser: Any, saved: Path, to: Path) -> None:
    """Check that a saved page shows the window, moves and tells, without a network."""
    context = browser.new_context(offline=True, viewport={"width": 900, "height": 700})
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(saved.as_uri())
    root = page.locator(".npuprof-timeline[data-drawn]")
    root.wait_for()
    window = root.get_attribute("data-window")
    box = page.locator(".stick > canvas").last.bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + 60)
    page.keyboard.press("w")
    page.keyboard.press("d")
    page.keyboard.press("r")
    page.wait_for_function(
        "before => document.querySelector('.npuprof-timeline').dataset.window !== before", arg=window
    )
    page.locator(".panel.range td", has_text="MatMulV3_ND_FP16").first.wait_for()
    page.screenshot(path=to / "alone.png")
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 900
    assert page.evaluate("() => window.pwned") is None
    assert errors == []
    context.close()


def test_its_box_is_resized_by_the_edge_and_fills_the_screen(open_timeline: Open) -> None:
    shown = open_timeline(width=900)
    page = shown.page
    frame = page.locator(".npuprof-timeline .frame")
    before = frame.bounding_box()
    x, y = before["x"] + before["width"] - 5, before["y"] + before["height"] - 5
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x, y - 150, steps=4)
    page.mouse.up()
    shown.settle()
    assert frame.bounding_box()["height"] == pytest.approx(before["height"] - 150, abs=12)
    assert module._layout["height"] == pytest.approx(before["height"] - 150, abs=12)
    assert shown.box["height"] == pytest.approx(frame.bounding_box()["height"], abs=4)

    page.get_by_role("button", name="Full screen").click()
    page.wait_for_function("() => document.fullscreenElement?.classList.contains('npuprof-timeline')")
    shown.settle()
    assert frame.bounding_box()["height"] == pytest.approx(0.7 * page.evaluate("() => innerHeight"), abs=4)
    assert page.evaluate("() => document.documentElement.scrollWidth - innerWidth") <= 0
    page.get_by_role("button", name="Full screen").click()
    page.wait_for_function("() => !document.fullscreenElement")
    shown.settle()
    assert module._layout["height"] == pytest.approx(before["height"] - 150, abs=12)  # what the screen had is not kept
    assert shown.errors == []


_COLOURFUL = """() => [...document.querySelectorAll('.stick > canvas, .strip')].some((canvas) => {
    const {data} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    for (let at = 0; at < data.length; at += 4) {
        if (data[at] > 180 && data[at] > data[at + 2] + 60 && data[at + 1] < data[at] - 40) return true;
    }
    return false;
})"""


def test_forced_colours_are_the_only_ones(open_timeline: Open, tmp_path: Path) -> None:
    shown = open_timeline()
    page = shown.page
    assert page.evaluate(_COLOURFUL)  # the orange of collectives
    page.emulate_media(forced_colors="active")
    shown.settle()
    assert not page.evaluate(_COLOURFUL)
    page.locator(".npuprof-timeline").focus()
    shown.press("l")
    page.screenshot(path=tmp_path / "forced.png")
    assert shown.errors == []

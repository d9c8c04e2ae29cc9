"""A live timeline that holds what the saved output holds: the kernel is asked for the rest only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from npuprof.browser.findings import drawn_findings, drawn_path
from npuprof.browser.saved_run import SavedRun, save_run
from npuprof.notebook.explorer.timeline import TimelineView
from npuprof.profiles.profile import Profile
from npuprof.sources.base import Decoded
from npuprof.tables.notes import Notes
from npuprof.timeline.state import Timeline
from tests import factories
from tests.browser.canvas_page import MERGED_BYTES, CanvasPage

pytestmark = pytest.mark.browser

Open = Callable[..., CanvasPage]
_ASKED = ("window", "select", "search", "match", "jump", "step", "findings", "overview")
_HOSTILE = "<img src=x onerror='window.pwned=1'>"


@pytest.fixture
def open_held(browser: Any) -> Iterator[Open]:
    """Show the timeline of a run in a page; once it is drawn, the kernel sends what a saved output holds."""
    pages = []

    def open_(launches: int = 300, *, is_merged: bool = False) -> CanvasPage:
        made = factories.profile(launches, kernel_names=(_HOSTILE, "MatMulV3", "Add", "Softmax"))
        run = Profile(Decoded(made, factories.info(), Notes()))
        timeline = Timeline(run.tables, run.info, run.aligned)
        held: list[SavedRun] = []
        page = browser.new_page(viewport={"width": 1200, "height": 1000})
        pages.append(page)
        view = TimelineView(timeline, None, run.advice, held=lambda: held[0] if held else None)
        shown = CanvasPage(page, view)
        saved = save_run(
            timeline,
            limit_bytes=MERGED_BYTES if is_merged else None,
            findings=drawn_findings(timeline, run.advice()),
            path=drawn_path(timeline, run.critical_path),
        )
        assert bool(saved.merged) == is_merged
        held.append(saved)
        shown.do(view.send_run)
        page.evaluate("() => { sent.length = 0; }")
        return shown

    yield open_
    for page in pages:
        page.close()


def _sent(shown: CanvasPage) -> set[str]:
    return set(shown.page.evaluate("() => sent.map((one) => one.kind)"))


def _search(shown: CanvasPage, text: str) -> None:
    field = shown.page.get_by_role("searchbox", name="Search", exact=True)
    field.fill(text)
    field.press("Enter")
    shown.settle()


def test_whole_run_is_explored_without_the_kernel(open_held: Open) -> None:
    shown = open_held()
    page, timeline = shown.page, shown.view._timeline
    page.evaluate("() => { silent = true; }")
    page.locator(".npuprof-timeline").focus()
    shown.press("w", "w", "w", "w", "w", "w", "d", "a")
    _search(shown, "onerror")
    panel = page.locator(".panel.selection")
    panel.locator("dt", has_text="duration").wait_for()
    assert panel.locator("h3").text_content() == _HOSTILE
    assert " of 75 matches" in page.locator(".found").text_content()
    page.locator(".npuprof-timeline").focus()
    shown.press("n", "l", "ArrowUp", "g")
    assert "Finding 1" in page.locator(".said").text_content()
    assert _sent(shown).isdisjoint(_ASKED)
    assert page.evaluate("() => window.pwned") is None
    assert shown.errors == []
    assert timeline.matches is None  # nothing has reached it


def test_choices_pass_between_kernel_and_page(open_held: Open) -> None:
    shown = open_held()
    page, timeline = shown.page, shown.view._timeline
    _search(shown, "MatMul")
    assert timeline.matches is not None
    assert (timeline.matches.text, len(timeline.matches)) == ("MatMul", 75)
    first = timeline.selected
    assert first is not None
    assert timeline.slices.name(first) == "MatMulV3"
    page.locator(".npuprof-timeline").focus()
    shown.press("n")
    assert timeline.selected != first
    kernels = timeline.tables["kernels"]
    rows = np.flatnonzero(kernels["name"].to_numpy() == "Softmax")
    shown.do(lambda: timeline.light_up({"kernels": rows}, "rows of kernels"))
    assert page.locator(".found").text_content().startswith("75 matches")
    shown.press("n")  # the page walks through what the kernel chose
    assert page.locator(".panel.selection h3").text_content() == "Softmax"
    assert timeline.slices.name(timeline.selected or 0) == "Softmax"
    shown.press("c")
    assert [vars(timeline)[name] for name in ("matches", "selected")] == [None, None]
    assert _sent(shown).isdisjoint(_ASKED)


def test_range_sums_come_from_the_kernel(open_held: Open) -> None:
    shown = open_held()
    shown.page.locator(".npuprof-timeline").focus()
    shown.press("w", "r")
    shown.page.get_by_role("button", name="Copy as DataFrame code").wait_for()
    assert "mark" in _sent(shown)
    low, high = shown.window
    marked = shown.view._timeline.marked
    assert marked is not None
    assert marked[0] - shown.view._timeline.origin == pytest.approx(low, abs=1)
    assert marked[1] - shown.view._timeline.origin == pytest.approx(high, abs=1)


def test_released_run_returns_when_used(open_held: Open) -> None:
    shown = open_held()
    page, timeline = shown.page, shown.view._timeline
    _search(shown, "Add")
    page.evaluate("() => { sent.length = 0; npuprofHeld.all.splice(0).forEach((one) => one.letGo()); }")
    shown.settle()
    page.locator(".npuprof-timeline").focus()
    before = shown.window
    shown.press("w", "w", "d")
    assert shown.window != before
    assert "window" in _sent(shown)
    assert page.evaluate("() => npuprofHeld.all.length") == 0
    page.evaluate("() => { sent.length = 0; }")
    shown.settle()
    assert _sent(shown) == set()  # it does not ask again and again
    assert page.locator(".found").text_content().startswith("135 matches, ")
    shown.press("n")
    assert "run" in _sent(shown)
    assert page.evaluate("() => npuprofHeld.all.length") == 1
    assert timeline.slices.name(timeline.selected or 0).lower().endswith("add")
    page.evaluate("() => { sent.length = 0; }")
    _search(shown, "MatMul")
    assert _sent(shown).isdisjoint(_ASKED)
    assert timeline.matches is not None
    assert timeline.matches.text == "MatMul"
    gone = page.evaluate(
        """() => {
            const gone = [], all = npuprofHeld.all, one = all.pop();
            const other = (name) => ({ slices: 1e6, run: { isSeen: true, setup: {} }, letGo() { gone.push(name); } });
            all.push(other('first'), other('second'));
            globalThis.gone = gone;
            one.letGo();
            return gone;
        }"""
    )
    assert gone == []
    page.locator(".npuprof-timeline").focus()
    shown.press("n")  # there is no room for all three
    assert page.evaluate("() => gone") == ["first"]
    assert shown.errors == []


@pytest.mark.slow
def test_kernel_is_asked_for_merged_runs(open_held: Open) -> None:
    shown = open_held(20_000, is_merged=True)
    page, timeline = shown.page, shown.view._timeline
    page.locator(".npuprof-timeline").focus()
    shown.press("0", "s")
    assert "window" not in _sent(shown)
    page.evaluate("() => { sent.length = 0; }")
    shown.press(*"wwwwwwwwwww")
    assert "window" in _sent(shown)
    low, high = shown.window
    page.evaluate("() => { sent.length = 0; }")
    _search(shown, "Softmax")  # among slices that the page does not have
    assert "search" in _sent(shown)
    assert timeline.matches is not None
    assert page.locator(".found").text_content().endswith(" of 9,000 matches, 201 ms")
    assert high - low < 1e9
    assert shown.errors == []

"""Many saved explorers in one page: only those in sight hold their runs, and each comes back as it was left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from npuprof.browser.page import fragment
from npuprof.browser.saved_run import save_run
from npuprof.timeline.state import Timeline
from tests import factories

pytestmark = pytest.mark.browser

_COUNT, _LIMIT = 4, 1_500
_PICTURE = "(at) => document.querySelectorAll('.npuprof-timeline')[at].querySelector('.stick > canvas').toDataURL()"
_HELD = "() => npuprofHolders.map((one) => one.slices)"


@pytest.fixture
def page(browser: Any, tmp_path: Path) -> Iterator[Any]:
    """A page of four explorers of about a thousand slices each, which may hold one and a half thousand."""
    saved = [save_run(Timeline(factories.profile(200 + at), factories.info())) for at in range(_COUNT)]
    explorers = "".join(f'<div style="min-height:1500px">{fragment(run, {})}</div>' for run in saved)
    assert explorers.count("MOST_HELD = 1_200_000;") == _COUNT
    path = tmp_path / "page.html"
    path.write_text(
        "<!doctype html><meta charset=utf-8>"
        + explorers.replace("MOST_HELD = 1_200_000;", f"MOST_HELD = {_LIMIT};"),
        encoding="utf-8",
    )
    opened = browser.new_page(viewport={"width": 1400, "height": 1000})
    opened.errors = []
    opened.on("pageerror", lambda error: opened.errors.append(str(error)))
    opened.goto(path.as_uri())
    opened.locator(".npuprof-timeline[data-drawn]").first.wait_for()
    yield opened
    opened.close()


def _see(page: Any, at: int) -> None:
    """Scroll to an explorer, and wait until it is there."""
    page.locator(".npuprof-saved").nth(at).evaluate("(one) => one.scrollIntoView()")
    page.locator(".npuprof-saved").nth(at).locator(".npuprof-timeline[data-drawn]").wait_for()
    page.wait_for_function(f"() => ({_HELD})().length === 1")


def test_what_nobody_sees_is_let_go_and_comes_back_as_it_was(page: Any) -> None:
    first = page.locator(".npuprof-saved").first
    first.locator(".npuprof-timeline").focus()
    for key in "ww":
        page.keyboard.press(key)
    field = first.get_by_role("searchbox", name="Search", exact=True)
    field.fill("Softmax")
    field.press("Enter")
    first.locator(".panel.selection dt", has_text="connection id").wait_for()
    first.get_by_role("tab", name="Kernels").click()
    first.locator(".npuprof-grid tbody tr").first.wait_for()
    rows = first.locator(".npuprof-grid tbody").inner_text()
    first.get_by_role("tab", name="Timeline").click()
    page.mouse.move(0, 0)
    page.wait_for_timeout(300)
    before = page.evaluate(_PICTURE, 0)
    told = first.locator(".panel.selection").inner_text()

    for at in range(1, _COUNT):
        _see(page, at)
        (held,) = page.evaluate(_HELD)
        assert 0 < held <= _LIMIT
    assert page.locator(".npuprof-timeline[data-drawn]").count() == _COUNT
    _see(page, 0)
    page.wait_for_timeout(300)
    assert page.evaluate(_PICTURE, 0) == before
    assert first.locator(".panel.selection").inner_text() == told
    first.get_by_role("tab", name="Kernels").click()
    assert first.locator(".npuprof-grid tbody").inner_text() == rows
    first.get_by_role("tab", name="Timeline").click()
    first.locator(".npuprof-timeline").focus()
    page.keyboard.press("ArrowUp")
    first.locator(".panel.selection h3", has_text="launch").wait_for()
    first.get_by_role("tab", name="Flame graph").click()
    first.locator(".npuprof-flame-canvas .said").filter(has_text="selected").wait_for()
    assert page.errors == []


def test_a_key_in_one_that_was_let_go_is_answered(page: Any) -> None:
    first = page.locator(".npuprof-saved").first
    first.locator(".npuprof-timeline").focus()
    _see(page, 3)
    first.locator(".npuprof-timeline").evaluate("(one) => one.focus({ preventScroll: true })")
    page.keyboard.press("l")
    first.locator(".panel.selection dt", has_text="duration").first.wait_for(state="attached")
    assert page.errors == []


def test_one_that_is_taken_out_of_the_page_is_held_no_longer(page: Any) -> None:
    page.evaluate("() => { const one = document.querySelector('.npuprof-saved'); globalThis.kept = one; one.remove(); }")
    page.wait_for_function(f"() => !({_HELD})().length || document.querySelectorAll('.npuprof-timeline[data-drawn]').length")
    page.wait_for_function("() => npuprofHolders.every((one) => one.isSeen)")
    assert page.errors == []

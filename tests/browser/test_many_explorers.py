"""Many saved explorers in one page: only those in sight hold their runs, and each comes back as it was left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from npuprof.browser.packing import as_text, deflated
from npuprof.browser.page import fragment, opening_script
from npuprof.browser.saved_run import save_run
from npuprof.browser.script import packed_program, saved_script, saved_style
from npuprof.timeline.state import Timeline
from tests import factories, pace

pytestmark = pytest.mark.browser

_COUNT, _LIMIT = 4, 1_500
_PICTURE = "(at) => document.querySelectorAll('.npuprof-timeline')[at].querySelector('.stick > canvas').toDataURL()"
_HELD = "() => npuprofHeld.all.map((one) => one.slices)"


@pytest.fixture
def page(browser: Any, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Any]:
    """A page of four explorers of about a thousand slices each, which may hold so many slices, or enough for one."""
    limit, height = getattr(request, "param", (_LIMIT, 1_500))
    saved = [save_run(Timeline(factories.profile(200 + at), factories.info())) for at in range(_COUNT)]
    opened = [fragment(run, {}) + opening_script() for run in saved]
    explorers = "".join(f'<div style="min-height:{height}px">{each}</div>' for each in opened)
    usual, chosen = "MOST_HELD=1_200_000;", f"MOST_HELD={limit};"
    assert usual in saved_script()
    program = deflated(f"{saved_style()}\0{saved_script().replace(usual, chosen)}".encode())
    path = tmp_path / "page.html"
    page = explorers.replace(packed_program(), as_text(program))
    path.write_text(f"<!doctype html><meta charset=utf-8>{page}", encoding="utf-8")
    opened = browser.new_page(viewport={"width": 1400, "height": 1400})
    opened.set_default_timeout(pace.milliseconds(60_000))
    opened.sizes = [run.slices for run in saved]
    opened.errors = []
    opened.on("pageerror", lambda error: opened.errors.append(str(error)))
    opened.goto(path.as_uri())
    opened.locator(".npuprof-timeline[data-drawn]").first.wait_for()
    yield opened
    opened.close()


def _see(page: Any, at: int) -> None:
    """Scroll to an explorer, and wait until it is there and one alone holds its run: it, or the next below."""
    page.locator(".npuprof-saved").nth(at).evaluate("(one) => one.scrollIntoView()")
    page.locator(".npuprof-saved").nth(at).locator(".npuprof-timeline[data-drawn]").wait_for()
    page.wait_for_function(f"(limit) => ({_HELD})().length === 1 && ({_HELD})()[0] <= limit", arg=_LIMIT)


def _settled(page: Any, look: Callable[[], Any]) -> Any:
    """Return what is to be seen once it changes no more."""
    seen = [look()]
    while len(seen) < 3 or seen[-3:] != seen[-1:] * 3:
        page.wait_for_timeout(pace.milliseconds(300))
        seen.append(look())
    return seen[-1]


def _reads(place: Any, text: str) -> None:
    """Wait until a text is to be read in a place, and nothing else."""
    from playwright.sync_api import expect

    expect(place).to_have_text(text, use_inner_text=True, timeout=pace.milliseconds(60_000))


def _shows(page: Any, at: int, picture: str) -> None:
    """Wait until a timeline's picture is again what it was."""
    page.wait_for_function(f"([at, picture]) => ({_PICTURE})(at) === picture", arg=[at, picture])


def test_unseen_views_are_released_and_return(page: Any) -> None:
    first = page.locator(".npuprof-saved").first
    first.locator(".npuprof-timeline").focus()
    for key in "ww":
        page.keyboard.press(key)
    field = first.get_by_role("searchbox", name="Search", exact=True)
    field.fill("SoftmaxV2")
    field.press("Enter")
    first.locator(".panel.selection dt", has_text="connection id").wait_for()
    first.get_by_role("tab", name="Kernels").click()
    first.locator(".npuprof-grid tbody tr").first.wait_for()
    rows = _settled(page, first.locator(".npuprof-grid tbody").inner_text)
    first.get_by_role("tab", name="Timeline").click()
    page.mouse.move(0, 0)
    before = _settled(page, lambda: page.evaluate(_PICTURE, 0))
    told = first.locator(".panel.selection").inner_text()

    for at in range(1, _COUNT):
        _see(page, at)
    assert page.locator(".npuprof-timeline[data-drawn]").count() == _COUNT
    _see(page, 0)
    _shows(page, 0, before)
    _reads(first.locator(".panel.selection"), told)
    first.get_by_role("tab", name="Kernels").click()
    _reads(first.locator(".npuprof-grid tbody"), rows)
    first.get_by_role("tab", name="Timeline").click()
    first.locator(".npuprof-timeline").focus()
    page.keyboard.press("ArrowUp")
    first.locator(".panel.selection h3", has_text="aclrtMemcpyAsync").wait_for()
    first.get_by_role("tab", name="Flame graph").click()
    first.locator(".npuprof-flame-canvas .said").filter(has_text="selected").wait_for()
    assert page.errors == []


def test_released_table_comes_back(page: Any) -> None:
    _see(page, 0)
    first = page.locator(".npuprof-saved").first
    first.get_by_role("tab", name="Kernels").click()
    rows = first.locator(".npuprof-grid tbody tr")
    rows.first.wait_for()
    before = _settled(page, first.locator(".npuprof-grid tbody").inner_text)
    _see(page, 2)
    first.evaluate("(one) => one.scrollIntoView()")
    first.locator(".npuprof-grid").get_by_label("Rows").select_option(label="single kernels")
    first.locator(".npuprof-grid .count", has_text=" kernels").wait_for()
    first.locator(".npuprof-grid").get_by_label("Rows").select_option(index=0)
    first.locator(".npuprof-grid .count", has_text=" groups").wait_for()
    _reads(first.locator(".npuprof-grid tbody"), before)
    first.get_by_role("tab", name="Timeline").click()
    assert page.errors == []


def test_key_in_a_released_view_is_answered(page: Any) -> None:
    first = page.locator(".npuprof-saved").first
    first.locator(".npuprof-timeline").focus()
    _see(page, 3)
    first.locator(".npuprof-timeline").evaluate("(one) => one.focus({ preventScroll: true })")
    page.keyboard.press("l")
    first.locator(".panel.selection dt", has_text="duration").first.wait_for(state="attached")
    assert page.errors == []


@pytest.mark.parametrize("page", [(_LIMIT, 0)], indirect=True)
def test_visible_views_keep_their_pictures(page: Any) -> None:
    views = page.locator(".npuprof-timeline[data-drawn]")
    views.nth(1).wait_for()
    assert page.evaluate("() => innerHeight - document.querySelectorAll('.npuprof-timeline')[1].offsetTop") > 100
    page.wait_for_function("() => npuprofHeld.all.length === 1")
    before = _settled(page, lambda: [page.evaluate(_PICTURE, at) for at in (0, 1)])
    for at in (0, 1, 0):
        page.locator(".npuprof-timeline .stick").nth(at).hover(position={"x": 600, "y": 60})
        page.wait_for_function(f"(size) => ({_HELD})().join() === `${{size}}`", arg=page.sizes[at])
    page.mouse.move(0, 0)
    for at in (0, 1):
        _shows(page, at, before[at])
    assert page.errors == []


@pytest.mark.parametrize("page", [(1_000_000, 1_500)], indirect=True)
def test_removed_view_is_released(page: Any) -> None:
    page.wait_for_function("() => npuprofHeld.all.length >= 2")
    many = len(_settled(page, lambda: page.evaluate(_HELD)))
    page.evaluate("() => { globalThis.taken = document.querySelector('.npuprof-saved'); taken.remove(); }")
    page.wait_for_function(f"(many) => ({_HELD})().length < many", arg=many)
    page.evaluate("() => document.body.prepend(taken)")
    page.wait_for_function(f"(many) => ({_HELD})().length >= many", arg=many)
    assert page.errors == []

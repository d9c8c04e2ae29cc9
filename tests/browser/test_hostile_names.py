"""Names that are no plain text, in notes, tracks, lanes and the run as it would be: text in saved and in live views."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from npuprof.exports.explorer import explorers
from npuprof.notebook.explorer import timeline as timeline_view
from npuprof.notebook.explorer.timeline import TimelineView
from npuprof.profiles.profile import Profile
from npuprof.sources.base import Decoded
from npuprof.tables.notes import Notes
from npuprof.timeline.own_tracks import with_tracks
from npuprof.timeline.state import Timeline
from npuprof.words.texts import encodable
from tests import factories
from tests.browser.canvas_page import CanvasPage

pytestmark = pytest.mark.browser

_TAG = "<img src=x onerror=alert(1)>"
_NAMES = (
    _TAG,
    "half \ud800 of a pair",
    "turned \u202egnp.exe",
    "long " * 2_000,
    "two\nlines\0\x1b[31m",
    "</script><script>alert(2)</script>",
)
_ALIVE = ":is(img, script, iframe, object, a[href], [onerror])"


def _run() -> Profile:
    """A run whose every name is one of them, as readers of results give it, with a note of each."""
    read = [encodable(name) for name in _NAMES]
    tables = factories.profile(120, kernel_names=read[:5])
    for table, column in (("marks", "message"), ("operators", "name"), ("python", "name")):
        tables[table] = tables[table].assign(
            **{column: factories.names(read, np.arange(len(tables[table])) % len(read))}
        )
    run = Profile(Decoded(tables, factories.info(name=" ".join(_NAMES)[:500], chip=_TAG), Notes()))
    for number, name in enumerate(_NAMES):
        run.annotate(name[:1_000], start=factories.START_NS + number * 100_000, end=factories.START_NS + 10**6)
    return run


def _tracks(run: Profile) -> dict[str, pd.DataFrame]:
    """Tracks of the user's own with these titles and slices, and counters with these titles and units."""
    slices = run.kernels[["start_ns", "duration_ns"]].head(len(_NAMES)).assign(name=pd.Series(_NAMES, dtype=object))
    samples = pd.DataFrame({"time_ns": run.kernels["start_ns"].head(9), "value": np.arange(9)})
    tracks = dict.fromkeys(_NAMES, slices)
    return tracks | {f"counter {name}": samples.assign(unit=pd.Series([name] * 9, dtype=object)) for name in _NAMES}


def _check(page: Any, views: str) -> None:
    """Go through what a view shows of names; none became an element, and no script ran."""
    page.locator(f"{views} summary", has_text="Lanes").first.click()
    page.locator(f"{views} .menu .lane").first.wait_for()
    page.locator(f"{views} summary", has_text="Lanes").first.click()
    root = page.locator(f"{views} .npuprof-timeline, {views}.npuprof-timeline").first
    root.focus()
    for key in "lrtgn":
        page.keyboard.press(key)
    page.locator(f"{views} .panel:not([hidden]) h3").first.wait_for()
    listed = page.locator(f"{views} .bookmarks").first
    listed.locator("button").nth(len(_NAMES) - 1).wait_for()
    assert _TAG in listed.text_content()
    shown = page.evaluate("(views) => [...document.querySelectorAll(`${views} .label`)].map((one) => one.title)", views)
    assert sum(_TAG in title for title in shown) >= 2, shown  # the track and the counter
    assert page.locator(f"{views} {_ALIVE}").count() == 0
    assert max(map(len, shown)) < 1_000


def _watched(page: Any) -> list[str]:
    """What went wrong in a page, or was run by a name."""
    wrong: list[str] = []

    def dismiss(dialog: Any) -> None:
        wrong.append(dialog.message)
        dialog.dismiss()

    page.on("dialog", dismiss)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    return wrong


def test_they_are_text_in_a_saved_page_and_its_replay(browser: Any, tmp_path: Path) -> None:
    run = _run()
    timeline = Timeline(with_tracks(run.tables, _tracks(run)), run.info, is_saved=True)
    saved = explorers(run, run.replayed(kernel={_TAG: 0.1}), timeline=timeline)
    path = tmp_path / "page.html"
    path.write_text(f"<!doctype html><meta charset=utf-8><main>{saved}</main>", encoding="utf-8")
    context = browser.new_context(offline=True, viewport={"width": 1400, "height": 2400})
    page = context.new_page()
    wrong = _watched(page)
    page.goto(path.as_uri())
    page.locator(".npuprof-timeline[data-drawn]").nth(1).wait_for()
    page.evaluate(
        "() => document.querySelectorAll('.npuprof-saved').forEach((one, at) => one.classList.add(`at${at}`))"
    )
    _check(page, ".at0 .npuprof-saved-views")
    for tab in page.locator(".at0 .npuprof-saved-views [role=tab]").all():
        tab.click()
    page.locator(".at1 .npuprof-timeline").focus()
    for key in "lrt":
        page.keyboard.press(key)
    page.locator(".at1  .panel:not([hidden]) h3").first.wait_for()
    assert page.locator(f".npuprof-saved-views {_ALIVE}").count() == 0
    page.screenshot(path=tmp_path / "saved.png", full_page=True)
    assert wrong == []
    context.close()


def test_texts_stay_texts_in_live_views(browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline_view, "_layout", {})
    run = _run()
    timeline = Timeline(with_tracks(run.tables, _tracks(run)), run.info)
    page = browser.new_page(viewport={"width": 1400, "height": 1400})
    wrong = _watched(page)
    shown = CanvasPage(page, TimelineView(timeline, None, run.advice, run.critical_path, annotated=run))
    _check(page, ".npuprof-timeline")
    page.locator(".npuprof-timeline .label").first.dblclick()
    field = page.locator(".npuprof-timeline .copied input")
    field.fill(f"<b>mine</b>{_TAG}")
    field.press("Enter")
    shown.settle()
    assert f"<b>mine</b>{_TAG}" in page.locator(".npuprof-timeline .labels").first.inner_text()
    assert page.locator(f".npuprof-timeline :is(b, {_ALIVE[4:-1]})", has_text="mine").count() == 0
    page.screenshot(path=tmp_path / "live.png")
    assert wrong == shown.errors == []
    page.close()

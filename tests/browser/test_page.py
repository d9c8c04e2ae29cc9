"""The page of its own that a run is written as: the explorer in a browser without a network and a kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npuprof.browser.findings import drawn_findings
from npuprof.lines.frames import line_text
from npuprof.profiles.profile import Profile
from npuprof.sources.base import Decoded
from npuprof.tables.notes import Notes
from npuprof.timeline.details import details
from npuprof.timeline.state import Timeline
from tests import factories

pytestmark = pytest.mark.browser

_HOSTILE = "<img src=x onerror='window.pwned=1'>"
_NAMES = (_HOSTILE, "</script><script>window.pwned=2</script>", "$x$", "<a href='javascript:window.pwned=3'>x</a>")
_WHITE, _BLACK = "rgb(255, 255, 255)", "rgb(17, 17, 17)"

Open = Callable[..., Any]


@pytest.fixture(scope="module")
def run() -> Profile:
    """A run whose every name is hostile."""
    notes = Notes()
    notes.warning(_HOSTILE, _HOSTILE)
    about = factories.info(name=f"{_HOSTILE}</title><script>window.pwned=4</script>", chip=_HOSTILE)
    made = Profile(Decoded(factories.profile(300, kernel_names=_NAMES), about, notes))
    made.annotate(_HOSTILE, start=factories.START_NS, end=factories.START_NS + 1_000_000)
    return made


@pytest.fixture(scope="module")
def page_path(run: Profile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the run."""
    return run.to_html(tmp_path_factory.mktemp("page") / "report.html")


@pytest.fixture
def open_page(browser: Any, page_path: Path) -> Iterator[Open]:
    """Open the page without a network; gives the page, and the addresses that it asked for."""
    contexts: list[Any] = []

    def open_(*, width: int = 1400, **how: Any) -> tuple[Any, list[str]]:
        contexts.append(browser.new_context(offline=True, viewport={"width": width, "height": 1600}, **how))
        asked: list[str] = []
        contexts[-1].on("request", lambda request: asked.append(request.url))
        page = contexts[-1].new_page()
        page.errors = []
        page.on("pageerror", lambda error: page.errors.append(str(error)))
        page.on("console", lambda message: page.errors.append(message.text))
        page.goto(page_path.as_uri())
        if how.get("java_script_enabled", True):
            page.locator(".npuprof-timeline[data-drawn]").wait_for()
        return page, asked

    yield open_
    for context in contexts:
        context.close()


def _window(page: Any) -> tuple[float, float]:
    low, high = page.locator(".npuprof-timeline").first.get_attribute("data-window").split(",")
    return float(low), float(high)


def _search(page: Any, text: str) -> str:
    """Search in the timeline; gives what is said of the matches."""
    field = page.get_by_role("searchbox", name="Search", exact=True)
    field.fill(text)
    field.press("Enter")
    found = page.locator(".npuprof-timeline .found")
    page.wait_for_function("() => document.querySelector('.npuprof-timeline .found').textContent.includes(' of ')")
    return str(found.text_content())


@pytest.mark.parametrize(("width", "theme"), [(1400, "light"), (900, "dark")])
def test_it_is_whole_by_itself_and_follows_the_theme(open_page: Open, tmp_path: Path, width: int, theme: str) -> None:
    page, asked = open_page(width=width, color_scheme=theme)
    page.screenshot(path=tmp_path / f"page_{theme}.png", full_page=True)
    assert len(asked) == 1
    assert page.evaluate("() => window.pwned") is None
    foreign = "img:not(.npuprof-picture), iframe, a[href^=javascript]"
    assert page.locator(foreign).count() == 0
    assert page.title().startswith(f"npuprof · {_HOSTILE}")
    assert _HOSTILE in page.inner_text("main")
    background = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    assert background == (_WHITE if theme == "light" else _BLACK)
    assert page.evaluate("() => document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
    assert page.errors == []


def test_only_the_scripts_of_the_page_run_and_nothing_is_loaded(open_page: Open) -> None:
    page, asked = open_page()
    policy = page.locator("meta[http-equiv=Content-Security-Policy]").get_attribute("content")
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-inline'; style" not in policy
    page.evaluate(
        """async () => {
            const script = document.createElement('script');
            script.textContent = 'window.pwned = 5';
            document.body.append(script);
            await fetch('data:text/plain,x').then(() => { window.pwned = 6; }).catch(() => {});
        }"""
    )
    assert page.evaluate("() => window.pwned") is None
    assert len([address for address in asked if not address.startswith("data:")]) == 1


def test_slice_details_match_the_kernel(open_page: Open, run: Profile, tmp_path: Path) -> None:
    page, _ = open_page()
    timeline = Timeline(run.tables, run.info, run.aligned)
    text = _search(page, "onerror")
    names = run.kernels["name"].astype(str)
    assert text.startswith(f"1 of {int((names == _HOSTILE).sum())} matches")
    first = int(np.flatnonzero(names == _HOSTILE)[0])
    panel = page.locator(".panel.selection")
    panel.locator("dt", has_text="connection id").wait_for()
    assert panel.locator("h3").text_content() == _HOSTILE
    told = dict(zip(panel.locator("dt").all_text_contents(), panel.locator("dd").all_text_contents(), strict=True))
    number = timeline.slices.first["kernels"] + first
    facts = {label: value for group in details(timeline.slices, number) for label, value, _, _ in group.facts}
    assert {label for label in facts if label != "start" and told.get(label) != facts[label]} == set()
    panel.get_by_role("button", name="Raw values").click()
    told = dict(zip(panel.locator("dt").all_text_contents(), panel.locator("dd").all_text_contents(), strict=True))
    recorded = {column: raw for group in details(timeline.slices, number) for _, _, column, raw in group.facts}
    assert told["duration_ns"] == recorded["duration_ns"]
    assert panel.locator("section", has_text="caused by").locator("button").all_text_contents() == ["launch"]
    page.keyboard.press("Escape")
    page.locator(".npuprof-timeline").first.focus()
    page.keyboard.press("ArrowUp")
    page.wait_for_function("() => document.querySelector('.panel.selection h3')?.textContent === 'launch'")
    page.screenshot(path=tmp_path / "slice.png", full_page=True)
    assert page.errors == []


def test_a_slice_names_its_line_of_code(open_page: Open, run: Profile) -> None:
    page, _ = open_page()
    lines = run.advice().facts.code_lines
    rows = lines.of_rows("kernels", np.arange(len(run.kernels), dtype=np.int64))
    text = _search(page, "onerror")
    panel = page.locator(".panel.selection")
    hostile = np.flatnonzero(run.kernels["name"].astype(str) == _HOSTILE)
    with_line = next(at for at, row in enumerate(hostile.tolist()) if rows[row] >= 0)
    assert text.startswith("1 of ")
    for _ in range(with_line):
        page.get_by_role("button", name="Next", exact=True).click()
    page.wait_for_function(
        "text => document.querySelector('.npuprof-timeline .found').textContent.startsWith(text)",
        arg=f"{with_line + 1} of ",
    )
    expected = line_text(*lines.place(int(rows[hostile[with_line]])))
    assert expected.startswith("blocks.py:")
    panel.locator("dd", has_text=expected).wait_for()
    assert page.errors == []


def test_it_zooms_to_single_nanoseconds_and_jumps(open_page: Open) -> None:
    page, asked = open_page()
    before = _window(page)
    root = page.locator(".npuprof-timeline").first
    root.focus()
    for key in "wwwwwwwwww":
        page.keyboard.press(key)
    page.wait_for_function(
        "() => { const [a, b] = document.querySelector('.npuprof-timeline').dataset.window.split(',');"
        " return b - a < 50000; }"
    )
    page.keyboard.press("l")
    page.locator(".panel.selection h3").wait_for()
    page.keyboard.press("i")
    page.locator(".panel.range h3").wait_for()
    low, high = _window(page)
    assert high - low < (before[1] - before[0]) / 10
    assert len(asked) == 1


def test_tables_are_searched_and_sorted_and_choose_slices_everywhere(open_page: Open, run: Profile) -> None:
    page, _ = open_page()
    page.get_by_role("tab", name="Kernels").click()
    grid = page.locator(".npuprof-grid")
    sums = run.kernels.astype({"name": str, "op_type": str}).groupby(["name", "op_type"])["duration_ns"].sum()
    sums = sums.sort_values(ascending=False)
    rows = grid.locator("tbody tr")
    assert rows.first.locator("td").first.text_content() == sums.index[0][0]
    assert rows.count() == len(sums)
    grid.get_by_label("Filter name").fill("onerror")
    grid.get_by_label("Filter name").press("Enter")
    count = len(sums[_HOSTILE])
    page.wait_for_function("count => document.querySelectorAll('.npuprof-grid tbody tr').length === count", arg=count)
    rows.first.click()
    rows.last.click(modifiers=["Shift"])
    grid.get_by_role("button", name="Show in timeline").click()
    chosen = page.locator(".chosen")
    chosen.get_by_role("button", name="Clear").wait_for()
    assert page.get_by_role("tab", name="Timeline").get_attribute("aria-selected") == "true"
    page.get_by_role("tab", name="Flame graph").click()
    said = page.locator(".npuprof-flame-canvas .said").first
    page.wait_for_function(
        "() => document.querySelector('.npuprof-flame-canvas .said').textContent.includes('selected')"
    )
    hostile_ms = int(sums[_HOSTILE].sum()) / 1e6
    assert said.text_content().startswith(f"simulated NPU · device time: {hostile_ms:.2f} ms")
    chosen.get_by_role("button", name="Clear").click()
    page.wait_for_function(
        "() => !document.querySelector('.npuprof-flame-canvas .said').textContent.includes('selected')"
    )
    assert page.errors == []


def test_flame_graph_follows_the_marked_range(open_page: Open, run: Profile, tmp_path: Path) -> None:
    page, _ = open_page()
    page.get_by_role("tab", name="Flame graph").click()
    flame = page.locator(".npuprof-flame-canvas").first
    total = int(run.kernels["duration_ns"].sum())
    assert flame.locator(".said").text_content() == f"simulated NPU · device time: {total / 1e6:.2f} ms"
    box = flame.locator("canvas").bounding_box()
    page.mouse.click(box["x"] + box["width"] * 0.1, box["y"] + 19 * 2 + 9)
    page.locator(".sandwich h4").wait_for()
    page.screenshot(path=tmp_path / "flame.png", full_page=True)
    assert "wherever it was called" in page.locator(".sandwich h4").text_content()
    assert page.locator(".sandwich .npuprof-flame-canvas").count() == 2

    page.get_by_role("tab", name="Timeline").click()
    page.locator(".npuprof-timeline").first.focus()
    page.keyboard.press("w")
    page.keyboard.press("r")
    page.locator(".panel.range td").first.wait_for()
    low, high = _window(page)
    page.get_by_role("tab", name="Flame graph").click()
    start = run.kernels["start_ns"].to_numpy() - Timeline(run.tables, run.info).origin
    end = start + run.kernels["duration_ns"].to_numpy()
    inside = int((np.minimum(end, round(high)) - np.maximum(start, round(low))).clip(min=0).sum())
    assert (
        flame.locator(".said").text_content().startswith(f"simulated NPU · device time: {inside / 1e6:.2f} ms, from ")
    )
    assert page.errors == []


def test_lane_changes_survive_a_reload(open_page: Open) -> None:
    page, _ = open_page()
    page.get_by_text("Lanes", exact=True).click()
    page.get_by_role("checkbox", name="Marks").uncheck()
    page.get_by_role("button", name="Operators: keep on top").click()
    page.reload()
    page.locator(".npuprof-timeline[data-drawn]").wait_for()
    assert page.evaluate("() => document.querySelector('.labels.pinned').innerText").startswith("operators")
    assert "marks" not in page.evaluate("() => [...document.querySelectorAll('.label')].map((one) => one.innerText)")


def test_wide_page_is_used_for_slices(open_page: Open, tmp_path: Path) -> None:
    page, _ = open_page(width=2600)
    page.screenshot(path=tmp_path / "wide.png", full_page=True)
    picture = page.locator(".npuprof-timeline .stick > canvas").last
    assert picture.bounding_box()["width"] > 2300
    assert page.locator(".npuprof-report").first.bounding_box()["width"] <= 1500
    panels = page.locator(".npuprof-timeline .panels")
    assert panels.bounding_box()["height"] == 0
    page.locator(".npuprof-timeline").first.focus()
    page.keyboard.press("l")
    panels.locator("h3").first.wait_for()
    assert panels.bounding_box()["height"] > 50
    page.keyboard.press("c")
    page.wait_for_function("() => document.querySelector('.npuprof-timeline .panels').clientHeight === 0")


def test_without_scripts_it_shows_the_picture(open_page: Open, tmp_path: Path) -> None:
    page, _ = open_page(java_script_enabled=False)
    page.screenshot(path=tmp_path / "unscripted.png", full_page=True)
    picture = page.locator(".npuprof-saved img")
    assert picture.is_visible()
    assert picture.bounding_box()["width"] > 800
    assert picture.evaluate("image => image.naturalWidth") > 0
    assert _HOSTILE in page.inner_text("main")


def test_a_front_end_that_cannot_unpack_keeps_the_picture(browser: Any, page_path: Path) -> None:
    context = browser.new_context(offline=True)
    page = context.new_page()
    page.add_init_script("delete globalThis.DecompressionStream")
    page.goto(page_path.as_uri())
    page.locator(".npuprof-saved [role=alert]").wait_for()
    assert page.locator(".npuprof-saved img").is_visible()
    context.close()


def test_findings_are_drawn_where_they_happened(open_page: Open, run: Profile, tmp_path: Path) -> None:
    page, _ = open_page()
    fired = run.advice().fired
    timeline = Timeline(run.tables, run.info, run.aligned)
    drawn = drawn_findings(timeline, run.advice())
    assert [one["title"] for one in drawn] == [finding.title for finding in fired]
    before = _window(page)
    root = page.locator(".npuprof-timeline").first
    root.focus()
    page.keyboard.press("g")
    told = page.locator(".npuprof-timeline .said")
    told.filter(has_text=f"Finding 1 of {len(fired)}: {fired[0].title}").wait_for()
    place = next((at for at, one in enumerate(drawn) if one["drawn"]), None)
    assert place is not None
    page.locator(".npuprof-problems .npuprof-first").nth(place).click()
    told.filter(has_text=f"Finding {place + 1} of").wait_for()
    _, _, start, end = drawn[place]["drawn"][0]
    low, high = _window(page)
    assert low <= start
    assert end <= high
    assert high - low < before[1] - before[0]
    page.get_by_text("Findings", exact=True).click()
    listed = page.locator(".menu.findings button")
    assert listed.nth(place).get_attribute("aria-pressed") == "true"
    page.screenshot(path=tmp_path / "finding.png", full_page=True)
    page.keyboard.press("Shift+G")
    assert page.errors == []


def test_two_cursors_measure_the_time_between_edges(open_page: Open, run: Profile) -> None:
    page, _ = open_page()
    timeline = Timeline(run.tables, run.info, run.aligned)
    _search(page, "onerror")  # shows a kernel, twenty times as wide as it is
    page.locator(".npuprof-timeline").first.focus()  # which may scroll
    low, high = _window(page)
    box = page.locator(".npuprof-timeline .stick > canvas").last.bounding_box()
    name = page.locator(".panel.selection h3").text_content()
    first = int(np.flatnonzero(run.kernels["name"].astype(str) == name)[0])
    start = int(run.kernels["start_ns"].iloc[first]) - timeline.origin
    length = int(run.kernels["duration_ns"].iloc[first])
    lane = timeline.lane_of(timeline.slices.first["kernels"] + first)
    label = page.evaluate(
        "lane => { const rows = [...document.querySelectorAll('.labels .label')];"
        " return rows.map((row) => [row.title, row.offsetTop, row.offsetHeight]); }",
        lane,
    )
    top = next(top + tall / 2 for title, top, tall in label if "stream 2" in title)
    for edge in (start + length * 0.01, start + length * 0.99):
        x = box["x"] + (edge - low) / (high - low) * box["width"]
        page.mouse.move(x, box["y"] + top)
        page.keyboard.press("x")
    told = page.locator(".npuprof-timeline .said")
    told.filter(has_text="between the cursors").wait_for()
    assert f"({length:,} ns)" in told.text_content()
    page.keyboard.press("x")
    told.filter(has_text="removed").wait_for()
    assert page.errors == []


def test_notes_are_in_the_page_and_written_in_it(open_page: Open, tmp_path: Path) -> None:
    page, _ = open_page()
    listed = page.locator(".bookmarks button")
    listed.first.wait_for()
    assert listed.all_text_contents() == [f"✎ {_HOSTILE}"]
    page.locator(".npuprof-timeline").first.focus()
    page.keyboard.press("w")
    page.keyboard.press("r")
    page.get_by_role("button", name="Note", exact=True).click()
    field = page.get_by_role("textbox", name="Note: on the range; empty removes it")
    field.fill("why so <b>slow</b>?")
    field.press("Enter")
    page.locator(".bookmarks button", has_text="why so <b>slow</b>?").wait_for()
    page.screenshot(path=tmp_path / "notes.png", full_page=True)
    page.get_by_role("button", name="Note", exact=True).click()
    assert field.input_value() == "why so <b>slow</b>?"
    field.fill("")
    field.press("Enter")
    page.wait_for_function("() => document.querySelectorAll('.bookmarks button').length === 1")
    assert page.evaluate("() => window.pwned") is None
    assert page.errors == []


def test_predicted_run_moves_with_the_recorded(open_page: Open, run: Profile, tmp_path: Path) -> None:
    page, asked = open_page()
    ghost = run.replayed(kernel={_HOSTILE: 0.1}, part={"copy": 0})
    page.goto(run.to_html(tmp_path / "ghost.html", beside=ghost).as_uri())
    views = page.locator(".npuprof-timeline[data-drawn]")
    views.nth(1).wait_for()
    assert "as it would be" in page.inner_text("main")
    views.first.focus()
    page.keyboard.press("w")
    page.keyboard.press("w")
    page.wait_for_function(
        """() => { const [a, b] = [...document.querySelectorAll('.npuprof-timeline')].map((one) => one.dataset.window);
            const [low, high] = a.split(','); return a === b && high - low < 9000000; }"""
    )
    page.screenshot(path=tmp_path / "ghost.png", full_page=True)
    assert page.evaluate("() => window.pwned") is None
    assert page.errors == []
    assert len(asked) == 2  # the two pages

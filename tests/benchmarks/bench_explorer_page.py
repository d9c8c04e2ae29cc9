"""How the explorer's timeline moves in JupyterLab: ``python -m tests.benchmarks.bench_explorer_page [SLICES ...]``.

For runs of a hundred thousand and of a million slices, or as many as are given, in headless Chromium without a GPU,
each in new pages with new kernels: the time to build the index; from the first ``explore()`` to its first picture on
the screen, without that time, the median and the slowest of five pages that have shown a table, and the median of five
without any output (JupyterLab loads MathJax with the first HTML that a page shows, here a line of the explorer's);
frames a second and the slowest frames while the timeline is dragged; from a key to the picture that it moves, at the
50th and 95th percentile; and how much larger the heap is than with the empty notebook. Then what the page of a notebook
holds that shows ten explorers of the run, and when their flame graphs are open too: the heap with its arrays.

``NPUPROF_BEFORE`` may name a working tree of an earlier commit, such as one whose timeline is a plotly figure: it is
measured in the same way, in turn, for each number of slices.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from tests import pace
from tests.browser.conftest import _CHROMIUM_FLAGS, _served
from tests.browser.notebook_page import Desk, NotebookPage, settle

_SLICES = (100_000, 1_000_000)
_HERE = Path(__file__).parents[2]
_KEYS = "wwwwwdadaddaawsdawdsadawsdadwsdaadwsaddadasdwsaddawa"
_WAIT_MS = 600_000
_PAGES = 5
_EXPLORERS = 10

_BUILD = """\
import sys
sys.path[:0] = [{tree!r}]
for name in [name for name in sys.modules if name.split(".")[0] in ("npuprof", "tests")]: del sys.modules[name]
%load_ext npuprof
import time
from npuprof.tables.notes import Notes
from npuprof.profiles.profile import Profile
from npuprof.sources.base import Decoded
from tests import factories
tables = factories.profile({launches})
run = Profile(Decoded(tables=tables, info=factories.info(), notes=Notes(), statistics={{}}))
"""
_TABLE = "run.steps.head()"
# What run.explore() does; that of earlier trees opened another tab.
_SHOW = """\
called_s = time.time()
from npuprof.notebook.explorer.tabs import explorer_of
explorer = explorer_of(run)
began = time.perf_counter()
explorer.timeline
built_s = time.perf_counter() - began
explorer.open("Timeline")
explorer.widget
"""
_BUILT = "print(called_s, built_s)"

# Each tree's picture: the first one is there, one more is drawn, and where it is.
_CANVAS = "document.querySelector('.npuprof-timeline[data-drawn]')"
_PLOTLY = "document.querySelector('.npuprof-timeline .js-plotly-plot')"
_THERE = f"() => {_CANVAS} || ({_PLOTLY}?._fullLayout && {_PLOTLY}.querySelector('.trace.bars .point'))"
# When the frame after the one with the picture begins, the picture is on the screen.
_FIRST = f"""() => {{
    const watch = new MutationObserver(() => {{
        if (!({_THERE})()) return;
        watch.disconnect();
        requestAnimationFrame(() => {{ globalThis.first_ = performance.now(); }});
    }});
    watch.observe(document.body, {{subtree: true, childList: true, attributes: true}});
}}"""
_WATCH = f"""() => {{
    globalThis.frames_ = [];
    globalThis.drawn_ = [];
    globalThis.asked_ = [];
    let last = 0;
    const frame = (now) => {{ if (last) frames_.push(now - last); last = now; requestAnimationFrame(frame); }};
    requestAnimationFrame(frame);
    const stamp = () => drawn_.push(performance.now());
    const root = {_CANVAS};
    if (root) new MutationObserver(stamp).observe(root, {{attributes: true, attributeFilter: ['data-drawn']}});
    else {_PLOTLY}.on('plotly_afterplot', stamp);
    addEventListener('keydown', (event) => asked_.push(event.timeStamp), {{capture: true}});
}}"""


def _measure(desk: Desk, tree: Path, slices: int) -> None:
    build = _BUILD.format(tree=str(tree), launches=slices * 100 // 530)
    first: dict[str, list[float]] = {"": [], _TABLE: []}
    built = []
    for number in range(2 * _PAGES):
        before = list(first)[number % 2]
        notebook = desk.open([build + before, _SHOW, _BUILT], own_kernel=True, own_page=True, height=1200)
        page = notebook.page
        page.set_default_timeout(_WAIT_MS)
        notebook.run(0)
        empty = _heap_mb(page)
        settle(page)
        first_ms = _first_picture_ms(notebook)
        settle(page)
        output = notebook.run(2).locator(".jp-OutputArea-output").inner_text()
        called_s, built_s = map(float, output.split())
        first[before].append(first_ms - (called_s + built_s) * 1e3)
        built.append(built_s)
        if number < 2 * _PAGES - 1:
            desk.close_notebooks()
    heap = _heap_mb(page) - empty
    page.evaluate(_WATCH)
    rate, slowest = _frames_of_a_drag(page)
    keys = sorted(_key_ms(page, key) for key in _KEYS)
    p95 = keys[int(0.95 * (len(keys) - 1))]
    print(
        f"{slices:>12,} slices in {tree.name}: index {statistics.median(built):.2f} s, "
        f"first picture {statistics.median(first[_TABLE]):,.0f} ms after explore() (at most {max(first[_TABLE]):,.0f}; "
        f"as the page's first output {statistics.median(first['']):,.0f}), "
        f"dragging {rate:.0f} frames/s (95 % within {slowest:.0f} ms), "
        f"key to picture p50 {statistics.median(keys):.0f} ms, p95 {p95:.0f} ms, "
        f"heap +{heap:.0f} MB",
        flush=True,
    )
    desk.close_notebooks()


def _measure_many(desk: Desk, slices: int) -> None:
    build = _BUILD.format(tree=str(_HERE), launches=slices * 100 // 530)
    notebook = desk.open([build, *["run.explore()"] * _EXPLORERS], own_kernel=True, own_page=True, height=1200)
    page = notebook.page
    page.set_default_timeout(_WAIT_MS)
    notebook.run(0)
    held = [_held_mb(page)]
    for number in range(_EXPLORERS):
        notebook.run(1 + number).locator(".npuprof-timeline[data-drawn]").first.wait_for()
        settle(page)
        held.append(_held_mb(page))
    for number in range(_EXPLORERS):
        explorer = page.locator(".npuprof-explorer").nth(number)
        explorer.get_by_role("tab", name="Flame graph", exact=True).click()
        explorer.locator(".npuprof-flame-canvas[data-drawn]").first.wait_for()
    settle(page)
    print(
        f"{slices:>12,} slices: an empty notebook {held[0]:.0f} MB, with an explorer {held[1]:.0f} MB, with "
        f"{_EXPLORERS} {held[-1]:.0f} MB, with their flame graphs {_held_mb(page):.0f} MB",
        flush=True,
    )
    desk.close_notebooks()


def _held_mb(page: Any) -> float:
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    used = session.send("Runtime.getHeapUsage")
    return float(used["usedSize"] + used.get("backingStorageSize", 0)) / 1e6


def _first_picture_ms(notebook: NotebookPage) -> float:
    """Run the cell with the explorer; return when its picture was on the screen, in milliseconds since the epoch."""
    notebook.page.evaluate(_FIRST)
    notebook.start(1)
    notebook.page.wait_for_function("() => globalThis.first_", polling=20)
    first: float = notebook.page.evaluate("() => performance.timeOrigin + first_")
    return first


def _frames_of_a_drag(page: Any) -> tuple[float, float]:
    """Drag the picture to and fro; give frames a second, and what 95 of 100 frames do not exceed in milliseconds."""
    move = page.locator(".npuprof-timeline").get_by_role("radio", name="move")
    if move.count():
        move.click()
    canvas = page.locator(".npuprof-timeline .stick > canvas")
    picture = canvas.last if canvas.count() else page.locator(".npuprof-timeline .nsewdrag").first
    picture.scroll_into_view_if_needed()
    box = picture.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + min(box["height"], 300) / 2
    page.mouse.click(x, y)
    page.evaluate("() => document.querySelector('.npuprof-timeline').focus()")
    for _ in range(4):
        page.keyboard.press("w")
        page.wait_for_timeout(500)
    page.mouse.move(x, y)
    page.mouse.down()
    page.evaluate("() => { frames_.length = 0; }")
    for to in (-0.3, 0.3, -0.2, 0.2):
        page.mouse.move(x + to * box["width"], y, steps=60)
    frames = sorted(page.evaluate("() => frames_"))
    page.mouse.up()
    return 1e3 * len(frames) / sum(frames), frames[int(0.95 * (len(frames) - 1))]


def _key_ms(page: Any, key: str) -> float:
    """Press a key; give the milliseconds until the picture that it moves is drawn."""
    page.evaluate("() => { drawn_.length = 0; asked_.length = 0; }")
    page.keyboard.press(key)
    page.wait_for_function("() => asked_.length && drawn_.some((one) => one > asked_[0])", polling=5)
    taken: float = page.evaluate("() => drawn_.find((one) => one > asked_[0]) - asked_[0]")
    page.wait_for_timeout(150)
    return taken


def _heap_mb(page: Any) -> float:
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    session.send("Performance.enable")
    metrics = {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
    return float(metrics["JSHeapUsedSize"]) / 1e6


def main() -> None:
    """Measure and print."""
    trees = [_HERE, *([Path(os.environ["NPUPROF_BEFORE"])] if "NPUPROF_BEFORE" in os.environ else [])]
    path = os.environ.get("NPUPROF_CHROMIUM") or shutil.which("chromium")
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores, {pace.seconds(1):.1f} times slower than at rest")
    with (
        tempfile.TemporaryDirectory() as home,
        _served("jupyterlab", Path(home)) as lab,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=path, args=_CHROMIUM_FLAGS)
        context = browser.new_context()
        context.set_default_timeout(_WAIT_MS)
        for slices in [int(word) for word in sys.argv[1:]] or _SLICES:
            for tree in trees:
                _measure(Desk(lab, context), tree, slices)
            _measure_many(Desk(lab, context), slices)
        browser.close()


if __name__ == "__main__":
    main()

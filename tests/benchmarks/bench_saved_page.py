"""A page of a run in a browser without a kernel: run with ``python -m tests.benchmarks.bench_saved_page [SLICES ...]``.

For runs of a hundred thousand and of a million slices, or as many as are given, whose times are as irregular as
recorded ones: how long ``to_html`` takes and how large the page is; from opening it to its first picture; from a key to
the picture that it moves, at the 50th and 95th percentile; until a selection, a search for most kernels and their
launches, is shown in the timeline, and then in all views; and what the page holds in memory, JavaScript's heap with
its arrays. Then the same of ten explorers in one page, of which the first is measured.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import sync_playwright

from npuprof.profiles.profile import Profile
from npuprof.sources.base import Decoded
from npuprof.tables.notes import Notes
from tests import factories, pace
from tests.browser.conftest import _CHROMIUM_FLAGS

_SLICES = (100_000, 1_000_000)
_LIMIT_BYTES = {100_000: 1_000_000, 1_000_000: 8_000_000}
_KEYS = "wwwwwdadaddaawsdawdsadawsdadwsdaadwsaddadasdwsaddawa"
_WAIT_MS = 60_000
_WATCH = """() => {
    globalThis.drawn_ = []; globalThis.asked_ = [];
    new MutationObserver(() => drawn_.push(performance.now())).observe(
        document.querySelector('.npuprof-timeline'), {attributes: true, attributeFilter: ['data-drawn']});
    addEventListener('keydown', (event) => asked_.push(event.timeStamp), {capture: true});
}"""
_FIRST = """new MutationObserver((_, mine) => {
    if (!document.querySelector('.npuprof-timeline[data-drawn]')) return;
    globalThis.first_ = performance.now();
    mine.disconnect();
}).observe(document, {subtree: true, childList: true, attributes: true, attributeFilter: ['data-drawn']})"""
_SEARCH_MS = """(text) => new Promise((done) => {
    const field = document.querySelector('.npuprof-timeline input[type=search]'), began = performance.now();
    const found = document.querySelector('.npuprof-timeline .found');
    const shown = () => requestAnimationFrame(() => setTimeout(() => done(performance.now() - began)));
    new MutationObserver(shown).observe(found, {childList: true});
    field.value = text;
    field.dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter', bubbles: true}));
})"""
_OPEN_VIEWS = """async () => {
    const tabs = [...document.querySelector('.npuprof-saved [role=tablist]').querySelectorAll('[role=tab]')];
    for (const tab of [...tabs, tabs[0]]) { tab.click(); await new Promise((done) => setTimeout(done, 500)); }
    return tabs.length;
}"""
_SELECTED = "softmax"  # more than a tenth of all slices: operators, kernels and tasks
_EXPLORERS = 10


def irregular(slices: int) -> Profile:
    """Return a run of about so many slices, whose starts and durations are not multiples of anything."""
    tables = factories.profile(slices * 100 // 530)
    noise = np.random.default_rng(7)
    for name in ("kernels", "operators", "api", "overlap"):
        frame = tables[name]
        start = frame["start_ns"].to_numpy() + noise.integers(0, 900, len(frame))
        length = np.maximum(frame["duration_ns"].to_numpy() - noise.integers(900, 4_000, len(frame)), 1)
        tables[name] = frame.assign(start_ns=start, duration_ns=length)
    tables["tasks"] = tables["tasks"].assign(
        start_ns=tables["kernels"]["start_ns"], duration_ns=tables["kernels"]["duration_ns"]
    )
    return Profile(Decoded(tables, factories.info(), Notes()))


def _key_ms(page: Any, key: str) -> float:
    page.evaluate("() => { drawn_.length = 0; asked_.length = 0; }")
    page.keyboard.press(key)
    page.wait_for_function("() => asked_.length && drawn_.some((one) => one > asked_[0])", polling=5)
    taken: float = page.evaluate("() => drawn_.find((one) => one > asked_[0]) - asked_[0]")
    page.wait_for_timeout(60)
    return taken


def _opened(browser: Any, path: Path) -> tuple[Any, float]:
    """Open a page; return it, and the milliseconds until the first picture of its first explorer."""
    page = browser.new_context(offline=True, viewport={"width": 1400, "height": 1600}).new_page()
    page.set_default_timeout(_WAIT_MS)
    page.add_init_script(_FIRST)
    page.goto(path.as_uri(), wait_until="commit")
    page.wait_for_function("() => globalThis.first_")
    return page, page.evaluate("() => first_")


def _used(page: Any) -> str:
    """Return how fast a page answers and what it holds."""
    page.wait_for_timeout(1_000)
    page.evaluate(_WATCH)
    page.locator(".npuprof-timeline").first.focus()
    keys = sorted(_key_ms(page, key) for key in _KEYS)
    searched_ms = page.evaluate(_SEARCH_MS, _SELECTED)
    found = page.locator(".npuprof-timeline .found").first.inner_text().split(" matches")[0].split()[-1]
    page.keyboard.press("c")
    views = page.evaluate(_OPEN_VIEWS)
    everywhere_ms = page.evaluate(_SEARCH_MS, _SELECTED)
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    used = session.send("Runtime.getHeapUsage")
    memory_mb = (used["usedSize"] + used.get("backingStorageSize", 0)) / 1e6
    p50, p95 = keys[len(keys) // 2], keys[int(0.95 * (len(keys) - 1))]
    return (
        f"key to picture p50 {p50:.0f} ms, p95 {p95:.0f} ms, selection of {found} slices shown after "
        f"{searched_ms:.0f} ms, in {views} views after {everywhere_ms:.0f} ms, memory {memory_mb:.0f} MB"
    )


def _measure(browser: Any, slices: int, folder: Path) -> None:
    run = irregular(slices)
    began = time.perf_counter()
    path = run.to_html(folder / f"{slices}.html")
    written_s, size = time.perf_counter() - began, path.stat().st_size
    page, first_ms = _opened(browser, path)
    limit = f" of {_LIMIT_BYTES[slices] / 1e6:.0f} MB allowed" if slices in _LIMIT_BYTES else ""
    print(
        f"{slices:>11,} slices: written in {written_s:.1f} s, {size / 1e6:.2f} MB{limit}, "
        f"first picture {first_ms:,.0f} ms after opening, {_used(page)}",
        flush=True,
    )
    page.context.close()
    html = path.read_text()
    explorer = html[html.index('<div class="npuprof-saved">') : html.index("</script></div>") + len("</script></div>")]
    path.write_text(html.replace(explorer, explorer * _EXPLORERS))
    page, first_ms = _opened(browser, path)
    for number in range(_EXPLORERS):  # one that is far away opens when it comes near
        page.locator(".npuprof-saved").nth(number).scroll_into_view_if_needed()
        page.locator(".npuprof-timeline[data-drawn]").nth(number).wait_for()
    print(f"{f'{_EXPLORERS} explorers':>18}: first picture {first_ms:,.0f} ms after opening, {_used(page)}", flush=True)
    page.context.close()


def main() -> None:
    """Measure and print."""
    path = os.environ.get("NPUPROF_CHROMIUM") or shutil.which("chromium")
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores, {pace.seconds(1):.1f} times slower than at rest")
    with tempfile.TemporaryDirectory() as home, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=_CHROMIUM_FLAGS)
        for slices in [int(word) for word in sys.argv[1:]] or _SLICES:
            _measure(browser, slices, Path(home))
        browser.close()


if __name__ == "__main__":
    main()

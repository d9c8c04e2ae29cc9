"""A page of the canvas views without JupyterLab: the script in Chromium, and the kernel's side in this process."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from typing import Any

from npuprof.browser.saved_run import save_run
from npuprof.notebook.explorer.canvas import CanvasWidget
from npuprof.notebook.explorer.timeline import TimelineView
from npuprof.timeline.state import Timeline

MERGED_BYTES = 5_000
"""Less than runs of tests need: their slices are merged."""

_PAGE = """<!doctype html><meta charset=utf-8><title>npuprof</title>
<style>body {{ margin: 8px; {colours} }} {css}</style><div id=place></div>"""
_DARK = "background: #111; --jp-layout-color1: #111; --jp-layout-color2: #222; --jp-ui-font-color1: #eee; "
_DARK += "--jp-ui-font-color2: #aaa; --jp-border-color1: #555; --jp-brand-color1: #64b5f6;"
# A model as anywidget hands it on. What is sent arrives in this process, and what that says comes back.
_OPEN = """async ([script, setup, first]) => {
    const bytes = (text) => new DataView(Uint8Array.from(atob(text), (one) => one.charCodeAt(0)).buffer);
    const state = {setup, first: {content: first.content, buffers: first.buffers.map(bytes)}};
    const listeners = [];
    globalThis.sent = [];
    globalThis.tell = (messages) => {
        for (const [content, buffers] of messages) for (const one of listeners) one(content, buffers.map(bytes));
    };
    globalThis.silent = false;
    globalThis.waiting = 0;  // for answers
    const model = {
        get: (name) => state[name],
        set: (name, value) => { state[name] = structuredClone(value); },
        save_changes() {},
        on: (event, listener) => listeners.push(listener),
        off: () => {},
        send: (message) => {
            sent.push(message);
            if (silent) return;
            waiting += 1;
            globalThis.ask(message).then(tell).finally(() => { waiting -= 1; });
        },
    };
    globalThis.errors = [];
    globalThis.addEventListener("error", (event) => errors.push(String(event.message)));
    const url = URL.createObjectURL(new Blob([script], {type: 'text/javascript'}));
    const {default: make} = await import(url);
    const widget = make();
    widget.initialize({model});
    globalThis.close = widget.render({model, el: document.getElementById('place')});
    globalThis.showAgain = (el) => widget.render({model, el});
    globalThis.openAgain = () => {
        const again = make();
        again.initialize({model});
        globalThis.close = again.render({model, el: document.getElementById('place')});
    };
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
}"""

_HOLD = """async ([script, setup, first, data]) => {
    const bytes = (text) => new DataView(Uint8Array.from(atob(text), (one) => one.charCodeAt(0)).buffer);
    const state = { setup, first: { content: first.content, buffers: first.buffers.map(bytes) } };
    const hears = [];
    globalThis.hear = (...message) => { for (const one of hears) one(...message); };
    const model = { get: (name) => state[name], on: (_, one) => hears.push(one), off() {}, send() {} };
    const url = URL.createObjectURL(new Blob([script], { type: 'text/javascript' }));
    globalThis.timelineWidget = (await import(url)).default();
    timelineWidget.initialize({ model });
    globalThis.held = new Promise((done) => { npuprofStores.listeners.add(done); });
    hear({ kind: 'run' }, [bytes(data)]);
    await held;
}"""


class CanvasPage:
    """A view in a page.

    Attributes
    ----------
    page
        Playwright's page.
    view
        The kernel's side: what answers the page of its ``canvas``.
    """

    def __init__(self, page: Any, view: Any, *, dark: bool = False) -> None:
        self.page, self.view = page, view
        self._said: list[tuple[Any, list[str]]] = []
        view.canvas.send = self._keep
        page.expose_function("ask", self._answer)
        page.set_content(_PAGE.format(css=CanvasWidget._css, colours=_DARK if dark else ""))
        canvas = view.canvas
        sent = canvas.first or {"content": {}, "buffers": []}
        first = {"content": sent["content"], "buffers": [_text(one) for one in sent["buffers"]]}
        json.dumps([canvas.setup, first], ensure_ascii=False, allow_nan=False).encode()
        page.evaluate(_OPEN, [str(CanvasWidget._esm), canvas.setup, first])
        self.settle()

    def _keep(self, content: Any, buffers: Sequence[memoryview] = ()) -> None:
        json.dumps(content, ensure_ascii=False, allow_nan=False).encode()  # as Jupyter sends it
        self._said.append((content, [_text(one) for one in buffers]))

    def _answer(self, message: Any) -> list[tuple[Any, list[str]]]:
        self.view.canvas._asked(None, message, None)
        said, self._said = self._said, []
        return said

    def do(self, work: Callable[[], object]) -> None:
        """Do something in the kernel, and hand on what it says."""
        work()
        said, self._said = self._said, []
        self.page.evaluate("messages => tell(messages)", said)
        self.settle()

    def settle(self) -> None:
        """Wait until nothing is asked and nothing is drawn any more."""
        self.page.evaluate(
            """async () => {
                const views = () => [...document.querySelectorAll('[data-drawn]')];
                for (let still = 0, before = ''; still < 3;) {
                    await new Promise((done) => setTimeout(done, 30));
                    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
                    if (waiting) { still = 0; continue; }
                    const now = `${views().map((one) => one.dataset.drawn)} ${sent.length}`;
                    still = now === before ? still + 1 : 0;
                    before = now;
                }
            }"""
        )

    def hold(self, timeline: Timeline, *, is_merged: bool = False) -> None:
        """Open the timeline of the same explorer, and send it what a saved output holds of the run."""
        timelines = TimelineView(timeline, explorer=self.view.canvas.setup["explorer"])
        saved = save_run(timeline, limit_bytes=MERGED_BYTES if is_merged else None, path=None)
        assert bool(saved.merged) == is_merged
        sent = timelines.canvas.first
        first = {"content": sent["content"], "buffers": [_text(one) for one in sent["buffers"]]}
        data = _text(memoryview(saved.data))
        self.page.evaluate(_HOLD, [str(timelines.canvas._esm), timelines.canvas.setup, first, data])
        self.settle()

    @property
    def window(self) -> tuple[float, float]:
        """What is visible, in nanoseconds from the origin."""
        low, high = self.page.locator(".npuprof-timeline").get_attribute("data-window").split(",")
        return float(low), float(high)

    @property
    def box(self) -> dict[str, float]:
        """Where the picture is."""
        found: dict[str, float] = self.page.locator(".npuprof-timeline .stick > canvas").last.bounding_box()
        return found

    def press(self, *keys: str) -> None:
        """Press keys, one after the other."""
        for key in keys:
            self.page.keyboard.press(key)
        self.settle()

    @property
    def errors(self) -> list[str]:
        """What went wrong in the page."""
        found: list[str] = self.page.evaluate("() => errors")
        return found


def _text(view: memoryview) -> str:
    return base64.b64encode(bytes(view)).decode()

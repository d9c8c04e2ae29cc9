"""A page of the canvas views without JupyterLab: the script in Chromium, and the kernel's side in this process."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from typing import Any

from npuprof.notebook.explorer.canvas import CanvasWidget
from npuprof.notebook.explorer.flame_graph import FlameGraphView
from npuprof.notebook.explorer.timeline import TimelineView

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
    const model = {
        get: (name) => state[name],
        on: (event, listener) => listeners.push(listener),
        off: () => {},
        send: (message) => {
            sent.push(message);
            if (!silent) globalThis.ask(message).then(tell);
        },
    };
    globalThis.errors = [];
    globalThis.addEventListener("error", (event) => errors.push(String(event.message)));
    const url = URL.createObjectURL(new Blob([script], {type: 'text/javascript'}));
    const {default: make} = await import(url);
    const widget = make();
    widget.initialize({model});
    globalThis.close = widget.render({model, el: document.getElementById('place')});
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
}"""


class CanvasPage:
    """A view in a page.

    Attributes
    ----------
    page
        Playwright's page.
    view
        The kernel's side.
    """

    def __init__(self, page: Any, view: TimelineView, *, dark: bool = False) -> None:
        self.page, self.view = page, view
        self._said: list[tuple[Any, list[str]]] = []
        view.canvas.send = self._keep
        page.expose_function("ask", self._answer)
        page.set_content(_PAGE.format(css=CanvasWidget._css, colours=_DARK if dark else ""))
        canvas = view.canvas
        first = {"content": canvas.first["content"], "buffers": [_text(one) for one in canvas.first["buffers"]]}
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
                const root = document.querySelector('.npuprof-timeline');
                for (let still = 0, before = ''; still < 3;) {
                    await new Promise((done) => setTimeout(done, 30));
                    const now = `${root.dataset.drawn} ${sent.length}`;
                    still = now === before ? still + 1 : 0;
                    before = now;
                }
            }"""
        )

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


# As _OPEN, for a picture that is a part of the model's state.
_OPEN_FLAME = """async ([script, state]) => {
    const bytes = (text) => new DataView(Uint8Array.from(atob(text), (one) => one.charCodeAt(0)).buffer);
    const read = (picture) => Object.fromEntries(Object.entries(picture).map(
        ([name, value]) => [name, value.bytes === undefined ? value : bytes(value.bytes)]));
    const listeners = {}, held = {setup: {view: "flame"}, picture: read(state.picture), cursor: state.cursor};
    globalThis.silent = false;
    globalThis.put = (given) => {
        for (const [name, value] of Object.entries({picture: read(given.picture), cursor: given.cursor})) {
            held[name] = value;
            for (const one of listeners[`change:${name}`] ?? []) one();
        }
    };
    const model = {
        get: (name) => held[name],
        on: (event, listener) => (listeners[event] ??= []).push(listener),
        off: () => {},
        send: (message) => { if (!silent) globalThis.ask(message).then(put); },
    };
    const {default: make} = await import(URL.createObjectURL(new Blob([script], {type: 'text/javascript'})));
    const widget = make();
    widget.initialize({model});
    widget.render({model, el: document.getElementById('place')});
}"""


class FlamePage:
    """A flame graph in a page.

    Attributes
    ----------
    page
        Playwright's page.
    view
        The kernel's side.
    """

    def __init__(self, page: Any, view: FlameGraphView) -> None:
        self.page, self.view = page, view
        page.expose_function("ask", self._answer)
        page.set_content(_PAGE.format(css=CanvasWidget._css, colours=""))
        page.evaluate(_OPEN_FLAME, [str(CanvasWidget._esm), self._state()])
        self.settle()

    def _state(self) -> dict[str, Any]:
        widget = self.view.figure.widget
        packed = {
            name: {"bytes": _text(value)} if isinstance(value, memoryview) else value
            for name, value in widget.picture.items()
        }
        return {"picture": packed, "cursor": widget.cursor}

    def _answer(self, message: Any) -> dict[str, Any]:
        self.view.figure.widget._asked(None, message, None)
        return self._state()

    def settle(self) -> None:
        """Wait until nothing is drawn any more."""
        self.page.wait_for_timeout(150)

    def frame(self, name: str) -> int:
        """The number of a frame."""
        found: int = self.view.figure.widget.picture["names"].index(name)
        return found

    def click(self, frame: int) -> None:
        """Click a frame where it is drawn."""
        frames = self.view._flame.picture().frames
        box = self.page.locator(".flamebox canvas").bounding_box()
        middle = float(frames.left[frame]) + int(frames.total[frame]) / int(frames.total[0]) / 2
        self.page.mouse.click(box["x"] + middle * box["width"], box["y"] + (int(frames.depth[frame]) + 0.5) * 19)

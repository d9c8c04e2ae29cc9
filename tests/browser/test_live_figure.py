"""The script of a live figure: there at once, and nothing is lost of what comes before plotly.js is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from npuprof.notebook import explorer

pytestmark = pytest.mark.browser

_SCRIPT = (Path(explorer.__file__).parent / "live.js").read_text(encoding="utf-8")
# A model as anywidget hands it on, and a figure as plotly's own script makes it, which comes when it is told to.
_PLAY = """async script => {
    const state = {_plotly: 'await globalThis.gate; globalThis.loads = (globalThis.loads ?? 0) + 1;'
        + 'export default () => globalThis.figure;', _plotly_version: '1', _py2js_update: null, _py2js_addTraces: null};
    const listeners = {}, seen = [];
    const model = {
        get: (name) => state[name],
        set: (name, value) => {
            if (state[name] === value) return;
            state[name] = value;
            for (const listener of [...(listeners[`change:${name}`] ?? [])]) listener();
        },
        on: (event, listener) => (listeners[event] ??= []).push(listener),
        off: (event, listener) => { listeners[event] = listeners[event].filter((one) => one !== listener); },
    };
    const say = (name, message) => { model.set(name, message); model.set(name, null); };
    let open;
    globalThis.gate = new Promise((done) => { open = done; });
    globalThis.figure = {
        initialize: ({model}) => {
            for (const name of ['_py2js_update', '_py2js_addTraces']) model.on(`change:${name}`, () => {
                if (model.get(name) !== null) seen.push(model.get(name));
            });
        },
        render: () => seen.push('drawn'),
    };
    const url = URL.createObjectURL(new Blob([script], {type: 'text/javascript'}));
    const {default: make} = await import(url);
    const first = make(), second = make();
    const waited = first.initialize({model});
    say('_py2js_update', 'one');
    say('_py2js_addTraces', 'two');
    say('_py2js_update', 'three');
    const before = [...seen];
    const drawn = first.render({});
    open();
    await drawn;
    say('_py2js_update', 'four');
    second.initialize({model});
    await second.render({});
    return [waited === undefined, before, seen, globalThis.loads];
}"""


def test_what_comes_before_plotly_is_drawn_too(browser: Any) -> None:
    page = browser.new_page()
    try:
        at_once, before, seen, loads = page.evaluate(_PLAY, _SCRIPT)
    finally:
        page.close()
    assert at_once  # anywidget waits for what is returned
    assert before == []
    assert seen[:5] == ["one", "two", "three", "drawn", "four"]
    assert loads == 1  # once in a page

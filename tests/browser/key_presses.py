"""Each key that acts on a notebook's cells, pressed on each element of an output that can have the focus."""

from __future__ import annotations

from typing import Any

KEYS = (
    *("d", "d", "x", "a", "b", "m", "y", "r", "0", "0", "i", "i", "z", "c", "v", "j", "k", "1"),
    *("Shift+M", "Shift+A", "Shift+B", "Shift+L", "Shift+Z", "Shift+Enter", "Enter"),
)
"""JupyterLab's keys in command mode, as Playwright names them; two in a row are a chord."""

NAMELESS = """() => [...document.querySelectorAll(
    '.npuprof-keys :is(button, input, select, textarea, summary, [tabindex="0"])')].filter(one => !(
    one.matches('.modebar-btn, tr') || one.type === 'hidden' || !one.checkVisibility() || one.textContent.trim()
    || one.ariaLabel || one.labels?.length || one.title)).map(one => one.outerHTML.slice(0, 200))"""
"""What can have the focus and has no name for a screen reader; plotly.js names its own buttons in its own way."""

# What elements of an output can have the focus: each is asked, and at most so many alike are kept.
_WALK = """([place, alike]) => {
    const kinds = new Map(), roots = [...document.querySelectorAll(place)];
    window.keyed = roots.flatMap(root => [...root.querySelectorAll('*')]).filter(one => {
        one.focus?.({preventScroll: true});
        if (document.activeElement !== one) return false;
        const kind = [one.tagName, one.className, one.parentElement.className, one.parentElement.tagName].join();
        kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
        return kinds.get(kind) <= alike;
    });
    document.activeElement?.blur?.();
    return window.keyed.map(one => one.outerHTML.slice(0, 120));
}"""
_FOCUS = """at => {
    const one = window.keyed[at];
    if (!one.isConnected) return false;
    if (document.activeElement !== one) one.focus({preventScroll: true});
    return document.activeElement === one;
}"""
# Events that a script makes are looked up by JupyterLab as those of a keyboard are, and need no time.
_DISPATCH = """keys => {
    for (const one of window.keyed) {
        if (!one.isConnected) continue;
        one.focus({preventScroll: true});
        if (document.activeElement !== one) continue;
        for (const key of keys) {
            const [name, shiftKey] = [key.split('+').at(-1), key.startsWith('Shift+')];
            const keyCode = name === 'Enter' ? 13 : name.toUpperCase().charCodeAt(0);
            const code = name === 'Enter' ? name : `${/[0-9]/.test(name) ? 'Digit' : 'Key'}${name.toUpperCase()}`;
            if (!one.isConnected) break;
            one.dispatchEvent(
                new KeyboardEvent('keydown', {key: name, code, keyCode, shiftKey, bubbles: true, cancelable: true}));
        }
    }
}"""
_CELLS = """() => [
    ...[...document.querySelectorAll('.jp-Notebook .jp-Cell')].map(cell => [
        ['Code', 'Markdown', 'Raw'].filter(kind => cell.classList.contains(`jp-${kind}Cell`))[0],
        cell.querySelector('.cm-content')?.innerText ?? '', cell.querySelector('.jp-InputPrompt')?.innerText ?? '',
        !!cell.querySelector('.cm-lineNumbers')]),
    document.querySelectorAll('.jp-Dialog').length,
    document.querySelector('.jp-Notebook').classList.contains('jp-mod-editMode'),
    window.commanded ?? []]"""
_LISTEN = """() => {
    window.commanded = [];
    window.hears ??= jupyterapp.commands.commandExecuted.connect((_, told) => {
        if (/^(notebook|kernelmenu|runmenu|viewmenu|docmanager):/.test(told.id)) window.commanded.push(told.id);
    });
}"""


def listen_to_commands(page: Any) -> None:
    """Note the commands that JupyterLab executes from now on."""
    page.evaluate(_LISTEN)


def cells(page: Any) -> Any:
    """Return kind, text and number of each cell, how many dialogs are open, the mode, and the commands executed."""
    return page.evaluate(_CELLS)


def press_all(page: Any, place: str, *, alike: int = 2) -> list[str]:
    """Press each key on each element below `place` that can have the focus; return the elements.

    Of elements that look the same, `alike` are tried with the keyboard and all with events that a script makes.
    """
    before = cells(page)
    every: list[str] = page.evaluate(_WALK, [place, 1_000_000])
    page.evaluate(_DISPATCH, [key for key in KEYS if key != "Enter"])
    after = cells(page)
    assert after == before, f"keys that a script made: {before} {after}"
    assert page.evaluate(NAMELESS) == []
    tried: list[str] = page.evaluate(_WALK, [place, alike])
    for number, element in enumerate(tried):
        for key in KEYS:
            if page.evaluate(_FOCUS, number):
                page.keyboard.press(key)
        assert cells(page) == before, element
    return every

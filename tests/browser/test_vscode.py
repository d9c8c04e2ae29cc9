"""A report as VS Code shows it: HTML put into a page with the editor's colours, and its scripts run after that."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from IPython.utils.capture import capture_output

THEMES = {
    "dark": {
        "foreground": "#cccccc",
        "editor-background": "#1f1f1f",
        "descriptionForeground": "#9d9d9d",
        "textLink-foreground": "#4daafc",
        "panel-border": "#2b2b2b",
        "editorWidget-background": "#202020",
        "focusBorder": "#0078d4",
        "symbolIcon-keywordForeground": "#cccccc",
    },
    "light": {
        "foreground": "#3b3b3b",
        "editor-background": "#ffffff",
        "descriptionForeground": "#3b3b3b",
        "textLink-foreground": "#005fb8",
        "panel-border": "#e5e5e5",
        "editorWidget-background": "#f8f8f8",
        "focusBorder": "#005fb8",
        "symbolIcon-keywordForeground": "#3b3b3b",
    },
}
_SHOW = """html => {
    for (const each of html) {
        const output = document.createElement('div');
        output.className = 'output';
        output.innerHTML = each;
        document.body.append(output);
        for (const old of [...output.getElementsByTagName('script')]) {
            const script = document.createElement('script');
            script.text = old.innerText;
            for (const name of ['type', 'src']) {
                if (old.getAttribute(name)) script.setAttribute(name, old.getAttribute(name));
            }
            output.append(script);
            script.remove();
        }
    }
}"""
_FAINT = """() => {
    const parsed = text => (text.match(/[\\d.]+/g) || []).map(Number);
    const over = (top, under) => {
        const alpha = top.length > 3 ? top[3] : 1;
        return top.slice(0, 3).map((value, at) => alpha * value + (1 - alpha) * under[at]);
    };
    const background = element => {
        if (!element) return [255, 255, 255];
        const own = parsed(getComputedStyle(element).backgroundColor);
        return own.length > 3 && own[3] === 0 ? background(element.parentElement)
            : over(own, background(element.parentElement));
    };
    const luminance = color => {
        const [r, g, b] = color.map(value => value / 255)
            .map(value => value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const faint = [];
    for (const report of document.querySelectorAll('.npuprof-report')) {
        const texts = document.createTreeWalker(report, NodeFilter.SHOW_TEXT);
        while (texts.nextNode()) {
            const element = texts.currentNode.parentElement;
            const text = texts.currentNode.data.trim();
            if (!text || !element.checkVisibility() || element.closest('style, script')) continue;
            const under = background(element);
            const shown = over(parsed(getComputedStyle(element).color), under);
            const [low, high] = [luminance(under), luminance(shown)].sort((a, b) => a - b);
            const contrast = (high + 0.05) / (low + 0.05);
            if (contrast < 4.5) faint.push([contrast.toFixed(2), element.className, text]);
        }
    }
    return faint;
}"""
_CELL = """%%npuprof
for step in range(8):
    y = x @ x
    time.sleep(0.003)
    z = y + x
    losses.append(z.sum().item())"""


@pytest.fixture
def outputs(shell: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The HTML of the outputs of a profiled cell."""
    monkeypatch.chdir(tmp_path)
    shell.run_line_magic("load_ext", "npuprof")
    shell.run_cell("import time\nfrom npuprof.simulator import npu\nx, losses = npu.ones((512, 512)), []")
    with capture_output() as captured:
        shell.run_cell(_CELL, store_history=True)
    return [output.data["text/html"] for output in captured.outputs if "text/html" in output.data]


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize("theme", THEMES)
def test_report_is_legible_in_the_editors_colours(browser: Any, outputs: list[str], theme: str) -> None:
    colours = "".join(f"--vscode-{name}:{colour};" for name, colour in THEMES[theme].items())
    page = browser.new_page(viewport={"width": 700, "height": 900}, color_scheme=theme)
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.set_content(
        f"<!doctype html><html style='{colours}'><body class='vscode-{theme}' data-vscode-theme-kind='vscode-{theme}' "
        "style='background:var(--vscode-editor-background);color:var(--vscode-foreground);font:13px sans-serif'></body>"
    )
    page.evaluate(_SHOW, outputs)
    page.wait_for_function("() => [...document.images].length && [...document.images].every(each => each.complete)")
    assert page.evaluate("() => [...document.images].filter(each => !each.naturalWidth).length") == 0
    assert page.evaluate("() => document.documentElement.scrollWidth - innerWidth") <= 0
    assert page.evaluate(_FAINT) == []
    page.get_by_text("Timeline, flame graph").click()
    page.locator(".npuprof-timeline[data-drawn]").first.wait_for()
    page.evaluate("() => document.querySelectorAll('.npuprof-report details').forEach(each => each.open = true)")
    faint = page.evaluate(_FAINT)
    assert faint == [], json.dumps(faint[:5])
    assert problems == []
    page.close()

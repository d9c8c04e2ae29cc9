"""A waterfall in narrow and wide pages: no text of it is cut off."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from npuprof.figures.difference import plot_waterfall
from tests import factories

pytestmark = pytest.mark.browser

_CUT = """() => {
    const frame = document.querySelector('.main-svg').getBoundingClientRect();
    const texts = [...document.querySelectorAll('.main-svg text')].filter(text => text.textContent.trim());
    const cut = texts.filter(text => {
        const {left, right, top, bottom} = text.getBoundingClientRect();
        return left < frame.left || right > frame.right || top < frame.top || bottom > frame.bottom;
    });
    return [texts.length, cut.map(text => text.textContent)];
}"""


@pytest.mark.parametrize("width", [500, 1400])
def test_no_text_of_a_waterfall_is_cut_off(browser: Any, tmp_path: Path, width: int) -> None:
    bars = pd.DataFrame(
        {
            "title": ["Exp, Add <- Mul, ReduceMean: Add 256,256", "idle: python"],
            "delta_ns": [6_000, 3_380],
            "low_ns": pd.array([6_000, -48_200], "Int64"),
            "high_ns": pd.array([6_000, 55_000], "Int64"),
            "why": ["new", "gap"],
        }
    )
    figure = plot_waterfall(bars, (244_000, 254_000), ("b", "a"), factories.info())
    path = tmp_path / "waterfall.html"
    figure.write_html(path)
    page = browser.new_page(viewport={"width": width, "height": 600})
    page.goto(path.as_uri())
    page.locator(".main-svg .bartext, .main-svg .textpoint").first.wait_for()
    texts, cut = page.evaluate(_CUT)
    page.screenshot(path=tmp_path / "waterfall.png")
    page.close()
    assert texts > 8
    assert cut == []

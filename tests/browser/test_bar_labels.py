"""Names of bars stay in view while a figure is zoomed: on a page of its own, and in a notebook."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from npuprof.figures.embed import element, library
from npuprof.profiles.profile import Profile
from npuprof.sources.base import Decoded
from npuprof.tables.notes import Notes
from tests import factories
from tests.browser.notebook_page import OpenNotebook

pytestmark = pytest.mark.browser

_ROOT = str(Path(__file__).parents[2])
_RUN = f"""\
import sys
sys.path.insert(0, {_ROOT!r})
from npuprof.tables.notes import Notes
from npuprof.profiles.profile import Profile
from npuprof.sources.base import Decoded
from tests import factories
run = Profile(Decoded(tables=factories.profile(300), info=factories.info(), notes=Notes(), statistics={{}}))
"""

# Names in view, and how many are cut off at an edge of the plot.
_NAMES = """figure => {
    const plot = figure.querySelector('.nsewdrag').getBoundingClientRect();
    const texts = [...figure.querySelectorAll('.npuprof-labels text')];
    const isCut = (box) => box.left < plot.left - 1 || box.right > plot.right + 1;
    return [texts.map((text) => text.textContent), texts.filter((text) => isCut(text.getBoundingClientRect())).length];
}"""


def _zoom(page: Any, figure: Any, begin: float, end: float) -> tuple[set[str], int]:
    """Drag over a part of the plot; gives the names in view and the number of those cut off."""
    box = figure.locator(".nsewdrag").first.bounding_box()
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + begin * box["width"], y)
    page.mouse.down()
    page.mouse.move(box["x"] + end * box["width"], y, steps=4)
    page.mouse.up()
    page.wait_for_timeout(400)  # plotly.js draws in the next frames
    names, cut = figure.evaluate(_NAMES)
    return set(names), cut


def test_names_survive_a_zoom_of_a_page(browser: Any, tmp_path: Path) -> None:
    run = Profile(Decoded(factories.profile(300), factories.info(), Notes()))
    path = tmp_path / "timeline.html"
    path.write_text(f"<meta charset='utf-8'>{library()}{element(run.timeline(), 'figure', 'a')}", encoding="utf-8")
    page = browser.new_page(viewport={"width": 1000, "height": 900})
    page.goto(path.as_uri())
    figure = page.locator("#figure")
    figure.locator(".npuprof-labels text").first.wait_for(state="attached")
    before = set(figure.evaluate(_NAMES)[0])
    names, cut = _zoom(page, figure, 0.31, 0.33)
    page.screenshot(path=tmp_path / "zoomed.png")
    page.close()
    assert not cut
    assert len(names) > 4
    assert names - before  # bars that were narrow at first


def test_names_survive_a_zoom_in_a_notebook(open_notebook: OpenNotebook, tmp_path: Path) -> None:
    notebook = open_notebook([_RUN + "run.timeline()"])
    figure = notebook.run(0).locator(".js-plotly-plot")
    figure.hover()
    names, cut = _zoom(notebook.page, figure, 0.31, 0.33)
    notebook.page.screenshot(path=tmp_path / "zoomed.png")
    assert not cut
    assert len(names) > 4

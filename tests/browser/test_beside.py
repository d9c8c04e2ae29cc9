"""Runs and ranks above each other in JupyterLab: one window and one cursor for all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.browser.notebook_page import OpenNotebook, settle

pytestmark = pytest.mark.browser

_SOURCE = """\
import dataclasses, sys
sys.path.insert(0, {root!r})
from npuprof.tables.notes import Notes
from npuprof.profiles.profile import Profile
from npuprof.sources.base import Decoded
from tests import factories
def run(launches, name):
    info = dataclasses.replace(factories.info(), name=name)
    return Profile(Decoded(tables=factories.profile(launches), info=info, notes=Notes(), statistics={{}}))
run(300, "before").explore(beside=run(450, "after"))
"""


def _windows(page: Any) -> list[str]:
    found: list[str] = page.evaluate(
        "() => [...document.querySelectorAll('.npuprof-timeline.linked')].map((one) => one.dataset.window)"
    )
    return found


def test_two_runs_move_together(open_notebook: OpenNotebook, tmp_path: Path) -> None:
    notebook = open_notebook([_SOURCE.format(root=str(Path(__file__).parents[2])), "kept = 1"], height=1700)
    page = notebook.page
    notebook.run(0)
    page.wait_for_function("() => document.querySelectorAll('.npuprof-timeline.linked[data-drawn]').length === 2")
    settle(page)
    first, second = page.locator(".npuprof-timeline.linked").all()
    whole = _windows(page)
    assert whole[0] == whole[1]  # from the first of both to the last: one scale
    box = first.locator(".stick > canvas").last.bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + 60)
    for key in "dwd":
        page.keyboard.press(key)
    settle(page)
    moved = _windows(page)
    assert moved[0] == moved[1] != whole[0]
    page.screenshot(path=tmp_path / "moved.png")

    second.locator(".bar").get_by_role("button", name="All", exact=True).click()
    settle(page)
    assert _windows(page) == whole
    assert page.locator(".jp-Notebook .jp-Cell").count() == 2

    first.locator(".frame").evaluate("(one) => { one.scrollTop = one.scrollHeight; }")  # where counters are
    settle(page)
    lane = first.locator(".label", has_text="PTA allocated").bounding_box()
    page.mouse.click(box["x"] + box["width"] * 0.4, lane["y"] + 20)
    cursors = "() => [...document.querySelectorAll('.npuprof-timeline.linked')].map((one) => one.dataset.cursor)"
    page.wait_for_function(f"() => ({cursors})().every((one) => Number(one) > 0)")
    assert len(set(page.evaluate(cursors))) == 1
    page.locator(".npuprof-explorer").get_by_role("tab", name="Difference", exact=True).click()
    page.locator(".npuprof-drawn .js-plotly-plot .trace").first.wait_for()
    page.screenshot(path=tmp_path / "difference.png")


_GHOST = """\
import sys
sys.path.insert(0, {root!r})
from npuprof.tables.notes import Notes
from npuprof.profiles.profile import Profile
from npuprof.sources.base import Decoded
from tests import factories
run = Profile(Decoded(tables=factories.profile(300), info=factories.info(), notes=Notes(), statistics={{}}))
run.explore(beside=run.replayed(kernel={{"MatMulV3": 0}}))
"""


def test_the_run_as_it_would_be_moves_with_it(open_notebook: OpenNotebook, tmp_path: Path) -> None:
    notebook = open_notebook([_GHOST.format(root=str(Path(__file__).parents[2]))], height=1700)
    page = notebook.page
    notebook.run(0)
    page.wait_for_function("() => document.querySelectorAll('.npuprof-timeline.linked[data-drawn]').length === 2")
    settle(page)
    explorer = page.locator(".npuprof-explorer")
    assert "b: training step, as it would be: " in explorer.inner_text()
    assert "(replayed, not recorded)" in explorer.inner_text()
    whole = _windows(page)
    page.locator(".npuprof-timeline.linked").nth(1).focus()
    page.keyboard.press("w")
    settle(page)
    moved = _windows(page)
    assert moved[0] == moved[1] != whole[0]
    page.screenshot(path=tmp_path / "ghost.png")


_RANKS = """\
import dataclasses, sys, tempfile
sys.path.insert(0, {root!r})
import npuprof
from npuprof.profiles.profile import Profile
from npuprof.sources.base import Decoded
from tests import factories
folder = tempfile.mkdtemp()
for rank in (0, 1):
    info = dataclasses.replace(factories.info(), name=f"rank {{rank}}", rank=rank)
    Profile(Decoded(tables=factories.profile(120), info=info)).save(f"{{folder}}/rank_{{rank}}")
npuprof.load_set(folder).explore()
"""


def test_ranks_are_above_each_other_in_one_timeline(open_notebook: OpenNotebook, tmp_path: Path) -> None:
    notebook = open_notebook([_RANKS.format(root=str(Path(__file__).parents[2]))], height=1500)
    page = notebook.page
    notebook.run(0)
    page.locator(".npuprof-explorer").get_by_role("tab", name="Timeline", exact=True).click()
    page.wait_for_selector(".npuprof-timeline[data-drawn]")
    settle(page)
    lanes = page.locator(".npuprof-timeline .label").evaluate_all("(all) => all.map((one) => one.title)")
    streams = [
        next(at for at, lane in enumerate(lanes) if f"rank {rank} ·" in lane and "stream" in lane) for rank in (0, 1)
    ]
    ranks = [lanes[at].partition("rank ")[2][0] for at in streams]
    assert ranks == sorted(ranks)
    page.screenshot(path=tmp_path / "ranks.png")

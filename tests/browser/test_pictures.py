"""The pictures on the pages: the cell, the panel in the order of its clicks and the explorer, in light and dark.

``NPUPROF_PICTURES=write python -m pytest tests/browser/test_pictures.py`` takes them anew. Otherwise the controls,
titles and headings that they would show are compared with those that they showed when they were taken.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import printed
from tests.browser.notebook_page import NotebookPage, OpenNotebook, settle, wait_for_text

pytestmark = pytest.mark.browser

_ROOT = Path(__file__).parents[2]
_FOLDER = _ROOT / "notebooks" / "pictures"
_LABELS = _FOLDER / "labels.json"
_WRITES = os.environ.get("NPUPROF_PICTURES") == "write"
_TALLEST = 620  # pixels
_THEMES = {"light": False, "dark": True}
_NAMED = "button, label, th, h3, h4, strong, [role=tab]"
# Whether there is such a finding, a note, or a kernel that differs, is in the host's time; what front ends lack is that
# of those which are installed.
_VARIES = re.compile(
    r"Sequences of|fusible repeats|Copies are|# copies|first step|\bonce\b|^# a step|^count$|^Notes$"
    r"|no front end here has|^# (?:outlier|host bound)"  # which a busy machine adds
)
_ELSEWHERE = "import os, tempfile\nos.chdir(tempfile.mkdtemp())"  # where no other test's runs lie

# Four ranks of one job; rank 2 computes more than the others.
_JOB = """\
import tempfile, npuprof
from npuprof import simulator
from npuprof.simulator import npu
def train(rank):
    x, w = npu.ones((1024, 1024)), npu.ones((1024, 1024)) / 1024
    rank.step()
    for _ in range(6):
        for _ in range(12 if rank.rank == 2 else 8):
            x = x @ w
        rank.all_reduce(x.mean()).item()
        rank.step()
folder = tempfile.mkdtemp()
simulator.ranks(4).run(train, folder, stacks=True)
npuprof.load_set(folder).advice()"""

Take = Callable[..., None]


@pytest.fixture(params=["light", pytest.param("dark", marks=pytest.mark.exhaustive)])
def theme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def take(theme: str) -> Iterator[Take]:
    """Take a picture of a part of the page, or look whether the one that there is shows the same words."""
    shown: dict[str, list[str]] = {}

    def take_(name: str, part: Any, *, still: bool = True, tallest: int = _TALLEST) -> None:
        if still:
            settle(part.page)
        texts = part.locator(_NAMED).locator("visible=true").all_inner_texts()
        part.evaluate("place => place.scrollIntoView({block: 'start'})")  # which draws the explorer below a report
        box = part.bounding_box()
        clip = {**box, "height": min(box["height"], tallest)}
        assert clip["y"] >= 0
        assert clip["y"] + clip["height"] <= part.page.viewport_size["height"], "it is not in view as a whole"
        if _WRITES:
            _FOLDER.mkdir(exist_ok=True)
            part.page.screenshot(path=_FOLDER / f"{name}-{theme}.png", clip=clip)
        lines = [line for text in texts for line in printed.words(text)]
        shown[name] = sorted({line for line in lines if not _VARIES.search(line)})

    yield take_
    labels = json.loads(_LABELS.read_text(encoding="utf-8")) if _LABELS.exists() else {}
    if _WRITES:
        _LABELS.write_text(json.dumps(labels | shown, indent=1, sort_keys=True, ensure_ascii=False) + "\n", "utf-8")
    else:
        known = {name: [line for line in labels[name] if not _VARIES.search(line)] for name in shown}
        assert known == shown, "take them anew: see the head of this file"


def _readme_cells() -> list[str]:
    """Return the README's first cells."""
    return re.findall(r"```python\n(.*?)\n```", (_ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)[:3]


def _open(open_notebook: OpenNotebook, theme: str, cells: list[str]) -> NotebookPage:
    notebook = open_notebook([_ELSEWHERE, *cells], width=1100, height=1500, dark=_THEMES[theme], own_kernel=True)
    notebook.run(0)
    return notebook


def test_a_cell_its_code_and_its_report(open_notebook: OpenNotebook, theme: str, take: Take) -> None:
    notebook = _open(open_notebook, theme, _readme_cells())
    notebook.run(1)
    cell = notebook.run(2)
    wait_for_text(cell, "keeps the NPU waiting")
    take("cell", cell, tallest=760)


def test_the_panel_in_the_order_of_its_clicks(open_notebook: OpenNotebook, theme: str, take: Take) -> None:
    work = "from npuprof.simulator import npu\na = npu.ones((64, 64))\nfor _ in range(20): b = a @ a + a"
    notebook = _open(open_notebook, theme, ["import npuprof\nnpuprof.panel()", work])
    cell = notebook.run(1)
    panel = cell.locator(".npuprof-panel")
    cell.locator(".npuprof-phase", has_text="Idle").wait_for()
    take("panel-1-idle", panel)
    panel.get_by_role("button", name="Options ▾").click()
    panel.get_by_label("Collector", exact=True).wait_for()
    panel.get_by_label("Name", exact=True).fill("my_step")
    panel.get_by_label("Name", exact=True).blur()
    take("panel-2-options", panel)
    panel.get_by_role("button", name="Options ▾").click()
    panel.get_by_role("button", name="Start", exact=True).click()
    cell.locator(".npuprof-phase", has_text="Recording").wait_for()
    notebook.run(2)
    wait_for_text(panel, "on disk")
    is_whole = "line => line.scrollWidth <= line.clientWidth"
    assert panel.locator(".npuprof-changing").evaluate(is_whole)
    take("panel-3-recording", panel, still=False)
    panel.get_by_role("button", name="Stop", exact=True).click()
    panel.get_by_role("grid", name="Runs", exact=True).locator("tbody tr[data-id]", has_text="this kernel").wait_for()
    panel.get_by_role("tab", name="Overview").wait_for()
    fits = "report => report.closest('.widget-html').scrollWidth <= report.closest('.widget-html').clientWidth"
    assert panel.locator(".npuprof-report").first.evaluate(fits)  # its lines wrap
    take("panel-4-run", panel)


def test_the_explorer(open_notebook: OpenNotebook, theme: str, take: Take) -> None:
    notebook = _open(open_notebook, theme, [*_readme_cells()[:2], "npuprof.last().explore()"])
    for number in range(1, 4):
        cell = notebook.run(number)
    for tab, ready in (
        ("Timeline", ".npuprof-timeline[data-drawn]"),
        ("Flame graph", ".flamebox canvas"),
        ("Code", "[data-row]"),
        ("Kernels", ".npuprof-grid tbody tr[data-id]"),
    ):
        cell.get_by_role("tab", name=tab, exact=True).click()
        cell.locator(ready).locator("visible=true").first.wait_for()
        shown = cell.locator(".jp-OutputArea-output").first
        take(f"explorer-{tab.lower().replace(' ', '-')}", shown, tallest=1000 if tab == "Kernels" else _TALLEST)


def test_history_has_steps_and_changes(open_notebook: OpenNotebook, theme: str, take: Take) -> None:
    setup, slow, changed = _readme_cells()
    views = [
        "npuprof.last().plot_steps()",
        "npuprof.history()",
        "a, b = map(npuprof.load, npuprof.history()['path'])\na - b",
    ]
    notebook = _open(open_notebook, theme, [setup, slow, changed, *views])
    for number in range(1, 4):
        notebook.run(number)
    for number, name in enumerate(("steps", "history", "difference"), 4):
        drawn = notebook.page.locator(".main-svg, table")
        shown = notebook.run(number).locator(".jp-OutputArea-output", has=drawn).first
        shown.wait_for()
        take(name, shown)


def test_the_ranks_of_a_job(open_notebook: OpenNotebook, theme: str, take: Take) -> None:
    notebook = _open(open_notebook, theme, [_JOB])
    shown = notebook.run(1).locator(".jp-OutputArea-output").first
    wait_for_text(shown, "Rank 2 is slow")
    take("ranks", shown, tallest=760)

"""What a notebook saves of an explorer: the run itself, to be explored without a kernel."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from npuprof.profiles.profile import Profile
from npuprof.sources.base import Decoded
from npuprof.tables.notes import Notes
from tests import factories
from tests.browser.unpacking import Saved, data_of

_HOSTILE = "<img src=x onerror='window.pwned=1'>"


def _outputs(run: Profile, **how: Any) -> list[dict[str, Any]]:
    """The outputs of a cell that shows the explorer."""
    InteractiveShell.instance()
    try:
        with capture_output() as captured:
            run.explore(**how)._ipython_display_()
    finally:
        InteractiveShell.clear_instance()
    return [output.data for output in captured.outputs]


def _run(launches: int = 200) -> Profile:
    names = (_HOSTILE, "MatMulV3", "Add")
    return Profile(Decoded(factories.profile(launches, kernel_names=names), factories.info(), Notes()))


@pytest.mark.slow
def test_the_output_holds_the_run_within_the_limit() -> None:
    _, note = _outputs(_run())
    assert "needs a running kernel" in note["text/plain"]
    saved = Saved(data_of(note["text/html"]))
    assert saved.header["merged"] == 0
    assert saved.table("kernels")["count"] == 200
    assert len(json.dumps(note)) <= 1_000_000
    assert "<img src=x" not in note["text/html"]
    _, note = _outputs(_run(), saved_bytes=0)
    assert "npuprof-saved" not in note["text/html"]


@pytest.mark.slow
@pytest.mark.browser
def test_a_larger_run_is_merged_until_it_fits_and_says_so(browser: Any, tmp_path: Path) -> None:
    limit = 148_000
    _, note = _outputs(_run(20_000), saved_bytes=limit)
    saved = Saved(data_of(note["text/html"]))
    assert len(json.dumps(note)) <= limit
    assert saved.header["merged"] > 0
    path = tmp_path / "output.html"
    path.write_text(f"<!doctype html><meta charset=utf-8>{note['text/html']}", encoding="utf-8")
    page = browser.new_page()
    page.goto(path.as_uri())
    page.locator(".npuprof-timeline[data-drawn]").wait_for()
    merged, slices = (f"{saved.header[name]:,}" for name in ("merged", "slices"))
    assert f"{merged} of {slices} slices, the shortest, share bars" in page.inner_text(".npuprof-saved-views")
    page.close()


@pytest.mark.long
def test_a_run_and_its_replay_share_the_room() -> None:
    run = _run(20_000)
    _, note = _outputs(run, beside=run.replayed(kernel={"MatMulV3": 0.5}), saved_bytes=700_000)
    first, second = note["text/html"].split('<div class="npuprof-saved">')[1:]
    runs = [Saved(data_of(part)) for part in (first, second)]
    assert len(json.dumps(note)) <= 700_000
    links = [saved.header["setup"]["link"] for saved in runs]
    assert links[0] is not None
    assert links[0] == links[1]
    assert all(0 < saved.table("kernels")["count"] <= 20_000 for saved in runs)
    assert "as it would be" in first.rpartition("</script>")[2]


@pytest.mark.slow
def test_a_name_that_is_no_text_is_saved() -> None:
    run = Profile(Decoded(factories.profile(60), factories.info(name="run \udc80 \ud800"), Notes()))
    run.annotate("half \ud800 of a pair", start=factories.START_NS)
    _, note = _outputs(run, beside=run.replayed(kernel={"Add": 0}))
    note["text/html"].encode()  # as a notebook is written
    assert note["text/html"].count('class="npuprof-saved-data"') == 2


@pytest.mark.slow
@pytest.mark.browser
def test_saved_predicted_run_moves_too(browser: Any, tmp_path: Path) -> None:
    run = _run()
    _, note = _outputs(run, beside=run.replayed(kernel={_HOSTILE: 0}))
    path = tmp_path / "output.html"
    path.write_text(f"<!doctype html><meta charset=utf-8>{note['text/html']}", encoding="utf-8")
    context = browser.new_context(offline=True, viewport={"width": 1200, "height": 1400})
    shown = context.new_page()
    shown.goto(path.as_uri())
    views = shown.locator(".npuprof-timeline[data-drawn]")
    views.nth(1).wait_for()
    windows = "() => [...document.querySelectorAll('.npuprof-timeline')].map((one) => one.dataset.window)"
    whole = shown.evaluate(windows)
    views.nth(1).focus()
    shown.keyboard.press("w")
    shown.wait_for_function(f"(whole) => ({windows})().every((one) => one !== whole)", arg=whole[0])
    moved = shown.evaluate(windows)
    assert moved[0] == moved[1]
    assert shown.evaluate("() => window.pwned") is None
    context.close()


@pytest.mark.slow
@pytest.mark.browser
def test_view_works_in_nbconvert(browser: Any, tmp_path: Path) -> None:
    nbformat, exporters = pytest.importorskip("nbformat"), pytest.importorskip("nbconvert.exporters")
    outputs = [nbformat.v4.new_output("display_data", data=bundle) for bundle in _outputs(_run())]
    cell = nbformat.v4.new_code_cell("run.explore()", outputs=outputs)
    page, _ = exporters.HTMLExporter(template_name="basic").from_notebook_node(nbformat.v4.new_notebook(cells=[cell]))
    path = tmp_path / "notebook.html"
    path.write_text(f"<!doctype html><meta charset=utf-8>{page}", encoding="utf-8")
    context = browser.new_context(offline=True, viewport={"width": 1200, "height": 1000})
    shown = context.new_page()
    errors: list[str] = []
    shown.on("pageerror", lambda error: errors.append(str(error)))
    shown.goto(path.as_uri())
    shown.locator(".npuprof-timeline[data-drawn]").wait_for()
    shown.get_by_role("tab", name="Kernels").click()
    shown.locator(".npuprof-grid tbody tr").first.wait_for()
    shown.screenshot(path=tmp_path / "nbconvert.png", full_page=True)
    assert _HOSTILE in shown.locator(".npuprof-grid tbody").inner_text()
    assert shown.evaluate("() => window.pwned") is None
    assert errors == []
    context.close()

"""A saved report in a viewer that draws no plotly, as nbviewer is: tables and a picture, from the file alone."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from npuprof.notebook import report
from npuprof.profiles.profile import Profile
from npuprof.sources.base import Decoded
from npuprof.tables.notes import Notes
from tests import factories


@pytest.fixture
def bundles() -> list[dict[str, Any]]:
    """The report of a run with hostile names, as a notebook saves it."""
    run = factories.profile(200, kernel_names=[f"<img src=x onerror=alert({number})>" for number in range(5)])
    InteractiveShell.instance()
    try:
        with capture_output() as captured:
            report.show_run(Profile(Decoded(run, factories.info(), Notes())))
    finally:
        InteractiveShell.clear_instance()
    return [output.data for output in captured.outputs]


@pytest.mark.slow
def test_the_page_holds_the_tables_and_the_picture(bundles: list[dict[str, Any]]) -> None:
    nbformat, exporters = pytest.importorskip("nbformat"), pytest.importorskip("nbconvert.exporters")
    outputs = [nbformat.v4.new_output("display_data", data=bundle) for bundle in bundles]
    cell = nbformat.v4.new_code_cell("%%npuprof\ntrain()", outputs=outputs)
    exporter = exporters.HTMLExporter(template_name="basic")
    page, _ = exporter.from_notebook_node(nbformat.v4.new_notebook(cells=[cell]))
    assert "simulated NPU" in page
    pictures = re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', page)
    timeline, flame = (b64decode(picture).decode() for picture in pictures[-2:])
    assert 'aria-label="Timeline"' in timeline
    assert re.search('aria-label="[^"]+ of (host|device) time', flame)
    assert page.count("<script") == 3  # the data, what draws it, and what unpacks both
    assert re.search(r"(src|href)=.?http|//cdn|localhost|127\.0\.0\.1", page) is None


@pytest.mark.slow
def test_viewers_get_pictures_below_a_megabyte(bundles: list[dict[str, Any]]) -> None:
    # Viewers show the richest form alone, which is HTML: the pictures are in it, for those that strip scripts.
    assert [set(bundle) for bundle in bundles] == [{"text/html", "text/plain"}] * 2
    assert len(json.dumps(bundles)) <= 1_000_000

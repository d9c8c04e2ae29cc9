from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.display import display
from IPython.utils.capture import capture_output

from npuprof.notebook.widgets import LiveBox
from npuprof.profiles.profile import Profile
from npuprof.sources.base import Decoded
from npuprof.tables.notes import Notes
from tests import factories

_VIEW = "application/vnd.jupyter.widget-view+json"


@pytest.fixture(autouse=True)
def _shell() -> Iterator[None]:
    InteractiveShell.instance()
    yield
    InteractiveShell.clear_instance()


def shown(widget: Any) -> list[dict[str, Any]]:
    with capture_output() as captured:
        display(widget)
    return [output.data for output in captured.outputs]


def test_bundle_has_widget_and_text() -> None:
    box = LiveBox([], what="the <b>panel</b>")
    view, note = shown(box)
    assert view[_VIEW]["model_id"] == box.model_id
    assert view["text/plain"] == "[the <b>panel</b>: shown where its kernel runs]"
    assert note["text/plain"].startswith("npuprof: the <b>panel</b> needs a running kernel: run this cell again. ")
    assert "<b>" not in note["text/html"]
    assert note["text/plain"] in unescape(note["text/html"])
    assert "npuprof-live-" + box.model_id in box._dom_classes
    assert re.search(f"npuprof-live-{box.model_id}.*npuprof-note-{box.model_id}", note["text/html"])


def test_as_part_of_another_widget_it_has_no_line() -> None:
    import ipywidgets

    assert len(shown(ipywidgets.VBox([LiveBox([], what="it")]))) == 1


def test_a_closed_one_is_no_view_any_more() -> None:
    box = LiveBox([], what="it")
    box.close()
    (text,) = shown(box)
    assert set(text) == {"text/plain"}
    assert text["text/plain"].startswith("LiveBox(")


@pytest.mark.slow
def test_the_text_of_an_explorer_shows_how_to_open_its_run() -> None:
    run = Profile(Decoded(factories.profile(5), factories.info(recording="kept/here", name="n" * 200), Notes()))
    _, note = shown(run.explore())
    again = "run this cell again, or open the run with npuprof.load('kept/here').explore()."
    assert f" needs a running kernel: {again} " in note["text/plain"]
    assert len(note["text/plain"]) < 310

from __future__ import annotations

import json
from importlib import import_module
from typing import Any

import pytest

from npuprof.figures.embed import MIMETYPE, element, library, mimebundle, saved_bytes
from npuprof.timeline.figure import timeline
from tests import factories


@pytest.mark.slow
def test_the_output_of_a_figure_is_plotlys_mimetype_without_upload() -> None:
    figure = timeline(factories.profile(5), factories.info())

    shown = mimebundle(figure)[MIMETYPE]

    assert set(shown) == {"data", "layout", "config"}
    assert shown["config"]["showSendToCloud"] is False
    assert len(str(shown["layout"].get("template", ""))) < 100  # plotly's default one is 7 kB


@pytest.mark.slow
def test_no_name_can_end_the_script_that_holds_it() -> None:
    run = factories.profile(20, kernel_names=("</script><img src=x onerror=alert(1)>", "\u2028"))
    figure = timeline(run, factories.info(name="</script><b>"))

    drawn = element(figure, 'id"><script>', "Timeline <b>")

    assert drawn.count("<script>") == drawn.count("</script>") == 1
    assert "<img" not in drawn
    assert "<b>" not in drawn.replace("\\u003cb\\u003e", "")


def test_the_library_is_one_script() -> None:
    script = library()

    assert script.startswith("<script>")
    assert script.count("</script") == 1
    assert len(script) > 1_000_000


@pytest.mark.slow
def test_figure_size_is_the_notebooks_growth() -> None:
    nbformat: Any = import_module("nbformat")  # it has no annotations
    figure = timeline(factories.profile(60, kernel_names=("矩阵乘", "Add")), factories.info())
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell()])
    empty = len(nbformat.writes(notebook).encode())
    notebook.cells[0].outputs.append(nbformat.v4.new_output("display_data", mimebundle(figure)))

    grown = len(nbformat.writes(notebook).encode()) - empty

    assert abs(saved_bytes(figure) - grown) < 0.02 * grown
    assert saved_bytes(figure) > len(json.dumps(mimebundle(figure), ensure_ascii=False))

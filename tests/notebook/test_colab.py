"""What a kernel of Colab is asked for: its manager of other packages' widgets, and figures by plotly's renderer for it.

Colab itself is not run: `google.colab.output` is a double with the documented call.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import plotly.io as pio
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from ipywidgets import HTML

from npuprof.figures.fallback import FigureWithFallback
from npuprof.notebook.widgets import LiveBox

_CALL = "enable_custom_widget_manager"


@pytest.fixture
def shell() -> Iterator[InteractiveShell]:
    yield InteractiveShell.instance()
    InteractiveShell.clear_instance()


def _shown(value: Any) -> list[dict[str, Any]]:
    from IPython.display import display

    with capture_output() as captured:
        display(value)
    return [output.data for output in captured.outputs]


def test_a_view_asks_for_the_manager_before_it_is_shown(
    shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    colab = ModuleType("google.colab.output")
    setattr(colab, _CALL, lambda: asked.append(_CALL))
    monkeypatch.setitem(sys.modules, colab.__name__, colab)
    bundles = _shown(LiveBox([HTML("view")], what="the panel"))
    assert asked == [_CALL]
    assert "application/vnd.jupyter.widget-view+json" in bundles[0]


@pytest.mark.slow
def test_a_figure_is_left_to_plotlys_renderer(shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pio.renderers, "_default_name", "plotly_mimetype")  # as plotly sets it in a kernel
    figure = FigureWithFallback(name="figure", picture=lambda: "<svg/>")
    assert "image/svg+xml" in _shown(figure)[0]
    monkeypatch.setattr(pio.renderers, "default", "colab")  # as plotly sets it where COLAB_NOTEBOOK_ID is set
    (bundle,) = _shown(figure)
    assert set(bundle) == {"text/html"}

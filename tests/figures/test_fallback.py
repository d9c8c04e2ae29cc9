from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import plotly.graph_objects as go
import plotly.io as pio
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from npuprof.figures.embed import MIMETYPE
from npuprof.figures.fallback import FigureWithFallback

_SVG = '<svg xmlns="http://www.w3.org/2000/svg"/>'


@pytest.fixture(params=["plotly_mimetype", "plotly_mimetype+notebook"])
def by_default(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What different versions of plotly choose by themselves in a kernel."""
    monkeypatch.setattr(pio.renderers, "_default_name", request.param)
    return str(request.param)


def pictured() -> FigureWithFallback:
    return FigureWithFallback(_figure(), picture=lambda: _SVG, name="timeline")


def _figure() -> go.Figure:
    # Without plotly's own template, as all figures here are: version 6.0 warns of what is in it.
    return go.Figure(go.Bar(y=[1, 2]), layout={"template": go.layout.Template()})


def formatted(shell: InteractiveShell, figure: go.Figure) -> dict[str, Any]:
    bundle: dict[str, Any] = shell.display_formatter.format(figure)[0]  # type: ignore[union-attr]
    return bundle


def test_the_output_is_the_figure_and_its_picture_and_no_html(shell: InteractiveShell, by_default: str) -> None:
    bundle = formatted(shell, pictured())
    assert set(bundle) == {MIMETYPE, "image/svg+xml", "text/plain"}
    assert bundle["image/svg+xml"] == _SVG
    assert bundle["text/plain"] == "timeline: figure\nbar 1: 2 values, 1 to 2\n    1: 2\n    0: 1"
    assert bundle[MIMETYPE]["config"]["showSendToCloud"] is False
    assert "//cdn" not in json.dumps(bundle)


def test_figure_without_picture_is_drawn(shell: InteractiveShell, by_default: str) -> None:
    bundle = formatted(shell, FigureWithFallback(_figure(), name="memory", text=lambda: "two bars"))
    assert bundle["image/svg+xml"].count("<rect") == 2
    assert bundle["text/plain"] == "two bars"


def test_what_cannot_be_drawn_has_its_text(shell: InteractiveShell, by_default: str) -> None:
    pie = go.Figure(go.Pie(values=[1, 2]), layout={"template": go.layout.Template()})
    bundle = formatted(shell, FigureWithFallback(pie, text=lambda: "two parts"))
    assert set(bundle) == {MIMETYPE, "text/plain"}


def test_what_is_restyled_is_shown_restyled(shell: InteractiveShell, by_default: str) -> None:
    figure = pictured().update_layout(title="mine").add_trace(go.Bar(y=[3]))
    bundle = formatted(shell, figure)
    assert bundle[MIMETYPE]["layout"]["title"]["text"] == "mine"
    assert len(bundle[MIMETYPE]["data"]) == 2
    assert "image/svg+xml" in bundle


def test_a_renderer_that_the_user_chose_is_obeyed(shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pio.renderers, "_default_name", "json")
    monkeypatch.setattr(pio.renderers, "_default_renderers", [pio.renderers["json"]])
    with capture_output() as captured:
        assert formatted(shell, pictured()) == {}
    shown = [list(output.data) for output in captured.outputs]
    assert ["application/json"] in shown  # after what activates plotly's other renderers
    assert not any(MIMETYPE in data for data in shown)


@pytest.mark.parametrize(
    "copied", [lambda figure: pickle.loads(pickle.dumps(figure)), copy.deepcopy, FigureWithFallback, go.Figure]
)
def test_a_copy_is_a_figure_without_its_own_picture(copied: Any, by_default: str) -> None:
    figure = pictured()
    again = copied(figure)
    assert isinstance(again, go.Figure)
    assert again.to_dict() == figure.to_dict()
    assert again._repr_mimebundle_().get("image/svg+xml") != _SVG


def test_figure_among_values_is_one_line(shell: InteractiveShell) -> None:
    figure = pictured()
    shown = shell.display_formatter.format((figure, figure))[0]["text/plain"]  # type: ignore[union-attr]
    assert len(shown.splitlines()) == 2
    assert shown.count("<timeline: a figure, ") == 2
    assert str(figure) == "timeline: figure\nbar 1: 2 values, 1 to 2\n    1: 2\n    0: 1"
    assert str(FigureWithFallback(_figure(), text=lambda: "two bars")) == "two bars"

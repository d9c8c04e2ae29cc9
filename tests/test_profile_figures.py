"""Figures as methods of a run."""

from __future__ import annotations

from typing import Any

import plotly.graph_objects as go
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from npuprof.figures.colours import FOREGROUND
from npuprof.figures.embed import saved_bytes
from npuprof.notes import Notes
from npuprof.profiles import Profile
from npuprof.sources.base import Decoded
from tests import factories

_FIGURES: dict[str, dict[str, Any]] = {
    "timeline": {},
    "flamegraph": {"weight": "device"},
    "memory_plot": {},
    "communication_matrix": {},
    "communication_plot": {},
    "step_plot": {},
    "counters_plot": {},
    "roofline": {},
    "kernel_detail": {"row": 0},
}


def profile(launches: int) -> Profile:
    made = factories.profile(launches) if launches else factories.all_tables()
    return Profile(Decoded(made, factories.info(), Notes()))


@pytest.mark.parametrize("launches", [0, 50, 5_000])
@pytest.mark.parametrize("name", _FIGURES)
def test_each_is_a_figure_that_shows_nothing_by_itself_and_is_small(name: str, launches: int) -> None:
    if name == "kernel_detail" and not launches:
        pytest.skip("a run without kernels has none to show")
    InteractiveShell.instance()
    try:
        with capture_output() as captured:
            figure = getattr(profile(launches), name)(**_FIGURES[name])
    finally:
        InteractiveShell.clear_instance()
    assert isinstance(figure, go.Figure)
    assert (captured.stdout, captured.stderr, captured.outputs) == ("", "", [])
    assert saved_bytes(figure) < 1_000_000
    assert "simulated NPU" in figure.layout.title.text
    if not figure.data:
        assert figure.layout.annotations[0].text


@pytest.mark.parametrize("name", _FIGURES)
def test_each_suits_light_and_dark_themes_and_offers_no_upload(name: str) -> None:
    layout = getattr(profile(50), name)(**_FIGURES[name]).layout
    assert layout.paper_bgcolor == layout.plot_bgcolor == "rgba(0,0,0,0)"
    assert layout.font.color == FOREGROUND
    assert {"sendDataToCloud", "sendChartToCloud"} <= set(layout.modebar.remove)
    assert layout.template.layout.plot_bgcolor is None  # plotly's own has a white background

"""The data of figures as text."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go
import pytest

from npuprof.figures.data_text import data_text

_PLAIN = {"template": go.layout.Template()}


def test_bars_are_listed_by_size_with_the_unit_of_their_axis() -> None:
    figure = go.Figure(
        go.Bar(y=["step 1", "step <b>2</b>"], x=[1.5, -3.0], orientation="h", name="idle"),
        layout={**_PLAIN, "title": {"text": "Steps<br><sub>two</sub>"}, "xaxis": {"ticksuffix": " ms"}},
    )
    assert data_text(figure, "steps").splitlines() == [
        "steps: Steps two",
        "idle: 2 values, -3 to 1.5 ms",
        "    step 2: -3 ms",
        "    step 1: 1.5 ms",
    ]


def test_ranges_and_peaks_are_described() -> None:
    line = go.Scatter(x=[1, 2, 3], y=[5.0, None, 7.0], name="HBM", yaxis="y2")
    cells = go.Heatmap(z=np.array([[1.0, np.nan], [4.0, 2.0]]), x=["a", "b"], y=[0, 3], name="bytes")
    figure = go.Figure([line, cells], layout={**_PLAIN, "yaxis2": {"title": {"text": "GB/s"}}})
    assert data_text(figure, "both").splitlines()[1:] == [
        "HBM: 2 points, 5 to 7 (GB/s)",
        "bytes: 2 x 2 cells, 1 to 4, the highest at 3 / a",
    ]


@pytest.mark.parametrize("trace", [go.Bar(), go.Scatter(), go.Heatmap(), go.Icicle(), go.Bar(x=["a"], y=[None])])
def test_an_empty_figure_says_what_its_note_says(trace: go.Figure) -> None:
    figure = go.Figure(trace, layout={**_PLAIN, "annotations": [{"text": "no memory: collect with --memory"}]})
    lines = data_text(figure, "memory").splitlines()
    assert lines[0] == "memory: figure"
    assert lines[-1] == "no memory: collect with --memory"


def test_a_figure_of_many_traces_is_cut_and_says_so() -> None:
    figure = go.Figure([go.Scatter(y=[number, number]) for number in range(60)], layout=_PLAIN)
    lines = data_text(figure, "many").splitlines()
    assert len(lines) == 41
    assert lines[-1] == "... and 21 more lines"

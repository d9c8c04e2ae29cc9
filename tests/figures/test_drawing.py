"""Figures as plain SVG: what is drawn is where plotly has it, and is safe and small."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import plotly.graph_objects as go
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npuprof.figures.colours import PARTS
from npuprof.figures.drawing import LIMIT_BYTES, figure_svg
from npuprof.profiles.profile import Profile
from npuprof.sources.base import Decoded
from npuprof.tables.notes import Notes
from tests import factories
from tests.budget import examples

_SVG = "{http://www.w3.org/2000/svg}"
_NUMBER = re.compile(r"-?\d+\.?\d*")


def _rects(figure: go.Figure, colour: str) -> list[dict[str, float]]:
    return [
        {key: float(rect.attrib[key]) for key in ("x", "y", "width", "height")}
        for rect in ElementTree.fromstring(figure_svg(figure)).iter(f"{_SVG}rect")
        if rect.attrib["fill"] == colour and rect.attrib["height"] != "9"  # not of the legend
    ]


def _texts(figure: go.Figure) -> list[str]:
    return [text.text or "" for text in ElementTree.fromstring(figure_svg(figure)).iter(f"{_SVG}text")]


def test_stacked_bars_have_their_lengths() -> None:
    figure = go.Figure(
        [go.Bar(name=name, x=["step 1", "step 2"], y=values, marker={"color": colour})
         for name, values, colour in (("a", [1.0, 2.0], "#308060"), ("b", [3.0, 0.5], "#3088d0"))],
        {"barmode": "stack", "title": {"text": "<b>Steps</b> &lt;of&gt; all<br><sup>two of them</sup>"}},
    )  # fmt: skip
    lower, upper = _rects(figure, "#308060"), _rects(figure, "#3088d0")
    scale = lower[0]["height"]
    assert [rect["height"] / scale for rect in (*lower, *upper)] == pytest.approx([1, 2, 3, 0.5], abs=0.01)
    for below, above in zip(lower, upper, strict=True):
        assert above["y"] + above["height"] == pytest.approx(below["y"], abs=0.2)
        assert above["x"] == below["x"]
    assert {"Steps <of> all", "two of them", "step 1", "step 2", "a", "b"} <= set(_texts(figure))


def test_lines_points_and_intervals_are_at_their_values() -> None:
    figure = go.Figure(
        go.Scatter(x=[0, 1, 3], y=[0, 10, 10], mode="lines+markers", line={"color": "#308060"}, marker={"size": 4})
    )
    tree = ElementTree.fromstring(figure_svg(figure))
    (path,) = [one.attrib["d"] for one in tree.iter(f"{_SVG}path") if one.attrib.get("stroke") == "#308060"]
    x0, y0, x1, y1, x2, y2 = map(float, _NUMBER.findall(path))
    assert (x2 - x0) / (x1 - x0) == pytest.approx(3, abs=0.02)
    assert y1 == y2 < y0
    dots = [(float(dot.attrib["cx"]), float(dot.attrib["cy"])) for dot in tree.iter(f"{_SVG}circle")]
    assert dots == [(x0, y0), (x1, y1), (x2, y2)]


def test_frames_of_an_icicle_are_within_their_parents() -> None:
    figure = go.Figure(
        go.Icicle(
            ids=["r", "a", "b", "aa"], parents=["", "r", "r", "a"], values=[10, 6, 4, 3],
            labels=["all", "a", "b", "aa"], branchvalues="total",
            marker={"colors": ["#308060", "#3088d0", "#d07800", "#c870b0"]},
        )
    )  # fmt: skip
    root, a, b, inner = (_rects(figure, colour)[0] for colour in ("#308060", "#3088d0", "#d07800", "#c870b0"))
    assert a["width"] / root["width"] == pytest.approx(0.6, abs=0.01)
    assert b["x"] == pytest.approx(a["x"] + 0.6 * root["width"], abs=1)
    assert inner["x"] == a["x"]
    assert root["y"] < a["y"] == b["y"] < inner["y"]


def test_heat_map_has_a_cell_per_value() -> None:
    figure = go.Figure(go.Heatmap(z=[[0, 1], [2, None]], colorscale=[[0, "#000000"], [1, "#ffffff"]], zmin=0, zmax=2))
    fills = [one.attrib["fill"] for one in ElementTree.fromstring(figure_svg(figure)).iter(f"{_SVG}rect")]
    assert fills == ["rgb(0,0,0)", "rgb(128,128,128)", "rgb(255,255,255)"]


def test_equally_distant_cells_keep_their_place() -> None:
    z = [[0, 0, 0, 1, 1, None, 1, 0]]
    drawn = {"z": z, "x0": 1.0, "dx": 2.0, "colorscale": [[0, "#000000"], [1, "#ffffff"]]}
    figure = go.Figure([go.Heatmap(drawn), go.Scatter(x=[0, 16], y=[0, 0])])
    black, white = _rects(figure, "rgb(0,0,0)"), _rects(figure, "rgb(255,255,255)")
    assert len(black) == len(white) == 2
    cell = white[1]["width"]
    assert [rect["width"] / cell for rect in (*black, *white)] == pytest.approx([3, 1, 2, 1], abs=0.01)
    origin = black[0]["x"]
    assert [(rect["x"] - origin) / cell for rect in (*black, *white)] == pytest.approx([0, 7, 3, 6], abs=0.01)


def test_a_key_keeps_its_colours() -> None:
    run = Profile(Decoded(factories.profile(40), factories.info(), Notes(), {}))
    svg = figure_svg(run.plot_steps())
    assert f'<tspan fill="{PARTS["idle"]}">■</tspan> idle' in svg
    assert "<pattern" not in svg


def test_texts_stand_beside_points_and_in_cells() -> None:
    points = go.Scatter(
        x=[1, 2],
        y=[1, 2],
        mode="text",
        text=["left", "right"],
        textposition=["middle left", "middle right"],
        textfont={"color": ["#308060", "#3088d0"]},
    )
    drawn = ElementTree.fromstring(figure_svg(go.Figure(points))).iter(f"{_SVG}text")
    looks = {text.text: (text.get("text-anchor"), text.get("fill")) for text in drawn}
    assert (looks["left"], looks["right"]) == (("end", "#308060"), ("start", "#3088d0"))
    cells = go.Heatmap(z=[[1, 2]], text=[["one", ""]], texttemplate="%{text}")
    assert "one" in _texts(go.Figure(cells))


def test_undrawn_figures_have_no_picture() -> None:
    assert figure_svg(go.Figure(go.Pie(values=[1, 2]))) == ""
    names = [f"{at}" * 40 for at in range(3_000)]
    assert len(figure_svg(go.Figure(go.Bar(x=names, y=[1] * 3_000, text=names)))) <= LIMIT_BYTES


_NAMES = st.text(max_size=30) | st.sampled_from(["<img src=x onerror=alert(1)>", "&lt;b&gt;", "$x$", "\x00\x1b", "]]>"])
_VALUES = st.floats(allow_nan=True, allow_infinity=True) | st.integers(-(2**62), 2**62) | st.none()


@given(st.lists(st.tuples(_NAMES, _VALUES), max_size=12), st.sampled_from(["bar", "lines", "markers"]), _NAMES)
@settings(max_examples=examples(100))
def test_any_values_give_wellformed_pictures(rows: list[tuple[str, float | None]], kind: str, title: str) -> None:
    names, values = [name for name, _ in rows], [value for _, value in rows]
    trace = go.Bar(x=names, y=values, name=title) if kind == "bar" else go.Scatter(x=values, y=values, mode=kind)
    svg = figure_svg(go.Figure([trace], {"title": {"text": title}}))
    tree = ElementTree.fromstring(svg)
    assert {element.tag.removeprefix(_SVG) for element in tree.iter()} <= {*("svg", "text", "path", "rect", "circle")}
    assert not [key for element in tree.iter() for key in element.attrib if key.startswith("on") or "href" in key]
    for element in tree.iter(f"{_SVG}rect"):
        assert all(np.isfinite(float(element.attrib[key])) for key in ("x", "y", "width", "height"))


def _stored() -> list[tuple[str, dict[str, Any]]]:
    """Return the figures that the notebooks of the repository have stored."""
    found = []
    for path in sorted((Path(__file__).parents[2] / "notebooks").rglob("*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        outputs = (output for cell in cells for output in cell.get("outputs", ()))
        for number, output in enumerate(outputs):
            if plain := output.get("data", {}).get("application/vnd.plotly.v1+json"):
                found.append((f"{path.stem} {number}", plain))
    return found


@pytest.mark.slow
def test_figures_of_all_notebooks_are_drawn() -> None:
    stored = _stored()
    assert len(stored) > 20
    for name, plain in stored:
        if "timeline" in str(plain["layout"].get("title")).lower():
            continue  # which has a drawing of its own
        svg = figure_svg(go.Figure({key: plain[key] for key in ("data", "layout")}))
        ElementTree.fromstring(svg)
        assert len(svg) > 400, name


def test_ticks_are_in_order_and_apart() -> None:
    figure = go.Figure(go.Scatter(x=[0.1, 1_000], y=[1e11, 1e14], mode="markers"))
    figure.update_xaxes(type="log").update_yaxes(type="log")
    places = [
        float(text.attrib["x"])
        for text in ElementTree.fromstring(figure_svg(figure)).iter(f"{_SVG}text")
        if text.attrib.get("text-anchor") == "middle"
    ]
    assert len(places) == 5
    assert all(after - before > 30 for before, after in pairwise(places))

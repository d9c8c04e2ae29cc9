"""The timeline as SVG."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from npuprof import tables
from npuprof.timeline.figure import timeline
from npuprof.timeline.svg import LIMIT_BYTES, timeline_svg
from tests import factories

_SPACE = "{http://www.w3.org/2000/svg}"


def parsed(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(text)


def texts(root: ElementTree.Element) -> list[str]:
    return ["".join(element.itertext()) for element in root.iter(f"{_SPACE}text")]


def bars(root: ElementTree.Element) -> list[ElementTree.Element]:
    return [element for element in root.iter(f"{_SPACE}rect") if element.get("height") == "14"]


@pytest.mark.slow
def test_it_has_the_lanes_colours_and_names_of_the_figure() -> None:
    run = factories.profile(20)
    root, figure = parsed(timeline_svg(run, factories.info())), timeline(run, factories.info())
    drawn = [trace for trace in figure.data if trace.type == "bar"]
    assert len(bars(root)) == sum(len(trace.y) for trace in drawn)
    assert {bar.get("fill") for bar in bars(root)} == {colour for trace in drawn for colour in trace.marker.color}
    assert {"steps", "marks", "stream 2", "busy", "step 0", "forward"} <= set(texts(root))
    assert texts(root)[0] == "Timeline · training step · simulated NPU"
    assert {trace.name for trace in drawn} <= set(texts(root))
    assert all(0 <= float(bar.get("x", "-1")) <= 1_000 and float(bar.get("width", "0")) > 0 for bar in bars(root))


def test_a_bar_has_a_hover_text() -> None:
    told = [
        title.text or ""
        for title in parsed(timeline_svg(factories.profile(20), factories.info())).iter(f"{_SPACE}title")
    ]
    assert any(text.startswith("MatMulV3_ND_FP16, 21.0 µs, at ") for text in told)
    assert not any("<" in text for text in told)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["<script>alert(1)</script>", "]]>", "a\x00b\ufffe", "\u202e$x$ & 'y' \"z\"", "n" * 5_000, "&" * 300]
)
def test_hostile_names_are_text_and_the_picture_stays_small(name: str) -> None:
    names = [f"{name}{number}" for number in range(5)]
    text = timeline_svg(factories.profile(3_000, kernel_names=names), factories.info(name=f"{name}\ud800"))
    assert len(text.encode()) <= LIMIT_BYTES
    tags = {element.tag for element in parsed(text).iter()}
    assert tags == {f"{_SPACE}{tag}" for tag in ("svg", "g", "text", "tspan", "rect", "path", "title")}


@pytest.mark.slow
def test_it_refers_to_nothing_and_has_no_script() -> None:
    text = timeline_svg(factories.profile(500), factories.info())
    assert text.count("http") == 1  # the name of the format
    assert re.search(r"href|src=|url\(|script|<style|\son\w+=|@import|foreignObject", text) is None


@pytest.mark.slow
def test_a_window_holds_its_slices_only() -> None:
    run = factories.profile(20)
    start = int(run["kernels"]["start_ns"].iloc[5])
    windowed = timeline_svg(run, factories.info(), start_ns=start, end_ns=start + 1)
    assert 0 < len(bars(parsed(windowed))) < len(bars(parsed(timeline_svg(run, factories.info())))) / 3
    after = timeline_svg(run, factories.info(), start_ns=10**18 * 9)
    assert "no slices in this part of the run" in texts(parsed(after))


def test_the_window_is_the_width_of_the_picture() -> None:
    start = factories.START_NS
    api = {
        "start_ns": start + np.array([0, 900_000]),  # one call reaches into the window from far before it
        "duration_ns": np.array([1_000_000, 10_000]),
        "name": ["outer", "inner"],
        "thread_id": np.array([1, 1]),
    }
    run = factories.all_tables(api=tables.build("api", api))
    root = parsed(timeline_svg(run, factories.info(), start_ns=start + 900_000, end_ns=start + 920_000))
    (outer, inner) = ((float(bar.attrib["x"]), float(bar.attrib["width"])) for bar in bars(root))
    assert outer[0] == inner[0]
    assert outer[1] == pytest.approx(2 * inner[1], abs=0.2)  # it fills the window, the other one half of it
    assert "20 µs" in texts(root)


@pytest.mark.slow
def test_many_slices_are_drawn_as_few_bars_with_their_number() -> None:
    text = timeline_svg(factories.profile(20_000), factories.info())
    assert len(bars(parsed(text))) <= 400
    assert "slices in" in texts(parsed(text))[1]


@pytest.mark.parametrize("span", [1, 999, 10**6, 7 * 10**9, 10**13])
def test_axis_has_a_handful_of_ticks(span: int) -> None:
    api = {
        "start_ns": factories.START_NS + np.array([0, span - 1]),
        "duration_ns": np.array([1, 1]),
        "name": ["first", "last"],
        "thread_id": np.array([1, 1]),
    }
    root = parsed(timeline_svg(factories.all_tables(api=tables.build("api", api)), factories.info()))
    ticks = [text for text in texts(root) if re.fullmatch(r"[\d,.]+ (ns|µs|ms|s)", text)]
    assert 2 <= len(ticks) <= 12
    assert ticks[0].lstrip("0.").startswith(" ")


def test_a_run_without_slices_says_so() -> None:
    assert "no slices in this run" in texts(
        parsed(timeline_svg(factories.all_tables(), factories.info(simulated=False)))
    )

"""What plain charts share."""

from __future__ import annotations

import re

import pytest

from npuprof.figures.chart import chart, nothing, spread
from npuprof.tables.info import Info
from tests import factories


@pytest.mark.slow
def test_a_long_subtitle_is_broken_at_its_dots() -> None:
    parts = ["word " * 8 + str(number) for number in range(4)]
    figure = chart("Title", factories.info(), subtitle=" · ".join(parts))
    lines = figure.layout.title.text.split("<br>")[1:]
    assert [line for line in lines if len(line) > 130] == []
    assert all(part in figure.layout.title.text for part in parts)
    assert figure.layout.margin.t > chart("Title", Info()).layout.margin.t


def test_a_name_is_shown_as_it_is() -> None:
    assert "&lt;b&gt;me" in chart("Title", factories.info(name="<b>me</b>")).layout.title.text


@pytest.mark.parametrize(
    ("finding", "title"),
    [
        ("", ["Kind"]),
        ("The NPU idles 41 % of a step", ["The NPU idles 41 % of a step"]),
        ("<b> costs $5", ["&lt;b&gt; costs &#36;5"]),
        ("word " * 30, [*["word " * 10 + "word"] * 2, "word " * 7 + "word"]),
    ],
)
def test_a_finding_is_the_title(finding: str, title: list[str]) -> None:
    text = chart("Kind", Info(), finding=finding).layout.title.text
    large = re.findall(r'<span style="font-size:16px"><b>(.*?)</b></span>', text)
    assert large == title
    assert text.endswith("<br>Kind") == bool(finding)


def test_what_is_missing_is_said_without_axes() -> None:
    figure = nothing("Title", factories.info(), "collect more")
    assert (figure.layout.xaxis.visible, figure.layout.yaxis.visible) == (False, False)
    assert figure.layout.annotations[0].text == "collect more"
    assert "simulated NPU" in figure.layout.title.text


def test_few_of_many_are_spread_evenly_with_both_ends() -> None:
    assert spread(list(range(100)), 4) == [0, 33, 66, 99]
    assert spread([1, 2], 4) == [1, 2]

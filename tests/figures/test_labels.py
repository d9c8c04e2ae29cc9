from __future__ import annotations

import pytest

from npuprof.figures.chart import label, moment


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("MatMulV3", "MatMulV3"),
        ("<b>x</b>", "&lt;b&gt;x&lt;/b&gt;"),
        ("a & b", "a &amp; b"),
        ("$\\alpha$", "&#36;\\alpha&#36;"),
        ("line\nbreak", "line break"),
        (None, "(unnamed)"),
        (float("nan"), "(unnamed)"),
    ],
)
def test_a_name_shows_as_it_is(name: object, shown: str) -> None:
    assert label(name, 60) == shown


def test_a_name_is_cut_before_it_is_escaped() -> None:
    assert label("<" * 100, 3) == "&lt;…&lt;"


def test_a_moment_keeps_its_nanoseconds() -> None:
    assert moment(1_763_600_000_000_000_123) == "2025-11-20 00:53:20.000000123 UTC"

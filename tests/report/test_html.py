"""A report as HTML: complete, escaped, readable without styles, and self-contained as a page."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from npuprof.profiles.profile import Profile
from npuprof.report.html import report_html, ticks
from npuprof.report.model import (
    Code,
    CodeLine,
    Fold,
    Lane,
    Part,
    Problem,
    Report,
    Segment,
    Steps,
    Strip,
    Table,
    Warned,
    code,
    plain,
)
from npuprof.sources.base import Decoded
from npuprof.tables.notes import Notes
from tests import factories
from tests.browser.unpacking import script_of
from tests.report.elements import HOSTILE, Elements


def run(notes: Notes | None = None, names: tuple[str, ...] = factories.KERNELS, **info: Any) -> Profile:
    return Profile(Decoded(factories.profile(60, kernel_names=names), factories.info(**info), notes or Notes()))


def full(text: str) -> Report:
    """Return a report that has everything, with one text in every place of it."""
    return Report(
        plain(text),
        "8.91 ms a step",
        [text],
        is_simulated=True,
        warnings=[Warned("error", plain(text))],
        aside=text,
        sentence=f"Line 4: {code(text)}",
        parts=[Part("computing", 40, "computing"), Part("idle", 60, "idle")],
        steps=Steps([5, 6, 50], [False, False, True]),
        strips=[Strip(text, 1_000_000, [Lane(text, [Segment(0, 900_000, "line", text)], is_marked=True)])],
        problems=[Problem(code(text), plain(text), "−6.75 ms", "76 %", [plain(text)])],
        codes=[Code(text, ("NPU", "waits"), "per step", [CodeLine(None), CodeLine(4, text, [1], 5, 6)])],
        folds=[Fold(text, [plain(text)], [(text, text)], [Table(text, [text, "time"], [[text, "5 ns"]], 1)])],
        unknown=text,
    )


def test_hostile_text_stays_text() -> None:
    elements = Elements(report_html(full(HOSTILE)))
    assert not {"script", "link", "iframe", "svg"} & set(elements.tags)
    assert elements.open == []
    assert not any(name.startswith("on") for name, _ in elements.attributes)
    assert elements.text.count("</td><script>alert(1)</script>") >= 12
    pictures = [
        b64decode(value.partition(",")[2]).decode() for name, value in elements.attributes if name == "src" and value
    ]
    assert len(pictures) == 3
    assert not [picture for picture in pictures if "<script" in picture]


def test_control_characters_and_backticks_stay_text() -> None:
    shown = Elements(report_html(full("a\x1b[31m`b`\u202egnp\n" + "n" * 10_000)))
    assert "\x1b" not in shown.text
    assert "\u202e" not in shown.text
    assert max(map(len, shown.text.split())) < 1_300


def test_refers_to_nothing_and_has_no_headings() -> None:
    fragment = report_html(full("name"))
    elements = Elements(fragment)
    assert not {"h1", "h2", "h3", "h4", "h5", "h6", "svg"} & set(elements.tags)
    assert "http" not in re.sub(r'src="data:[^"]*"', "", fragment)
    assert "url(" not in fragment
    (style,) = re.findall(r"<style>(.*?)</style>", fragment)
    style = re.sub(r"@container \(max-width:\d+px\)\{[^{}]*\}", "", style)  # within a rule
    selectors = re.findall(r"([^{}]+)\{", style)
    assert all(re.fullmatch(r"(\.npuprof-[\w-]+(\[open\]|::[\w-]+)?[ >,]?)+", selector) for selector in selectors)


def test_reads_in_order_without_styles() -> None:
    bare = re.sub(r"<style>.*?</style>| (style|class)=\"[^\"]*\"", "", report_html(full("name")))
    words = re.sub(r"<[^>]*>", "", re.sub(r"</?(div|tr|summary|details|table|td|th|pre)[^>]*>", "\n", bare))
    lines = [" ".join(line.split()) for line in words.splitlines() if line.strip()]
    wanted = ["name simulated NPU name", "8.91 ms a step name", "Line 4: name", "−6.75 ms", "name Why?", "per step"]
    places = [next(at for at, line in enumerate(lines) if text in line) for text in wanted]
    assert places == sorted(places)


def test_no_name_is_read_as_a_formula() -> None:
    (classes,) = re.findall(r'<div class="(npuprof-report [^"]*)"', report_html(full("$x$ and \\(y\\)")))
    assert {"mathjax_ignore", "tex2jax_ignore"} <= set(classes.split())


@pytest.mark.parametrize("part", ["top", "folds"])
def test_parts_share_nothing(part: str) -> None:
    shown = Elements(report_html(full("name"), part)).text  # type: ignore[arg-type]
    assert ("8.91 ms a step" in shown) == (part == "top")
    assert ("namenametimename5ns" in "".join(shown.split())) == (part == "folds")


@pytest.mark.parametrize(
    ("length_ns", "labels"),
    [
        (8_910_000, ["0", "2", "4", "6", "8 ms"]),
        (100, ["0", "20", "40", "60", "80 ns"]),
        (1, ["0 ns"]),
        (1_500_000_000, ["0", "0.5", "1 s"]),
        (810_000_000, ["0", "200", "400", "600 ms"]),
        (0, []),
    ],
)
def test_axis_has_round_labels(length_ns: int, labels: list[str]) -> None:
    found = ticks(length_ns)
    assert [label for label, _ in found] == labels
    assert sum(width for _, width in found[:-1]) <= 100


@pytest.mark.slow
def test_simulated_is_said_only_when_it_was() -> None:
    assert "simulated NPU" in Elements(run()._repr_html_()).text
    assert "simulated" not in run(simulated=False)._repr_html_()


@pytest.mark.slow
def test_run_with_hostile_names() -> None:
    notes = Notes()
    notes.error(HOSTILE, HOSTILE)
    elements = Elements(run(notes, (HOSTILE, "Add"), name=HOSTILE, failed=HOSTILE, chip=HOSTILE)._repr_html_())
    assert not {"script", "link", "iframe"} & set(elements.tags)
    assert not any(name.startswith("on") for name, _ in elements.attributes)


@pytest.mark.slow
def test_page_lets_nothing_in(tmp_path: Path) -> None:
    page = run(names=(HOSTILE, "Add"), name=HOSTILE).to_html(tmp_path / "page.html").read_text()
    scripts = re.findall(r"<script>(.*?)</script>", page, flags=re.DOTALL)
    hashes = [b64encode(sha256(script.encode()).digest()).decode() for script in [*scripts, script_of(page)]]
    allowed = " ".join(f"'sha256-{known}'" for known in hashes)
    assert f"default-src 'none'; script-src {allowed};" in page
    bare = Elements(re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL))
    assert bare.open == []
    assert not {"link", "iframe", "base", "object"} & set(bare.tags)
    assert not [
        value for name, value in bare.attributes if name in ("src", "href") and not str(value).startswith("data:")
    ]

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from npuprof.analysis.summary import summarise
from npuprof.exports.html import page_html, report_html
from npuprof.flame.figure import flamegraph
from npuprof.tables.info import Info
from npuprof.tables.notes import Notes
from npuprof.timeline.figure import timeline
from tests import factories

HOSTILE = "</td><script>alert(1)</script><img src=x onerror=alert(1)>"


class Elements(HTMLParser):
    """Names and attributes of all elements, and the text between them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def report(notes: Notes | None = None, **info: object) -> str:
    about = factories.info(**info)
    run = factories.profile(60, kernel_names=(HOSTILE, "Add"))
    return report_html(summarise(run, about), about, (notes or Notes()).to_frame(), factories.advice(run, about))


@pytest.mark.slow
def test_a_kernel_named_script_shows_as_text() -> None:
    notes = Notes()
    notes.error(HOSTILE, HOSTILE)
    fragment = report(notes, name=HOSTILE, failed=HOSTILE, chip=HOSTILE, collector=HOSTILE)

    elements = Elements(fragment)

    assert not {"script", "img", "style", "link", "iframe"} & set(elements.tags)
    assert elements.open == []
    assert elements.text.count(HOSTILE) >= 6
    assert not any(name.startswith("on") for name, _ in elements.attributes)


@pytest.mark.slow
def test_the_fragment_has_inline_styles_only_and_refers_to_nothing() -> None:
    fragment = report()

    assert {name for name, _ in Elements(fragment).attributes} <= {"class", "style", "open", "title"}
    assert "http" not in fragment
    assert "url(" not in fragment
    assert "var(--jp-ui-font-color1,inherit)" in fragment


@pytest.mark.slow
def test_no_name_is_read_as_a_formula() -> None:
    whole = ElementTree.fromstring(report(name="$x$ and \\(y\\)").replace("&nbsp;", " ").replace(" open ", ' open="" '))
    assert {"mathjax_ignore", "tex2jax_ignore"} <= set((whole.get("class") or "").split())


@pytest.mark.slow
def test_it_can_be_read_where_all_styles_are_stripped() -> None:
    bare = re.sub(r' (style|class)="[^"]*"', "", report())
    words = re.sub(r"<[^>]*>", "", re.sub(r"</?(div|tr|summary|details|table|td|th)[^>]*>", "\n", bare))
    lines = [" ".join(line.split()) for line in words.splitlines() if line.strip()]
    assert lines[0] == "npuprof training step SIMULATED NPU"
    assert lines[lines.index("wall time") + 1].endswith(" ms")
    (head,) = [at for at, line in enumerate(lines) if re.search(r"a step \((mean of \d+ steps|1 step)", line)]
    assert re.fullmatch(
        r"computing [\d.]+ % communication [\d.]+ % idle [\d.]+ %( between steps [\d.]+ %)?", lines[head + 1]
    )


@pytest.mark.slow
def test_simulated_stands_in_plain_sight_only_when_it_was() -> None:
    assert "SIMULATED NPU" in Elements(report()).text
    assert "SIMULATED" not in report(simulated=False)


@pytest.mark.slow
def test_it_holds_key_figures_kernels_and_notes() -> None:
    notes = Notes()
    notes.warning("stars_soc", "cut short", count=3)

    text = Elements(report(notes, failed="ValueError: no")).text

    for part in (
        *("training step", "Ascend 910B", "wall time", "computing", "communication alone", "device idle"),
        *(
            "2 longest kernels, by name and shapes",
            "5 kernels with the most time in all",
            "The profiled code raised ValueError: no",
        ),
        *("Notes (1)", "warning: stars_soc: cut short (3 times)"),
    ):
        assert part in text


def test_a_run_without_anything_still_has_a_report() -> None:
    fragment = report_html(
        summarise(factories.all_tables(), Info()),
        Info(),
        Notes().to_frame(),
        factories.advice(factories.all_tables(), Info()),
    )

    assert "–" in Elements(fragment).text
    assert "table" not in Elements(fragment).tags


@pytest.mark.slow
def test_the_page_is_complete_and_lets_nothing_in() -> None:
    about = factories.info(name=HOSTILE)
    run = factories.profile(60, kernel_names=(HOSTILE, "Add"))
    drawn = (timeline(run, about), flamegraph(run, about))
    notes = Notes()
    notes.info("host", "fine")

    page = page_html(
        summarise(run, about),
        about,
        notes.to_frame(),
        factories.advice(run, about),
        dict(zip(("Timeline", "Flame"), drawn, strict=True)),
    )

    without_scripts = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    elements = Elements(without_scripts)
    assert elements.open == []
    assert not {"script", "img", "link", "iframe", "base", "object"} & set(elements.tags)
    assert not {"src", "href", "srcdoc"} & {name for name, _ in elements.attributes}
    assert page.count("<script>") == page.count("</script>") == 3
    scripts = re.findall(r"<script>(.*?)</script>", page, flags=re.DOTALL)
    hashes = [b64encode(sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = " ".join(f"'sha256-{one}'" for one in hashes)
    assert f"default-src 'none'; script-src {allowed};" in page
    assert page.index("figure-0") < page.index("figure-1") < page.index("Notes (1)")

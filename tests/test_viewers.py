"""What GitHub shows of a saved notebook: pictures, and HTML of which style, scripts and unknown tags are stripped."""

from __future__ import annotations

import html
import json
import re
from base64 import b64decode
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from npuprof.profiles.profile import Profile
from npuprof.sources.base import Decoded
from npuprof.tables.notes import Notes
from tests import factories

_FOLDER = Path(__file__).parent.parent / "notebooks"
_PATHS = sorted(_FOLDER.rglob("*.ipynb"))
_PLOTLY = "application/vnd.plotly.v1+json"
_PICTURES = {"image/svg+xml", "image/png"}
_EMBEDDED = r'<img [^>]*src="data:image/svg\+xml;base64,([^"]+)"'

# Tags that GitHub keeps of HTML; it drops the contents of these two. Attributes that style or act are none of them.
_KEPT = frozenset(
    [
        *("h1", "h2", "h3", "h4", "h5", "h6", "br", "b", "i", "strong", "em", "a", "pre", "code", "img", "tt", "div"),
        *("ins", "del", "sup", "sub", "p", "ol", "ul", "table", "thead", "tbody", "tfoot", "blockquote", "dl", "dt"),
        *("dd", "kbd", "q", "samp", "var", "hr", "li", "tr", "td", "th", "s", "strike", "summary", "details"),
        *("caption", "figure", "figcaption", "abbr", "mark", "small", "span", "time", "wbr"),
    ]
)
_DROPPED = ("script", "style")


class _Stripped(HTMLParser):
    """The text of HTML as GitHub shows it; blocks and cells are separated."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.text, self._skipped = "", 0
        self.feed(content)
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self._skipped += tag in _DROPPED
        if tag in ("div", "p", "tr", "td", "th", "br", "li", "pre", "summary"):
            self.text += "\n"

    def handle_endtag(self, tag: str) -> None:
        self._skipped -= tag in _DROPPED

    def handle_data(self, data: str) -> None:
        self.text += "" if self._skipped else data


def _outputs(path: Path) -> list[dict[str, Any]]:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [output.get("data", {}) for cell in cells for output in cell.get("outputs", ())]


def _text(value: Any) -> str:
    return "".join(value) if isinstance(value, list) else str(value)


@pytest.mark.parametrize("path", _PATHS, ids=[path.stem for path in _PATHS])
def test_each_notebook_has_pictures_that_github_shows(path: Path) -> None:
    outputs = _outputs(path)
    pictures = [data for data in outputs if _PICTURES & data.keys()]
    embedded = [re.findall(_EMBEDDED, _text(data.get("text/html", ""))) for data in outputs]
    drawings = [b64decode(picture) for found in embedded for picture in found]
    assert pictures or drawings
    assert [data for data in outputs if _PLOTLY in data and not _PICTURES & data.keys()] == []
    drawings += [_text(data["image/svg+xml"]).encode() for data in pictures if "image/svg+xml" in data]
    for drawing in drawings:
        drawn = ElementTree.fromstring(drawing)
        assert {one.tag.rpartition("}")[2] for one in drawn.iter()}.isdisjoint({"script", "style", "image", "a"})


@pytest.mark.parametrize("path", _PATHS, ids=[path.stem for path in _PATHS])
def test_html_in_a_notebook_says_the_same_without_style(path: Path) -> None:
    for data in _outputs(path):
        if "text/html" not in data:
            continue
        content = _text(data["text/html"])
        shown = _Stripped(content).text
        assert re.search(r"[{;]\s*(color|margin|display|max-height)\s*:", shown) is None  # no style reads as text
        for word in ("simulated NPU", "Why?", "idle"):
            assert (word in shown) == (
                word in html.unescape(re.sub(r"(?s)<(style|script)\b.*?</\1>|<[^>]*>", "", content))
            )


def test_key_figures_and_parts_of_a_report_are_apart_without_style() -> None:
    run = Profile(Decoded(factories.profile(40), factories.info(), Notes(), {}))
    content = run._repr_html_()
    assert set(re.findall(r"<(\w+)", content)) <= _KEPT | {"style"}
    shown = _Stripped(content).text
    assert re.search(r"(computing|idle|communication) [\d.]+ %", shown)  # a part beside its share, with a space

"""The pages of the project: short where they should be, and every link of theirs leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

_ROOT = Path(__file__).parents[1]
_PAGES = sorted([*_ROOT.glob("*.md"), *(_ROOT / "notebooks").rglob("*.md")])
_PICTURE = _ROOT / "notebooks" / "reference" / "timeline.svg"
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_FILE = re.compile(r"`((?:npuprof|tests|notebooks)/[\w./-]+)`")


def _missing(text: str, folder: Path) -> list[str]:
    links = [folder / link for link in _LINK.findall(text) if not link.startswith("https://")]
    named = [_ROOT / name for name in _FILE.findall(text)]
    return [str(path.relative_to(_ROOT)) for path in (*links, *named) if not path.exists()]


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: page.name)
def test_every_link_and_every_file_that_a_page_names_is_there(page: Path) -> None:
    assert _missing(page.read_text(encoding="utf-8"), page.parent) == []


def test_what_leads_nowhere_would_be_found_out() -> None:
    text = "[here](README.md), [there](nowhere.md), `npuprof/nothing.py`, `npuprof/tables.py`"
    assert _missing(text, _ROOT) == ["nowhere.md", "npuprof/nothing.py"]


def test_the_readme_can_be_read_in_a_minute() -> None:
    assert len((_ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120


def test_its_picture_is_small_says_that_it_is_simulated_and_refers_to_nothing_outside() -> None:
    text = _PICTURE.read_text(encoding="utf-8")
    assert len(text) <= 60_000
    assert "simulated NPU" in "".join(ElementTree.fromstring(text).itertext())
    assert re.search(r"href|src=|url\(|<script|<style|@import", text) is None

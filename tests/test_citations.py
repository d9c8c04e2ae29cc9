"""What the code cites is there: each document, and each section of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[1]
_FOLDERS = ("npuprof", "tests", "notebooks")
_DOCUMENT = re.compile(r"[\w/.-]*\w\.md\b")
_OF_EXAMPLES = ("test_citations.py", "test_pages.py")  # citations and links that are wrong on purpose
_OF_THE_SAMPLES = ("INVENTORY.md",)
_NUMBER = r"\d+(?:\.\d+)?"
_SECTIONS = re.compile(rf"(?P<document>[\w/]+\.md),? sections? (?P<numbers>{_NUMBER}(?:(?:,|,? and| to) {_NUMBER})*)")
_NOT_OURS = re.compile(r"\b(formats|seeds)/|\b(design|answers|known-issues)\b\.md")


@cache
def _documents() -> dict[str, Path]:
    found = [path for folder in _FOLDERS for path in (_ROOT / folder).rglob("*.md")] + list(_ROOT.glob("*.md"))
    return {path.relative_to(_ROOT).as_posix(): path for path in found}


@cache
def _cited(name: str) -> Path | None:
    """Return the document that a citation names by its path, or by the end of it."""
    matches = [path for place, path in _documents().items() if f"/{place}".endswith(f"/{name.removeprefix('../')}")]
    return matches[0] if len(matches) == 1 else None


def _citing() -> Iterator[tuple[str, str]]:
    """Iterate over files that may cite, with their text on one line: citations go on over ends of lines."""
    files = [path for folder in _FOLDERS for suffix in ("py", "md") for path in (_ROOT / folder).rglob(f"*.{suffix}")]
    for path in sorted(files):
        if path.name not in _OF_EXAMPLES:
            text = re.sub(r"\s*\n\s*(#:? )?", " ", path.read_text(encoding="utf-8"))
            yield path.relative_to(_ROOT).as_posix(), re.sub(r" \([^()]*\)", "", text)


def _missing(text: str) -> list[str]:
    found = [name for name in _DOCUMENT.findall(text) if name not in _OF_THE_SAMPLES and _cited(name) is None]
    found += [match.group() for match in _NOT_OURS.finditer(text)]
    for match in _SECTIONS.finditer(text):
        document = _cited(match["document"])
        if document is not None:
            there = set(re.findall(rf"^#+ ({_NUMBER})\.? ", document.read_text(encoding="utf-8"), re.MULTILINE))
            wanted = re.findall(_NUMBER, match["numbers"])
            found += [f"{match['document']} section {number}" for number in wanted if number not in there]
    return found


@pytest.mark.long
def test_every_cited_document_and_section_is_there() -> None:
    missing = {path: found for path, text in _citing() if (found := _missing(text))}
    assert missing == {}


@pytest.mark.slow
def test_most_decoders_cite_their_specification() -> None:
    assert sum(len(_SECTIONS.findall(text)) for _, text in _citing()) > 150


@pytest.mark.parametrize(
    "text",
    ["Source: raw/NOTHING.md section 1.", "Source: raw/FORMAT.md section 12.", "sources/RESULTS.md sections 1 to 9.9",
     "raw/FORMAT.md, section 4.9", "as formats/raw.md says", "``seeds/001``"],
)  # fmt: skip
def test_what_is_not_there_would_be_found_out(text: str) -> None:
    assert _missing(text)


def test_every_function_of_the_two_walks_is_there() -> None:
    guide = (_ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    walks = re.sub(r"\s+", " ", guide.partition("### Two walks")[2].partition("###")[0])
    steps = re.findall(r"`(\w+)` in `([\w/]+\.py)`", walks)
    assert len(steps) >= 12
    for name, module in steps:
        source = (_ROOT / "npuprof" / module).read_text(encoding="utf-8")
        assert re.search(rf"^ *(def |class )?{name}\b", source, re.MULTILINE), f"{module} has no {name}"

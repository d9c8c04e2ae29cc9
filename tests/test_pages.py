"""The pages of the project: short where they should be, and every link of theirs leads somewhere."""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[1]
_PAGES = sorted([*_ROOT.glob("*.md"), *(_ROOT / "notebooks").rglob("*.md")])
_PICTURES = _ROOT / "notebooks" / "pictures"
_LINK = re.compile(r"""(?:\]\(|src(?:set)?=")([^)\s"]+)""")
_FILE = re.compile(r"`((?:npuprof|tests|notebooks)/[\w./-]+)`")


def _missing(text: str, folder: Path) -> list[str]:
    links = [folder / link for link in _LINK.findall(text) if not link.startswith("https://")]
    named = [_ROOT / name for name in _FILE.findall(text)]
    return [str(path.relative_to(_ROOT)) for path in (*links, *named) if not path.exists()]


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: page.name)
def test_every_link_and_every_file_that_a_page_names_is_there(page: Path) -> None:
    assert _missing(page.read_text(encoding="utf-8"), page.parent) == []


def test_what_leads_nowhere_would_be_found_out() -> None:
    text = "[here](README.md), [there](nowhere.md), `npuprof/nothing.py`, `npuprof/errors.py`"
    assert _missing(text, _ROOT) == ["nowhere.md", "npuprof/nothing.py"]


def test_the_readme_can_be_read_in_a_minute() -> None:
    assert len((_ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 110


@pytest.mark.parametrize("name", json.loads((_PICTURES / "labels.json").read_text("utf-8")))
def test_picture_is_small_and_has_a_dark_twin(name: str) -> None:
    sizes = []
    for theme in ("light", "dark"):
        content = (_PICTURES / f"{name}-{theme}.png").read_bytes()
        assert len(content) <= 150_000
        sizes.append(struct.unpack(">I", content[16:20]))  # the width in a PNG's header
    assert sizes[0] == sizes[1]
    shown = "".join(page.read_text("utf-8") for page in _PAGES)
    assert f"pictures/{name}-light.png" in shown
    assert f"pictures/{name}-dark.png" in shown


def test_pictures_come_from_their_tests() -> None:
    names = json.loads((_PICTURES / "labels.json").read_text("utf-8"))
    files = {path.name for path in _PICTURES.glob("*.png")}
    assert files == {f"{name}-{theme}.png" for name in names for theme in ("light", "dark")}


@pytest.mark.parametrize("notebook", sorted((_ROOT / "notebooks").rglob("*.ipynb")), ids=lambda notebook: notebook.stem)
def test_every_link_of_a_notebook_is_there(notebook: Path) -> None:
    cells = json.loads(notebook.read_text("utf-8"))["cells"]
    text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    assert _missing(text, notebook.parent) == []


def test_contributors_read_about_each_room() -> None:
    page = (_ROOT / "CONTRIBUTING.md").read_text("utf-8")
    rows = re.findall(
        r"^\| (`.*?) \|", page.partition("| room | what is in it |")[2].partition("\n\n")[0], re.MULTILINE
    )
    told = {name for row in rows for name in re.findall(r"`([\w/.]+)`", row)}
    package = _ROOT / "npuprof"
    rooms = {f"{path.name}/" for path in package.iterdir() if (path / "__init__.py").exists()}
    files = {path.name for path in package.glob("[a-z]*.py")}
    assert told == rooms | files

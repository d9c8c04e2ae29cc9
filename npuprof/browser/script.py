"""The scripts of the views, and their style: one module for a live view and a saved page."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from npuprof.browser.packing import as_text, deflated

_SCRIPTS = Path(__file__).parent / "scripts"
_PARTS = (
    "menu.js",
    "base.js",
    "base85.js",
    "packed.js",
    "run.js",
    "answers.js",
    "store.js",
    "counters.js",
    "link.js",
    "layout.js",
    "draw.js",
    "keys.js",
    "panels.js",
    "room.js",
    "export.js",
    "timeline.js",
    "calltree.js",
    "flame.js",
    "flametab.js",
    "rows.js",
)
_GRID = "export default { render };"

_COMMENT = re.compile(r"^[ \t]*(?:/\*\*(?:(?!\*/).)*\*/|//[^\n]*)[ \t]*\n", re.MULTILINE | re.DOTALL)
_REMARK = re.compile(r"[ ]{2}//[^\n\"'`]*$", re.MULTILINE)  # behind code
_CAST = re.compile(r"/\*\* @(?:type|returns) (?:(?!\*/).)*\*/[ \t]*")
_TEXT = re.compile(r'("(?:[^"\\]|\\.)*")')
_SPACED = re.compile(r" ?(=>|[-+*%&|^!=<>?]?=+|&&|\|\||\?\??|[,;:*<>{}()\[\]&|]) ?")
_OTHER_TEXT = re.compile(r"['`]|[=(,!|&?:] ?/")  # or a regular expression
_INDENT = re.compile(r"^[ \t]+", re.MULTILINE)


def commented_script(*, with_grid: bool = True) -> str:
    """Return the module of a live view: plain scripts in one scope; only the last one exports names."""
    return f"{_views(with_grid=with_grid)}\n{_joined(('live.js', 'main.js'))}"


def commented_saved_script(*, with_grid: bool = True) -> str:
    """Return the script of a saved page: the views, and what answers them from the data of the page."""
    return f"{_views(with_grid=with_grid)}\n{_joined(('saved.js',))}"


def _views(*, with_grid: bool) -> str:
    """Return what both have; the grid's script has no types: without it the rest can be checked."""
    grid = _joined(("grid.js",)).replace(_GRID, "return render;")
    grid = f"(() => {{\n{grid}\n}})()" if with_grid else "/** @type {any} */ (null)"
    return f"{_joined(_PARTS)}\nconst gridRender = {grid};"


@cache
def grid_script() -> str:
    """Return the module of a grid whose pages the kernel makes."""
    return _joined(("menu.js", "base.js", "grid.js"))


@cache
def script() -> str:
    """Return the module of a live view without comment lines and indentation, as it is sent to pages."""
    return _shortened(commented_script())


@cache
def saved_script() -> str:
    """Return the script of a saved page, as :func:`script`; nothing of it is visible to other scripts."""
    return f'(() => {{"use strict";\n{_shortened(commented_saved_script())}\n}})();'


@cache
def unpacking_script() -> str:
    """Return the script that unpacks :func:`packed_program` and runs it."""
    return f'(() => {{"use strict";\n{_shortened(_joined(("base85.js", "unpack.js")))}}})();'


@cache
def packed_program() -> str:
    """Return style and script of a saved page, deflated, as text: about a third of their size."""
    return as_text(deflated(f"{saved_style()}\0{saved_script()}".encode()))


@cache
def style() -> str:
    """Return the style of the live views."""
    return _joined(("canvas.css", "grid.css"))


@cache
def grid_style() -> str:
    return _joined(("grid.css",))


@cache
def saved_style() -> str:
    """Return the style of a saved page."""
    return _INDENT.sub("", _joined(("canvas.css", "grid.css", "saved.css")))


def _joined(parts: tuple[str, ...]) -> str:
    return "\n".join((_SCRIPTS / part).read_text(encoding="utf-8") for part in parts)


def _shortened(text: str) -> str:
    text = _INDENT.sub("", _REMARK.sub("", _CAST.sub("", _COMMENT.sub("", text))))
    return "\n".join(line if _OTHER_TEXT.search(line) else _squeezed(line) for line in text.split("\n"))


def _squeezed(line: str) -> str:
    """Return a line of a script without spaces around marks, except in its texts."""
    parts = _TEXT.split(line)
    return "".join(part if number % 2 else _SPACED.sub(r"\1", part) for number, part in enumerate(parts))

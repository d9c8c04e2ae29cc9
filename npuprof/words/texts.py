"""Texts from outside, such as file names, made valid for every file, message and display."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from typing import Any

AS_TEXT = "mathjax_ignore tex2jax_ignore"
"""Classes that keep MathJax, which notebooks run over every HTML output, from reading names as formulas."""

KEYS = "npuprof-keys"
"""The class of an output whose keys do not reach the notebook: see ``notebook/keys.js``."""

_CELL_NUMBER, _CELL_ID = re.compile(r"[0-9]{1,9}"), re.compile(r"[A-Za-z0-9_-]{1,64}")  # as nbformat has ids
_MOST_CELLS = 200

# A JSON escape: a surrogate pair, a lone surrogate, or any other. An escaped backslash starts no further escape.
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)

# Control characters, line ends, and marks that change the direction of the surrounding text.
_ACTING = r"\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f"
_IN_A_LINE = re.compile(f"[{_ACTING}]+")
_IN_LINES = re.compile(rf"(?!\n)[{_ACTING}]")
_BYTES = re.compile(r"[\udc80-\udcff]")  # bytes of a file name that are not UTF-8, as Python represents them


class LongText(ABC):
    """An object that `print` and a notebook show as a text of several lines; its repr, as in a list, is one line."""

    @abstractmethod
    def _one_line(self) -> str:
        """Return the description, in one line."""

    @abstractmethod
    def __str__(self) -> str: ...

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {plain_line(self._one_line())}>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Show the text in a terminal of IPython and in a notebook, within a container the one line."""
        printer.text(repr(self) if cycle or len(printer.stack) > 1 else str(self))


def cell_classes(cells: Mapping[str, str]) -> list[str]:
    """Return the classes of an output that names cells: their numbers and ids, for ``notebook/cells.js``."""
    known = [
        f"npuprof-cell-{number}-{id_}"
        for number, id_ in cells.items()
        if _CELL_NUMBER.fullmatch(number) and _CELL_ID.fullmatch(id_)
    ]
    return known[:_MOST_CELLS]


def did_you_mean(words: Iterable[str], known: Collection[str]) -> str:
    """Return ``" (did you mean level?)"`` for misspelt words; empty if nothing is alike."""
    dashed = {name.lstrip("-"): name for name in known}  # alike dashes are no likeness
    alike = [dashed[near] for word in words for near in get_close_matches(word.lstrip("-"), dashed, 1, cutoff=0.7)]
    return f" (did you mean {', '.join(dict.fromkeys(alike))}?)" if alike else ""


def encodable(text: str) -> str:
    r"""Return a text that UTF-8 can encode: bytes of file names become ``\xff``, surrogates ``\ud800``."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        shown = _BYTES.sub(lambda match: f"\\x{ord(match[0]) - 0xDC00:02x}", text)
        return shown.encode("utf-8", "backslashreplace").decode()
    return text


def plain_line(text: str) -> str:
    """Return a text as one line, without terminal control characters."""
    return _IN_A_LINE.sub(" ", encodable(text))


def plain_lines(text: str) -> str:
    """Return a text with its line ends, but without other terminal control characters."""
    return _IN_LINES.sub(" ", encodable(text))


def repaired(plain: Any) -> Any:
    """Return JSON values with all texts made :func:`encodable`."""
    if isinstance(plain, str):
        return encodable(plain)
    if isinstance(plain, dict):
        return {repaired(key): repaired(value) for key, value in plain.items()}
    if isinstance(plain, list):
        return list(map(repaired, plain))
    return tuple(map(repaired, plain)) if isinstance(plain, tuple) else plain


def repaired_json(content: bytes) -> bytes:
    """Return JSON text with invalid UTF-8 and lone surrogate escapes replaced by U+FFFD."""
    content = content.decode("utf-8", "replace").encode()
    if b"\\ud" not in content and b"\\uD" not in content:
        return content
    return _ESCAPE.sub(lambda match: b"\\ufffd" if match[1] else match[0], content)


def json_or_text(text: Any) -> Any:
    """Return the parsed JSON of a vendor's text, or the text itself."""
    try:
        return repaired(json.loads(text))
    except (TypeError, ValueError, RecursionError):
        return text

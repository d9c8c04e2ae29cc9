"""Texts from outside, such as file names, in a form that is valid in every file, message and display."""

from __future__ import annotations

import json
import re
from typing import Any

# An escape of JSON: a pair of surrogates, a lone one, or any other, of which an escaped backslash begins no other.
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)

# Control characters, line ends, and marks that turn the direction of the text around them.
_ACTING = r"\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f"
_IN_A_LINE = re.compile(f"[{_ACTING}]+")
_IN_LINES = re.compile(rf"(?!\n)[{_ACTING}]")
_KERNEL_CELL = re.compile(r"ipykernel_\d+[\\/]\d+\.py$")
_TERMINAL_CELL = re.compile(r"<ipython-input-(\d+)-\w+>$")
_BYTES = re.compile(r"[\udc80-\udcff]")  # bytes of a file name that are no UTF-8, as Python reads them


def encodable(text: str) -> str:
    r"""Return a text without what UTF-8 cannot hold: such a byte of a file name as ``\xff``, a surrogate as ``\ud800``.

    Parameters
    ----------
    text
        Any text; one that is sound, as nearly every one, comes back as it is.
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        shown = _BYTES.sub(lambda match: f"\\x{ord(match[0]) - 0xDC00:02x}", text)
        return shown.encode("utf-8", "backslashreplace").decode()
    return text


def plain_line(text: str) -> str:
    """Return a text as one line without characters that act on a terminal."""
    return _IN_A_LINE.sub(" ", encodable(text))


def plain_lines(text: str) -> str:
    """Return a text with its line ends, without other characters that act on a terminal."""
    return _IN_LINES.sub(" ", encodable(text))


def repaired(plain: Any) -> Any:
    """Return JSON values with every text made :func:`encodable`."""
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


def cell_name(file: str) -> str:
    """Return what to call the code of a cell of IPython, ``<cell>``; an empty text for any other file."""
    if terminal := _TERMINAL_CELL.match(file):
        return f"<cell [{terminal[1]}]>"
    return "<cell>" if _KERNEL_CELL.search(file) else ""

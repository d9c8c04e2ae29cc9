"""Text that every file and terminal takes: halves of characters are written out where text comes in."""

from __future__ import annotations

from typing import Any


def encodable(text: str) -> str:
    """Return a text with each lone surrogate, which no encoding has, written as the escape of its number."""
    if text.isascii():  # the usual case, and the quickest
        return text
    return text.encode("utf-8", "backslashreplace").decode()


def repaired(plain: Any) -> Any:
    """Return what JSON holds with every text in it, names of fields among them, made :func:`encodable`."""
    if isinstance(plain, str):
        return encodable(plain)
    if isinstance(plain, dict):
        return {repaired(key): repaired(value) for key, value in plain.items()}
    if isinstance(plain, (list, tuple)):
        return type(plain)(map(repaired, plain))
    return plain

"""Mend the text of one event that is not valid JSON, where only one reading makes sense.

Writers put names, paths and numbers into a timeline as they are: with backslashes, quotes and control characters in
strings, with ``inf`` and ``-nan(ind)`` as C prints them, and with bytes that are no UTF-8.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec

from npuprof.words.texts import repaired_json

_BYTES = "a text has bytes that are not UTF-8, or half of a surrogate pair; each is read as U+FFFD"
_NUMBERS = "a value is inf or nan, which JSON does not have; taken as absent"
_STRINGS = "a text has backslashes or control characters that its writer did not escape; they are read as text"
_QUOTES = "a name has quotes that its writer did not escape; they are read as text"
MENDED = (_BYTES, _NUMBERS, _STRINGS, _QUOTES)
"""The notes on repairs, worded for one event."""

_STRING = rb'"(?:[^"\\]|\\.)*"'
_TOKENS = re.compile(
    _STRING + rb"|([:\[,]\s*)[-+]?(?:nan(?:\(\w*\))?|inf(?:inity)?|1\.#\w+)(?=\s*[,\]}])", re.DOTALL | re.IGNORECASE
)
_STRINGS_ALONE = re.compile(_STRING, re.DOTALL)
# A name ends where the next key of its event begins, and has no keys itself.
_NAME = re.compile(
    rb'("name"\s*:\s*")((?:(?!"\w+"\s*:).)*?)("\s*,\s*"(?:ph|cat|pid|tid|ts|dur|id|s|args)"\s*:)', re.DOTALL
)
_ESCAPE = re.compile(rb'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})')
_BACKSLASH = re.compile(rb'\\\\|\\"|\\', re.DOTALL)
_QUOTE = re.compile(rb'\\.|"', re.DOTALL)
_CONTROL = re.compile(rb"[\x00-\x1f]")
_LOST_BLOCK = re.compile(rb"\x00{8}")  # many zeros are no text: a block of the file is lost


class Mended(NamedTuple):
    """A text, and what was mended in it: messages of :data:`MENDED`."""

    text: bytes
    repairs: tuple[str, ...]


def mended(piece: bytes) -> Iterator[Mended]:
    """Yield texts that may be what the writer of an event meant, the least changed first."""
    repairs: list[str] = []
    text = piece
    for change, repair in ((repaired_json, _BYTES), (_with_numbers, _NUMBERS), (_with_strings, _STRINGS)):
        changed = change(text)
        if changed != text:
            repairs.append(repair)
            text = changed
            yield Mended(text, tuple(repairs))
    named = _NAME.sub(_escaped_name, _with_numbers(repaired_json(piece)), count=1)
    changed = _with_strings(named)
    if changed != text:
        yield Mended(changed, (*(repair for repair in repairs if repair != _STRINGS), _QUOTES))


def decoded_mended(raw: bytes, decode: Callable[[bytes], Any]) -> Any:
    """Decode a text, mended if it must be."""
    try:
        return decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        for attempt in mended(raw):
            try:
                return decode(attempt.text)
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue
        raise error


def _with_numbers(text: bytes) -> bytes:
    return _TOKENS.sub(lambda match: match[0] if match[1] is None else match[1] + b"null", text)


def _with_strings(text: bytes) -> bytes:
    return _STRINGS_ALONE.sub(lambda match: _escaped(match[0]), text)


def _escaped(string: bytes) -> bytes:
    """Escape the backslashes of a string in which one makes no escape, and control characters."""
    if _LOST_BLOCK.search(string):
        return string
    if b"\\" in string and b"\\" in _ESCAPE.sub(b"", string):
        # A writer that leaves one backslash as it is leaves all: C:\users\new has no line end.
        string = _BACKSLASH.sub(lambda match: match[0] if len(match[0]) > 1 else b"\\\\", string)
    return _CONTROL.sub(lambda match: b"\\u%04x" % match[0][0], string)


def _escaped_name(match: re.Match[bytes]) -> bytes:
    name = match[2]
    if len(name) - len(name.rstrip(b"\\")) & 1:  # the last backslash escapes the closing quote
        name = _BACKSLASH.sub(lambda pair: b"\\\\" if len(pair[0]) == 1 else pair[0], name)
    name = _QUOTE.sub(lambda pair: b'\\"' if pair[0] == b'"' else pair[0], name)
    return match[1] + name + match[3]

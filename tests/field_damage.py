"""Damage to one field of a small file of JSON: every place of it, and what may stand there."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

_DEEP = 100_000  # beyond what any Python decodes
_LESS_DEEP = 20_000  # what Python 3.14 decodes, and nothing in Python can walk
WRONG = {  # as JSON text; nothing at all for a field that is not there
    "nothing": "",
    "null": "null",
    "true": "true",
    "a negative number": "-1",
    "a number of 70 bits": str(1 << 70),
    "a number of 5,000 digits": "9" * 5_000,
    "a fraction": "1.5",
    "no number": "NaN",
    "a number beyond all": "1e999",
    "no text": '""',
    "text": '"x"',
    "text of 20 digits": '"99999999999999999999"',
    "half a character": r'"\ud800"',
    "a list": "[]",
    "a list of a number": "[1]",
    "a list of a list": "[[null]]",
    "an object": "{}",
    "an object of a number": '{"a": 1}',
    "an object of mixed things": '{"x": [1, "y", null, {"z": 1.5}]}',
    "a nest": "[" * _DEEP + "]" * _DEEP,
    "a nest that is not as deep": "[" * _LESS_DEEP + "]" * _LESS_DEEP,
}


def places(plain: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    children = plain.items() if isinstance(plain, dict) else enumerate(plain) if isinstance(plain, list) else ()
    for key, value in children:
        yield (*place, key)
        yield from places(value, (*place, key))


def damaged(plain: Any, place: tuple[Any, ...], value: str) -> str:
    """Return the JSON text with another value in a place, or without it where there is none."""
    after = around = copy.deepcopy(plain)
    for key in place[:-1]:
        around = around[key]
    if not value:
        with suppress(KeyError):  # it lacks a key that was asked for
            del around[place[-1]]
        return json.dumps(after)
    around[place[-1]] = "the damaged value"
    return json.dumps(after).replace('"the damaged value"', value)

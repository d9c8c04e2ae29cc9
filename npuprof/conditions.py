"""Conditions as text: one grammar for rows, filters of columns, gates and limits of exit codes.

::

    condition  = comparison, { "and", comparison } ;
    comparison = side, sign, side ;
    sign       = "<" | "<=" | ">" | ">=" | "=" | "==" | "!=" | "~" ;
    side       = factor, { "*", factor } ;
    factor     = name | quantity | range | text ;
    quantity   = number, [ unit ] ;
    range      = number, "..", quantity ;
    text       = word | quoted text | "/", regular expression, "/", [ "i" ] ;

``≤``, ``≥`` and ``≠`` are signs, too. Of texts ``=`` and ``!=`` mean the whole text and ``~`` a part of it in any case.
Products are for gates, texts and ranges for columns. The filter of a column leaves out the left side. Nothing is
evaluated as code.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from npuprof.errors import OptionsError

TIMES: Mapping[str, int] = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "min": 60 * 10**9,
}
"""Nanoseconds of each unit of time."""

SIZES: Mapping[str, int] = {
    "B": 1,
    **{f"{prefix}iB": 1 << shift for prefix, shift in (("K", 10), ("M", 20), ("G", 30), ("T", 40))},
    **{f"{prefix}B": 10**power for prefix, power in (("k", 3), ("K", 3), ("M", 6), ("G", 9), ("T", 12))},
}
"""Bytes of each unit of size."""

SIGNS: Mapping[str, Callable[[Any, Any], Any]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}
"""The comparison of each sign but ``~``."""

LONGEST = 1_000
"""The characters of the longest condition."""

_SAME = {"≥": ">=", "≤": "<=", "≠": "!=", "=": "=="}
_SIGN = "<=|>=|==|!=|[≤≥≠<>=~]"
_PLAIN = r"(?:(?!(?<!\S)and(?!\S))[^\"'<>=!~≤≥≠])+?"
_COMPARISON = re.compile(
    rf"\s*(?P<left>{_PLAIN})\s*(?P<sign>{_SIGN})\s*"
    rf"(?P<right>\"[^\"]*\"|'[^']*'|/.+?/i?(?!\S)|{_PLAIN})\s*(?P<end>(?<!\S)and(?!\S)|$)"
)
_NUMBER = r"[+-]?(?:\d[\d,_]*(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d{1,2})?"
_QUANTITY = re.compile(rf"(?P<number>{_NUMBER})\s*(?P<unit>[^\W\d]+|%)?")
_SIGNED = re.compile(rf"(?P<sign>{_SIGN})?\s*(?P<rest>.*)", re.DOTALL)


@dataclass(frozen=True)
class Comparison:
    """A comparison as written, its sides without spaces around them."""

    left: str
    sign: str
    right: str

    def __str__(self) -> str:
        """Return the comparison on one line."""
        return " ".join(f"{self.left} {self.sign} {self.right}".split())


@dataclass(frozen=True)
class Quantity:
    """A number with the unit after it; empty for none."""

    number: Decimal
    unit: str

    @classmethod
    def of(cls, text: str) -> Quantity | None:
        """Read a quantity; None if the text is none."""
        match = _QUANTITY.fullmatch(text.strip())
        if match is None:
            return None
        return cls(Decimal(match["number"].replace(",", "").replace("_", "")), match["unit"] or "")


def comparisons(text: str, kind: str, example: str) -> list[Comparison]:
    """Split a condition into its comparisons."""
    if len(text) > LONGEST:
        raise OptionsError(f"a {kind} has at most {LONGEST:,} characters, and this one has {len(text):,}")
    found, place = [], 0
    while True:
        match = _COMPARISON.match(text, place)
        if match is None:
            rest = text[place:].strip()[:20]
            where = f"cannot be read from {rest!r} on" if rest else "ends where a comparison should follow"
            raise refusal(text, kind, where, example)
        found.append(Comparison(match["left"], _SAME.get(match["sign"], match["sign"]), match["right"]))
        place = match.end()
        if not match["end"]:
            return found


def signed(text: str) -> tuple[str, str]:
    """Return the sign that a filter of a column begins with, empty for none, and what follows."""
    match = _SIGNED.fullmatch(text.strip())
    sign, rest = (match["sign"] or "", match["rest"]) if match else ("", text)
    return _SAME.get(sign, sign), rest


def unquoted(text: str) -> str:
    """Return a text without the quotes around it."""
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


def refusal(text: str, kind: str, reason: str, example: str) -> OptionsError:
    """Return the error for a text that is no condition, with a valid example."""
    return OptionsError(f"{' '.join(text.split())!r} is no {kind}: it {reason}. Such as: {example}")

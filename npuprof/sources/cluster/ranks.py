"""Sets of ranks as the vendor writes them: ``(0, 1, 2)`` in text, ``[0, 1, 2]`` in JSON.

Source: sources/RESULTS.md section 6.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

MAX_RANK = 1_000_000
_MAX_TEXT = 1 << 20
_SET = re.compile(r"[\s\d,()\[\]]+")
_NUMBER = re.compile(r"\d{1,7}")


def rank_of(value: Any) -> int | None:
    """Return a rank that is a number or the text of one; None for anything else, as for -1 and 4294967295."""
    if isinstance(value, str):
        text = value.strip()
        value = int(text) if _NUMBER.fullmatch(text) else None
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and 0 <= value < MAX_RANK else None


def ranks_of(value: Any) -> list[int]:
    """Return the ranks of a set: of a list, or of a text such as ``(0, 1)``; none for anything else."""
    if isinstance(value, str):
        if len(value) > _MAX_TEXT or not _SET.fullmatch(value):
            return []
        value = _NUMBER.findall(value)
    parts = value if isinstance(value, list) else [value]
    return [rank for part in parts if (rank := rank_of(part)) is not None]


def as_text(ranks: Iterable[int]) -> str | None:
    """Write a set as ``0, 1, 2``; None for an empty one."""
    return ", ".join(map(str, ranks)) or None

"""The ranks that a place names."""

from __future__ import annotations

import re


def ranks_in(words: str) -> set[int]:
    """Return the ranks that a place names: ``ranks 0-7, 9``."""
    ranks: set[int] = set()
    for low, high in re.findall(r"(\d+)(?:-(\d+))?", words):
        ranks |= set(range(int(low), int(high or low) + 1))
    return ranks

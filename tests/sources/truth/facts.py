"""How a fact about a file is checked against the tables that were read of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import pandas as pd

from npuprof.profiles.profile import Profile
from npuprof.sources.columns.decimals import US_TO_NS, scaled_one

Check: TypeAlias = Callable[[Profile, Any], None]
Facts: TypeAlias = Mapping[str, Check | str]
"""By the key of a fact: how to check its value, or in words why no table answers it."""


@dataclass(frozen=True)
class Family:
    """Files of one kind.

    Attributes
    ----------
    pattern
        A regular expression that the paths of these files match in full, and those of no other family.
    facts
        What is known of them.
    whole
        Whether the directory around the file's own is read, or the file alone.
    """

    pattern: str
    facts: Facts
    whole: bool = False


def from_us(value: float | str) -> int:
    """Return nanoseconds of a number of microseconds."""
    exact = scaled_one(str(value), US_TO_NS)
    assert exact is not None
    return exact


def equal(found: Any, known: Any) -> None:
    """Assert that two values are the same; a function, for checks that are expressions."""
    assert found == known


def longest(frame: pd.DataFrame, by: str, count: int = 5) -> list[list[Any]]:
    """Return the groups of the longest total time: name, nanoseconds, rows; an absent name is N/A."""
    names = frame[by].astype(object).where(frame[by].notna(), "N/A")
    sums = frame.groupby(names)["duration_ns"].agg(["sum", "size"])
    ordered = sums.sort_values("sum", ascending=False, kind="stable").head(count)
    return [[name, int(total), int(size)] for name, total, size in ordered.itertuples()]


def close(found: list[list[Any]], known: list[list[Any]]) -> None:
    """Assert the same groups; a timeline's durations have parts of a nanosecond, each of which is rounded here."""
    assert [[name, size] for name, _, size in found] == [[name, size] for name, _, size in known]
    for (_, total, size), (_, expected, _) in zip(found, known, strict=True):
        assert abs(total - expected) <= size / 2 + 5


def in_ns(rows: list[list[Any]]) -> list[list[Any]]:
    """Return rows of name, microseconds and count with nanoseconds."""
    return [[name, from_us(total), size] for name, total, size in rows]

"""Lines of two versions of a text, matched: which are the same, which changed in place, which were added or removed."""

from __future__ import annotations

import difflib
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence

_MOST_MATCHING = 1_000_000  # steps of difflib: lines that occur often take it the cube of their number


def matched_lines(now: Sequence[str], before: Sequence[str]) -> Iterator[tuple[int | None, int | None]]:
    """Yield the number of each line now and before, in order, from 1; None where there is no such line.

    Lines that are unique on both sides, and in the same order, divide the text; what is between two of them is matched
    by difflib, or line by line where lines that repeat would take it long. Lines that changed are matched by place.
    """
    old = new = 0
    for first, last, start, end in _differing_stretches(before, now):
        for place in range(first - old):
            yield new + place + 1, old + place + 1
        for place in range(max(last - first, end - start)):
            yield (
                start + place + 1 if start + place < end else None,
                first + place + 1 if first + place < last else None,
            )
        old, new = last, end
    for place in range(len(before) - old):
        yield new + place + 1, old + place + 1


def changed_lines(now: Sequence[str], before: Sequence[str]) -> list[tuple[int | None, int | None]]:
    """Return the matched lines that differ, without those that are blank on both sides."""

    def text(lines: Sequence[str], number: int | None) -> str:
        return "" if number is None else lines[number - 1]

    return [
        pair
        for pair in matched_lines(now, before)
        if (first := text(now, pair[0])) != (second := text(before, pair[1])) and (first.strip() or second.strip())
    ]


def _differing_stretches(before: Sequence[str], now: Sequence[str]) -> Iterator[tuple[int, int, int, int]]:
    """Yield the stretches of lines that differ: first and end before, first and end now."""
    old = new = 0
    for place, place_now in [*_common_lines(before, now), (len(before), len(now))]:
        left, right = before[old:place], now[new:place_now]
        count = Counter(right)
        if sum(count[line] for line in left) * min(len(left), len(right)) > _MOST_MATCHING:
            yield old, place, new, place_now
        elif left or right:
            for kind, first, last, start, end in difflib.SequenceMatcher(None, left, right, False).get_opcodes():
                if kind != "equal":
                    yield old + first, old + last, new + start, new + end
        old, new = place + 1, place_now + 1


def _common_lines(before: Sequence[str], now: Sequence[str]) -> list[tuple[int, int]]:
    """Return the places of the lines that are unique on both sides: the longest series of them in the same order."""
    counts, counts_now = Counter(before), Counter(now)
    place_now = {line: place for place, line in enumerate(now) if counts_now[line] == 1}
    pairs = [(place, place_now[line]) for place, line in enumerate(before) if counts[line] == 1 and line in place_now]
    ends: list[int] = []  # the smallest end of a series of each length
    at: list[int] = []  # its pair
    previous: list[int] = []
    for number, (_, place) in enumerate(pairs):
        length = bisect_left(ends, place)
        ends[length : length + 1], at[length : length + 1] = [place], [number]
        previous.append(at[length - 1] if length else -1)
    series = []
    number = at[-1] if at else -1
    while number >= 0:
        series.append(pairs[number])
        number = previous[number]
    return series[::-1]

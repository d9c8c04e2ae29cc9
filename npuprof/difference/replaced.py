"""Kernels that replace others: without call paths, the kernel sequences of both sides are aligned to detect them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any, TypeAlias

Key: TypeAlias = tuple[str, str, str]
"""Type, shapes, and the call path of a kernel or the number of a collective; an unknown part is empty."""
_Block: TypeAlias = tuple[int, int, int, int]
"""Bounds of a difference: begin and end on one side, begin and end on the other."""

_MOST = 15  # maximum number of kernels of a replacement; a longer difference is a different program
_LARGEST = 2_000  # maximum number of elements of a side that are compared pairwise


def replaced(a: Sequence[Key], b: Sequence[Key]) -> tuple[dict[Key, str], dict[Key, str]]:
    """Return a common label for kernels that replace each other.

    Parameters
    ----------
    a, b
        The kernels and collectives of a step in order of time. The sequences are aligned at elements that are unique
        on both sides, such as collectives; kernels between two equal stretches replace those of the other side there.

    Returns
    -------
    tuple
        For each side the label by kernel: ``FusedNorm <- Mul, Add, Cast``. A kernel has no label if it is ambiguous
        (it also occurs in an equal stretch, or elsewhere on the other side), or if a kernel with a known path, or a
        collective, is part of the replacement.
    """
    keys = (a, b)
    named: tuple[dict[Key, str], dict[Key, str]] = ({}, {})
    shared: list[set[Key]] = [set(), set()]
    at = [0, 0]
    for block in (*replacements(a, b), (len(a), len(a), len(b), len(b))):
        parts = [keys[side][block[2 * side] : block[2 * side + 1]] for side in (0, 1)]
        label = ""
        if all(0 < len(part) <= _MOST and not any(known for _, _, known in part) for part in parts):
            label = " <- ".join(", ".join(dict.fromkeys(kind for kind, _, _ in part)) for part in parts)
        for side in (0, 1):
            shared[side].update(keys[side][at[side] : block[2 * side]])
            at[side] = block[2 * side + 1]
            if label:
                named[side].update(dict.fromkeys(parts[side], label))
    everywhere = set(a), set(b)
    first, second = (
        {
            key: label
            for key, label in named[side].items()
            if key not in shared[side] and (key not in everywhere[1 - side] or named[1 - side].get(key) == label)
        }
        for side in (0, 1)
    )
    return first, second


def replacements(a: Sequence[Any], b: Sequence[Any]) -> Iterator[_Block]:
    """Yield the differences between two sequences, in order.

    As in a patience diff, common ends and unique common elements divide the sequences; the rest is compared
    pairwise.
    """
    yield from _between(a, b, 0, len(a), 0, len(b))


def _between(a: Sequence[Any], b: Sequence[Any], a0: int, a1: int, b0: int, b1: int) -> Iterator[_Block]:
    while a0 < a1 and b0 < b1 and a[a0] == b[b0]:
        a0, b0 = a0 + 1, b0 + 1
    while a0 < a1 and b0 < b1 and a[a1 - 1] == b[b1 - 1]:
        a1, b1 = a1 - 1, b1 - 1
    if a0 == a1 or b0 == b1:
        if a0 < a1 or b0 < b1:
            yield a0, a1, b0, b1
        return
    anchors = _anchors(a, b, a0, a1, b0, b1)
    if anchors:
        for a2, b2 in [*anchors, (a1, b1)]:
            yield from _between(a, b, a0, a2, b0, b2)
            a0, b0 = a2, b2
    elif a1 - a0 <= _LARGEST and b1 - b0 <= _LARGEST:
        matcher = SequenceMatcher(None, a[a0:a1], b[b0:b1], autojunk=False)
        for tag, i0, i1, j0, j1 in matcher.get_opcodes():
            if tag != "equal":
                yield a0 + i0, a0 + i1, b0 + j0, b0 + j1
    else:
        yield a0, a1, b0, b1


def _anchors(a: Sequence[Any], b: Sequence[Any], a0: int, a1: int, b0: int, b1: int) -> list[tuple[int, int]]:
    """Return the positions of unique common elements of both stretches, the longest list in the same order."""
    places = [_once(a, a0, a1), _once(b, b0, b1)]
    pairs = sorted((place, places[1][key]) for key, place in places[0].items() if key in places[1])
    # The longest increasing subsequence of the second positions, by patience sorting.
    tops: list[int] = []
    piles: list[int] = []
    before = [-1] * len(pairs)
    for number, (_, place) in enumerate(pairs):
        pile = bisect_left(piles, place)
        before[number] = tops[pile - 1] if pile else -1
        if pile == len(piles):
            piles.append(place)
            tops.append(number)
        else:
            piles[pile], tops[pile] = place, number
    chain: list[tuple[int, int]] = []
    number = tops[-1] if tops else -1
    while number >= 0:
        chain.append(pairs[number])
        number = before[number]
    return chain[::-1]


def _once(sequence: Sequence[Any], start: int, stop: int) -> dict[Any, int]:
    seen: dict[Any, int] = {}
    for place in range(start, stop):
        seen[sequence[place]] = -1 if sequence[place] in seen else place
    return {key: place for key, place in seen.items() if place >= 0}

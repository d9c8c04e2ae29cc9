"""Durations, sizes, counts and names as text: a few digits with a unit, on one line."""

from __future__ import annotations

import re
from collections.abc import Iterable

from npuprof.words.texts import plain_line

ABSENT = "–"
"""Text for an unknown value."""

_TIMES = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"))
_SIZES = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))


def duration(nanoseconds: int | None) -> str:
    """Return a duration as text, such as ``12.3 ms``; a dash for None."""
    if nanoseconds is None:
        return ABSENT
    for size, unit in _TIMES:
        if abs(nanoseconds) >= size:
            return f"{_digits(nanoseconds / size)} {unit}"
    return f"{nanoseconds} ns"


def signed(nanoseconds: int) -> str:
    """Return a difference of durations as text, such as ``+4.02 ms``."""
    return ("+" if nanoseconds > 0 else "-" if nanoseconds < 0 else "") + duration(abs(nanoseconds))


def signed_share(change: float) -> str:
    """Return a relative change as text, such as ``-92 %`` and ``+3.1 %``."""
    return f"{100 * change:+.0f} %" if abs(change) >= 0.1 else f"{100 * change:+.1f} %"


def size(size_bytes: int | None) -> str:
    """Return a size in binary units, such as ``1.50 GiB``; a dash for None."""
    if size_bytes is None:
        return ABSENT
    for unit_bytes, unit in _SIZES:
        if abs(size_bytes) >= unit_bytes:
            return f"{_digits(size_bytes / unit_bytes)} {unit}"
    return f"{size_bytes} B"


def count(number: int | None) -> str:
    """Return a count with thousands separators, such as ``62,847``; a dash for None."""
    return ABSENT if number is None else f"{number:,}"


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return a number of things as text, such as ``1 line`` and ``62,847 lines``; `plural` if it has no ``s``."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def share(part: int | None, whole: int | None) -> str:
    """Return `part` of `whole` as a percentage; a dash if either is None or the whole is 0."""
    if part is None or not whole:
        return ABSENT
    if 0 < part < whole / 2000:
        return "< 0.1 %"  # so that it does not read as zero
    return f"{100 * part / whole:.1f} %"


_QUANTITY = re.compile(r"(?<=\d) (?=%|(?:[nµm]?s|[KMGT]i?B|k?B|[MGT]Hz|TFLOPS)\b)")
NO_BREAK = "\u00a0"


def unbroken(text: str) -> str:
    """Return a text that never breaks between a number and its unit."""
    return _QUANTITY.sub(NO_BREAK, text)


def printable(text: str, longest: int) -> str:
    """Return a text on one line, shortened, without unprintable characters."""
    return shortened(plain_line(text), longest)


def shortened(text: str, longest: int) -> str:
    """Return a text cut in its middle to `longest` characters, because kernel names differ at their ends."""
    if len(text) <= longest:
        return text
    head = (longest - 1 + 1) // 2
    tail = longest - 1 - head
    return f"{text[:head]}…{text[len(text) - tail :]}"


def _digits(value: float) -> str:
    decimals = 2 if abs(value) < 10 else 1 if abs(value) < 100 else 0
    return f"{value:,.{decimals}f}"


def formatted_ranks(ranks: Iterable[int], limit: int = 40) -> str:
    """Format ranks as ``0-3, 7``, with at most `limit` intervals."""
    stretches: list[list[int]] = []
    for rank in sorted(ranks):
        if stretches and rank == stretches[-1][1] + 1:
            stretches[-1][1] = rank
        else:
            stretches.append([rank, rank])
    joints = {0: "", 1: ", "}  # by the distance of first and last; two ranks are no interval
    words = [
        f"{first}{joints.get(last - first, '-')}{last if last > first else ''}" for first, last in stretches[:limit]
    ]
    return ", ".join(words) + (", ..." if len(stretches) > limit else "")

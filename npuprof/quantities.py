"""Durations, sizes, counts and names as a reader wants them: a few digits and a unit, one line of text."""

from __future__ import annotations

from npuprof.texts import plain_line

ABSENT = "–"
"""What stands where a value is not known."""

_TIMES = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"))
_SIZES = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))


def duration(nanoseconds: int | None) -> str:
    """Write a duration, such as ``12.3 ms``; an absent one is a dash."""
    if nanoseconds is None:
        return ABSENT
    for size, unit in _TIMES:
        if abs(nanoseconds) >= size:
            return f"{_digits(nanoseconds / size)} {unit}"
    return f"{nanoseconds} ns"


def size(size_bytes: int | None) -> str:
    """Write a size in binary units, such as ``1.50 GiB``; an absent one is a dash."""
    if size_bytes is None:
        return ABSENT
    for unit_bytes, unit in _SIZES:
        if abs(size_bytes) >= unit_bytes:
            return f"{_digits(size_bytes / unit_bytes)} {unit}"
    return f"{size_bytes} B"


def count(number: int | None) -> str:
    """Write a count with thousands set apart, such as ``62,847``; an absent one is a dash."""
    return ABSENT if number is None else f"{number:,}"


def share(part: int | None, whole: int | None) -> str:
    """Write `part` of `whole` as a percentage; a dash when either is absent or the whole is nothing."""
    if part is None or not whole:
        return ABSENT
    if 0 < part < whole / 2000:
        return "< 0.1 %"  # what there is must not read as nothing
    return f"{100 * part / whole:.1f} %"


def printable(text: str, longest: int) -> str:
    """Make a text from a recording safe to show on one line: unprintable characters as spaces, then shortened."""
    return shortened(plain_line(text), longest)


def shortened(text: str, longest: int) -> str:
    """Cut the middle out of a text longer than `longest`: the ends of kernel names tell them apart."""
    if len(text) <= longest:
        return text
    head = (longest - 1 + 1) // 2
    tail = longest - 1 - head
    return f"{text[:head]}…{text[len(text) - tail :]}"


def _digits(value: float) -> str:
    decimals = 2 if abs(value) < 10 else 1 if abs(value) < 100 else 0
    return f"{value:,.{decimals}f}"

"""Values in the requests of a page, which may hold anything."""

from __future__ import annotations

from collections.abc import Mapping

from npuprof.timeline.state import Timeline


def slice_in(timeline: Timeline, number: object) -> int | None:
    """Return the number of the slice in a request; None if it is not one."""
    return number if isinstance(number, int) and 0 <= number < timeline.slices.count else None


def known_of(asked: Mapping[str, object]) -> dict[str, object]:
    """Return what tells a page that a message answers its request."""
    return {"id": whole_in(asked.get("id")), "page": str(asked.get("page"))[:64]}


def whole_in(value: object) -> int | None:
    """Return the integer nanoseconds in a request; None if absent or too large for 64 bits."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value or abs(value) >= 2**62:
        return None
    return round(value)

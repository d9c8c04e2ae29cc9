"""A run that the program did not ask for, such as one of the environment's, ends when the program starts its own."""

from __future__ import annotations

import threading
from collections.abc import Callable

_lock = threading.Lock()
_ends_for_others: Callable[[str], None] | None = None


def end_for_others(end: Callable[[str], None]) -> None:
    """Register a run that the program did not ask for: it ends when the program starts one of its own."""
    global _ends_for_others
    _ends_for_others = end


def make_way(title: str, check: Callable[[], None] | None = None) -> None:
    """End the run that :func:`end_for_others` registered, if any, for a session."""
    global _ends_for_others
    if _ends_for_others is not None and check is not None:
        check()
    with _lock:
        end, _ends_for_others = _ends_for_others, None
    if end is not None:
        end(title)

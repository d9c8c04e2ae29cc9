"""Other profilers, which the program starts while npuprof collects: the frameworks have one at a time.

A second one fails, ends the first, or crashes at the end of either. The program's own goes first: the recording ends
before it begins.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any

from npuprof.errors import CollectorError

STARTS_OF_TORCH = (
    ("torch.autograd.profiler", "_prepare_profiler"),
    ("torch.autograd.profiler", "_enable_profiler"),
)
"""The functions that each profiler of torch calls first, by their modules."""


class OtherProfilers:
    """Ends a recording before another profiler begins."""

    def __init__(self, stop: Callable[[], None], title: str) -> None:
        self._stop, self._title = stop, title
        self._replaced: list[tuple[Any, str, Callable[..., Any]]] = []
        self._records = False
        self._thread = 0
        self._lack = ""

    def watch(self, *starts: tuple[Any, str], records: bool, recorder: object = None) -> None:
        """Be there when one begins; with `recorder` the recording ends only on this thread, which began it."""
        self._records, self._lack, self._thread = records, "", threading.get_ident()
        for place, name in starts:
            home = import_module(place) if isinstance(place, str) else place
            if (begin := getattr(home, name, None)) is not None:
                self._replaced.append((home, name, begin))
                setattr(home, name, self._giving_way(begin, recorder))

    def _giving_way(self, begin: Callable[..., Any], recorder: object) -> Callable[..., Any]:
        @wraps(begin)
        def end_and_begin(*given: Any, **named: Any) -> Any:
            is_method = bool(given) and isinstance(given[0], type(recorder))
            if self._replaced and not (is_method and given[0] is recorder):
                if recorder is None or threading.get_ident() == self._thread:
                    self._end()
                elif is_method:
                    self._lack = (
                        f"the code started a profiler of {self._title} on another thread, which ends this one's"
                    )
            return begin(*given, **named)

        return end_and_begin

    @property
    def _what(self) -> str:
        return (
            f"the code started a profiler of {self._title} itself, which has one at a time: what came after is missing"
        )

    def _end(self) -> None:
        lack = self._what if self._records else ""  # after a warm-up the recording may begin later
        try:
            self._stop()
        except CollectorError as error:
            lack = f"{self._what} ({error})"
        self._lack = lack

    def unwatch(self) -> str:
        """Return why not all was recorded, if another one has begun; from now on others begin as they do."""
        while self._replaced:
            home, name, begin = self._replaced.pop()
            setattr(home, name, begin)
        lack, self._lack = self._lack, ""
        return lack

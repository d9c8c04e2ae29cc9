"""The markers of one run on their way to the front end, and what is kept of them beside it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from threading import get_native_id
from typing import Any

from npuprof.collectors.base import Collector
from npuprof.collectors.capabilities import DOMAINS_KEPT_BESIDE
from npuprof.journal import Journal
from npuprof.options import Options
from npuprof.recording import Recording, kept_message

_MOST_DOMAINS = 20_000  # markers with a domain that a recording keeps: about a megabyte
_MOST_MESSAGES = 100_000  # different ones that are told apart

_handles = itertools.count(1)


class Marking:
    """Passes markers on; keeps their domains where the front end has none, and in the journal those that have ended.

    Parameters
    ----------
    collector, options
        The front end, and what it collects.
    recording
        Takes the domains.
    journal
        Takes the markers.
    now_ns
        Gives the time of the run.
    """

    def __init__(
        self,
        collector: Collector,
        options: Options,
        recording: Recording,
        journal: Journal,
        now_ns: Callable[[], int],
    ) -> None:
        self._collector = collector
        self._options = options
        self._recording = recording
        self._journal = journal
        self._now_ns = now_ns
        self._open: dict[int, tuple[int, str, str, int, int]] = {}  # by handle: the collector's, and what is kept
        self._marked: dict[str, int] = {}  # markers so far, by message
        self._keeps_domains = collector.name in DOMAINS_KEPT_BESIDE

    def mark(self, message: str, domain: str, stream: Any) -> None:
        """Record a moment."""
        self._note_domain(message, domain)
        self._collector.mark(message, domain, stream)
        if self._options.takes_domain(domain):
            now_ns = self._now_ns()
            self._journal.write(["mark", message, domain, get_native_id(), now_ns, now_ns])

    def range_start(self, message: str, domain: str) -> int:
        """Open a range and return its handle; 0 where ranges are not collected."""
        self._note_domain(message, domain)
        native = self._collector.range_start(message, domain)
        if not native:
            return 0
        handle = next(_handles)
        self._open[handle] = native, message, domain, get_native_id(), self._now_ns()
        return handle

    def range_end(self, handle: int) -> None:
        """Close a range; a handle of an earlier run, or 0, is ignored."""
        if (opened := self._open.pop(handle, None)) is not None:
            native, message, domain, thread_id, start_ns = opened
            self._collector.range_stop(native)
            self._journal.write(["mark", message, domain, thread_id, start_ns, self._now_ns()])

    def _note_domain(self, message: str, domain: str) -> None:
        """Keep the domain of a marker that is about to be recorded by a front end without domains."""
        if not self._keeps_domains or len(self._marked) >= _MOST_MESSAGES or not self._options.takes_domain(domain):
            return
        message = kept_message(message)
        place = self._marked.get(message, 0)
        self._marked[message] = place + 1
        if domain and len(self._recording.domains) < _MOST_DOMAINS:
            self._recording.domains.append((message, domain, place))

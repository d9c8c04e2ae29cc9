"""Markers of a run: passed to the front end, and kept in the recording where the front end has no domains."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from threading import get_native_id
from typing import Any

from npuprof.collectors.base import Collector
from npuprof.collectors.capabilities import DOMAINS_KEPT_BESIDE, MARKS_OF_NPU
from npuprof.errors import NpuprofWarning
from npuprof.options import Options
from npuprof.recordings.journal import Journal
from npuprof.recordings.recording import Recording, stored_message

_MOST_DOMAINS = 20_000  # markers with a domain that a recording keeps: about a megabyte
_MOST_MESSAGES = 100_000  # distinct messages

_handles = itertools.count(1)


class Marking:
    """Passes markers to the front end, and keeps their domains and finished markers in the recording and journal."""

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
        self._open: dict[int, tuple[int, str, str, int, int]] = {}  # by handle: the collector's handle, and the marker
        self._marked: dict[str, int] = {}  # number of markers so far, by message
        self._keeps_domains = collector.name in DOMAINS_KEPT_BESIDE
        self._are_lost = collector.name in MARKS_OF_NPU and "npu" not in options.activities

    def mark(self, message: str, domain: str, stream: Any) -> None:
        """Record a point in time."""
        self._note_domain(message, domain)
        self._collector.mark(message, domain, stream)
        if self._options.takes_domain(domain):
            now_ns = self._now_ns()
            self._journal.write(["mark", message, domain, get_native_id(), now_ns, now_ns])

    def range_start(self, message: str, domain: str) -> int:
        """Open a range and return its handle; 0 if ranges are not collected."""
        self._note_domain(message, domain)
        native = self._collector.range_start(message, domain)
        if not native:
            return 0
        handle = next(_handles)
        self._open[handle] = native, message, domain, get_native_id(), self._now_ns()
        return handle

    def range_end(self, handle: int) -> None:
        """Close a range; ignore 0 and the handle of an earlier run."""
        if (opened := self._open.pop(handle, None)) is not None:
            native, message, domain, thread_id, start_ns = opened
            self._collector.range_stop(native)
            self._journal.write(["mark", message, domain, thread_id, start_ns, self._now_ns()])

    def _note_domain(self, message: str, domain: str) -> None:
        """Keep the domain of the next marker if the front end has no domains; warn once if it records no markers."""
        if self._are_lost and self._options.takes_domain(domain):
            self._are_lost = False
            warnings.warn(
                f"{self._collector.name} records markers with the NPU's activity alone: npuprof.mark and npuprof.range "
                "have no effect in this run; add npu to activities",
                NpuprofWarning,
                stacklevel=4,
            )
        if not self._keeps_domains or len(self._marked) >= _MOST_MESSAGES or not self._options.takes_domain(domain):
            return
        message = stored_message(message)
        place = self._marked.get(message, 0)
        self._marked[message] = place + 1
        if domain and len(self._recording.domains) < _MOST_DOMAINS:
            self._recording.domains.append((message, domain, place))

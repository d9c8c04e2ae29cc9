"""The protocol of a collector: the driver of a native front end that starts, stops and marks.

A collector never parses. It fills a directory, from which :class:`npuprof.session.session.Session` builds a
:class:`npuprof.recordings.recording.Recording`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from npuprof.options import Options
from npuprof.recordings.clock import Clock, SystemClock


class Collector(Protocol):
    """The driver of a native front end."""

    name: str  # the value of `--collector`
    simulated: bool  # whether it records the embedded simulated NPU
    stops_on_any_thread: bool  # whether another thread may stop it, so that an interrupt need not wait for the stop

    def check(self, options: Options) -> None:
        """Raise an OptionsError for unsupported options, and a FrontEndAbsentError if a needed front end is missing."""
        ...

    def drives(self, options: Options) -> bool:
        """Return whether the options need this front end, and not only npuprof's sampler."""
        ...

    def records_stacks(self, options: Options) -> bool:
        """Return whether it records Python calls itself, so that they need not be sampled."""
        ...

    def warmup(self, options: Options, directory: Path) -> None:
        """Prepare a start into `directory`, so that the start takes little time.

        A start with the same arguments or a stop follows. On failure, a CollectorError is raised and nothing is left
        behind.
        """
        ...

    def start(self, options: Options, directory: Path) -> None:
        """Start collecting into `directory`; on failure, raise a CollectorError and leave nothing running."""
        ...

    def stop(self) -> None:
        """Stop collecting, or end a warm-up, and release all native handles.

        A failing native call raises a CollectorError after the remaining calls were made.
        """
        ...

    def step(self, number: int | None) -> None:
        """Note the end of an iteration, and the start of the next one.

        Before a start, `number` is that of the first recorded iteration. None ends the last one: a stop follows.
        """
        ...

    def mark(self, message: str, domain: str = "", stream: int | None = None) -> None:
        """Record a point in time, on the device too if a native stream handle is given; no-op without markers."""
        ...

    def range_start(self, message: str, domain: str = "") -> int:
        """Open a range and return its handle; 0 if markers are not collected."""
        ...

    def range_stop(self, handle: int) -> None:
        """Close a range by its handle; 0 is ignored."""
        ...

    def versions(self) -> Mapping[str, str]:
        """Return the software versions known to the front end."""
        ...


@runtime_checkable
class HasClock(Protocol):
    """A collector whose device has its own clock, which the session then uses too."""

    @property
    def clock(self) -> Clock:
        """The clock of the device's host."""
        ...


@runtime_checkable
class TakesFacts(Protocol):
    """A collector whose front end can store facts of the session in its files, for the vendor's tools."""

    def take_facts(self, metadata: Mapping[str, Any], schedule: Mapping[str, int]) -> None:
        """Pass on the user's metadata and the numbers of the schedule; called before the stop."""
        ...


def clock_of(collector: Collector, options: Options) -> Clock:
    """Return the clock of a run: the clock of its device if the collector has one, else the system's."""
    return collector.clock if isinstance(collector, HasClock) and collector.drives(options) else SystemClock()


def front_end_of(collector: Collector, options: Options) -> str:
    """Return the name of the collecting front end; ``python stacks`` if the options need no front end."""
    return collector.name if collector.drives(options) else "python stacks"

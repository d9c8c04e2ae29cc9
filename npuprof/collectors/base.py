"""What every collector is: a driver of one native front end that starts, stops and marks.

A collector never parses. It fills a directory; :class:`npuprof.session.session.Session` turns that into a
:class:`npuprof.recording.Recording`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from npuprof.options import Options


class Collector(Protocol):
    """One native front end.

    Attributes
    ----------
    name
        The word that ``--collector`` takes.
    simulated
        Whether what it records comes from the embedded simulated NPU.
    stops_on_any_thread
        Whether another thread than the one that started it may stop it, so that an interrupt need not wait for it.
    """

    name: str
    simulated: bool
    stops_on_any_thread: bool

    def check(self, options: Options) -> None:
        """Refuse, before anything runs, what this front end cannot do; it is not looked for unless it drives.

        Raises
        ------
        OptionsError
            With the reason and what to change.
        FrontEndAbsentError
            If the front end cannot be imported.
        """
        ...

    def drives(self, options: Options) -> bool:
        """Return whether the options ask anything of this front end, rather than of npuprof's own sampler alone."""
        ...

    def records_stacks(self, options: Options) -> bool:
        """Return whether it records Python calls itself, so that they need not be sampled as well."""
        ...

    def warmup(self, options: Options, directory: Path) -> None:
        """Make what a start into `directory` would have to make first, so that the start itself takes little time.

        A start with the same arguments follows, or a stop. Does nothing where the front end cannot do it.

        Raises
        ------
        CollectorError
            If a native call fails. Nothing is left behind then.
        """
        ...

    def start(self, options: Options, directory: Path) -> None:
        """Start collecting into `directory`.

        Raises
        ------
        CollectorError
            If the native call fails. Nothing is left running then.
        """
        ...

    def stop(self) -> None:
        """Stop collecting and give all native handles back, also those of a warm-up that no start followed.

        Raises
        ------
        CollectorError
            If a native call fails. The remaining calls are made all the same.
        """
        ...

    def step(self, number: int) -> None:
        """Take note that an iteration begins; does nothing where the front end has no iterations.

        Before a start it tells the number of the iteration in which that comes, where it is not the first.
        """
        ...

    def mark(self, message: str, domain: str = "", stream: int | None = None) -> None:
        """Record a moment, on the device too where a stream's native handle is given.

        Does nothing when markers are not collected.
        """
        ...

    def range_start(self, message: str, domain: str = "") -> int:
        """Open a range and give its handle; 0 when markers are not collected."""
        ...

    def range_stop(self, handle: int) -> None:
        """Close a range by its handle; 0 is ignored."""
        ...

    def versions(self) -> Mapping[str, str]:
        """Return the software versions that this front end knows of."""
        ...


@runtime_checkable
class TakesFacts(Protocol):
    """A front end whose own files hold facts of the session too, for the vendor's tools."""

    def take_facts(self, metadata: Mapping[str, Any], schedule: Mapping[str, int]) -> None:
        """Hand on what the user attached to the run, and the numbers of the schedule; called before the stop."""
        ...

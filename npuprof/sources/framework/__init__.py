"""Raw files of frameworks' profilers: the ``FRAMEWORK`` folder next to a ``PROF_*`` directory.

:mod:`.torch` reads the files of torch_npu, :mod:`.mindspore_ranges` and :mod:`.mindspore` those of MindSpore; a further
framework is a module with the same two functions in :data:`READERS`. The source of the front end joins the tables with
the device tables and describes the run.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from npuprof.sources.base import Decoded
from npuprof.sources.framework import mindspore, mindspore_ranges, torch
from npuprof.sources.raw.metadata.clocks import CounterClock


class Reader(Protocol):
    """A module that reads one framework; COLLECTOR is the collector of `Info`."""

    COLLECTOR: str

    def holds_data(self, folder: Path) -> bool:
        """Check whether a FRAMEWORK folder has files of this framework."""
        ...

    def read(self, folder: Path, clock_of: Callable[[], CounterClock], decoded: Decoded, /) -> None:
        """Read the files into tables, statistics and notes of `decoded`; `clock_of` is called only if needed."""
        ...


READERS: tuple[Reader, ...] = (torch, mindspore_ranges, mindspore)
"""In order of preference: MindSpore on an NPU before MindSpore on a CPU."""


def reader_of(folder: Path) -> Reader | None:
    """Return the reader of a folder's files; None without such files."""
    return next((reader for reader in READERS if reader.holds_data(folder)), None)

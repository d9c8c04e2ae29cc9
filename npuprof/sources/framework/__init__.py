"""Raw files of frameworks' own profilers: the ``FRAMEWORK`` folder beside a ``PROF_*`` directory.

:mod:`.torch` reads those of torch_npu into tables, :mod:`.mindspore_ranges` and :mod:`.mindspore` those of
MindSpore; another framework is a neighbour with the same two functions, in :data:`READERS`. No module here is a source
by itself: the front end's source knows the directory, joins the tables with those of the device and describes the run.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from npuprof.sources.base import Decoded
from npuprof.sources.framework import mindspore, mindspore_ranges, torch
from npuprof.sources.raw.metadata.clocks import Clock


class Reader(Protocol):
    """One framework: a module with these functions, and the name of the collector as in `Info`."""

    COLLECTOR: str

    def holds_data(self, folder: Path) -> bool:
        """Return whether a FRAMEWORK folder has files of this framework."""
        ...

    def read(self, folder: Path, clock_of: Callable[[], Clock], decoded: Decoded, /) -> None:
        """Read them into tables, statistics and notes of `decoded`; the clock is worked out when it is needed."""
        ...


READERS: tuple[Reader, ...] = (torch, mindspore_ranges, mindspore)
"""The frameworks whose raw files are read; of MindSpore, those of an NPU before those of a CPU."""


def reader_of(folder: Path) -> Reader | None:
    """Return the framework whose files a folder holds; None where it holds none, or does not exist."""
    return next((reader for reader in READERS if reader.holds_data(folder)), None)

"""A run of which nothing is read before it is touched: tables with files of their own alone, all others together."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import RLock
from typing import Any

import pandas as pd

from npuprof import progress
from npuprof import tables as schema
from npuprof.errors import SourceError
from npuprof.sources.base import Decoded, PartReader, files_below
from npuprof.sources.decoding import decode_run, refusing_too_large
from npuprof.sources.detect import DetectedResult
from npuprof.sources.far_times import may_be_far
from npuprof.sources.lazy_tables import LazyTables
from npuprof.tables.info import Info
from npuprof.tables.notes import Notes

SMALL_BYTES = 1 << 18
"""A smaller result is read at once, which takes less than a tenth of a second, so that its errors are raised early."""


def unread(run: DetectedResult, problems: Iterable[tuple[str, str]] = ()) -> UnreadRun | None:
    """Return a run that is read when it is touched; None for a small one, or one whose tables cannot be read alone."""
    source = run.source
    if run.unpacked is not None or not source.is_read_when_touched or source.size_bytes(run.path) < SMALL_BYTES:
        return None
    return UnreadRun(run, problems)


class UnreadRun:
    """The tables, facts and notes of a run, the same as :func:`npuprof.sources.decoding.decode_run` returns.

    Facts, statistics, notes, and tables that are joined of several files are read together, when one is touched.
    """

    def __init__(self, run: DetectedResult, problems: Iterable[tuple[str, str]]) -> None:
        self._run, self._path, self._problems = run, run.path.absolute(), tuple(problems)
        self._exact = {name: part for name, part in run.source.parts(self._path).items() if part.is_exact}
        self._files = {file: _state(file) for file in files_below(self._path)}
        self._read_alone: dict[str, pd.DataFrame] = {}
        self._decoded: Decoded | None = None
        self._lock = RLock()
        self.tables = LazyTables(Notes())
        for name in schema.NAMES:
            self.tables.later(name, partial(self._make, name))

    @property
    def info(self) -> Info:
        """Facts of the run."""
        return self._whole().info

    @property
    def notes(self) -> Notes:
        """Repaired, skipped and unknown data."""
        return self._whole().notes

    @property
    def statistics(self) -> dict[str, pd.DataFrame]:
        """The vendor's sums, unconverted, by file name without suffix."""
        return self._whole().statistics

    def _whole(self) -> Decoded:
        with self._lock:
            if self._decoded is None:
                self._refuse_changed()
                decoded = decode_run(replace(self._run, path=self._path))
                if decoded.info.recording == self._path:
                    decoded.info.recording = self._run.path
                for source, message in self._problems:
                    decoded.notes.warning(source, message)
                for name in self._read_alone:
                    decoded.tables.pop(name, None)
                self._decoded = decoded
            return self._decoded

    def _make(self, name: str) -> pd.DataFrame:
        with self._lock:
            part = self._exact.get(name)
            if part is not None and self._decoded is None and name not in self._read_alone:
                self._refuse_changed()
                self._read_part(part)
            if name in self._read_alone:
                return self._read_alone[name]
            frame = self._whole().tables.get(name)
            return schema.empty(name) if frame is None else frame

    def _read_part(self, part: PartReader) -> None:
        """Read tables alone, unless something is wrong with their file or times: the whole run's notes tell it.

        None is of kernels, whose durations are examined with the calls that launched them.
        """
        notes = Notes()
        with suppress(SourceError), refusing_too_large(self._path), progress.shown():
            frames = part.read(notes, ())
            if (notes.to_frame()["severity"] == "info").all() and not may_be_far(frames):
                self._read_alone.update(frames)

    def _refuse_changed(self) -> None:
        """Raise an error if a file is no longer as it was: tables read now would not match those read before."""
        if changed := sorted(path for path, state in self._files.items() if _state(path) != state):
            some = changed[0].relative_to(self._path) if changed[0] != self._path else changed[0].name
            raise SourceError(
                f"{self._run.path} was changed after it was loaded, before all of it was read ({some}): load it again"
            )

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the run as a plain :class:`npuprof.sources.base.Decoded`, which has all of it."""
        return Decoded, (dict(self.tables), self.info, self.notes, self.statistics)


def _state(file: Path) -> tuple[int, int] | None:
    """Return size and time of change of a file; None where there is none."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns

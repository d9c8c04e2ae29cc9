"""Sources, and their result: tables, facts and notes of a run."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, MutableMapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import pandas as pd

from npuprof.errors import SourceError
from npuprof.sources.incomplete_files import tables_of
from npuprof.sources.selection import Selection
from npuprof.tables.info import Info
from npuprof.tables.notes import Notes

_WITH_DEVICE = ("tasks", "kernels", "communication", "memory", "overlap", "step_times")
_MAX_REASONS = 3


@dataclass
class Decoded:
    """A run as a source read it."""

    # Frames of `SCHEMA` by name; a table that the format does not hold is omitted. Of a lazy source, `LazyTables`.
    tables: MutableMapping[str, pd.DataFrame] = field(default_factory=dict)
    info: Info = field(default_factory=Info)  # facts of the run
    notes: Notes = field(default_factory=Notes)  # repaired, skipped and unknown data
    # The vendor's sums, unconverted, by file name without suffix.
    statistics: dict[str, pd.DataFrame] = field(default_factory=dict)
    # Tables derived from other tables, which the form lacks: source and message of their note. Another form of the run
    # may hold them.
    derived: dict[str, tuple[str, str]] = field(default_factory=dict)
    # When the collection began and ended, if a file says so itself, whatever the times of its rows are.
    recorded: tuple[int, int] | None = None

    def settle(self, frames: Mapping[str, pd.DataFrame] | None = None) -> None:
        """Note which tables are derived, and rows in no table without a note; see :mod:`npuprof.tables.ledger`."""
        for source, message in self.derived.values():
            self.notes.info(source, message)
        self.notes.settle(self.tables if frames is None else frames)


class ResultReading:
    """Read the files of a result into :attr:`decoded`; an unreadable file is noted and skipped."""

    def __init__(self, decoded: Decoded) -> None:
        self.decoded, self.notes = decoded, decoded.notes
        self.failed: list[SourceError] = []

    @contextmanager
    def skip_unreadable(self, path: Path) -> Iterator[None]:
        """Note a file whose reading raises a SourceError, and go on without it."""
        try:
            yield
        except SourceError as error:
            self.failed.append(error)
            self.notes.fail(path.name, str(error), lacks=tables_of(path.name))

    def refuse_nothing(self, nothing: Callable[[], SourceError]) -> None:
        """Raise the first error, or else `nothing` with the omitted files; return if there are rows or statistics."""
        if any(map(len, self.decoded.tables.values())) or self.decoded.statistics:
            return
        if self.failed:
            raise self.failed[0]
        notes = self.notes.to_frame()
        losses = notes[notes["message"].str.contains("left out|cannot be read")][["source", "message"]].head(
            _MAX_REASONS
        )
        reasons = "; ".join(f"{source}: {message}" for source, message in losses.to_numpy().tolist())
        error = nothing()
        raise SourceError(f"{error} ({reasons})") if reasons else error

    def name_devices(self) -> None:
        """Add the devices of all tables to `info`."""
        info = self.decoded.info
        devices = {
            int(device)
            for name in _WITH_DEVICE
            if (frame := self.decoded.tables.get(name)) is not None
            for device in frame["device_id"].dropna().unique()
        }
        info.devices = sorted(devices | set(info.devices))


Preference: TypeAlias = Literal["text", "db", "raw", "parsed"] | None
"""The wanted form of a run: text files, databases, both of these, or raw data; None for the best."""

_MAX_ENTRIES = 50_000


def describe_by_name(path: Path) -> Info:
    """Return the facts that the name of a path states."""
    return Info(name=path.name, recording=path)


def files_below(root: Path) -> Iterator[Path]:
    """Yield the files at or below a path; not all of a very large directory."""
    pending = deque([root])
    for _ in range(_MAX_ENTRIES):
        if not pending:
            break
        path = pending.popleft()
        with suppress(OSError):
            if not path.is_dir():
                yield path
            elif not path.is_symlink() or path == root:
                pending.extend(list(path.iterdir())[:_MAX_ENTRIES])


def size_of_files(root: Path) -> int:
    """Return the total size of the files at or below a path in bytes; partial for a very large directory."""
    total = 0
    for path in files_below(root):
        with suppress(OSError):
            total += path.stat().st_size
    return total


PartName: TypeAlias = Literal["step_times", "communication", "kernels", "communication_matrix"]
"""What a set of ranks reads of a run alone: tables, and a statistic."""

PARTS: tuple[PartName, ...] = get_args(PartName)


@dataclass(frozen=True)
class PartReader:
    """A table, or the statistic ``communication_matrix``, that is read without the rest of its run."""

    # Returns the part by its name, with tables that are read with it at no cost: at least the named columns, or all if
    # none are named. It notes what it repaired or skipped.
    read: Callable[[Notes, Collection[str]], Mapping[str, pd.DataFrame]]
    # The small files that the part is read from, by which a set of ranks knows whether it changed; none if a set reads
    # the whole run instead.
    files: tuple[Path, ...] = ()
    is_exact: bool = True  # whether the part has every row and column that it has in the whole run


def whole_alone(_path: Path) -> Mapping[str, PartReader]:
    """Return no part: the format is read whole."""
    return {}


@dataclass(frozen=True)
class Source:
    """An on-disk format, listed in :mod:`npuprof.sources.registry`."""

    name: str  # the format's name in this package
    serves: tuple[Preference, ...]  # the preferences that select this source
    recognises: Callable[[Path], bool]  # return, from its content and cheaply, whether a path is of the format
    # Decode the run at a path, or raise a SourceError with the problem and the next step. Its tables may be
    # `LazyTables`.
    read: Callable[[Path], Decoded]
    # Decode at least the selected part: `cut` removes the rest. None for a format that has to be read whole.
    read_part: Callable[[Path, Selection], Decoded] | None = None
    # Return the facts in the small files of a run, without its tables.
    describe: Callable[[Path], Info] = describe_by_name
    size_bytes: Callable[[Path], int] = size_of_files  # return the number of bytes to read
    is_raw: bool = False  # whether the format is raw data of the collector
    is_result_of_raw: bool = False  # whether the format is a result that may be stored with its raw data
    of_many_runs: bool = False  # whether the format is an analysis of many runs
    # Whether only the user's path is tried; files below it, which may be copies, only where nothing else is there.
    only_given: bool = False
    is_complete: bool = False  # whether what is derived from other tables was stored with them, after every check
    # Return the parts of the run at a path that can be read without the rest, by name.
    parts: Callable[[Path], Mapping[str, PartReader]] = whole_alone
    has_small_files: bool = False  # whether parts have files of their own (`files`), which a set of ranks reads
    # Whether a large run is read when it is touched, its exact parts without the rest.
    is_read_when_touched: bool = False

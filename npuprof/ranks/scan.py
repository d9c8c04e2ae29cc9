"""One part of all ranks, read from their small files, or from the cache if these have not changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pandas as pd

from npuprof import progress, tables
from npuprof.files import cache
from npuprof.ranks.entries import Entry
from npuprof.ranks.executors import Work, spread
from npuprof.ranks.memo import Memo
from npuprof.ranks.pieces import (
    MATRIX,
    NoteRow,
    Piece,
    PieceTask,
    has_small_files,
    keys_of_run,
    lost_pieces,
    read_pieces,
)
from npuprof.ranks.run_list import RunList
from npuprof.sources.base import PartName
from npuprof.sources.columns.concatenation import stacked
from npuprof.sources.detect import DetectedResult
from npuprof.sources.files.memory_limit import give_back

if TYPE_CHECKING:
    from distributed import Client

_ROW = "run"
_OPENING_BYTES = 1 << 20
FEW = 8
"""Maximum number of runs without small files to read and cache completely, instead of the requested part."""
_OF_OPERATORS = ("start_ns", "duration_ns", "op_type", "group", "count", "step")
_WORDS: Mapping[PartName, str] = {
    "step_times": "steps",
    "communication": "communication",
    "communication_matrix": "transfers",
    "kernels": "kernels",
}


class Scans:
    """Parts of all runs of a set, each scanned once.

    Attributes
    ----------
    noted
        The rows and notes of all scans, without frames.
    """

    def __init__(self, runs: RunList, memo: Memo) -> None:
        self._runs = runs
        self._memo = memo
        self._operators: Scan | None = None  # scanned ahead; whoever asks takes them
        self._is_begun = False
        self.noted: dict[PartName, Scan] = {}

    def of(self, part: PartName) -> Scan | None:
        """Return one part of all runs; None if no run's small files have it."""
        return self._memo.once(f"scan of {part}", lambda: self._scan({part: ()})[part])

    def known(self, part: PartName) -> Scan | None:
        """Return one part of all runs if it was scanned."""
        return self._memo.known(f"scan of {part}")

    def rows_of(self, part: PartName) -> dict[int, pd.DataFrame]:
        """Return the rows of one part by row of the set, for the runs whose small files have it."""
        scanned = self.of(part)
        return {} if scanned is None else by_run(scanned)

    def operators(self) -> Scan | None:
        """Return the columns of ``communication`` that answers about all ranks need; they are not kept.

        Names are not among them: they take the most memory.
        """
        scanned = self._operators or self._scan({"communication": _OF_OPERATORS})["communication"]
        self._operators = None
        return scanned

    def read_ahead(self) -> None:
        """Read what answers about all ranks need of ranks that were not read, all at once."""
        if self._runs.profiles or self._is_begun:
            return
        scans = self._scan({"communication": _OF_OPERATORS, "step_times": (), "communication_matrix": ()})
        self._operators = scans.pop("communication")
        for part, scanned in scans.items():
            self._memo.once(f"scan of {part}", partial(lambda known: known, scanned))

    def _scan(self, wanted: Wanted) -> dict[PartName, Scan | None]:
        self._is_begun = True
        scans = scan(self._runs.root, self._runs.entries, wanted, self._runs.client)
        for part, scanned in scans.items():
            if scanned is not None:  # a view would keep all rows
                self.noted[part] = replace(scanned, frame=scanned.frame.iloc[:0].copy())
        return scans


@dataclass
class Scan:
    """One part of the runs that were not read in full."""

    frame: pd.DataFrame  # the rows of all runs, with the row of the set in `run`
    rows: list[int]  # the rows of the set that have the part
    notes: dict[int, list[NoteRow]] = field(default_factory=dict)  # notes by row of the set


Wanted: TypeAlias = Mapping[PartName, tuple[str, ...]]
"""Parts to read, each with the columns of a table that are asked for; none are all."""


def scan(
    root: Path, entries: Sequence[Entry], wanted: Wanted, client: Client | None = None
) -> dict[PartName, Scan | None]:
    """Read parts of all runs without the rest of them; None for a part that no run has.

    Parameters
    ----------
    wanted
        What to read. Several parts are read at once: to start processes takes as long as to read many files.
    """
    keys = {part: of_part for part, of_part in keys_of(entries, tuple(wanted)).items() if of_part}
    names = {part: f"{' '.join((*wanted[part], part))} of {Path(root).absolute()}" for part in keys}
    known = {part: _read_cached(names[part], part, entries, keys[part], wanted[part]) for part in keys}
    missing: dict[int, Wanted] = {}
    for row in sorted(set().union(*keys.values())):
        lacking = {part: wanted[part] for part in keys if row in keys[part] and row not in known[part].rows}
        missing |= {row: lacking} if lacking else {}
    read = _read(entries, missing, keys, client)
    scans: dict[PartName, Scan | None] = {part: known.get(part) for part in wanted}
    for part in [part for part in keys if part in read]:
        pieces = read.pop(part)  # freed once joined, or memory would hold the rows of all ranks twice
        keys_now = {row: keys[part][row] for row in known[part].rows} | {
            row: piece.key for row, piece in pieces.items()
        }
        scans[part] = joined = _join(known.pop(part), pieces, part, wanted[part])
        del pieces
        _save(names[part], entries, joined, keys_now)
    if missing:
        give_back()
    if (communication := scans.get("communication")) is not None:
        scans["communication"] = _note_copies(communication, entries)
    return scans


def _read(
    entries: Sequence[Entry],
    missing: Mapping[int, Wanted],
    keys: Mapping[PartName, Mapping[int, str]],
    client: Client | None,
) -> dict[PartName, dict[int, Piece]]:
    """Return the content of files for the parts of runs, by part and row."""
    read: dict[PartName, dict[int, Piece]] = {part: {} for of_row in missing.values() for part in of_row}
    if not missing:
        return read
    rows = list(missing)
    tasks = [PieceTask(entries[row].run.source.name, entries[row].run.path.absolute(), missing[row]) for row in rows]
    sizes = [sum(_size(keys[part][row]) for part in missing[row]) for row in rows]
    with progress.shown():
        work = Work(read_pieces, lost_pieces, f"{', '.join(_WORDS[part] for part in read)} of ranks")
        for place, pieces in spread(work, tasks, sizes, client):
            for part, piece in pieces.items():
                read[part][rows[place]] = piece
    return read


def _note_copies(scanned: Scan, entries: Sequence[Entry]) -> Scan:
    """Return a scan with a note for each run that repeats the operators of an earlier run, to the nanosecond."""
    notes = dict(scanned.notes)
    first: dict[tuple[int, bytes], int] = {}
    rows, begins = np.unique(scanned.frame[_ROW].to_numpy(np.int64), return_index=True)
    times = scanned.frame[["start_ns", "duration_ns"]].to_numpy(np.int64)
    for row, begin, end in zip(rows.tolist(), begins, [*begins[1:], len(times)], strict=True):
        other = first.setdefault((end - begin, sha256(times[begin:end].tobytes()).digest()), row)
        if other != row:
            message = f"all operators have the times of those of {entries[other].run.path.name}: one file is a copy"
            notes[row] = [*notes.get(row, []), ("warning", "communication", message, 1)]
    return replace(scanned, notes=notes)


def by_run(scanned: Scan) -> dict[int, pd.DataFrame]:
    """Return the rows of each run that has some, by row of the set."""
    if not len(scanned.frame):
        return {}
    rows, starts = np.unique(scanned.frame[_ROW].to_numpy(np.int64), return_index=True)
    plain, ends = scanned.frame.drop(columns=_ROW), [*starts[1:], len(scanned.frame)]
    return {row: plain.iloc[at:end] for row, at, end in zip(rows.tolist(), starts, ends, strict=True)}


def keys_of(entries: Sequence[Entry], parts: Sequence[PartName]) -> dict[PartName, dict[int, str]]:
    """Return keys that change with the files of each run that is read for a part alone, by part and row.

    Runs without a file of a part are, where they are many or other runs have one: else they are read to be kept.
    """
    apart = {
        row: entry.run
        for row, entry in enumerate(entries)
        if not entry.is_cluster and entry.selection is None and entry.run.unpacked is None
    }
    small = {row: run for row, run in apart.items() if has_small_files(run.source.name)}
    keys = _known_keys(small, parts)
    if len(apart) > len(small) and (len(apart) > FEW or any(keys.values())):
        of_whole = _known_keys({row: run for row, run in apart.items() if row not in small}, parts)
        keys = {part: keys[part] | (of_whole[part] if keys[part] or len(apart) > FEW else {}) for part in parts}
    return keys


def _known_keys(runs: Mapping[int, DetectedResult], parts: Sequence[PartName]) -> dict[PartName, dict[int, str]]:
    by_part: dict[PartName, dict[int, str]] = {part: {} for part in parts}
    for row, run in runs.items():
        with suppress(OSError):
            for part, key in keys_of_run(run.source.name, run.path).items():
                if part in by_part:
                    by_part[part][row] = key
    return by_part


def _size(key: str) -> int:
    """Return the bytes of some files, and what opening them takes as bytes that could be read meanwhile."""
    return _OPENING_BYTES + sum(int(file.rsplit(":", 2)[1]) for file in key.split("|") if file)


def _read_cached(
    name: str, part: PartName, entries: Sequence[Entry], keys: Mapping[int, str], columns: Sequence[str]
) -> Scan:
    """Return the cached part for files that have not changed."""
    nothing = Scan(pd.DataFrame(), [])
    kept = cache.load(name)
    if kept is None:
        return nothing
    frame, facts = kept
    try:
        paths = {str(entries[row].run.path): row for row in keys}
        old = {int(run["row"]): run for run in facts["runs"]}
        same = {
            number: paths[run["path"]]
            for number, run in old.items()
            if run["path"] in paths and run["key"] == keys[paths[run["path"]]]
        }
        notes = {row: [note_row(note) for note in old[number]["notes"]] for number, row in same.items()}
        if frame.empty:
            return Scan(frame, sorted(same.values()), notes)
        numbers = frame[_ROW].to_numpy(np.int64)
        place = np.full(int(max(numbers.max(), *old)) + 1, -1)
        place[list(same)] = list(same.values())
        rows = place[numbers]
        if (rows < 0).any() or (np.diff(rows) < 0).any():
            frame = frame[rows >= 0].assign(**{_ROW: rows[rows >= 0]}).sort_values(_ROW, kind="stable")
            frame = frame.reset_index(drop=True)
        else:
            frame[_ROW] = rows
        if part != MATRIX:  # a column without values has lost its dtype
            frame = tables.build(part, {str(column): _names_as_read(frame[column]) for column in frame}, columns)
            tables.check(part, frame, columns)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError):  # not in our format
        return nothing
    return Scan(frame, sorted(same.values()), {row: some for row, some in notes.items() if some})


def _names_as_read(column: pd.Series[Any]) -> Any:
    """Return a column of names with the category dtype of the readers; other columns are returned unchanged."""
    if not isinstance(column.dtype, pd.CategoricalDtype):
        return column
    return tables.categorical(column.cat.codes.to_numpy(), [str(name) for name in column.cat.categories])


def note_row(note: Sequence[Any]) -> NoteRow:
    """Return a note from its JSON form."""
    severity, source, message, count = note
    return str(severity), str(source), str(message), int(count)


def _join(known: Scan, read: Mapping[int, Piece], part: PartName, columns: Sequence[str]) -> Scan:
    pieces = {row: piece.frame for row, piece in read.items()}
    if len(known.frame):
        pieces |= by_run(known)
    rows = sorted({*known.rows, *read})
    some = [row for row in sorted(pieces) if len(pieces[row])]
    nothing = pd.DataFrame() if part == MATRIX else tables.empty(part)
    frame = stacked([pieces[row] for row in some]) if some else nothing[list(columns)] if columns else nothing
    counts = [len(pieces[row]) for row in some]
    frame = frame.reset_index(drop=True).assign(**{_ROW: np.repeat(np.array(some, np.int64), counts)})
    notes = known.notes | {row: piece.notes for row, piece in read.items() if piece.notes}
    return Scan(frame, rows, notes)


def _save(name: str, entries: Sequence[Entry], scanned: Scan, keys: Mapping[int, str]) -> None:
    sound = [row for row in scanned.rows if keys.get(row)]
    frame = scanned.frame
    if len(sound) < len(scanned.rows) and len(frame):
        frame = frame[frame[_ROW].isin(sound)]
    runs = [
        {"row": row, "path": str(entries[row].run.path), "key": keys[row], "notes": scanned.notes.get(row, [])}
        for row in sound
    ]
    cache.save(name, frame, {"runs": runs})

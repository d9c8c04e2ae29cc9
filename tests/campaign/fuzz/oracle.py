"""What may come of a damaged input: rows with notes, or one of npuprof's errors; never fewer without a note."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import pandas as pd

from npuprof import tables
from npuprof.errors import NpuprofError
from npuprof.loading import open_path
from npuprof.ranks.profile_set import ProfileSet
from npuprof.sources.detect import detect
from npuprof.tables.notes import Notes

_DERIVED = ("links", "overlap")  # made of other tables, whose rows are accounted for
_IMBALANCES = (
    *("rows are in no table, for an unknown reason", "rows are in tables more than once"),
    *("rows were lost after they were read", "rows are in the table, but in no input"),
)
_AT_EDGES = "the recording began or ended within it"  # a time moved to the edge of a run is what a run can have


@dataclass(frozen=True)
class Outcome:
    """What a load gave.

    Attributes
    ----------
    rows
        The rows of each table, and of the statistics as a whole, that are not made of others; None where nothing
        could be loaded.
    warnings
        The notes that say that something is missing, and the errors; rows cut by the ends of a recording too.
    """

    rows: Mapping[str, int] | None
    warnings: frozenset[tuple[str, str, int]] = field(default_factory=frozenset)


Load: TypeAlias = Callable[[Path], Outcome]


@dataclass(frozen=True)
class Find:
    """What is wrong: ``crash``, ``hang`` or ``loss``, and a line that is the same for the same fault."""

    kind: str
    signature: str


def road(path: Path) -> Outcome:
    """Load a result as a user does, look at it as a report does, and check that its tables keep the schema.

    Raises
    ------
    Exception
        Whatever npuprof let through that is not its own error: a find.
    """
    found = open_path(path)
    runs = list(found) if isinstance(found, ProfileSet) else [found]
    rows: Counter[str] = Counter()
    warnings: list[tuple[str, str, int]] = []
    for run in runs:
        str(run)
        rows += _rows(run.tables, run.statistics)
        warnings += _of_frame(run.notes)
    return Outcome(rows, frozenset(warnings))


def reader(path: Path) -> Outcome:
    """Detect what is at a path, read it with its format's own reader, and settle the account: a quarter of the road.

    Raises
    ------
    Exception
        As :func:`road`.
    """
    found = detect(path)
    rows: Counter[str] = Counter()
    warnings = [("warning", problem, 1) for problem in (*found.problems, *found.left_out)]
    for run in found.results:
        try:
            decoded = run.source.read(run.path)
        finally:
            run.close()
        decoded.settle()
        rows += _rows(decoded.tables, decoded.statistics)
        warnings += _of_notes(decoded.notes)
    return Outcome(rows, frozenset(warnings))


def decoder(rows: Mapping[str, int], notes: Notes) -> Outcome:
    """Return what a decoder below a reader gave: the rows of each part, and its notes."""
    return Outcome(rows, frozenset(_of_notes(notes)))


def judge(load: Load, path: Path, sound: Outcome) -> Find | None:
    """Load a damaged input and compare it with the sound one; None where all is well."""
    try:
        outcome = load(path)
    except NpuprofError:
        return None
    except Exception as error:  # noqa: BLE001 - every error that is not npuprof's own is a find
        return Find("crash", _signature(error))
    for severity, message, count in outcome.warnings:
        if severity == "warning" and any(words in message for words in _IMBALANCES):
            return Find("loss", f"{message} ({count})")
    if outcome.rows is None or sound.rows is None or outcome.warnings - sound.warnings:
        return None
    # A damaged name may move a row to another table: what counts is the sum.
    if sum(outcome.rows.values()) >= sum(sound.rows.values()):
        return None
    shrunk = sorted(name for name, rows in sound.rows.items() if outcome.rows.get(name, 0) < rows)
    return Find("loss", f"rows of {', '.join(shrunk)} are missing without a note of severity warning or error")


def _rows(frames: Mapping[str, pd.DataFrame], statistics: Mapping[str, pd.DataFrame]) -> Counter[str]:
    for name, frame in frames.items():
        tables.check(name, frame)
    rows = Counter({name: len(frame) for name, frame in frames.items() if name not in _DERIVED})
    rows["statistics"] += sum(map(len, statistics.values()))
    return rows


def _of_notes(notes: Notes) -> Iterable[tuple[str, str, int]]:
    for (severity, source, message), count in notes._counts.items():  # a frame of them takes as long as a decoder
        if severity != "info" or _AT_EDGES in message:
            yield severity, f"{source}: {message}", count


def _of_frame(notes: pd.DataFrame) -> Iterable[tuple[str, str, int]]:
    counted = (notes["severity"] != "info") | notes["message"].str.contains(_AT_EDGES, regex=False)
    for severity, source, message, count in (
        notes.loc[counted, ["severity", "source", "message", "count"]].to_numpy().tolist()
    ):
        yield severity, f"{source}: {message}", int(count)


def _signature(error: BaseException) -> str:
    """Return the kind of an error and the deepest line of npuprof's code that it passed."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "npuprof/" in frame.filename]
    where = f"{frames[-1].filename.rpartition('npuprof/')[2]}: {frames[-1].name}" if frames else "outside"
    return f"{type(error).__name__} in {where}"

"""What may come of a damaged result: tables with notes, or one of npuprof's errors; never less without a note."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from npuprof import tables
from npuprof.errors import NpuprofError
from npuprof.loading import open_path
from npuprof.profiles import Profile
from npuprof.ranks.profile_set import ProfileSet

_DERIVED = ("links", "overlap")  # made of other tables, whose rows are accounted for


@dataclass(frozen=True)
class Outcome:
    """What a load gave.

    Attributes
    ----------
    rows
        The rows of each table, and of the statistics as a whole, that are not made of others; None where nothing
        could be loaded.
    warnings
        The notes that say that something is missing, and the errors.
    """

    rows: Mapping[str, int] | None
    warnings: frozenset[tuple[str, str, int]]


@dataclass(frozen=True)
class Find:
    """What is wrong: ``crash`` or ``loss``, and a line that is the same for the same fault."""

    kind: str
    signature: str


def load(path: Path) -> Outcome:
    """Load a result, look at it as a report does, and check that its tables keep the schema.

    Raises
    ------
    Exception
        Whatever npuprof let through that is not its own error: a find.
    """
    try:
        found = open_path(path)
        runs = list(found) if isinstance(found, ProfileSet) else [found]
    except NpuprofError as error:
        return Outcome(None, frozenset({("error", str(error), 1)}))
    for run in runs:
        for name, frame in run.tables.items():
            tables.check(name, frame)
        str(run)
    rows: Counter[str] = Counter()
    for run in runs:
        rows.update({name: len(frame) for name, frame in run.tables.items() if name not in _DERIVED})
        rows["statistics"] += sum(map(len, run.statistics.values()))
    return Outcome(rows, frozenset(_warnings(runs)))


def judge(path: Path, sound: Outcome) -> Find | None:
    """Load a damaged result and compare it with the sound one; None where all is well."""
    try:
        outcome = load(path)
    except Exception as error:  # noqa: BLE001 - every error that is not npuprof's own is a find
        return Find("crash", _signature(error))
    for severity, message, count in outcome.warnings:
        if severity == "warning" and ("unknown reason" in message or "read from nowhere" in message):
            return Find("loss", f"{message} ({count})")
    if outcome.rows is None or sound.rows is None or outcome.warnings - sound.warnings:
        return None
    # A damaged name may move a row to another table: what counts is the sum.
    if sum(outcome.rows.values()) >= sum(sound.rows.values()):
        return None
    shrunk = sorted(name for name, rows in sound.rows.items() if outcome.rows.get(name, 0) < rows)
    return Find("loss", f"rows of {', '.join(shrunk)} are missing without a note of severity warning or error")


def _warnings(runs: Iterable[Profile]) -> Iterable[tuple[str, str, int]]:
    for run in runs:
        notes = run.notes
        chosen = notes[notes["severity"].isin(("warning", "error"))]
        for severity, source, message, count in chosen.to_numpy().tolist():
            yield severity, f"{source}: {message}", int(count)


def _signature(error: BaseException) -> str:
    """Return the kind of an error and the deepest line of npuprof's code that it passed."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "npuprof/" in frame.filename]
    where = f"{frames[-1].filename.rpartition('npuprof/')[2]}: {frames[-1].name}" if frames else "outside"
    return f"{type(error).__name__} in {where}"

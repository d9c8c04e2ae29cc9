"""Notes on repaired, skipped and unknown data: the rows of ``run.notes``, shown in the report."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sized
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import pandas as pd

from npuprof.tables.ledger import Ledger
from npuprof.words.texts import encodable

Severity: TypeAlias = Literal["info", "warning", "error"]
Key: TypeAlias = tuple[Severity, str, str]


class Loss(NamedTuple):
    """The missing rows of a run."""

    tables: frozenset[str]  # the tables that lack rows
    rows: int  # how many rows of the input are missing, 0 if that is unknown


Contents: TypeAlias = tuple[dict[Key, int], dict[Key, Loss], Ledger]

ANY = ("any",)
"""What lacks rows of an input that may fill any table."""

Affects: TypeAlias = tuple[str, ...] | str

_LIMIT = 1000  # a damaged file must not create a million notes


_NUMBER = re.compile(r"\d+")
_MAX_ALIKE = 5  # more notes than this that differ only in numbers are shown as one note


def _fold(alike: list[tuple[Key, int, Loss]]) -> list[tuple[str, str, str, int, Loss]]:
    if len(alike) <= _MAX_ALIKE:
        return [(*key, count, loss) for key, count, loss in alike]
    severity, source, message = alike[0][0]
    losses = [loss for _, _, loss in alike]
    whole = Loss(frozenset().union(*(loss.tables for loss in losses)), sum(loss.rows for loss in losses))
    counted = sum(count for _, count, _ in alike)
    return [(severity, source, f"{message} (and {len(alike) - 1} notes like it)", counted, whole)]


_NOTHING = Loss(frozenset(), 0)


@dataclass
class Notes:
    """A list of notes that counts repetitions.

    Severities: ``info`` is worth knowing; ``warning`` means that something was repaired or skipped; ``error`` means
    that requested data is missing. A note on lost data also names the tables that lack rows (`lacks`).
    """

    _counts: dict[Key, int] = field(default_factory=dict)
    _losses: dict[Key, Loss] = field(default_factory=dict)
    # The accounts of the rows read, which `leave_out` and `fail` keep consistent with the notes.
    ledger: Ledger = field(default_factory=Ledger)

    def info(self, source: str, message: str, count: int = 1) -> None:
        """Note information worth knowing about a file or layer (`source`)."""
        self._add("info", source, message, count)

    def warning(
        self, source: str, message: str, count: int = 1, *, lacks: Iterable[str] = (), missing_rows: int = 0
    ) -> None:
        """Note that something was repaired or skipped; `lacks` are tables that lack rows, `missing_rows` how many."""
        self._add("warning", source, message, count, Loss(frozenset(lacks), missing_rows))

    def error(self, source: str, message: str, count: int = 1, *, lacks: Iterable[str] = ()) -> None:
        """Note that requested data could not be read or collected; `lacks` are the tables that lack rows."""
        self._add("error", source, message, count, Loss(frozenset(lacks), 0))

    def leave_out(
        self, source: str, reason: str, rows: int, *, affects: Affects = (), severity: Severity = "warning"
    ) -> None:
        """Note input rows that are in no table, and account for them.

        Parameters
        ----------
        affects
            The tables that lack rows, or in words what else is incomplete: ``copied bytes``. Nothing by default.
        severity
            ``info`` if no data of the run is lost (totals, repetitions, data that was not requested).
        """
        if not rows:
            return
        tables = () if isinstance(affects, str) else affects
        words = affects if isinstance(affects, str) else "the tables" if affects == ANY else " and ".join(affects)
        effect = f"; counts and sums of {words} are too low" if words else ""
        loss = Loss(frozenset(tables), rows) if tables and severity != "info" else _NOTHING
        self._add(severity, source, f"{reason}; left out{effect}", rows, loss)
        self.ledger.leave_out(source, rows)

    def fail(self, source: str, message: str, *, lacks: Iterable[str] = ANY) -> None:
        """Note that an input could not be read completely; its remaining rows are accounted for as left out."""
        self.error(source, message, lacks=lacks)
        self.ledger.leave_out(source, max(self.ledger.open_rows(source), 0))

    def settle(self, frames: Mapping[str, Sized]) -> None:
        """Warn of rows that are not accounted for; see :meth:`npuprof.tables.ledger.Ledger.imbalances`."""
        for source, message, rows in self.ledger.imbalances(frames):
            self.warning(source, message, rows)

    def extend(self, other: Notes) -> None:
        """Add the notes and accounts of another list."""
        self.ledger.extend(other.ledger)
        for key, count in other._counts.items():
            self._add(*key, count, other._losses.get(key, _NOTHING))

    def contents(self) -> Contents:
        """Return the notes and accounts, for :meth:`put`."""
        return self._counts, self._losses, self.ledger

    def put(self, contents: Contents) -> None:
        """Replace all notes and accounts."""
        self._counts, self._losses, self.ledger = contents

    def rewrite(self, change: Callable[[str], str]) -> None:
        """Change the messages, for example the paths in them."""
        (counts, losses), self._counts, self._losses = (self._counts, self._losses), {}, {}
        for (severity, source, message), count in counts.items():
            loss = losses.get((severity, source, message), _NOTHING)
            self._add(severity, source, change(message), count, loss)

    def _add(self, severity: Severity, source: str, message: str, count: int, loss: Loss = _NOTHING) -> None:
        key = (severity, encodable(source), encodable(message))
        if key not in self._counts and len(self._counts) >= _LIMIT:
            key = ("warning", "notes", f"more than {_LIMIT} different notes; the rest are only counted here")
        self._counts[key] = self._counts.get(key, 0) + count
        if loss.tables:
            known = self._losses.get(key, _NOTHING)
            self._losses[key] = Loss(known.tables | loss.tables, known.rows + loss.rows)

    def __len__(self) -> int:
        return len(self._counts)

    def to_frame(self) -> pd.DataFrame:
        """Return the notes as a table, in their order.

        If many notes differ only in numbers, as notes per process or rank do, they become one row.

        Returns
        -------
        pandas.DataFrame
            ``severity``, ``source``, ``message``, ``count``; ``lacks`` (the tables that lack rows, separated by spaces,
            ``any`` if these may be all) and ``missing_rows`` (how many rows of the input, absent if unknown).
        """
        alike: dict[tuple[str, ...], list[tuple[Key, int, Loss]]] = {}
        for key, count in self._counts.items():
            group = alike.setdefault(tuple(_NUMBER.sub("#", part) for part in key), [])
            group.append((key, count, self._losses.get(key, _NOTHING)))
        rows = [row for group in alike.values() for row in _fold(group)]
        missing = np.array([row[4].rows for row in rows], np.int64)
        texts = [(*row[:3], " ".join(sorted(row[4].tables))) for row in rows]
        severity, source, message, lacks = (
            pd.Series(column, dtype=object) for column in np.array(texts, object).reshape(-1, 4).T
        )
        columns = {
            "severity": severity,
            "source": source,
            "message": message,
            "count": np.array([row[3] for row in rows], np.int64),
            "lacks": lacks,
            "missing_rows": pd.arrays.IntegerArray(missing, missing == 0),
        }
        return pd.DataFrame(columns)

    @classmethod
    def from_frame(cls, frame: pd.DataFrame) -> Notes:
        """Build the list from a frame of :meth:`to_frame`, also of an earlier version, without losses."""
        notes = cls()
        is_told = "lacks" in frame and bool(frame["lacks"].notna().all())
        known = frame if is_told else frame.assign(lacks="", missing_rows=pd.array([0] * len(frame), "Int64"))
        names = ["severity", "source", "message", "count", "lacks"]
        missing = known["missing_rows"].astype("Int64").to_numpy(np.int64, na_value=0).tolist()
        rows_of = zip(known[names].to_numpy(dtype=object).tolist(), missing, strict=True)
        for (severity, source, message, count, lacks), rows in rows_of:
            notes._add(severity, source, message, count, Loss(frozenset(lacks.split()), rows))
        return notes

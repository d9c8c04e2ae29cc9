"""Notes on what a reader repaired, skipped or could not know: the rows of ``run.notes``, shown in the report."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sized
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import pandas as pd

from npuprof.ledger import Ledger
from npuprof.texts import encodable

Severity: TypeAlias = Literal["info", "warning", "error"]
Contents: TypeAlias = tuple[dict[tuple[Severity, str, str], int], Ledger]

_LIMIT = 1000  # a damaged file must not create a million notes


_NUMBER = re.compile(r"\d+")
_MAX_ALIKE = 5  # more notes than this that differ only in numbers are shown as one note


def _fold(alike: list[tuple[tuple[Severity, str, str], int]]) -> list[tuple[str, str, str, int]]:
    if len(alike) <= _MAX_ALIKE:
        return [(*key, count) for key, count in alike]
    severity, source, message = alike[0][0]
    return [(severity, source, f"{message} (and {len(alike) - 1} notes like it)", sum(count for _, count in alike))]


@dataclass
class Notes:
    """A list of notes in which repeated notes are counted.

    Severities: ``info`` is worth knowing; ``warning`` means that something was repaired or skipped; ``error`` means
    that requested data is missing.

    Attributes
    ----------
    ledger
        The accounts of the rows read, which :meth:`leave_out` and :meth:`fail` keep consistent with the notes.
    """

    _counts: dict[tuple[Severity, str, str], int] = field(default_factory=dict)
    ledger: Ledger = field(default_factory=Ledger)

    def info(self, source: str, message: str, count: int = 1) -> None:
        """Note information worth knowing about a file or layer (`source`)."""
        self._add("info", source, message, count)

    def warning(self, source: str, message: str, count: int = 1) -> None:
        """Note that something was repaired or skipped."""
        self._add("warning", source, message, count)

    def error(self, source: str, message: str, count: int = 1) -> None:
        """Note that requested data could not be read or collected."""
        self._add("error", source, message, count)

    def leave_out(
        self, source: str, reason: str, rows: int, *, affects: str = "", severity: Severity = "warning"
    ) -> None:
        """Note input rows that are in no table, and account for them.

        Parameters
        ----------
        source
            The input, as registered in :attr:`ledger`.
        reason
            The reason, worded for one row: ``a row has no readable time``.
        rows
            The number of rows; no note for 0.
        affects
            The tables whose figures are incomplete, such as ``kernels and communication``; none by default.
        severity
            ``info`` if no data of the run is lost (totals, repetitions, data that was not requested).
        """
        if not rows:
            return
        effect = f"; counts and sums of {affects} are too low" if affects else ""
        self._add(severity, source, f"{reason}; left out{effect}", rows)
        self.ledger.leave_out(source, rows)

    def fail(self, source: str, message: str) -> None:
        """Note that an input could not be read completely; its remaining rows are accounted for as left out."""
        self.error(source, message)
        self.ledger.leave_out(source, max(self.ledger.open_rows(source), 0))

    def settle(self, frames: Mapping[str, Sized]) -> None:
        """Warn of rows that are not accounted for; see :meth:`npuprof.ledger.Ledger.imbalances`."""
        for source, message, rows in self.ledger.imbalances(frames):
            self.warning(source, message, rows)

    def extend(self, other: Notes) -> None:
        """Add the notes and accounts of another list."""
        self.ledger.extend(other.ledger)
        for (severity, source, message), count in other._counts.items():
            self._add(severity, source, message, count)

    def contents(self) -> Contents:
        """Return the notes and accounts, for :meth:`put`."""
        return self._counts, self.ledger

    def put(self, contents: Contents) -> None:
        """Replace all notes and accounts."""
        self._counts, self.ledger = contents

    def rewrite(self, change: Callable[[str], str]) -> None:
        """Change the messages, for example the paths in them."""
        counts, self._counts = self._counts, {}
        for (severity, source, message), count in counts.items():
            self._add(severity, source, change(message), count)

    def _add(self, severity: Severity, source: str, message: str, count: int) -> None:
        key = (severity, encodable(source), encodable(message))
        if key not in self._counts and len(self._counts) >= _LIMIT:
            key = ("warning", "notes", f"more than {_LIMIT} different notes; the rest are only counted here")
        self._counts[key] = self._counts.get(key, 0) + count

    def __len__(self) -> int:
        return len(self._counts)

    def to_frame(self) -> pd.DataFrame:
        """Return the table ``severity, source, message, count``, in the order of the notes.

        If many notes differ only in numbers, as notes per process or rank do, they become one row.
        """
        alike: dict[tuple[str, ...], list[tuple[tuple[Severity, str, str], int]]] = {}
        for key, count in self._counts.items():
            alike.setdefault(tuple(_NUMBER.sub("#", part) for part in key), []).append((key, count))
        rows = [row for group in alike.values() for row in _fold(group)]
        columns = ["severity", "source", "message", "count"]
        frame: pd.DataFrame = pd.DataFrame(rows, columns=columns, dtype=object).astype({"count": "int64"})
        return frame

    @classmethod
    def from_frame(cls, frame: pd.DataFrame) -> Notes:
        """Build the list from the result of :meth:`to_frame`."""
        notes = cls()
        for severity, source, message, count in frame.to_numpy(dtype=object).tolist():
            notes._add(severity, source, message, count)
        return notes

"""What a reader had to repair, skip or could not know: rows for ``run.notes``, shown in the report."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import pandas as pd

Severity: TypeAlias = Literal["info", "warning", "error"]

_LIMIT = 1000  # a damaged file must not turn into a million notes


@dataclass
class Notes:
    """A growing list of notes; one that repeats is counted, not listed again.

    Severities: ``info`` is worth knowing, ``warning`` means that something was repaired or skipped,
    ``error`` that something asked for is missing.
    """

    _counts: dict[tuple[Severity, str, str], int] = field(default_factory=dict)

    def info(self, source: str, message: str, count: int = 1) -> None:
        """Note something worth knowing about a file or layer (`source`)."""
        self._add("info", source, message, count)

    def warning(self, source: str, message: str, count: int = 1) -> None:
        """Note that something was repaired or skipped."""
        self._add("warning", source, message, count)

    def error(self, source: str, message: str, count: int = 1) -> None:
        """Note that something asked for could not be read or collected."""
        self._add("error", source, message, count)

    def extend(self, other: Notes) -> None:
        """Take over the notes of another list."""
        for (severity, source, message), count in other._counts.items():
            self._add(severity, source, message, count)

    def _add(self, severity: Severity, source: str, message: str, count: int) -> None:
        key = (severity, source, message)
        if key not in self._counts and len(self._counts) >= _LIMIT:
            key = ("warning", "notes", f"more than {_LIMIT} different notes; the rest are only counted here")
        self._counts[key] = self._counts.get(key, 0) + count

    def __len__(self) -> int:
        return len(self._counts)

    def to_frame(self) -> pd.DataFrame:
        """Give the table ``severity, source, message, count``, in the order noted."""
        rows = [(*key, count) for key, count in self._counts.items()]
        columns = ["severity", "source", "message", "count"]
        frame: pd.DataFrame = pd.DataFrame(rows, columns=columns, dtype=object).astype({"count": "int64"})
        return frame

    @classmethod
    def from_frame(cls, frame: pd.DataFrame) -> Notes:
        """Rebuild the list from what :meth:`to_frame` gave."""
        notes = cls()
        for severity, source, message, count in frame.to_numpy(dtype=object).tolist():
            notes._add(severity, source, message, count)
        return notes

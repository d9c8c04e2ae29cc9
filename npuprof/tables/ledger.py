"""The ledger of a reader: every input row is in a table, used for other rows, or counted by a note.

A reader registers the rows of an input (a CSV file, a database table, a stream of records, the events of a timeline)
when it has counted them, and then how they are used. After every load, :meth:`npuprof.tables.notes.Notes.settle` warns
of rows that are not accounted for, so that gaps in a reader become visible.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sized
from dataclasses import astuple, dataclass, field

import pandas as pd

from npuprof.words.texts import encodable

STATISTICS = "statistics"
"""The table of rows that the vendor has already summed, which are kept unchanged."""

_NOT_SELECTED = "what was not selected"
_COLUMNS = ("input", "rows", "in_tables", "used", "left_out")
_MAX_INPUTS = 10_000  # a damaged file must not create a million accounts
_OTHERS = "other inputs"


@dataclass
class Account:
    """The rows of an input."""

    rows: int = 0  # the number of rows
    in_tables: int = 0  # rows that became one or more rows of a table
    used: int = 0  # rows that name, end, link or describe other rows
    left_out: int = 0  # rows counted by a note with a reason

    @property
    def open(self) -> int:
        """Number of rows not accounted for; negative if rows are counted twice."""
        return self.rows - self.in_tables - self.used - self.left_out


@dataclass
class Ledger:
    """The accounts of a load by input, and the number of rows that each input contributed to each table."""

    _accounts: dict[str, Account] = field(default_factory=dict)
    _kept: dict[tuple[str, str], tuple[int, int]] = field(
        default_factory=dict
    )  # (input, table): input rows, table rows

    def read(self, source: str, rows: int) -> None:
        """Register rows of an input; each row is registered once."""
        self._account(source).rows += rows

    def keep(self, source: str, table: str, rows: int, made: int | None = None) -> None:
        """Register input rows that became rows of a table."""
        self._account(source).in_tables += rows
        self._add_kept((source, table), rows, rows if made is None else made)

    def make(self, source: str, table: str, rows: int) -> None:
        """Register table rows made from rows of another table, whose inputs are accounted for already."""
        self.keep(source, table, 0, rows)

    def replace(self, table: str, source: str | None = None) -> None:
        """Register that rows of a table, of one input or all inputs so far, are replaced by another input's rows."""
        for key in [key for key in self._kept if key[1] == table and source in (None, key[0])]:
            rows, _ = self._kept.pop(key)
            self._account(key[0]).in_tables -= rows
            self._account(key[0]).used += rows

    def deselect(self, table: str, rows: int) -> None:
        """Register rows that were read, but lie outside of the selected part of the run."""
        self._add_kept((_NOT_SELECTED, table), 0, -rows)

    def use(self, source: str, rows: int) -> None:
        """Register input rows that name, end, link or describe other rows."""
        self._account(source).used += rows

    def leave_out(self, source: str, rows: int) -> None:
        """Register input rows counted by a note; readers call :meth:`npuprof.tables.notes.Notes.leave_out`."""
        self._account(source).left_out += rows

    def open_rows(self, source: str) -> int:
        """Return the number of an input's rows that are not accounted for yet."""
        return self._accounts[source].open if source in self._accounts else 0

    def extend(self, other: Ledger) -> None:
        """Add the accounts of another ledger."""
        for source, account in other._accounts.items():
            mine = self._account(source)
            for name, rows in vars(account).items():
                setattr(mine, name, getattr(mine, name) + rows)
        for key, (rows, made) in other._kept.items():
            self._add_kept(key, rows, made)

    def imbalances(self, frames: Mapping[str, Sized]) -> Iterable[tuple[str, str, int]]:
        """Yield ``(input or table, message, rows)`` for each imbalance between the accounts and the tables `frames`."""
        for source, account in self._accounts.items():
            if account.open > 0:
                yield (
                    source,
                    "rows are in no table, for an unknown reason: figures based on it may be too low",
                    account.open,
                )
            elif account.open < 0:
                yield source, "rows are in tables more than once: figures based on it may be too high", -account.open
        for table, made in self.made().items():
            if table == STATISTICS:
                continue
            missing = made - len(frames.get(table, ()))
            if missing > 0:
                yield table, "rows were lost after they were read: figures based on it may be too low", missing
            elif missing < 0:
                yield table, "rows are in the table, but in no input", -missing

    def made(self) -> dict[str, int]:
        """Return the number of rows put into each table."""
        made: dict[str, int] = {}
        for (_, table), (_, rows) in self._kept.items():
            made[table] = made.get(table, 0) + rows
        return made

    def to_frame(self) -> pd.DataFrame:
        """Return the table ``input, rows, in_tables, used, left_out``, in reading order."""
        rows = [(encodable(source), *astuple(account)) for source, account in self._accounts.items()]
        return pd.DataFrame(rows, columns=list(_COLUMNS)).astype(dict.fromkeys(_COLUMNS[1:], "int64"))

    def _account(self, source: str) -> Account:
        return self._accounts.setdefault(self._name(source), Account())

    def _add_kept(self, key: tuple[str, str], rows: int, made: int) -> None:
        key = self._name(key[0]), key[1]
        earlier_rows, earlier_made = self._kept.get(key, (0, 0))
        self._kept[key] = (earlier_rows + rows, earlier_made + made)

    def _name(self, source: str) -> str:
        return source if source in self._accounts or len(self._accounts) < _MAX_INPUTS else _OTHERS

"""The ledger of a reader: every input row is in a table, used for other rows, or counted by a note.

A reader registers the rows of an input (a CSV file, a database table, a stream of records, the events of a timeline)
when it has counted them, and then their use. :meth:`Ledger.settle` warns after every load of rows that are not
accounted for, so that gaps of a reader become visible.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sized
from dataclasses import astuple, dataclass, field

import pandas as pd

from npuprof.texts import encodable

STATISTICS = "statistics"
"""The table of rows already summed by the vendor, which are kept unchanged."""

_NOT_SELECTED = "what was not selected"
_COLUMNS = ("input", "rows", "in_tables", "used", "left_out")
_MAX_INPUTS = 10_000  # a damaged file must not turn into a million accounts
_OTHERS = "other inputs"


@dataclass
class Account:
    """The rows of an input.

    Attributes
    ----------
    rows
        The number of rows.
    in_tables
        Rows that became one or more rows of a table.
    used
        Rows that name, end, link or describe other rows.
    left_out
        Rows counted by a note with the reason.
    """

    rows: int = 0
    in_tables: int = 0
    used: int = 0
    left_out: int = 0

    @property
    def open(self) -> int:
        """Rows not accounted for; negative if rows are counted twice."""
        return self.rows - self.in_tables - self.used - self.left_out


@dataclass
class Ledger:
    """The accounts of a load by input, and the rows that each input put into each table."""

    _accounts: dict[str, Account] = field(default_factory=dict)
    _kept: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)  # (input, table): rows, made rows

    def read(self, source: str, rows: int) -> None:
        """Register rows of an input, once per row."""
        self._account(source).rows += rows

    def keep(self, source: str, table: str, rows: int, made: int | None = None) -> None:
        """Register input rows that are rows of a table.

        Parameters
        ----------
        source
            The input.
        table
            A key of :data:`npuprof.tables.SCHEMA`, or :data:`STATISTICS`.
        rows
            The number of input rows.
        made
            The number of table rows made of them, if different.
        """
        self._account(source).in_tables += rows
        self._add_kept((source, table), rows, rows if made is None else made)

    def make(self, source: str, table: str, rows: int) -> None:
        """Register table rows made of another table's rows, whose inputs are accounted for."""
        self.keep(source, table, 0, rows)

    def replace(self, table: str, source: str | None = None) -> None:
        """Register that the rows of a table, of one input or all so far, are replaced by those of another input."""
        for key in [key for key in self._kept if key[1] == table and source in (None, key[0])]:
            rows, _ = self._kept.pop(key)
            self._account(key[0]).in_tables -= rows
            self._account(key[0]).used += rows

    def deselect(self, table: str, rows: int) -> None:
        """Register rows that were read and would be in a table, but lie outside of the part that was asked for."""
        self._add_kept((_NOT_SELECTED, table), 0, -rows)

    def use(self, source: str, rows: int) -> None:
        """Register input rows that name, end, link or describe other rows."""
        self._account(source).used += rows

    def leave_out(self, source: str, rows: int) -> None:
        """Register input rows counted by a note; readers call :meth:`npuprof.notes.Notes.leave_out`."""
        self._account(source).left_out += rows

    def open_rows(self, source: str) -> int:
        """Return the rows of an input not accounted for yet."""
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
        """Yield ``(input or table, message, rows)`` for everything that does not balance with the tables `frames`."""
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
                yield table, "rows are in the table, but were read from nowhere", -missing

    def made(self) -> dict[str, int]:
        """Return the number of rows put into each table."""
        made: dict[str, int] = {}
        for (_, table), (_, rows) in self._kept.items():
            made[table] = made.get(table, 0) + rows
        return made

    def to_frame(self) -> pd.DataFrame:
        """Return the table ``input, rows, in_tables, used, left_out``, in the order read."""
        rows = [(encodable(source), *astuple(account)) for source, account in self._accounts.items()]
        frame: pd.DataFrame = pd.DataFrame(rows, columns=list(_COLUMNS)).astype(dict.fromkeys(_COLUMNS[1:], "int64"))
        return frame

    def _account(self, source: str) -> Account:
        return self._accounts.setdefault(self._name(source), Account())

    def _add_kept(self, key: tuple[str, str], rows: int, made: int) -> None:
        key = self._name(key[0]), key[1]
        earlier_rows, earlier_made = self._kept.get(key, (0, 0))
        self._kept[key] = (earlier_rows + rows, earlier_made + made)

    def _name(self, source: str) -> str:
        return source if source in self._accounts or len(self._accounts) < _MAX_INPUTS else _OTHERS

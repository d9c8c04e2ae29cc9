"""Row accounting of a database: rows read per table, and their destination; see :mod:`npuprof.tables.ledger`."""

from __future__ import annotations

from npuprof.tables.notes import Affects, Notes, Severity


class Accounts:
    """Row accounts of the tables of a file, as ``FILE: TABLE``."""

    def __init__(self, file: str, notes: Notes) -> None:
        self._file, self._notes = file, notes
        self._read: set[str] = set()
        self._noted: set[tuple[str, str]] = set()
        self.names: dict[str, str] = {}  # those in the file by today's, where they differ
        self.damaged: set[str] = set()  # tables that could not be read to the end

    def read(self, table: str, rows: int) -> bool:
        """Register the rows of a table once; return whether this is the first call for it."""
        source = self._source(table)
        if source in self._read:
            return False
        self._read.add(source)
        self._notes.ledger.read(source, rows)
        return True

    def is_read(self, table: str) -> bool:
        """Return whether the rows of a table are registered."""
        return self._source(table) in self._read

    def read_facts(self, table: str, rows: int, unnumbered: int = 0) -> None:
        """Register a table of names or facts of the run; `unnumbered` rows cannot be used."""
        if self.read(table, rows):
            self.use(table, rows - unnumbered)
            self.leave_out(table, "a name has no readable number", unnumbered, affects="rows that it names")

    def keep(self, table: str, name: str, rows: int, made: int | None = None) -> None:
        """Register rows that become rows of table `name`; see :meth:`npuprof.tables.ledger.Ledger.keep`."""
        if rows or made:
            self._notes.ledger.keep(self._source(table), name, rows, made)

    def use(self, table: str, rows: int) -> None:
        """Register rows that describe, link or repeat other rows."""
        if rows:
            self._notes.ledger.use(self._source(table), rows)

    def replace(self, table: str, name: str) -> None:
        """Register that table `name` of the profile shows the same rows from another input."""
        self._notes.ledger.replace(name, self._source(table))

    def leave_out(
        self, table: str, reason: str, rows: int, *, affects: Affects = (), severity: Severity = "warning"
    ) -> None:
        """Note rows that are in no table, once per table and reason."""
        if rows and (table, reason) not in self._noted:
            self._noted.add((table, reason))
            self._notes.leave_out(self._source(table), reason, rows, affects=affects, severity=severity)

    def settle_damaged(self) -> None:
        """Note the rows of a damaged table that were not returned by every query."""
        for table in sorted(self.damaged):
            if (rows := self._notes.ledger.open_rows(self._source(table))) > 0:
                self.leave_out(table, "the table is damaged, and not every reading of it has this row", rows)
            elif rows:
                self._notes.ledger.read(self._source(table), -rows)  # an earlier query ended before a later one

    def _source(self, table: str) -> str:
        return f"{self._file}: {self.names.get(table, table)[:80]}"

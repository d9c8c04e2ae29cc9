"""How a table of a database is declared: where its columns are, what they become, and what is lost without it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, TypeAlias

Due: TypeAlias = Literal["", "always", "cpu", "npu", "memory", "metrics"]
"""Which runs have a table: all, or those that record calls of torch, the device, memory, or metrics of kernels."""

BASE = "@base"
"""Follows the name of a column of times that count from ``SESSION_TIME_INFO.baseTimeNs``."""


@dataclass(frozen=True)
class SqlColumn:
    """A column of a table in a database."""

    names: tuple[str, ...]  # over the versions: the first one that a file has is read
    kind: str = ""  # what its values are, as `format` lists; empty for a column that is not read here
    to: str = ""  # the column of the profile's table that it becomes; empty if it only joins rows
    more: tuple[str, ...] = ()  # the values that mean none, the table of names, or the name of a counter
    is_optional: bool = False
    may_be_blank: bool = False
    refers_to: str = ""  # the table that its numbers refer to, and what is lost without that
    lost: str = ""
    since_base: frozenset[str] = frozenset()  # the names under which times count from the start of the collection

    @property
    def name(self) -> str:
        """Its name today."""
        return self.names[0]

    def name_in(self, known: Collection[str]) -> str:
        """Return its name in a file with the known columns."""
        for name in self.names:
            if name in known:
                return name
        return self.name


@dataclass(frozen=True)
class SqlTable:
    """A table of a database; :mod:`npuprof.sources.database.format` says how to write one."""

    names: str  # its name today, and the older one after a comma
    text: str  # a line for each column
    fills: tuple[str, ...] = ()  # the tables of the profile that lack rows if it does
    what: str = "what is made of it is"  # what is incomplete then, with its verb
    is_of_run: bool = True  # whether a database with this table holds a run
    due: Due = ""  # which runs have it, and what is missing without it
    without: str = ""
    usual: Literal["", "all", "torch"] = ""  # which results have it
    samples: bool = False  # whether its rows are samples, which become counters
    statistic: str = ""  # the frame of `statistics` that keeps its rows, with sums of the vendor
    columns: tuple[SqlColumn, ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        """Read the lines of the columns."""
        columns = tuple(column for line in self.text.splitlines() if line.strip() for column in _columns(line))
        object.__setattr__(self, "columns", columns)

    @property
    def name(self) -> str:
        """Its name today."""
        return self.names.partition(", ")[0]

    @property
    def older_name(self) -> str:
        """Its name in early 2024, if another."""
        return self.names.partition(", ")[2]

    @cached_property
    def by_name(self) -> dict[str, SqlColumn]:
        """The columns by their name today."""
        return {column.name: column for column in self.columns}

    @cached_property
    def filled(self) -> frozenset[str]:
        """The names of columns that every version fills in each row; the loss of a time has a note of its own."""
        if self.samples:
            return frozenset()
        always = (column for column in self.columns if not column.is_optional and not column.may_be_blank)
        filled = (column for column in always if column.kind not in ("time", "end", "moment"))
        return frozenset(name for column in filled for name in column.names)

    def difference(self, known_names: Collection[str]) -> tuple[set[str], set[str]]:
        """Return the columns that a file lacks though every version has them, and those that are not known."""
        have = set(known_names)
        missing = {column.name for column in self.columns if not column.is_optional and not have & {*column.names}}
        return missing, have.difference(*(column.names for column in self.columns))


def _columns(line: str) -> list[SqlColumn]:
    """Return the column of a line, or the columns of a line of names alone, of which nothing is read."""
    source, _, rest = (part.strip() for part in line.partition("|"))
    described, _, reference = (part.strip() for part in rest.partition("->"))
    optional, blank = source.startswith("["), source.endswith("?")
    names = source.strip("[]?").split(", " if rest else None)
    if not rest:
        return [SqlColumn((name.strip(","),), is_optional=optional) for name in names]
    to, kind, *more = described.split()
    refers_to, _, lost = reference.partition(": ")
    if kind == "names":
        refers_to, lost = refers_to or more[0], lost or "the names of its numbers are missing"
    return [
        SqlColumn(
            tuple(name.removesuffix(BASE) for name in names),
            kind,
            "" if to == "-" else to,
            tuple(more),
            optional,
            blank,
            refers_to,
            lost,
            frozenset(name.removesuffix(BASE) for name in names if name.endswith(BASE)),
        )
    ]

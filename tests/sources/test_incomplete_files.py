"""A damaged file makes those tables incomplete that it fills."""

from __future__ import annotations

from npuprof.sources.incomplete_files import tables_of
from npuprof.sources.text.csv_kinds import KINDS
from npuprof.tables.notes import ANY


def test_every_kind_of_file_names_the_table_that_it_fills() -> None:
    of_kinds = {name: tables_of(f"{name}_20260101.csv") for kind in KINDS for name in kind.names if kind.table}
    assert {name: tables[0] for name, tables in of_kinds.items()} == {
        name: kind.table for kind in KINDS for name in kind.names if kind.table
    }
    assert {tables_of(f"{name}.csv") for kind in KINDS for name in kind.names if not kind.table} == {()}
    assert tables_of("trace_view.json") == tables_of("msprof_1.db") == ANY
    assert tables_of("communication.json") == ()

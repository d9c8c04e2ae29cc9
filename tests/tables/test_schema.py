"""The definition of columns: every column is explained, and readers and pages take it from there."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import npuprof
from npuprof import tables
from npuprof.errors import OptionsError
from npuprof.sources.database import format as databases
from npuprof.sources.text import kernel_details
from npuprof.tables import schema
from npuprof.tables.schema import SCHEMA, explain
from npuprof.words.glossary import TERMS, with_meanings
from tests.sources.database.maker import Maker, add_launches
from tests.sources.msprof.results import csv
from tests.sources.trace.maker import at

_DATABASE_TABLES = {
    "steps": "STEP_TIME",
    "operators": "PYTORCH_API",
    "api": "CANN_API",
    "tasks": "TASK",
    "communication": "COMMUNICATION_OP",
    "communication_tasks": "COMMUNICATION_TASK_INFO",
    "overlap": "OVERLAP_ANALYSIS",
    "memory": "MEMORY_RECORD",
    "allocations": "OP_MEMORY",
    "marks": "MSTX_EVENTS",
}


@pytest.mark.parametrize("table", SCHEMA)
def test_columns_have_meaning_unit_and_dtype(table: str) -> None:
    whole = npuprof.explain(table)
    for column in SCHEMA[table].columns:
        told = npuprof.explain(f"{table}.{column.name}")
        assert column.meaning
        assert f"{column.name} " in whole
        assert column.meaning in told.splitlines()[0]
        assert column.dtype in told
        assert ("may be absent" in told) == column.may_be_absent
        assert all(name in told for names in column.names.values() for name in names)


def test_equal_names_mean_equal_kinds() -> None:
    kinds: dict[str, set[str]] = {}
    for table in SCHEMA.values():
        for column in table.columns:
            kinds.setdefault(column.name, set()).add(column.kind.rstrip("?"))
    assert {name for name, found in kinds.items() if len(found) > 1} == set()


@pytest.mark.parametrize("table", _DATABASE_TABLES)
def test_names_in_databases_are_columns_that_databases_have(table: str) -> None:
    described = SCHEMA[table].names_in("db")
    known = {name for column in databases.TABLES[_DATABASE_TABLES[table]].columns for name in column.names}
    assert {name for names in described.values() for name in names} <= known, (
        "the schema names columns that are missing in sources/database/format.py"
    )


def _add_to_kernels(line: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Add a line to the table of kernels, and return the name of the column."""
    column = schema._column(line)
    tables.empty("kernels")  # made once, and not of this schema
    kernels = replace(SCHEMA["kernels"], columns=(*SCHEMA["kernels"].columns, column))
    monkeypatch.setattr("npuprof.tables.schema.SCHEMA", {**SCHEMA, "kernels": kernels})
    for module in ("npuprof.tables", "npuprof.sources.text.kernel_details", "npuprof.sources.database.format"):
        monkeypatch.setattr(f"{module}.SCHEMA", schema.SCHEMA)
    monkeypatch.setitem(kernel_details._HEADERS, column.name, column.names["csv"])
    monkeypatch.setitem(databases.TABLES, "COMPUTE_TASK_INFO", databases.compute_task_info())
    return column.name


@pytest.mark.parametrize(
    ("described", "header", "cell", "expected"),
    [
        ("dispatch_ns int?", "dispatch(ns)", "1500", 1500),
        ("dispatch_ns int?", "dispatch(us)", "1.5", 1500),
        ("dispatch_ns int?", "dispatch(ms)", "0.0015", 1500),
        ("spilled_bytes int?", "spilled(KB)", "1.5", 1536),
        ("waves int?", "waves", "3", 3),
        ("load_percent float", "load(%)", "12.5", 12.5),
        ("layout name", "layout", "tiled", "tiled"),
        ("fused flag", "fused", "YES", True),
    ],
)
def test_one_line_adds_a_kernel_column_in_csv(
    described: str, header: str, cell: str, expected: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = _add_to_kernels(f"{described} what it says | csv {header} | db {header}", monkeypatch)
    head = "Name,Type,Accelerator Core,Start Time(us),Duration(us),Wait Time(us),Block Dim"
    path = csv(tmp_path / "kernel_details.csv", f"{head},{header}", [f"Add,Add,AI_CORE,{at(5)},1,0,2,{cell}"])
    kernels = npuprof.load(path).kernels
    assert kernels[name].tolist() == [expected]
    assert kernels[name].dtype == schema.SCHEMA["kernels"].columns[-1].dtype


@pytest.mark.parametrize(
    ("described", "column", "cell", "expected"),
    [
        ("dispatch_ns int?", "dispatchNs:INTEGER", 1500, 1500),
        ("load_percent float", "load:REAL", 12.5, 12.5),
        ("layout name", "layout:INTEGER", "YES", "YES"),
        ("fused flag", "fused:INTEGER", "YES", True),
    ],
)
def test_one_line_adds_a_kernel_column_in_databases(
    described: str, column: str, cell: Any, expected: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    header = column.partition(":")[0]
    name = _add_to_kernels(f"{described} what it says | csv {header} | db {header}", monkeypatch)
    maker = Maker(tmp_path / "msprof_1.db")
    add_launches(maker, extras=column, extra=[maker.text(cell) if isinstance(cell, str) else cell])
    kernels = npuprof.load(maker.close()).kernels
    assert kernels[name].tolist() == [expected] * 2
    assert kernels[name].dtype == schema.SCHEMA["kernels"].columns[-1].dtype


def test_unknown_name_suggests_near_ones() -> None:
    with pytest.raises(OptionsError, match="there is no table or word 'kernel': tables are steps, "):
        npuprof.explain("kernel")
    with pytest.raises(OptionsError, match=r"kernels has no column 'block_dim'.*is it block_num"):
        npuprof.explain("kernels.block_dim")


def test_words_of_reports_are_explained_too() -> None:
    assert explain("hccs") == f"HCCS: {TERMS['HCCS']}"
    with pytest.raises(OptionsError, match=r"no table or word 'HCSS' \(did you mean HCCS"):
        explain("HCSS")


def test_first_place_of_a_word_shows_its_meaning() -> None:
    shown = with_meanings('<b title="HCCS">a mte2 of HCCS, &lt;HCCS&gt; again</b>')
    assert shown.count("<abbr") == 2
    assert '<b title="HCCS">' in shown
    assert re.sub(r"</?abbr[^>]*>", "", shown) == '<b title="HCCS">a mte2 of HCCS, &lt;HCCS&gt; again</b>'
    assert with_meanings("a rank, a submte2x and chatMFU") == "a rank, a submte2x and chatMFU"

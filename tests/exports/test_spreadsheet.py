"""Tables as CSV and as workbooks: what a spreadsheet shows is what the run had, and none of it is a formula."""

from __future__ import annotations

import csv
import gc
import io
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import npuprof
from npuprof.errors import NpuprofError, NpuprofWarning
from npuprof.exports import spreadsheet
from npuprof.sources.base import Decoded
from npuprof.tables.notes import Notes
from tests import factories
from tests.full_disk import small_files

_HOSTILE = ("=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "  =1", "＝1", '=HYPERLINK("http://192.0.2.1")')
_ACTS = re.compile(r"\s*[=+\-@\t\r＝＋－＠]")
_TEXTS = st.text(st.characters(), max_size=20)
_START = 1_760_000_000_123_456_789


def run_of(*names: str) -> npuprof.Profile:
    given_tables = factories.all_tables(**factories.profile(40, kernel_names=list(names) or ["MatMul"]))
    return npuprof.Profile(Decoded(given_tables, factories.info(), Notes()))


def csv_of(frame: pd.DataFrame) -> str:
    out = io.StringIO(newline="")
    spreadsheet.write_csv(out, frame)
    return out.getvalue()


def book_of(**frames: pd.DataFrame) -> Any:
    out = io.BytesIO()
    spreadsheet.write_xlsx(out, frames)
    return openpyxl.load_workbook(out)


@pytest.mark.slow
@given(st.lists(st.tuples(_TEXTS, st.integers(-(2**63), 2**63 - 1)), min_size=1, max_size=4), _TEXTS)
@example([("\ud800=1", _START)], "=heading")
@example([("\ufffe\uffff", 1)], "_x003D_1")
@example([("#REF!", 1), ("_x003D_1", 1)], "a;=1")
def test_any_text_comes_back_without_a_formula_and_any_number_exactly(
    rows: list[tuple[str, int]], heading: str
) -> None:
    texts = pd.Series([text for text, _ in rows], dtype=object)
    frame = pd.DataFrame({heading: texts, "start_ns ": [number for _, number in rows]})
    kept = [re.sub(r"\s|'", "", spreadsheet._safe(text)) for text in (heading, *frame[heading])]
    lines = list(csv.reader(io.StringIO(csv_of(frame), newline="")))
    cells = [[cell.value for cell in row] for row in book_of(table=frame)["table"].rows]
    assert [int(line[1]) for line in lines[1:]] == [int(row[1]) for row in cells[1:]] == [number for _, number in rows]
    for line, row, text in zip(lines, cells, kept, strict=True):
        in_book = (row[0] or "").replace("_x005F_", "_")
        assert re.sub(r"\s|'", "", line[0]) == text
        assert re.sub(r"\s|'", "", in_book) == re.sub("[\ufffe\uffff]", "\ufffd", text)
        assert not _ACTS.match(line[0])
        assert not _ACTS.match(in_book)


@pytest.mark.parametrize("text", _HOSTILE)
def test_a_text_that_acts_has_an_apostrophe(text: str) -> None:
    assert spreadsheet._safe(text).startswith("'")
    assert book_of(names=pd.DataFrame({"name": [text]}))["names"]["A2"].data_type == "s"


def test_part_between_semicolons_has_its_cell() -> None:
    line = csv_of(pd.DataFrame({"a": [1], "name": ["x;=cmd()\n@SUM(1)"]})).split("\n", 1)[1]
    assert not [cell for cell in re.split(r"[;\n]", line) if _ACTS.match(cell)]


def test_absent_values_are_empty_and_floats_are_whole() -> None:
    frame = pd.DataFrame(
        {
            "rank": pd.array([2**62 + 1, None], "Int64"),
            "share": [1 / 3, np.nan],
            "hf32": pd.array([True, None], "boolean"),
            "name": pd.Categorical(["Add", None]),
            "far": [np.inf, 1.0],
        }
    )
    assert csv_of(frame).splitlines()[1:] == [
        f'{2**62 + 1},0.3333333333333333,True,"Add",inf',
        '"","","","",1.0',
    ]
    rows = [[cell.value for cell in row] for row in book_of(table=frame)["table"].rows]
    assert rows[1:] == [[str(2**62 + 1), 1 / 3, True, "Add", "inf"], [None, None, None, None, 1]]


def test_an_index_with_a_name_is_a_column() -> None:
    frame = pd.DataFrame({"count": [3]}, index=pd.Index(["=Add"], name="op"))
    assert csv_of(frame) == '"op","count"\n"\'=Add",3\n'


@pytest.mark.slow
def test_a_run_writes_its_tables_and_its_answers(tmp_path: Path) -> None:
    run = run_of("=cmd|'/C calc'!A0", "Add")
    for given_table, wanted in (
        ("kernels", run.kernels),
        (run.by("kernel"), run.by("kernel")),
        (run.advice().to_frame(), run.advice().to_frame()),
    ):
        back = pd.read_csv(run.to_csv(tmp_path / "table.csv", given_table))
        assert list(back) == list(wanted)
        assert len(back) == len(wanted)
    assert pd.read_csv(run.to_csv(tmp_path / "k.csv.gz", "kernels"))["start_ns"].equals(run.kernels["start_ns"])
    assert "=cmd" not in re.sub("'=cmd", "", (run.to_csv(tmp_path / "k.csv", "kernels")).read_text())
    book = openpyxl.load_workbook(run.to_xlsx(tmp_path / "run.xlsx"))
    assert {name for name, table in run.tables.items() if len(table)} <= set(book.sheetnames)
    starts = [int(cell.value) for cell in book["kernels"]["A"][1:]]
    assert starts == run.kernels["start_ns"].tolist()
    assert openpyxl.load_workbook(run.to_xlsx(tmp_path / "one.xlsx", "steps")).sheetnames == ["steps"]
    assert openpyxl.load_workbook(run.to_xlsx(tmp_path / "by.xlsx", {"a/b": run.by("op")})).sheetnames == ["a_b"]


@pytest.mark.slow
def test_a_set_writes_the_tables_of_all_ranks(tmp_path: Path) -> None:
    for rank in range(2):
        run_of().save(tmp_path / "job" / str(rank))
    runs = npuprof.load_set(tmp_path / "job")
    assert len(pd.read_csv(runs.to_csv(tmp_path / "k.csv", "kernels"))) == len(runs.table("kernels"))
    assert openpyxl.load_workbook(runs.to_xlsx(tmp_path / "k.xlsx", ["kernels", "info"])).sheetnames == [
        "kernels",
        "info",
    ]
    with pytest.raises(NpuprofError, match="there is no table 'kernel'"):
        runs.to_csv(tmp_path / "none.csv", "kernel")


def test_what_is_wrong_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_of()
    with pytest.raises(NpuprofError, match="there is no table 'kernel'"):
        run.to_csv(tmp_path / "none.csv", "kernel")
    with pytest.raises(NpuprofError, match="name a table"):
        npuprof.Profile(Decoded()).to_xlsx(tmp_path / "none.xlsx")
    wide = pd.DataFrame(np.zeros((1, 16_385), np.int8))
    with pytest.raises(NpuprofError, match="more columns"):
        run.to_xlsx(tmp_path / "none.xlsx", {"wide": wide})
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(NpuprofError, match=r"pip install 'npuprof\[xlsx\]'"):
        run.to_xlsx(tmp_path / "none.xlsx")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_rows_that_a_sheet_does_not_hold_are_in_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spreadsheet, "_MOST_ROWS", 15)
    run = run_of()
    with pytest.warns(NpuprofWarning, match="kernels has 40 rows, more than a sheet holds: they are in 3 sheets"):
        book = openpyxl.load_workbook(run.to_xlsx(tmp_path / "k.xlsx", "kernels"))
    rows = [row for sheet in book for row in list(sheet.values)[1:]]
    assert book.sheetnames == ["kernels", "kernels (2)", "kernels (3)"]
    assert [int(row[0]) for row in rows] == run.kernels["start_ns"].tolist()


def test_a_text_longer_than_a_cell_is_cut_and_reported() -> None:
    with pytest.warns(NpuprofWarning, match="texts in 1 row of names are cut"):
        book = book_of(names=pd.DataFrame({"name": ["x" * 40_000, "y"]}))
    assert len(book["names"]["A2"].value) == 32_767


@pytest.mark.slow
@given(st.lists(_TEXTS | st.sampled_from(["History", "a" * 40, "A" * 40, "''", "/"]), min_size=1, max_size=5))
def test_titles_are_valid_and_differ(names: list[str]) -> None:
    taken: set[str] = set()
    titles = [spreadsheet._title(name, taken) for name in names]
    assert len({title.lower() for title in titles}) == len(titles)
    for title in titles:
        assert 0 < len(title) <= 31
        assert not re.search(r"[\[\]:*?/\\\x00-\x1f]|^'|'$", title)
        assert title.lower() != "history"
        title.encode()


@pytest.mark.slow
def test_private_file_survives_a_full_disk(tmp_path: Path) -> None:
    run = run_of()
    before = os.umask(0)
    try:
        for path in (run.to_csv(tmp_path / "k.csv", "kernels"), run.to_xlsx(tmp_path / "k.xlsx", "kernels")):
            assert path.stat().st_mode & 0o777 == 0o600
            good = path.read_bytes()
            with small_files(100), pytest.raises(NpuprofError, match="cannot be written"):
                run.to_csv(path, "kernels") if path.suffix == ".csv" else run.to_xlsx(path, "kernels")
            gc.collect()  # which warns of an archive that is still open
            assert path.read_bytes() == good
    finally:
        os.umask(before)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["k.csv", "k.xlsx"]

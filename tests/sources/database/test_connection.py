"""A file is read in columns, exactly and within bounds, and never changed."""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npuprof.errors import SourceError
from npuprof.sources.columns.builders import ABSENT
from npuprof.sources.database import connection
from npuprof.sources.database.connection import _DIGITS, _WHOLE, is_database, open_database
from npuprof.sources.database.reader import Reader
from npuprof.tables.notes import Notes
from tests.budget import examples
from tests.sources.database.maker import START_NS, Maker, checksum


def _maker(tmp_path: Path) -> Maker:
    return Maker(tmp_path / "some name %20?#.db")


def test_times_kept_as_text_are_exact(tmp_path: Path) -> None:
    path = _maker(tmp_path).table("T", "startNs:TEXT", [(str(START_NS + row),) for row in range(3)]).close()
    with open_database(path, Notes()) as database:
        assert database.rows("T", ["startNs"])["startNs"].tolist() == [START_NS, START_NS + 1, START_NS + 2]


@pytest.mark.parametrize(
    "value", ["1.23282223630523e+17", "", "-5", "12a", " 12", "99999999999999999999", b"12", None, 1.5]
)
def test_fraction_is_absent_and_not_rounded(tmp_path: Path, value: object) -> None:
    path = _maker(tmp_path).table("T", "a:NUMERIC b:TEXT c", [(None, value, 7)]).close()
    with open_database(path, Notes()) as database:
        rows = database.rows("T", ["b", "c"])
    assert rows["b"].tolist() == [ABSENT]
    assert rows["c"].tolist() == [7]


def test_text_in_a_column_of_integers_does_not_end_the_reading(tmp_path: Path) -> None:
    path = _maker(tmp_path).table("T", "a b", [(1, 2), ("nonsense", 3), (None, 4), ("12", 5)]).close()
    with open_database(path, Notes()) as database:
        rows = database.rows("T", ["a", "b"])
    assert rows["a"].tolist() == [1, ABSENT, ABSENT, 12]
    assert rows["b"].tolist() == [2, 3, 4, 5]


def test_floats_and_columns_that_are_not_there(tmp_path: Path) -> None:
    path = _maker(tmp_path).table("T", "a f:REAL", [(1, 0.5), (2, None), (3, "x"), (4, 9e999)]).close()
    with open_database(path, Notes()) as database:
        rows = database.rows("T", ["a", "gone"], ["f", "lost"])
        nothing = database.rows("NOT_THERE", ["a"], ["f"])
    assert rows["gone"].tolist() == [ABSENT] * 4
    assert rows["f"][0] == 0.5
    assert np.isnan(rows["f"][1:]).all()
    assert np.isnan(rows["lost"]).all()
    assert (len(nothing["a"]), len(nothing["f"])) == (0, 0)


def test_rows_follow_the_table(tmp_path: Path) -> None:
    maker = _maker(tmp_path).table("T", "a f:REAL", [(3, 3.0), (1, 1.0), (2, 2.0)])
    path = maker.run("CREATE INDEX whole ON T (a)").run("CREATE INDEX other ON T (f, a)").close()
    with open_database(path, Notes()) as database:
        rows = database.rows("T", ["a"], ["f"])
    assert rows["a"].tolist() == rows["f"].tolist() == [3, 1, 2]


def test_names_of_tables_and_columns_are_never_run(tmp_path: Path) -> None:
    name, column = 'x"; DROP TABLE y; --', 'a" FROM y; --'
    quoted = [part.replace('"', '""') for part in (name, column)]
    maker = _maker(tmp_path).run(f'CREATE TABLE "{quoted[0]}" ("{quoted[1]}" INTEGER)')
    path = maker.run(f'INSERT INTO "{quoted[0]}" VALUES (5)').close()
    with open_database(path, Notes()) as database:
        assert database.rows(name, [column])[column].tolist() == [5]


def test_views_are_not_tables(tmp_path: Path) -> None:
    endless = (
        "CREATE VIEW TASK AS WITH RECURSIVE n(startNs) AS (VALUES(1) UNION ALL SELECT startNs FROM n) SELECT * FROM n"
    )
    path = _maker(tmp_path).run(endless).close()
    with open_database(path, Notes()) as database:
        assert not database.has("TASK")
        assert len(database.rows("TASK", ["startNs"])["startNs"]) == 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["table", "view"])
def test_a_schema_without_end_is_refused(tmp_path: Path, kind: str) -> None:
    maker = _maker(tmp_path).table("TASK", "a", [(1,)]).run("PRAGMA writable_schema = ON")
    body = "create table t{0} (a)" if kind == "table" else "create view t{0} as select 1"
    numbers = "WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < 30000)"
    sql = body.replace("{0}", "' || i || '")
    path = maker.run(
        f"INSERT INTO sqlite_master (type, name, tbl_name, rootpage, sql) {numbers} "
        f"SELECT '{kind}', 't' || i, 't' || i, {2 if kind == 'table' else 0}, '{sql}' FROM n"
    ).close()
    with (
        pytest.raises(SourceError, match="more tables or views than any profile has; is it another file"),
        open_database(path, Notes()),
    ):
        pass


def test_tables_beyond_the_bound_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_MAX_TABLES", 3)
    maker = _maker(tmp_path)
    for number in range(5):
        maker.table(f"T{number}", "a", [(1,)])
    notes = Notes()
    with open_database(maker.close(), notes) as database:
        assert len(database.tables) == 3
    assert "only the first 3 tables are looked at" in notes.to_frame()["message"].tolist()


@pytest.mark.parametrize("lost", [1, 4096, 9000])
def test_a_cut_file_says_by_how_much(tmp_path: Path, lost: int) -> None:
    path = _maker(tmp_path).table("T", "a b:TEXT", [(row, "x" * 100) for row in range(2000)]).close()
    whole = path.read_bytes()
    for content, told in ((whole, 0), (whole[:-lost], 1), (whole + bytes(4096), 0)):
        path.write_bytes(content)
        notes = Notes()
        with open_database(path, notes) as database:
            database.rows("T", ["a"])
        found = notes.to_frame()["message"].str.contains(rf"the file was cut: {lost:,} bytes? missing at its end")
        assert found.sum() == told


def test_reading_changes_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    maker = _maker(tmp_path).run("PRAGMA journal_mode = WAL")
    path = maker.table("T", "a", [(1,)]).close()
    before = checksum(path)
    with open_database(path, Notes()) as database:
        assert database.rows("T", ["a"])["a"].tolist() == [1]
        with pytest.raises(sqlite3.OperationalError):
            database._connection.execute("CREATE TABLE more (a)")
    assert checksum(path) == before


def test_a_journal_beside_the_file_is_reported(tmp_path: Path) -> None:
    path = _maker(tmp_path).close()
    path.with_name(path.name + "-wal").write_bytes(b"something")
    notes = Notes()
    with open_database(path, notes):
        pass
    assert "-wal lies beside it" in notes.to_frame()["message"].iloc[0]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "is empty"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "git lfs pull"),
        (b"startNs,endNs\n1,2\n", "no SQLite database"),
        (b"SQLite format 3\0" + bytes(84), "damaged"),
        (b"SQLite format 3\0" + b"\xff" * 5000, "damaged"),
    ],
)
def test_foreign_file_is_no_database(tmp_path: Path, content: bytes, told: str) -> None:
    path = tmp_path / "ascend_pytorch_profiler.db"
    path.write_bytes(content)
    with pytest.raises(SourceError, match=told), open_database(path, Notes()):
        pass
    assert is_database(path) == content.startswith(b"SQLite")


def test_the_rows_before_the_damage_are_kept_and_reported(tmp_path: Path) -> None:
    rows = [(row, "x" * 100) for row in range(5000)]
    path = _maker(tmp_path).table("T", "a b:TEXT", rows).close()
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    notes = Notes()
    with open_database(path, notes) as database:
        found = database.rows("T", ["a"])["a"]
    found = found[found != ABSENT]  # the last page was cut in its middle
    assert 0 < len(found) < 5000
    assert (np.diff(found) > 0).all()
    assert notes.to_frame()["message"].str.contains("damaged after").any()


@pytest.mark.slow
@settings(max_examples=examples(30))
@given(st.binary(min_size=1, max_size=400), st.integers(0, 4000))
def test_damage_anywhere_gives_rows_or_an_error_of_ours(
    tmp_path_factory: pytest.TempPathFactory, junk: bytes, place: int
) -> None:
    path = tmp_path_factory.mktemp("damaged") / "a.db"
    Maker(path).table("T", "a b:TEXT", [(row, "text") for row in range(200)]).close()
    content = bytearray(path.read_bytes())
    content[place : place + len(junk)] = junk
    path.write_bytes(content)
    with suppress(SourceError), open_database(path, Notes()) as database:
        assert len(database.rows("T", ["a"])["a"]) <= 100_000
        Reader(database).strings.text(1)


@pytest.mark.parametrize("expression", [_WHOLE, _DIGITS])
@given(
    text=st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=24)
    | st.text("0123456789.e-", max_size=21)
)
def test_only_digits_are_cast(expression: str, text: str) -> None:
    with closing(sqlite3.connect(":memory:")) as memory:
        memory.execute("CREATE TABLE one (value TEXT)")
        memory.execute("INSERT INTO one VALUES (?)", (text,))
        ((found,),) = memory.execute(f"SELECT {expression.format('value')} FROM one").fetchall()
    is_number = text.isascii() and text.isdigit() and len(text) < 20
    assert found == (min(int(text), 2**63 - 1) if is_number else ABSENT)


def test_a_name_without_a_text_is_absent_and_reported(tmp_path: Path) -> None:
    maker = _maker(tmp_path)
    known, nothing = maker.text("known"), maker.text("N/A")
    notes = Notes()
    with open_database(maker.close(), notes) as database:
        column = Reader(database).strings.column(np.array([known, nothing, 99, 99, ABSENT]))
    assert column.astype(object).tolist()[0] == "known"
    assert list(column.codes) == [0, -1, -1, -1, -1]
    assert notes.to_frame()["count"].tolist() == [2]


def test_long_texts_are_cut(tmp_path: Path) -> None:
    maker = _maker(tmp_path)
    number = maker.text("x" * 300_000)
    with open_database(maker.close(), Notes()) as database:
        assert len(Reader(database).strings.text(number) or "") == 64 << 10

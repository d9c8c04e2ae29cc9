"""Every row of a database is in a table, used for others, or counted by a note, whatever its cells hold."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from itertools import cycle, groupby, zip_longest
from operator import itemgetter
from pathlib import Path

import pytest

from npuprof import tables
from npuprof.sources import database
from npuprof.sources.base import Decoded
from npuprof.sources.database.connection import open_database
from npuprof.tables.notes import Notes
from tests.budget import examples
from tests.sources.database.maker import Maker, add_launches, framework_database

_COMPUTED = {"links", "overlap"}  # of other tables
_DAMAGE = ("NULL", "'word'", "-1", "1e300", "x'00ff'")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return framework_database(tmp_path_factory.mktemp("whole") / "ascend_pytorch_profiler_3.db")


def _columns(path: Path) -> list[tuple[str, str]]:
    with open_database(path, Notes()) as opened:
        return [(table, column) for table, columns in sorted(opened.tables.items()) for column in columns]


def _rows(decoded: Decoded) -> dict[str, int]:
    return {name: len(decoded.tables.get(name, ())) for name in tables.NAMES}


@pytest.mark.slow
def test_a_sound_database_balances_and_every_table_is_accounted_for(whole: Path) -> None:
    decoded = database.read(whole)
    assert not list(decoded.notes.ledger.imbalances(decoded.tables))
    filled = {name for name, rows in _rows(decoded).items() if rows}
    assert filled - decoded.notes.ledger.made().keys() <= _COMPUTED
    account = decoded.notes.ledger.to_frame().query("rows > 0")  # what is computed is of other tables
    with closing(sqlite3.connect(whole)) as connection:
        for source, rows in zip(account["input"], account["rows"], strict=True):
            table = source.partition(": ")[2]
            assert rows == connection.execute(f'SELECT count(*) FROM "{table}"').fetchone()[0], table


def _rounds(columns: list[tuple[str, str]]) -> list[list[tuple[str, str]]]:
    """Return which columns are damaged in one reading: one of each table, or with many examples only one at all."""
    if examples(1) > 1:
        return [[column] for column in columns]
    by_table = [list(found) for _, found in groupby(columns, key=itemgetter(0))]
    return [[column for column in found if column] for found in zip_longest(*by_table)]


@pytest.mark.slow
def test_damaged_cells_cost_no_row_without_a_note(whole: Path, tmp_path: Path) -> None:
    sound = _rows(database.read(whole))
    kinds = cycle(_DAMAGE)
    for number, damaged in enumerate(_rounds(_columns(whole))):
        path = tmp_path / f"{number}" / whole.name
        path.parent.mkdir()
        path.write_bytes(whole.read_bytes())
        with closing(sqlite3.connect(path)) as connection:
            for table, column in damaged:
                last = f'(SELECT max(rowid) FROM "{table}")'
                connection.execute(f'UPDATE "{table}" SET "{column}" = {next(kinds)} WHERE rowid = {last}')
            connection.commit()
        decoded = database.read(path)
        assert not list(decoded.notes.ledger.imbalances(decoded.tables)), damaged
        lost = {name: sound[name] - rows for name, rows in _rows(decoded).items() if name not in _COMPUTED}
        notes = decoded.notes.to_frame().query("severity in ('warning', 'error')")
        assert notes["count"].sum() >= max(lost.values()), (damaged, lost)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("table", "column", "count"),
    [
        ("TASK", "deviceId", 5),  # else the tasks of each device are those of device 0
        ("TASK", "connectionId", 5),
        ("CANN_API", "globalTid", 5),
        ("COMPUTE_TASK_INFO", "name", 2),
        ("COMMUNICATION_TASK_INFO", "size", 1),
        ("STEP_TIME", "id", 1),
        ("STRING_IDS", "value", 40),
    ],
)
def test_empty_required_cells_are_reported(whole: Path, tmp_path: Path, table: str, column: str, count: int) -> None:
    path = tmp_path / whole.name
    path.write_bytes(whole.read_bytes())
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f'UPDATE "{table}" SET "{column}" = NULL')
        connection.commit()
    decoded = database.read(path)
    notes = decoded.notes.to_frame().query("severity == 'warning'").set_index("message")["count"]
    assert notes[f"{table}.{column}: a value is missing, or of another type; taken as absent"] == count
    if table == "STEP_TIME":
        assert decoded.tables["steps"]["step"].isna().all()


@pytest.mark.slow
def test_a_kernel_that_is_described_twice_counts_once(whole: Path, tmp_path: Path) -> None:
    path = tmp_path / whole.name
    path.write_bytes(whole.read_bytes())
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("INSERT INTO COMPUTE_TASK_INFO SELECT * FROM COMPUTE_TASK_INFO")
        connection.commit()
    decoded = database.read(path)
    assert decoded.tables["kernels"].equals(database.read(whole).tables["kernels"])
    assert not list(decoded.notes.ledger.imbalances(decoded.tables))
    told = decoded.notes.to_frame().set_index("source")["count"]
    assert told[f"{whole.name}: COMPUTE_TASK_INFO"] == 2


@pytest.mark.slow
@pytest.mark.parametrize("task", [2, 3])
def test_kernels_that_nothing_describes_are_reported_with_their_number(whole: Path, tmp_path: Path, task: int) -> None:
    path = tmp_path / whole.name
    path.write_bytes(whole.read_bytes())
    assert "does not describe" not in " ".join(database.read(path).notes.to_frame()["message"])
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"DELETE FROM COMPUTE_TASK_INFO WHERE globalTaskId = {task}")
        connection.commit()
    decoded = database.read(path)
    assert len(decoded.tables["kernels"]) == 1
    notes = decoded.notes.to_frame().query("severity == 'warning'")
    assert notes[notes["message"].str.contains("does not describe a task that is a kernel")]["count"].tolist() == [1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("call", "severity", "words"),
    [(5, "warning", "launched a kernel (25.0 % of kernel time): counts"), (2, "info", "before the collection began")],
)
def test_kernels_that_no_call_launched_are_reported_with_their_number(
    tmp_path: Path, call: int, severity: str, words: str
) -> None:
    maker = Maker(tmp_path / "msprof_1.db")
    add_launches(maker)
    whole = maker.run("DELETE FROM CANN_API WHERE connectionId = 1").close()
    for deleted in (0, call):
        with closing(sqlite3.connect(whole)) as connection:
            connection.execute(f"DELETE FROM CANN_API WHERE connectionId = {deleted}")
            connection.commit()
            connection.execute("VACUUM")  # numbers the rows anew
        notes = database.read(whole).notes.to_frame().to_dict("records")
        assert len(notes) == bool(deleted)
    (note,) = notes
    assert (note["severity"], note["count"]) == (severity, 1)
    assert words in note["message"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("DELETE FROM TASK_PMU_INFO WHERE globalTaskId = 3", "lacks metrics of a kernel"),
        ("DELETE FROM TASK_PMU_INFO WHERE globalTaskId = 3 AND name % 2", "lacks metrics of a kernel"),
        ("UPDATE TASK_PMU_INFO SET value = 0 WHERE globalTaskId = 3", "has only zeros of a kernel"),
    ],
)
def test_kernels_without_metrics_of_others_of_their_core_are_reported(tmp_path: Path, change: str, words: str) -> None:
    maker = Maker(tmp_path / "msprof_1.db")
    add_launches(maker)
    maker.run("UPDATE COMPUTE_TASK_INFO SET taskType = (SELECT max(taskType) FROM COMPUTE_TASK_INFO)")
    whole = maker.run("INSERT INTO TASK_PMU_INFO SELECT 3, name, value FROM TASK_PMU_INFO").close()
    assert not len(database.read(whole).notes)
    with closing(sqlite3.connect(whole)) as connection:
        connection.execute(change)
        connection.commit()
        connection.execute("VACUUM")  # numbers the rows anew
    (note,) = database.read(whole).notes.to_frame().to_dict("records")
    assert (note["severity"], note["count"]) == ("warning", 1)
    assert words in note["message"]


@pytest.mark.slow
def test_rows_of_a_table_that_nothing_reads_are_noted(whole: Path, tmp_path: Path) -> None:
    path = tmp_path / whole.name
    path.write_bytes(whole.read_bytes())
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE NPU_OP_MEM (operatorName INTEGER, timestampNs INTEGER)")
        connection.execute("CREATE TABLE OP_MEMORY (name INTEGER, size INTEGER)")
        connection.execute("CREATE TABLE MEMORY_RECORD (component INTEGER, timestamp INTEGER)")
        connection.execute("INSERT INTO OP_MEMORY VALUES (1, 10)")
        connection.executemany("INSERT INTO NPU_OP_MEM VALUES (?, ?)", [(1, 2), (3, 4)])
        connection.commit()
    notes = database.read(path).notes.to_frame()
    told = notes[notes["source"] == f"{whole.name}: NPU_OP_MEM"]
    assert told[["severity", "count"]].to_numpy().tolist() == [["warning", 2]]

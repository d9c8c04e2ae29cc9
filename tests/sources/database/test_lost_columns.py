"""A database without one of its columns is read, or refused in words, whichever column it is."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import npuprof
from npuprof.errors import SourceError

_RESULT = Path("torch_npu/llm_4ranks/rank_3_ascend_pt/ASCEND_PROFILER_OUTPUT/analysis.db")


def _columns(path: Path) -> list[tuple[str, str]]:
    with closing(sqlite3.connect(path)) as database:
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return [(table, row[1]) for table in tables for row in database.execute(f'PRAGMA table_info("{table}")')]


def _load_each(path: Path, folder: Path) -> int:
    """Load a copy without each of the columns; return how many there are."""
    columns = _columns(path)
    for table, column in columns:
        copy = Path(shutil.copy(path, folder))
        with closing(sqlite3.connect(copy)) as database, database:
            database.execute(f'ALTER TABLE "{table}" RENAME COLUMN "{column}" TO "q]z"')
        try:
            run = npuprof.load(copy)
        except SourceError:
            continue
        said = run.notes["message"]
        assert (said.str.contains(column, regex=False) | said.str.contains("q]z", regex=False)).any(), (table, column)
        assert run.advice() is not None
    return len(columns)


@pytest.mark.slow
def test_reads_a_result_without_any_one_column(samples: Path, tmp_path: Path) -> None:
    assert _load_each(samples / _RESULT, tmp_path) > 40


def test_reads_transfers_without_groups(tmp_path: Path) -> None:
    path = tmp_path / "analysis.db"
    columns = "hccl_op_name, group_name, src_rank, dst_rank, transport_type, transit_size, transit_time, bandwidth"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(f"CREATE TABLE CommAnalyzerMatrix ({columns}, step, type, op_name)")
        row = ("hcom_send__1_0_1", "g", 0, 1, "HCCS", 1.5, 0.5, 3.0, "1", "p2p", "send")
        database.execute(f"INSERT INTO CommAnalyzerMatrix VALUES ({', '.join('?' * 11)})", row)
    (tmp_path / "copy").mkdir()
    assert _load_each(path, tmp_path / "copy") == 11

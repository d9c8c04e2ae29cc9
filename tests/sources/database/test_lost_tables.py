"""A table that is gone from a database is named, unless nothing depends on it."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pandas as pd
import pytest

import npuprof
from npuprof.profiles.profile import Profile
from npuprof.sources import database
from npuprof.sources.database.checks import note_lost_sums, note_lost_tables
from npuprof.sources.database.connection import open_database
from npuprof.sources.database.reader import Reader
from npuprof.tables.info import Info
from npuprof.tables.notes import Notes
from tests.sources.database.maker import Maker, add_launches

_FACTS = ("SESSION_TIME_INFO", "NPU_INFO", "HOST_INFO", "META_DATA", "RANK_DEVICE_MAP")
_SUMS = ("StepTraceTime", "CommAnalyzerBandwidth", "CommAnalyzerMatrix", "CommAnalyzerTime")


def _with_facts(path: Path) -> Maker:
    maker = Maker(path)
    add_launches(maker)
    maker.table("SESSION_TIME_INFO", "startTimeNs endTimeNs", [(1_736_407_067_000_000_000, 1_736_407_069_000_000_000)])
    maker.table("NPU_INFO", "id name:TEXT", [(0, "Ascend910B")])
    maker.table("HOST_INFO", "hostUid:TEXT hostName:TEXT", [("1", "host")])
    maker.table("META_DATA", "name:TEXT value:TEXT", [("SCHEMA_VERSION", "1.0")])
    return maker.table("RANK_DEVICE_MAP", "rankId deviceId", [(3, 0)])


def _change(path: Path, *statements: str) -> Path:
    with closing(sqlite3.connect(path)) as opened:
        for statement in statements:
            opened.execute(statement)
            opened.commit()
    return path


@pytest.mark.parametrize("statement", ["DROP TABLE {}", "DELETE FROM {}"])
@pytest.mark.parametrize("table", _FACTS)
def test_a_table_of_facts_that_every_version_writes_is_named(tmp_path: Path, table: str, statement: str) -> None:
    path = _with_facts(tmp_path / "msprof_1.db").close()
    assert not len(database.read(path).notes)
    _change(path, statement.format(table), "VACUUM")  # so that no free page tells
    (message,) = database.read(path).notes.to_frame()["message"]
    assert message.startswith(f"{table} is missing or empty, though every version writes it: ")


def test_free_pages_tell_of_a_table_that_nothing_refers_to(tmp_path: Path) -> None:
    maker = _with_facts(tmp_path / "msprof_1.db")
    maker.table("HBM", "deviceId timestampNs bandwidth hbmId type", [(0, 1_736_407_067_946_125_104, 5, 0, 1)])
    path = maker.close()
    assert not database.read(path).notes.to_frame()["message"].str.contains("page").any()
    (note,) = database.read(_change(path, "DROP TABLE HBM")).notes.to_frame().to_dict("records")
    assert (note["severity"], note["count"]) == ("warning", 1)
    assert "a page of the file is free" in note["message"]
    assert "HBM" in note["message"].partition("lacks")[2]
    # A viewer deletes tables of its own.
    _change(path, "CREATE TABLE connectionCats (id INTEGER)", "CREATE TABLE gone (id)", "DROP TABLE gone")
    assert database.read(path).notes.to_frame()["severity"].tolist() == ["info"]


@pytest.mark.parametrize(
    ("options", "table"),
    [
        ({"activities": ["cpu"]}, "PYTORCH_API"),
        ({"activities": ["npu"], "level": 0, "memory": True}, "NPU_MODULE_MEM"),
        ({"activities": ["npu"], "level": 0, "memory": True}, "OP_MEMORY"),
        ({"activities": ["npu"], "level": 1, "aic_metrics": "PipeUtilization"}, "TASK_PMU_INFO"),
    ],
)
def test_tables_that_the_options_call_for_are_named(tmp_path: Path, options: dict[str, object], table: str) -> None:
    path = _with_facts(tmp_path / "ascend_pytorch_profiler_3.db").close()
    _change(path, "DROP TABLE TASK_PMU_INFO", "VACUUM")
    messages = {}
    for wanted in ({}, options):
        notes = Notes()
        with open_database(path, notes) as opened:
            note_lost_tables(Reader(opened), Info(collector="torch_npu", options=wanted, rank=3))
        messages[bool(wanted)] = notes.to_frame()["message"].tolist()
    assert not any(text.startswith(table) for text in messages[False])
    assert any(text.startswith(f"{table} is missing or empty, though the options") for text in messages[True])


@pytest.mark.parametrize("table", _SUMS)
def test_sums_that_are_written_together_are_named(tmp_path: Path, table: str) -> None:
    maker = Maker(tmp_path / "analysis.db")
    for name in _SUMS:
        maker.table(name, "step", [(1,)] if name != table else [])
    path, notes = maker.close({}), Notes()
    with open_database(path, notes) as opened:
        note_lost_sums(Reader(opened), communicates=False)
    (message,) = notes.to_frame()["message"]
    assert message.startswith(f"{table} is missing or empty")


def test_at_level_0_there_are_no_sums_over_communication(tmp_path: Path) -> None:
    path, notes = Maker(tmp_path / "analysis.db").table("StepTraceTime", "step", [(1,)]).close({}), Notes()
    with open_database(path, notes) as opened:
        note_lost_sums(Reader(opened), communicates=False)
        assert not len(notes)
        note_lost_sums(Reader(opened), communicates=True)
    assert len(notes) == len(_SUMS) - 1


def test_missing_operators_have_their_share(samples: Path, tmp_path: Path) -> None:
    (original,) = (samples / "torch_npu/db/level1/rank1_ascend_pt").rglob("ascend_pytorch_profiler_1.db")
    path = tmp_path / original.name
    path.write_bytes(original.read_bytes())
    _change(path, "DELETE FROM PYTORCH_API WHERE rowid % 10 = 0")
    with closing(sqlite3.connect(path)) as opened:
        orphans, whole = opened.execute(
            "SELECT count(DISTINCT id) FILTER (WHERE id NOT IN (SELECT connectionId FROM PYTORCH_API "
            "WHERE connectionId NOT NULL)), count(DISTINCT id) FROM CONNECTION_IDS"
        ).fetchone()
        part, time = opened.execute(
            "SELECT sum(endNs - startNs) FILTER (WHERE connectionId IN (SELECT connectionId FROM CONNECTION_IDS WHERE "
            "id NOT IN (SELECT connectionId FROM PYTORCH_API WHERE connectionId NOT NULL))), sum(endNs - startNs) "
            "FROM TASK WHERE globalTaskId IN (SELECT globalTaskId FROM COMPUTE_TASK_INFO)"
        ).fetchone()
    assert 0 < part < time
    messages = npuprof.load(path).notes["message"]
    expected = f"{orphans} of {whole} operators are missing, to which {100 * part / time:.1f} % of kernel time and"
    assert messages.str.contains(expected, regex=False).any()


@pytest.mark.long
@pytest.mark.parametrize(
    "result", ["level1/rank1_ascend_pt", pytest.param("level0/rank0_ascend_pt", marks=pytest.mark.exhaustive)]
)
def test_missing_result_tables_are_named(samples: Path, tmp_path: Path, result: str) -> None:
    whole = npuprof.load(samples / "torch_npu/db" / result)
    assert isinstance(whole, Profile)
    for file in sorted((samples / "torch_npu/db" / result).rglob("*.db")):
        with closing(sqlite3.connect(f"{file.as_uri()}?immutable=1", uri=True)) as opened:
            names = [name for (name,) in opened.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in names:
            copy = tmp_path / f"{table}_{file.stem}" / whole.info.name
            shutil.copytree(samples / "torch_npu/db" / result, copy)
            (changed,) = copy.rglob(file.name)
            changed.chmod(0o600)
            _change(changed, f'DROP TABLE "{table}"')
            run = npuprof.load(copy)
            assert isinstance(run, Profile)
            messages = run.notes[run.notes["severity"] != "info"]
            named = (messages["source"] + messages["message"]).str.contains(table).any()
            named |= len(names) == 1 and messages["message"].str.contains(f"{file.name} is without any table").any()
            if not named:
                for name, frame in whole.tables.items():
                    pd.testing.assert_frame_equal(run.tables[name], frame, obj=f"{table}: {name}")
                assert (run.info.chip, run.info.devices) == (whole.info.chip, whole.info.devices)
            shutil.rmtree(copy)

"""Every table that a front end writes becomes rows somewhere: of a table, of `statistics`, or it is named in a note."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pandas as pd
import pytest

import npuprof
from npuprof import tables
from npuprof.sources import database
from npuprof.sources.base import Decoded
from npuprof.sources.database import format as declared
from tests.sources.database.known_tables import COUNTERS, FACTS, JOINED, TABLES, Row
from tests.sources.database.maker import Maker, add_launches, at, thread


def _read(tmp_path: Path, name: str, columns: str, row: Row) -> Decoded:
    maker = Maker(tmp_path / "msprof_1.db")
    maker.text("a name, so that names are not missing")
    maker.table("META_DATA", "name:TEXT value:TEXT", [("SCHEMA_VERSION", "1.2.0")])
    decoded = database.read(maker.table(name, columns, row(maker)).close())
    for table, frame in decoded.tables.items():
        tables.check(table, frame)
    return decoded


@pytest.mark.slow
@pytest.mark.parametrize("table", COUNTERS)
def test_a_table_of_samples_becomes_counters(tmp_path: Path, table: str) -> None:
    columns, row, expected = COUNTERS[table]
    decoded = _read(tmp_path, table, columns, row)
    frame = decoded.tables["counters"].astype({"counter": object, "instance": object, "unit": object})
    frame = frame.fillna({"instance": "", "unit": ""})
    found = {(one.counter, one.instance): (one.value, one.unit) for one in frame.itertuples(index=False)}
    for key, (value, unit) in expected.items():
        assert found[key] == (pytest.approx(value, nan_ok=True), unit), key
    on_host = table.startswith(("CPU", "HOST"))
    assert frame["device_id"].isna().all() if on_host else (frame["device_id"] == 1).all()
    assert not len(decoded.notes)


@pytest.mark.slow
@pytest.mark.parametrize("table", TABLES)
def test_a_table_has_its_place(tmp_path: Path, table: str) -> None:
    columns, row, place = TABLES[table]
    decoded = _read(tmp_path, table, columns, row)
    *statistics, name = place.split(".")
    frame = decoded.statistics[name] if statistics else decoded.tables[name]
    assert len(frame) == 1
    told = decoded.notes.to_frame()["message"].tolist()
    kept = [message for message in told if message.startswith(f"the table {table} ")]
    assert len(kept) == (name == table.lower())  # what has no place of its own is told, once


def test_each_table_that_is_known_is_tested() -> None:
    with_place = {name for name, (_, _, place) in TABLES.items() if place.rpartition(".")[2] != name.lower()}
    assert {*COUNTERS, *with_place, *JOINED, *FACTS} == set(declared.TABLES), (
        "tests/sources/database/known_tables.py needs a row of each table of sources/database/format.py"
    )


def test_tables_that_say_more_of_tasks(tmp_path: Path) -> None:
    maker = Maker(tmp_path / "msprof_1.db")
    task = "startNs endNs deviceId globalTaskId taskType connectionId contextId streamId taskId modelId"
    kinds = [maker.text("SDMA"), maker.text("KERNEL_AICPU"), maker.text("KERNEL_AICORE")]
    maker.table(
        "TASK", task, [(at(row), at(row + 1), 0, row, kind, *(4294967295,) * 5) for row, kind in enumerate(kinds)]
    )
    maker.table("MEMCPY_INFO", "globalTaskId:NUMERIC size:NUMERIC memcpyOperation:NUMERIC", [(0, 4096, 1)])
    scheduled = "COMMUNICATION_SCHEDULE_TASK_INFO"
    maker.table(scheduled, "name globalTaskId taskType opType", [(maker.text("hcomAicpuInit"), 1, 0, 0)])
    operands = "inputFormats inputDataTypes inputShapes outputFormats outputDataTypes outputShapes"
    kernel_row = (maker.text("Add_0"), 2, 24, 48, maker.text("MIX_AIC"), maker.text("Add"), *(maker.text("N/A"),) * 6)
    columns = f"name globalTaskId blockNum mixBlockNum taskType opType {operands}"
    maker.table("COMPUTE_TASK_INFO", columns, [kernel_row])
    maker.table("TASK_PMU_INFO", "globalTaskId name value:NUMERIC", [(2, maker.text("aic_total_time"), 12.5)])
    decoded = database.read(maker.close())
    frame = decoded.tables["tasks"]
    assert frame["name"].tolist() == ["SDMA", "hcomAicpuInit", "Add_0"]
    assert frame["copied_bytes"].tolist() == [4096, pd.NA, pd.NA]
    assert frame["copy_direction"].tolist()[0] == "host to device"
    (kernel,) = decoded.tables["kernels"].to_dict("records")
    assert (kernel["core"], kernel["mix_block_num"], kernel["aic_total_time_ns"]) == ("MIX_AIC", 48, 12)
    assert not len(decoded.notes)


def test_facts_of_the_run_are_its_info(tmp_path: Path) -> None:
    maker = Maker(tmp_path / "msprof_1.db").table("STEP_TIME", "id startNs endNs", [(1, at(1), at(2))])
    maker.table("SESSION_TIME_INFO", "startTimeNs endTimeNs", [(at(0), at(9))])
    maker.table("NPU_INFO", "id name:TEXT", [(3, "Ascend910B")])
    maker.table("HOST_INFO", "hostUid hostName:TEXT", [(77, "node-1")])
    maker.table("RANK_DEVICE_MAP", "rankId deviceId", [(5, 3)])
    rows = [("SCHEMA_VERSION", "1.2.0"), ("ENV_VARIABLES", '{"HCCL_ALGO": "ring"}'), ("note", "mine")]
    info = database.read(maker.table("META_DATA", "name:TEXT value:TEXT", rows).close()).info
    assert (info.started_ns, info.stopped_ns, info.chip, info.rank, info.devices) == (
        at(0),
        at(9),
        "Ascend910B",
        5,
        [3],
    )
    assert info.environment == {"host": "node-1", "HCCL_ALGO": "ring"}
    assert info.versions["database schema"] == "1.2.0"
    assert info.metadata["note"] == "mine"


def test_verbatim_columns_keep_digits_and_names(tmp_path: Path) -> None:
    columns, row, _ = TABLES["OSRT_API"]
    frame = _read(tmp_path, "OSRT_API", columns, row).statistics["osrt_api"]
    assert frame.to_dict("records") == [
        {"name": "pthread_join", "globalTid": thread(6), "startNs": at(1), "endNs": at(2)}
    ]


def test_a_table_of_a_later_version_is_kept_and_reported(tmp_path: Path) -> None:
    rows = [(None, at(1), "a", 1), (2, None, 3, 0.5)]
    decoded = _read(tmp_path, "NEW_IN_2027", "id startNs mixed: value:NUMERIC", lambda _: rows)
    frame = decoded.statistics["new_in_2027"]
    assert frame["startNs"].tolist() == [at(1), pd.NA]
    assert frame["mixed"].tolist() == ["a", "3"]
    assert frame["value"].tolist() == [1.0, 0.5]
    assert [message for message in decoded.notes.to_frame()["message"] if "NEW_IN_2027" in message]


def test_a_table_of_any_name_is_saved_in_its_place(tmp_path: Path) -> None:
    maker = Maker(tmp_path / "msprof_1.db").table("META_DATA", "name:TEXT value:TEXT")
    for name in ("../../escape", "$$/escape", "ärger"):
        maker.table(name, "id note:TEXT", [(1, None), (2, "two")])
    run = npuprof.load(maker.close())
    assert isinstance(run, npuprof.Profile)
    assert sorted(run.statistics) == ["_escape", "_escape_1", "_rger"]
    run.save(tmp_path / "saved")
    again = npuprof.load(tmp_path / "saved")
    assert isinstance(again, npuprof.Profile)
    assert again.statistics["_escape"]["note"].fillna("").tolist() == ["", "two"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["msprof_1.db", "saved"]


def test_numbers_of_blocks_and_collectives_are_read(tmp_path: Path) -> None:
    columns, row, _ = TABLES["OP_MEMORY"]
    (block,) = _read(tmp_path, "OP_MEMORY", columns, row).tables["allocations"].to_dict("records")
    totals = [
        f"{when}_total_{what}_bytes"
        for when in ("allocation", "release")
        for what in ("allocated", "reserved", "active")
    ]
    assert [block[name] for name in totals] == [10, 20, 30, 40, 50, 60]
    assert block["active_released_ns"] == at(2)


def test_relays_and_retries_of_a_collective(tmp_path: Path) -> None:
    columns, row, _ = TABLES["COMMUNICATION_OP"]
    (collective,) = _read(tmp_path, "COMMUNICATION_OP", columns, row).tables["communication"].to_dict("records")
    assert (collective["rank_size"], collective["relay"], collective["retry"]) == (8, False, True)


def test_pauses_of_the_garbage_collector_stand_among_the_marks_in_order(tmp_path: Path) -> None:
    maker = Maker(tmp_path / "ascend_pytorch_profiler.db")
    columns, row, _ = TABLES["MSTX_EVENTS"]
    maker.table("MSTX_EVENTS", columns, row(maker)).table(
        "GC_RECORD", "startNs endNs globalTid", [(at(0), at(3), thread(6))]
    )
    marks = database.read(maker.close()).tables["marks"]
    assert marks["message"].tolist() == ["GC", "m"]
    assert marks["domain"].tolist() == ["python_gc", "d"]
    assert marks["thread_id"].tolist() == [6, 6]
    assert marks["id"].tolist() == [pd.NA, 99]


def test_a_view_in_place_of_a_table_is_reported(tmp_path: Path) -> None:
    maker = Maker(tmp_path / "msprof_1.db")
    add_launches(maker)
    maker.run("ALTER TABLE CANN_API RENAME TO KEPT").run("CREATE VIEW CANN_API AS SELECT * FROM KEPT")
    decoded = database.read(maker.close())
    assert "api" not in decoded.tables
    told = decoded.notes.to_frame()
    assert told[told["message"].str.contains("CANN_API is a view")]["severity"].tolist() == ["warning"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("table", "old", "new"),
    [
        ("TASK", "streamId", "stream_id"),
        ("CANN_API", "name", "apiName"),
        ("COMPUTE_TASK_INFO", "blockNum", "blockCount"),
        ("COMMUNICATION_OP", "groupName", "groupId"),
        ("ENUM_API_TYPE", "name", "label"),
    ],
)
def test_a_renamed_column_is_reported_with_its_new_name(tmp_path: Path, table: str, old: str, new: str) -> None:
    maker = Maker(tmp_path / "msprof_1.db")
    add_launches(maker)
    path = maker.close()
    assert not len(database.read(path).notes)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"ALTER TABLE {table} RENAME COLUMN {old} TO {new}")
        connection.commit()
    told = database.read(path).notes.to_frame()
    (note,) = told[told["message"].str.contains(f"{table} lacks column {old}")].to_dict("records")
    assert note["severity"] == "warning"
    assert new in note["message"]


def test_a_column_of_a_later_version_is_reported_without_alarm(tmp_path: Path) -> None:
    maker = Maker(tmp_path / "msprof_1.db")
    add_launches(maker)
    maker.run("ALTER TABLE TASK ADD COLUMN newIn2027 INTEGER")
    (note,) = database.read(maker.close()).notes.to_frame().to_dict("records")
    assert (note["severity"], "TASK: column newIn2027" in note["message"]) == ("info", True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("unit", "times"), [("microseconds", 1_000), ("milliseconds", 1_000_000), ("seconds", 1_000_000_000)]
)
def test_times_in_another_unit_are_reported(tmp_path: Path, unit: str, times: int) -> None:
    maker = Maker(tmp_path / "msprof_1.db")
    add_launches(maker)
    for table in ("TASK", "CANN_API"):
        maker.run(f"UPDATE {table} SET startNs = startNs / {times}, endNs = endNs / {times}")
    notes = database.read(maker.close()).notes.to_frame().query("severity == 'warning'")
    said = notes["message"].str.contains(f"in {unit}: starts and durations may be {times:,} times too small")
    told = notes[said].set_index("message")["count"]
    assert [(message.split(":")[0], count) for message, count in told.items()] == [("TASK", 5), ("CANN_API", 5)]

"""The tables equal what the vendor's parser made of the same bytes, row by row."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from npuprof import tables
from npuprof.sources import raw
from npuprof.sources.base import Decoded

from .conftest import raw_sample

_CHECKED = ("minimal", "sliced_2k")
_WITH_DATABASE = ("minimal", "sliced_2k", "everything")
_EVERY = ("minimal", "sliced_2k", "everything", "model_step")


@pytest.fixture(scope="module")
def decoded(samples: Path) -> dict[str, Decoded]:
    return {name: raw.read(raw_sample(samples, name)) for name in _EVERY}


@pytest.fixture
def database(samples: Path, request: pytest.FixtureRequest) -> Iterator[sqlite3.Connection]:
    file = next((samples / "raw" / request.param / "expected").glob("msprof_*.db"))
    connection = sqlite3.connect(f"{file.as_uri()}?mode=ro&immutable=1", uri=True)
    yield connection
    connection.close()


def _csv(samples: Path, sample: str, name: str) -> pd.DataFrame:
    """Read a result as text: its numbers keep all their digits."""
    file = next((samples / "raw" / sample / "expected").glob(f"{name}_2*.csv"))
    frame = pd.read_csv(file, dtype=str, keep_default_na=False)
    stripped: pd.DataFrame = pd.DataFrame({name: column.str.strip() for name, column in frame.items()})
    return stripped


def _ns(text: str) -> int:
    """Nanoseconds of a decimal number of microseconds, exactly."""
    value = Decimal(text) * 1000
    assert value == int(value)
    return int(value)


def _strings(database: sqlite3.Connection) -> dict[int, str]:
    return dict(database.execute("SELECT id, value FROM STRING_IDS"))


def _plain(frame: pd.DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    """Rows as plain Python values; an absent one is None."""
    chosen = frame[list(columns)].astype(object)
    return [tuple(row) for row in chosen.where(chosen.notna(), None).to_numpy().tolist()]


@pytest.mark.parametrize("name", _EVERY)
def test_every_table_keeps_its_schema_and_order(name: str, decoded: dict[str, Decoded]) -> None:
    assert set(decoded[name].tables) == {
        *("api", "tasks", "kernels", "marks", "memory", "counters", "links", "overlap", "steps"),
        *("communication", "communication_tasks", "allocations"),
    }
    for table, frame in decoded[name].tables.items():
        tables.check(table, frame)
        if table not in ("links", "allocations"):  # these are in the order of other rows
            pd.testing.assert_frame_equal(tables.sort_by_time(frame), frame)


@pytest.mark.parametrize("name", _EVERY)
def test_nothing_of_a_whole_directory_is_called_damaged(name: str, decoded: dict[str, Decoded]) -> None:
    assert set(decoded[name].notes.to_frame()["severity"]) <= {"info"}


@pytest.mark.parametrize(("name", "database"), [(name, name) for name in _WITH_DATABASE], indirect=["database"])
def test_calls_are_those_of_cann_api(name: str, database: sqlite3.Connection, decoded: dict[str, Decoded]) -> None:
    strings = _strings(database)
    levels = {20000: "acl", 15000: "model", 10000: "node", 5500: "communication", 5000: "runtime"}
    expected = [
        (start, end - start, strings[label], levels[level], thread & 0xFFFFFFFF)
        for start, end, label, level, thread in database.execute(
            "SELECT startNs, endNs, name, type, globalTid FROM CANN_API ORDER BY startNs, endNs DESC"
        )
    ]
    api = decoded[name].tables["api"]
    assert _plain(api, "start_ns", "duration_ns", "name", "level", "thread_id") == expected


@pytest.mark.parametrize(("name", "database"), [(name, name) for name in _WITH_DATABASE], indirect=["database"])
def test_connections_are_numbered_in_the_vendors_order(
    name: str, database: sqlite3.Connection, decoded: dict[str, Decoded]
) -> None:
    numbers = [row[0] for row in database.execute("SELECT connectionId FROM CANN_API ORDER BY startNs, endNs DESC")]
    api = decoded[name].tables["api"]
    if name == "sliced_2k":  # the vendor's threads draw numbers in blocks there: only their order is defined
        assert numbers == sorted(set(numbers))
        assert api["connection_id"].tolist() == list(range(1, len(numbers) + 1))
    else:
        assert api["connection_id"].tolist() == numbers


@pytest.mark.parametrize(("name", "database"), [(name, name) for name in _WITH_DATABASE], indirect=["database"])
def test_tasks_are_those_of_task(name: str, database: sqlite3.Connection, decoded: dict[str, Decoded]) -> None:
    expected = [
        (start, end - start, device, stream, task, None if context == 0xFFFFFFFF else context)
        for start, end, device, stream, task, context in database.execute(
            "SELECT startNs, endNs, deviceId, streamId, taskId, contextId FROM TASK ORDER BY startNs, endNs DESC"
        )
    ]
    found = decoded[name].tables["tasks"]
    columns = ("start_ns", "duration_ns", "device_id", "stream_id", "task_id", "context_id")
    assert _plain(found, *columns) == expected


@pytest.mark.parametrize(("name", "database"), [(name, name) for name in _WITH_DATABASE], indirect=["database"])
def test_tasks_are_connected_to_the_vendors_calls(
    name: str, database: sqlite3.Connection, decoded: dict[str, Decoded]
) -> None:
    frames = decoded[name].tables
    started = dict(database.execute("SELECT connectionId, startNs FROM CANN_API"))
    expected = [
        (start, started[connection])
        for start, connection in database.execute("SELECT startNs, connectionId FROM TASK ORDER BY startNs, endNs DESC")
        if connection in started
    ]
    links = frames["links"][frames["links"]["kind"] == "api_task"]
    tasks = frames["tasks"].iloc[links["target_row"]]
    calls = frames["api"].iloc[links["source_row"]]
    assert list(zip(tasks["start_ns"].tolist(), calls["start_ns"].tolist(), strict=True)) == expected
    assert tasks["connection_id"].tolist() == calls["connection_id"].tolist()


@pytest.mark.parametrize("name", _EVERY)
def test_task_types_and_names_are_those_of_task_time(name: str, samples: Path, decoded: dict[str, Decoded]) -> None:
    expected = [
        (
            _ns(row["task_start(us)"]),
            _ns(row["task_stop(us)"]) - _ns(row["task_start(us)"]),
            int(row["stream_id"]),
            int(row["task_id"]),
            row["kernel_type"],
            None if row["kernel_name"] == "N/A" else row["kernel_name"],
        )
        for row in _csv(samples, name, "task_time").to_dict("records")
    ]
    found = decoded[name].tables["tasks"]
    parts = set(found.loc[found["context_id"].notna(), "connection_id"])
    whole_of_parts = found["context_id"].isna() & found["connection_id"].isin(parts)
    found = found[~whole_of_parts & (found["task_type"] != "MsTx")]  # the vendor leaves both out here
    columns = ("start_ns", "duration_ns", "stream_id", "task_id", "task_type", "name")
    assert _plain(found, *columns) == expected


@pytest.mark.parametrize(("name", "database"), [(name, name) for name in _WITH_DATABASE], indirect=["database"])
def test_kernels_are_those_of_compute_task_info(
    name: str, database: sqlite3.Connection, decoded: dict[str, Decoded]
) -> None:
    strings = _strings(database)
    columns = "name opType taskType opState blockNum mixBlockNum hf32Eligible inputShapes inputDataTypes inputFormats "
    columns += "outputShapes outputDataTypes outputFormats"
    query = f"SELECT startNs, {', '.join('i.' + column for column in columns.split())} FROM COMPUTE_TASK_INFO i "
    rows = database.execute(query + "JOIN TASK USING (globalTaskId) ORDER BY startNs").fetchall()
    texts = [[strings[row[at]].strip('"') for at in (1, 2, 3, 4, *range(7, 14))] for row in rows]
    expected = [
        (
            row[0],
            *(None if text == "N/A" else text for text in text_row[:4]),
            row[5],
            row[6],
            text_row[4] == "YES",
            *(None if text == "N/A" else text for text in text_row[5:]),
        )
        for row, text_row in zip(rows, texts, strict=True)
    ]
    found = _plain(
        decoded[name].tables["kernels"],
        *("start_ns", "op_name", "op_type", "core", "op_state", "block_num", "mix_block_num", "hf32"),
        *("input_shapes", "input_dtypes", "input_formats", "output_shapes", "output_dtypes", "output_formats"),
    )
    assert found == expected


@pytest.mark.parametrize("name", _EVERY)
def test_waits_are_those_of_op_summary(name: str, samples: Path, decoded: dict[str, Decoded]) -> None:
    summary = _csv(samples, name, "op_summary")
    summary = summary[summary["Task Type"] != "COMMUNICATION"]
    kernels = decoded[name].tables["kernels"]
    assert kernels["start_ns"].tolist() == [_ns(text) for text in summary["Task Start Time(us)"]]
    waits = zip(kernels["wait_ns"].tolist(), summary["Task Wait Time(us)"], strict=True)
    for wait_ns, text in waits:  # the vendor computes in doubles of epoch microseconds: a grain of 0.25 us
        assert abs(wait_ns - Decimal(text) * 1000) <= 250


@pytest.mark.parametrize(("name", "database"), [(name, name) for name in _WITH_DATABASE], indirect=["database"])
def test_counters_are_those_of_task_pmu_info(
    name: str, database: sqlite3.Connection, decoded: dict[str, Decoded]
) -> None:
    strings = _strings(database)
    kernels = decoded[name].tables["kernels"].set_index("start_ns")
    seen = set()
    for start, label, value in database.execute(
        "SELECT startNs, name, value FROM TASK_PMU_INFO JOIN TASK USING (globalTaskId)"
    ):
        column = strings[label] + ("_ns" if strings[label].endswith("_time") else "")
        column = "cube_utilization_percent" if column.startswith("cube_utilization") else column
        if column not in kernels:  # of the other core: the vendor writes zeros
            assert value == 0
            continue
        found = kernels.at[start, column]
        if math.isnan(found):  # the core wrote nothing: absent here, zero there
            assert value == 0
        else:
            assert found == pytest.approx(value, rel=1e-12)
            seen.add(column)
    unseen = set(kernels.columns[kernels.columns.str.match("aic_|aiv_")]) - seen
    assert not unseen


@pytest.mark.parametrize("name", _EVERY)
def test_cube_utilization_is_that_of_op_summary(name: str, samples: Path, decoded: dict[str, Decoded]) -> None:
    summary = _csv(samples, name, "op_summary")
    expected = summary[summary["Task Type"] != "COMMUNICATION"]["cube_utilization(%)"].astype(float)
    found = decoded[name].tables["kernels"]["cube_utilization_percent"].fillna(0)
    np.testing.assert_allclose(found, expected, atol=0.0005)


@pytest.mark.parametrize(("name", "database"), [(name, name) for name in _WITH_DATABASE], indirect=["database"])
def test_frequency_changes_are_those_of_aicore_freq(
    name: str, database: sqlite3.Connection, decoded: dict[str, Decoded]
) -> None:
    query = "SELECT timestampNs, freq FROM AICORE_FREQ ORDER BY timestampNs"
    session = database.execute("SELECT startTimeNs, endTimeNs FROM SESSION_TIME_INFO").fetchone()
    # The vendor draws each change twice, and adds points at the start and the end of the session.
    expected = sorted(row for row in set(database.execute(query)) if row[0] not in session)
    counters = decoded[name].tables["counters"]
    found = counters[counters["counter"] == "AI Core Freq"]
    assert _plain(found, "time_ns", "value") == expected


@pytest.mark.parametrize(("name", "database"), [(name, name) for name in _WITH_DATABASE], indirect=["database"])
def test_overlap_is_that_of_overlap_analysis(
    name: str, database: sqlite3.Connection, decoded: dict[str, Decoded]
) -> None:
    kinds = {0: "computing", 1: "communication", 2: "communication_not_overlapped", 3: "free"}
    expected = {
        (kinds[kind], device, start, end - start)
        for kind, device, start, end in database.execute("SELECT type, deviceId, startNs, endNs FROM OVERLAP_ANALYSIS")
    }
    found = decoded[name].tables["overlap"]
    assert set(_plain(found, "kind", "device_id", "start_ns", "duration_ns")) == expected
    sums = found.groupby("kind", observed=True)["duration_ns"].sum()
    span = int((found["start_ns"] + found["duration_ns"]).max() - found["start_ns"].min())
    assert sums.drop("communication", errors="ignore").sum() == span


@pytest.mark.parametrize("name", _EVERY)
def test_marks_are_those_of_msprof_tx(name: str, samples: Path, decoded: dict[str, Decoded]) -> None:
    def optional_ns(text: str) -> int | None:
        return None if text == "N/A" else _ns(text)

    expected = []
    for row in _csv(samples, name, "msprof_tx").to_dict("records"):
        start, end = _ns(row["Start_time(us)"]), _ns(row["End_time(us)"])
        device_start, device_end = optional_ns(row["Device Start_time(us)"]), optional_ns(row["Device End_time(us)"])
        length = None if device_start is None or device_end is None else device_end - device_start
        domain = None if row["domain"] == "N/A" else row["domain"]
        mark = (start, end - start, row["message"], domain, int(row["tid"]), row["event_type"])
        expected.append((*mark, device_start, length))
    columns = ("start_ns", "duration_ns", "message", "domain", "thread_id", "kind")
    found = decoded[name].tables["marks"]
    assert _plain(found, *columns, "device_start_ns", "device_duration_ns") == expected


@pytest.mark.parametrize(("name", "database"), [("everything", "everything")], indirect=["database"])
def test_marks_with_a_device_side_are_linked_to_it(
    name: str, database: sqlite3.Connection, decoded: dict[str, Decoded]
) -> None:
    (start, connection), *rest = database.execute(
        "SELECT startNs, connectionId FROM TASK WHERE connectionId >= 4000000000"
    ).fetchall()
    assert not rest
    frames = decoded[name].tables
    (link,) = frames["links"][frames["links"]["kind"] == "mark"].to_dict("records")
    assert frames["marks"]["message"][link["source_row"]] == "fwd_pass"
    task = frames["tasks"].iloc[link["target_row"]]
    assert (task["start_ns"], task["connection_id"], task["name"]) == (start, connection, "fwd_pass")


def test_memory_is_that_of_npu_mem_with_every_nanosecond(samples: Path, decoded: dict[str, Decoded]) -> None:
    expected = _csv(samples, "everything", "npu_mem")
    found = decoded["everything"].tables["memory"].sort_values(["component", "time_ns"], kind="stable")
    found = found[found["component"].isin(["APP", "Device"])]
    assert found["component"].tolist() == expected["event"].tolist()
    for column, vendor in (("reserved_bytes", "memory(KB)"), ("hbm_bytes", "hbm(KB)"), ("ddr_bytes", "ddr(KB)")):
        assert found[column].tolist() == [int(text) * 1024 for text in expected[vendor]]
    for time_ns, text in zip(found["time_ns"].tolist(), expected["timestamp(us)"], strict=True):
        assert time_ns % 1000 == 330  # the anchor's; the vendor's float64 shows .456 and .328
        assert abs(time_ns - Decimal(text) * 1000) <= 128


@pytest.mark.parametrize("database", ["everything"], indirect=True)
def test_hbm_traffic_is_that_of_hbm(database: sqlite3.Connection, decoded: dict[str, Decoded]) -> None:
    strings = _strings(database)
    counters = decoded["everything"].tables["counters"]
    rows = database.execute("SELECT timestampNs, hbmId, type, bandwidth FROM HBM").fetchall()
    for time_ns, hbm, kind, bytes_a_second in rows:
        counter = "HBM read" if strings[kind] == "read" else "HBM write"
        chosen = counters[(counters["counter"] == counter) & (counters["instance"] == str(hbm))]
        (value,) = chosen.loc[(chosen["time_ns"] - time_ns).abs() <= 128, "value"].tolist()
        if math.isnan(value):  # the first sample has nothing before it; the vendor shows 0
            assert bytes_a_second == 0
        else:  # the vendor divides by an interval that its float64 stamps have bent by up to 128 ns
            assert value * 2**20 == pytest.approx(bytes_a_second, rel=3e-5)
    assert len(rows) == counters["counter"].isin(["HBM read", "HBM write"]).sum()


@pytest.mark.parametrize("database", ["everything"], indirect=True)
def test_copies_are_those_of_memcpy_info(database: sqlite3.Connection, decoded: dict[str, Decoded]) -> None:
    query = "SELECT startNs, size FROM MEMCPY_INFO JOIN TASK USING (globalTaskId) WHERE memcpyOperation != 65535"
    tasks = decoded["everything"].tables["tasks"]
    copies = tasks[tasks["copied_bytes"].notna()]
    assert _plain(copies, "start_ns", "copied_bytes") == database.execute(query).fetchall()
    assert copies["copy_direction"].tolist() == ["host to device"]


def test_steps_are_those_of_step_trace(samples: Path, decoded: dict[str, Decoded]) -> None:
    (row,) = _csv(samples, "model_step", "step_trace").to_dict("records")
    steps = decoded["model_step"].tables["steps"]
    end, length = _ns(row["Iteration End(us)"]), _ns(row["Iteration Time(us)"])
    expected = [(int(row["Iteration ID"]), end - length, length, 0, int(row["Model ID"]))]
    assert _plain(steps, "step", "start_ns", "duration_ns", "device_id", "model_id") == expected
    assert decoded["model_step"].tables["kernels"]["step"].tolist() == [1] * 6


@pytest.mark.parametrize("name", _CHECKED)
def test_flows_of_the_timeline_are_the_links(name: str, samples: Path, decoded: dict[str, Decoded]) -> None:
    events = json.loads(next((samples / "raw" / name / "expected").glob("msprof_2*.json")).read_text())
    ends: dict[str, dict[str, int]] = {}
    for event in events:
        if event.get("cat") == "HostToDevice":
            ends.setdefault(event["id"], {})[event["ph"]] = _ns(event["ts"])
    frames = decoded[name].tables
    calls = frames["api"]["start_ns"].to_numpy()[frames["links"]["source_row"]]
    tasks = frames["tasks"]["start_ns"].to_numpy()[frames["links"]["target_row"]]
    assert set(zip(calls.tolist(), tasks.tolist(), strict=True)) == {(flow["s"], flow["f"]) for flow in ends.values()}


def test_info_tells_the_machine(samples: Path, decoded: dict[str, Decoded]) -> None:
    info = decoded["minimal"].info
    assert (info.chip, info.devices, info.rank, info.source, info.simulated) == ("Ascend 910B", [0], None, "raw", False)
    assert (info.started_ns, info.stopped_ns) == (1_763_600_000_000_000_000, 1_763_600_000_580_607_330)
    assert info.versions == {"cann": "8.3.0", "driver": "467993"}
    assert info.options == {"level": 1, "aic_metrics": "PipeUtilization"}
    assert info.environment["hostname"] == "synth"


def test_streams_that_are_not_decoded_are_named(minimal: Path, decoded: dict[str, Decoded]) -> None:
    (minimal / "device_0" / "data" / "ub.data.0.slice_0").write_bytes(bytes(288))
    notes = raw.read(minimal).notes.to_frame()
    assert any(message.startswith("ub.data.0: not decoded (1 slices, 288 bytes)") for message in notes["message"])
    assert decoded["sliced_2k"].notes.to_frame().empty

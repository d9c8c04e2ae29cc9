"""Communication operators and their steps: as the vendor's parser sees them, and in the cases its samples lack."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npuprof import tables
from npuprof.sources import raw
from npuprof.sources.base import Decoded
from npuprof.sources.raw.communication.operator_tables import bandwidth_gb_s
from npuprof.sources.raw.correlation.collectives import _rounds
from tests.sources.raw.conftest import raw_sample
from tests.sources.raw.writers.communication import NONE, SLAVE, CommunicationDirectory
from tests.sources.raw.writers.directory import START_NS

GROUP = 13_000_000_000_000_000_339
OTHER_GROUP = 5_000_000_000_000_000_721


@pytest.fixture(scope="module")
def everything(samples: Path) -> Decoded:
    return raw.read(raw_sample(samples, "everything"))


@pytest.fixture(scope="module")
def database(samples: Path) -> Iterator[sqlite3.Connection]:
    file = next((samples / "raw/everything/expected").glob("msprof_*.db"))
    connection = sqlite3.connect(f"{file.as_uri()}?mode=ro&immutable=1", uri=True)
    yield connection
    connection.close()


@pytest.fixture
def directory(tmp_path: Path) -> CommunicationDirectory:
    return CommunicationDirectory(tmp_path / "PROF_test")


def _enumeration(database: sqlite3.Connection, name: str) -> dict[int, str | None]:
    """The vendor's names; its numbers for "none" are absent here."""
    rows = dict(database.execute(f"SELECT id, name FROM ENUM_{name}"))
    return {number: None if number >= 255 else text for number, text in rows.items()}


def _plain(frame: pd.DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    chosen = frame[list(columns)].astype(object)
    return [tuple(row) for row in chosen.where(chosen.notna(), None).to_numpy().tolist()]


@pytest.mark.slow
def test_operators_are_those_of_communication_op(database: sqlite3.Connection, everything: Decoded) -> None:
    strings = dict(database.execute("SELECT id, value FROM STRING_IDS"))
    dtypes = _enumeration(database, "HCCL_DATA_TYPE")
    expected = [
        (
            *(start, end - start, device, strings[name], strings[op_type], strings[group], dtypes[dtype]),
            *(strings[algorithm], count, connection, ranks, bool(relay), bool(retry)),
        )
        for name, start, end, connection, group, _, relay, retry, dtype, algorithm, count, op_type, device, ranks in (
            database.execute("SELECT * FROM COMMUNICATION_OP ORDER BY startNs")
        )
    ]
    columns = ("start_ns", "duration_ns", "device_id", "name", "op_type", "group", "data_type", "algorithm", "count")
    found = everything.tables["communication"]
    assert _plain(found, *columns, "connection_id", "rank_size", "relay", "retry") == expected
    assert len(expected) == 1


def test_steps_are_those_of_communication_task_info(database: sqlite3.Connection, everything: Decoded) -> None:
    strings = dict(database.execute("SELECT id, value FROM STRING_IDS"))
    dtypes, links = _enumeration(database, "HCCL_DATA_TYPE"), _enumeration(database, "HCCL_LINK_TYPE")
    transports, rdma = _enumeration(database, "HCCL_TRANSPORT_TYPE"), _enumeration(database, "HCCL_RDMA_TYPE")
    query = (
        "SELECT startNs, endNs - startNs, deviceId, streamId, taskId, opId, planeId, notifyId, srcRank, dstRank, size, "
        "i.taskType, dataType, linkType, transportType, rdmaType, bandwidth "
        "FROM COMMUNICATION_TASK_INFO i JOIN TASK USING (globalTaskId) ORDER BY startNs"
    )
    rows = database.execute(query).fetchall()
    expected = [
        (*row[:11], strings[row[11]], dtypes[row[12]], links[row[13]], transports[row[14]], rdma[row[15]])
        for row in rows
    ]
    ids = ("device_id", "stream_id", "task_id", "op_id", "plane_id", "notify_id", "src_rank", "dst_rank", "size_bytes")
    names = ("task_type", "data_type", "link", "transport", "rdma_type")
    found = everything.tables["communication_tasks"]
    assert _plain(found, "start_ns", "duration_ns", *ids, *names) == expected
    assert found["bandwidth_gb_s"].tolist() == pytest.approx([row[-1] / 1e9 for row in rows], rel=1e-15)
    assert len(rows) == 3


def test_both_are_those_of_the_timeline(samples: Path, everything: Decoded) -> None:
    file = next((samples / "raw/everything/expected").glob("msprof_2*.json"))
    events = json.loads(file.read_text())
    process = next(event["pid"] for event in events if event.get("args") == {"name": "Communication"})
    slices = [event for event in events if event["pid"] == process and event["ph"] == "X"]
    steps, operators = (everything.tables[name] for name in ("communication_tasks", "communication"))
    expected = [
        (int(Decimal(event["ts"]) * 1000), int(Decimal(str(event["dur"])) * 1000), event["name"]) for event in slices
    ]
    found = _plain(steps, "start_ns", "duration_ns", "task_type")
    assert found + _plain(operators, "start_ns", "duration_ns", "name") == expected
    arguments = [event["args"] for event in slices if "notify_id" in event["args"]]
    assert steps["estimated_us"].tolist() == [one["duration estimated(us)"] for one in arguments]
    assert steps["bandwidth_gb_s"].tolist() == [one["bandwidth(GB/s)"] for one in arguments]


@pytest.mark.slow
def test_kernel_with_a_collective_waited_since_the_last(
    directory: CommunicationDirectory,
) -> None:
    directory.launch(0, "Add", 3, 0)  # on the device from 100 to 200 ticks of the host
    directory.launch(150, "Mul", 3, 1)  # from 250 to 350
    directory.collective(210, 245)
    directory.communicate(220, "Memcpy", 4, 0, size=4096)
    directory.task(125, 200, 4, 0, sqe=11)  # from 250 to 400
    decoded = raw.read(directory.finish())
    assert decoded.tables["communication"]["start_ns"].tolist() == [decoded.tables["kernels"]["start_ns"].iloc[1]]
    assert decoded.tables["kernels"]["wait_ns"].tolist() == [0, 500]


def test_operators_are_no_kernels_and_overlap_adds_up(directory: CommunicationDirectory) -> None:
    directory.launch(0, "Add", 3, 0)  # on the device from 100 to 200 ticks of the host
    directory.collective(60, 95)
    directory.communicate(70, "Memcpy", 4, 0, size=4096)
    directory.task(75, 125, 4, 0, sqe=11)  # from 150 to 250
    decoded = raw.read(directory.finish())
    assert decoded.tables["kernels"]["op_name"].tolist() == ["Add"]
    overlap = decoded.tables["overlap"]
    spent = overlap.groupby("kind", observed=True)["duration_ns"].sum().to_dict()
    assert spent == {"computing": 1000, "communication": 1000, "communication_not_overlapped": 500}
    assert spent["computing"] + spent["communication_not_overlapped"] == 1500
    (step,) = decoded.tables["communication_tasks"].to_dict("records")
    assert (step["start_ns"], step["size_bytes"], step["bandwidth_gb_s"]) == (START_NS + 1500, 4096, 4.096)


def test_operators_are_numbered_by_group_in_order_of_time(directory: CommunicationDirectory) -> None:
    for number, group in enumerate((GROUP, OTHER_GROUP, GROUP)):
        at = 100 * number
        directory.collective(at, at + 50)
        directory.communicate(at + 10, "Memcpy", 4, number)
        directory.operator(at + 40, group, flags=number)
        directory.task(1000 + at, 1050 + at, 4, number, sqe=11)
    operators = raw.read(directory.finish()).tables["communication"]
    names = ["hcom_allReduce__339_0_1", "hcom_allReduce__721_0_1", "hcom_allReduce__339_1_1"]
    assert operators["name"].tolist() == names
    assert _plain(operators, "relay", "retry") == [(False, False), (True, False), (False, True)]
    assert operators["data_type"].tolist() == ["FP16"] * 3
    assert operators["algorithm"].tolist() == ["MESH-RING"] * 3


def test_operators_know_their_training_step(directory: CommunicationDirectory) -> None:
    directory.step(900, 6, 60000)
    for number in range(2):
        directory.collective(100 * number, 100 * number + 50)
        directory.communicate(100 * number + 10, "Memcpy", 4, number)
        directory.task(1000 + 100 * number, 1010 + 100 * number, 4, number, sqe=11)
    directory.step(1050, 6, 60001)
    operators = raw.read(directory.finish()).tables["communication"]
    assert _plain(operators, "step", "connection_id") == [(6, 1), (None, 3)]


def test_each_execution_of_a_graph_is_an_operator(directory: CommunicationDirectory) -> None:
    directory.collective(0, 90)
    directory.communicate(10, "Memcpy", 4, 0)
    directory.communicate(30, "Notify_Record", 4, 1)
    directory.operator(80, GROUP)
    for turn in range(3):
        directory.task(1000 + 100 * turn, 1010 + 100 * turn, 4, 0, sqe=11)
        if turn != 1:  # lost
            directory.task(1020 + 100 * turn, 1030 + 100 * turn, 4, 1, sqe=6)
    frames = raw.read(directory.finish()).tables
    assert frames["communication"]["name"].tolist() == [f"hcom_allReduce__339_{turn}_{turn + 1}" for turn in range(3)]
    assert frames["communication"]["duration_ns"].tolist() == [600, 200, 600]
    assert frames["communication_tasks"]["op_id"].tolist() == [0, 0, 1, 2, 2]
    assert frames["communication_tasks"]["task_type"].tolist()[2:4] == ["Memcpy", "Memcpy"]


def test_steps_on_side_streams_do_not_stretch_their_operator(directory: CommunicationDirectory) -> None:
    directory.collective(0, 90)
    directory.communicate(10, "Memcpy", 4, 0)
    directory.communicate(30, "Memcpy", 5, 0, on=SLAVE, plane=1)
    directory.task(1000, 1010, 4, 0, sqe=11)
    directory.task(990, 1100, 5, 0, sqe=11)
    frames = raw.read(directory.finish()).tables
    assert _plain(frames["communication"], "start_ns", "duration_ns") == [(START_NS + 20_000, 200)]
    assert frames["communication_tasks"]["plane_id"].tolist() == [1, 0]


def test_contexts_of_one_task_are_steps(directory: CommunicationDirectory) -> None:
    directory.collective(0, 90)
    directory.api(5500, 0x010001, 10, 60, item="hcom")
    directory.track(20, 4, 0, 52)
    directory.step_contexts(30, 0, 2)
    for context in (2, 0):
        directory.info(40 + context, f"Memcpy_{context}", context=context, remote=context)
    directory.task(1000, 1100, 4, 0, sqe=0)
    for context in range(4):  # the last is a label of the graph
        directory.part(1010 + 10 * context, 1015 + 10 * context, 4, 0, context, 8)
    frames = raw.read(directory.finish()).tables
    steps = frames["communication_tasks"]
    assert _plain(steps, "context_id", "task_type", "dst_rank") == [
        (0, "Memcpy_0", 0),
        (1, "SDMA", None),
        (2, "Memcpy_2", 2),
    ]
    assert _plain(frames["communication"], "start_ns", "duration_ns") == [(START_NS + 20_200, 500)]
    assert len(frames["tasks"]) == 5


def test_operators_that_nothing_describes_are_still_there(directory: CommunicationDirectory) -> None:
    directory.collective(0, 90)
    directory.communicate(10, "Memcpy", 4, 0, info=False)
    directory.task(1000, 1010, 4, 0, sqe=11)
    frames = raw.read(directory.finish()).tables
    (operator,) = _plain(frames["communication"], "name", "op_type", "group", "data_type", "count", "rank_size")
    assert operator == ("hcom_allReduce__N/A_0_1", "hcom_allReduce_", None, None, None, None)
    steps = frames["communication_tasks"]
    assert _plain(steps, "task_type", "size_bytes", "bandwidth_gb_s") == [("NOTIFY_RECORD", None, None)]


def test_values_for_none_are_absent(directory: CommunicationDirectory) -> None:
    directory.collective(0, 90)
    most = (1 << 64) - 1
    fields = {"local": NONE, "remote": NONE, "plane": NONE, "link": NONE, "transport": NONE, "dtype": 255}
    directory.communicate(10, "Notify_Wait", 4, 0, info=False)
    directory.info(17, "Notify_Wait", size=most, notify=most, **fields)
    directory.task(1000, 1010, 4, 0, sqe=7)
    steps = raw.read(directory.finish()).tables["communication_tasks"]
    columns = ("plane_id", "src_rank", "dst_rank", "transport", "link", "size_bytes", "bandwidth_gb_s")
    assert _plain(steps, *columns, "data_type", "notify_id", "rdma_type") == [(None,) * 10]


def test_each_device_has_its_own_operators(tmp_path: Path) -> None:
    directory = CommunicationDirectory(tmp_path / "PROF_test", devices=2)
    for device in (1, 0):
        at = 200 * device
        directory.collective(at, at + 50)
        directory.communicate(at + 10, "Memcpy", 4, 0, device=device)
        directory.operator(at + 40, GROUP)
        directory.task(1000 + at, 1010 + at, 4, 0, sqe=11, device=device)
    frames = raw.read(directory.finish()).tables
    expected = [(0, "hcom_allReduce__339_0_1"), (1, "hcom_allReduce__339_0_1")]
    assert _plain(frames["communication"], "device_id", "name") == expected
    assert _plain(frames["communication_tasks"], "device_id", "op_id") == [(0, 0), (1, 1)]


def test_several_launches_of_one_step_take_its_records_in_order(directory: CommunicationDirectory) -> None:
    directory.collective(0, 90)
    directory.api(5500, 0x010001, 10, 60, item="hcom")
    for number in range(2):
        directory.track(20 + 10 * number, 4, number, 15)
        directory.info(22 + 10 * number, f"step {number}", size=number)
        directory.task(1000 + 20 * number, 1010 + 20 * number, 4, number, sqe=11)
    steps = raw.read(directory.finish()).tables["communication_tasks"]
    assert _plain(steps, "task_type", "size_bytes") == [("step 0", 0), ("step 1", 1)]


def test_records_outside_any_call_are_counted(directory: CommunicationDirectory) -> None:
    directory.info(10, "Memcpy")
    directory.operator(10, GROUP)
    decoded = raw.read(directory.finish())
    assert [note for note in decoded.notes.to_frame()["message"] if "outside any communication call" in note]
    tables.check("communication", decoded.tables["communication"])


def test_payloads_last_until_the_steps_that_close_them() -> None:
    # GIVEN two payloads, four closing steps, and a payload that nothing closes, on one plane
    start = np.arange(7, dtype=np.int64) * 100
    size = np.array([600.0, 400, 0, 0, 0, 8, 50])
    payload = np.array([True, True, False, False, False, False, True])
    zeros, no = np.zeros(7, np.int64), np.zeros(7, bool)
    found = bandwidth_gb_s(start, start + 100, size, zeros, payload, no)
    # THEN the first two share what they moved until the last closing step
    np.testing.assert_allclose(found, [1000 / 600, 1000 / 600, 0, 0, 0, 0.08, 0.5])
    # AND of a send, two steps close them
    found = bandwidth_gb_s(start, start + 100, size, zeros, payload, ~no)
    np.testing.assert_allclose(found[:2], [1000 / 400] * 2)


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), max_size=60))
def test_a_step_that_comes_again_begins_the_next_execution(rows: list[tuple[int, int]]) -> None:
    rows.sort(key=lambda row: row[0])  # by call
    expected, seen = [], set[tuple[int, int]]()
    for at, (call, step) in enumerate(rows):
        if at and rows[at - 1][0] == call and (call, step) not in seen:
            seen.add((call, step))
            continue
        expected.append(at)
        seen = {(call, step)}
    calls = np.array([call for call, _ in rows], np.int64)
    is_new = np.concatenate(([True], calls[1:] != calls[:-1]))[: len(calls)]
    found = _rounds(is_new, np.array([call * 8 + step for call, step in rows], np.int64))
    assert found.tolist() == expected

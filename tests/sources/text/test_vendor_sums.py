"""Operators that only the vendor's sums tell of become rows of `communication`, with the digits of their starts."""

from __future__ import annotations

import json
import sqlite3
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import npuprof
from npuprof import tables as schema
from npuprof.loading import open_path
from npuprof.profiles.profile import Profile
from npuprof.ranks.profile_set import ProfileSet
from npuprof.sources.base import Decoded
from npuprof.sources.text.vendor_sums import check_collectives
from tests.sources.trace.maker import small_trace

START = "1764246877227008.832"  # more digits than a float keeps
STEP_TIMES = "Device_id,Step,Computing,Communication(Not Overlapped),Overlapped,Communication,Free\n3,13,1,2,0,2,5\n"


def operator(start: str, elapsed: str = "0.43518") -> str:
    return f'{{"Communication Time Info": {{"Start Timestamp(us)": {start}, "Elapse Time(ms)": {elapsed}}}}}'


def result(folder: Path, **operators: str) -> Path:
    """A result of torch_npu with these operators in its ``communication.json``, and the breakdown of its step."""
    output = folder / "ASCEND_PROFILER_OUTPUT"
    output.mkdir(parents=True)
    (folder / "profiler_info.json").write_text("{}")
    (output / "step_trace_time.csv").write_text(STEP_TIMES)
    listed = ", ".join(f'"{name}@88123": {told}' for name, told in operators.items())
    (output / "communication.json").write_text(f'{{"step13": {{"p2p": {{{listed}}}, "collective": {{}}}}}}')
    return folder


def messages(run: Profile) -> list[str]:
    return [str(message) for message in run.notes["message"]]


def test_each_operator_is_a_row_that_starts_where_the_file_says(tmp_path: Path) -> None:
    run = npuprof.load(
        result(tmp_path / "a", hcom_send__123_1_1=operator("1764246877227009"), hcom_send__123_0_1=operator(START))
    )
    rows = run.communication
    assert rows["start_ns"].tolist() == [1764246877227008832, 1764246877227009000]
    assert rows["duration_ns"].tolist() == [435180, 435180]
    assert rows["name"].tolist() == ["hcom_send__123_0_1", "hcom_send__123_1_1"]
    assert set(rows["op_type"]) == {"hcom_send_"}
    assert (set(rows["group"]), set(rows["step"]), set(rows["device_id"])) == ({"88123"}, {13}, {3})
    assert sorted(run.statistics["communication"]["start_ns"]) == rows["start_ns"].tolist()
    assert any("made of the vendor's sums" in message for message in messages(run))
    assert run.info.devices == [3]


def test_what_is_not_known_is_reported(tmp_path: Path) -> None:
    folder = result(tmp_path / "a", one=operator(START), two=operator("null"), three=operator(START, '"N/A"'))
    (folder / "ASCEND_PROFILER_OUTPUT" / "step_trace_time.csv").unlink()
    run = npuprof.load(folder)
    assert run.communication["name"].tolist() == ["one"]
    assert len(run.statistics["communication"]) == 3
    counts = dict(zip(messages(run), run.notes["count"], strict=True))
    assert next(count for message, count in counts.items() if "no start or no duration" in message) == 2
    assert any("names the device" in message for message in counts)


@pytest.mark.parametrize("lost", [False, True])
def test_transfers_whose_tasks_the_timeline_lacks_are_reported(tmp_path: Path, *, lost: bool) -> None:
    moved = operator(START).replace('"Elapse', '"Transit Time(ms)": 0.25, "Elapse')
    path = result(tmp_path / "a", hcom_send__123_0_1=moved)
    trace = small_trace()
    trace.events = [event for event in trace.events if not (lost and "task type" in event.get("args", {}))]
    trace.write(path / "ASCEND_PROFILER_OUTPUT" / "trace_view.json")
    run = npuprof.load(path)
    assert bool(len(run.communication_tasks)) != lost
    assert ("communication_tasks" in run.notes["source"].tolist()) == lost


@pytest.mark.parametrize("step", [13, 14])
def test_a_step_of_kernels_that_the_breakdown_lacks_is_reported(tmp_path: Path, step: int) -> None:
    path = result(tmp_path / "a", hcom_send__123_0_1=operator(START))
    head = "Step Id,Name,Type,Accelerator Core,Start Time(us),Duration(us)"
    text = f"{head}\n{step},Add,Add,AI_CORE,1764246877227000.001\t,2\n"
    (path / "ASCEND_PROFILER_OUTPUT" / "kernel_details.csv").write_text(text)
    assert ("a step that kernels name is missing" in messages(npuprof.load(path))) == (step != 13)


@pytest.mark.parametrize("listed", [1, 2, 3])
def test_collectives_are_as_many_as_the_vendors_sums_have(listed: int) -> None:
    rows = schema.build("communication", {"start_ns": [1, 5], "duration_ns": [2, 2], "device_id": [0, 0]})
    decoded = Decoded({"communication": rows}, statistics={"communication": pd.DataFrame({"name": ["a"] * listed})})
    check_collectives(decoded)
    assert len(decoded.notes) == (listed != 2)


@pytest.mark.parametrize("counted", [None, 3])
def test_timeline_without_counted_calls_is_reported(tmp_path: Path, counted: int | None) -> None:
    path = result(tmp_path / "a", hcom_send__123_0_1=operator(START))
    trace = small_trace()
    trace.events = [event for event in trace.events if "level" not in event.get("args", {})]
    trace.write(path / "ASCEND_PROFILER_OUTPUT" / "trace_view.json")
    if counted is not None:
        text = f"Level,API Name,Time(us),Count\nnode,launch,5,{counted}\n"
        (path / "ASCEND_PROFILER_OUTPUT" / "api_statistic.csv").write_text(text)
    told = any("rows of api, which has 0: " in note for note in messages(npuprof.load(path)))
    assert told == (counted is not None)


def test_operators_that_other_files_hold_are_not_made_twice(tmp_path: Path) -> None:
    folder = result(tmp_path / "a", hcom_send__123_0_1=operator(START))
    columns = "Device_id,Name,Type,Accelerator Core,Start Time(us),Duration(us)"
    row = "3,hcom_send__123_0_1,hcom_send_,COMMUNICATION,1764246877227008.837\t,435.181"
    (folder / "ASCEND_PROFILER_OUTPUT" / "kernel_details.csv").write_text(f"{columns}\n{row}\n")
    run = npuprof.load(folder)
    assert run.communication["start_ns"].tolist() == [1764246877227008837]
    assert not any("made of the vendor's sums" in message for message in messages(run))


@pytest.mark.parametrize("name", ["analysis.db", "communication.json"])
def test_a_single_file_has_them_too(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    if name == "analysis.db":
        with sqlite3.connect(file) as database:
            database.execute(
                "CREATE TABLE CommAnalyzerTime (hccl_op_name TEXT, group_name TEXT, start_timestamp NUMERIC, "
                "elapse_time NUMERIC, transit_time NUMERIC, wait_time NUMERIC, synchronization_time NUMERIC, "
                "idle_time NUMERIC, step TEXT, type TEXT)"
            )
            database.execute(
                "INSERT INTO CommAnalyzerTime VALUES ('a', '88', 1764246877227008.75, 2.5, 0, 0, 0, 0, 'step2', 'p2p')"
            )
        database.close()
    else:
        plain = {"a@88": json.loads(operator("1764246877227008.8", "2.5")), "Total Op Info": {}}
        file.write_text(json.dumps({"step2": {"collective": plain}}))
    run = npuprof.load(file)
    assert run.communication[["start_ns", "duration_ns", "step"]].to_numpy().tolist() == [
        [1764246877227008800, 2500000, 2]
    ]
    assert "torch_npu" not in run.info.source


@pytest.mark.slow
def test_real_ranks_without_records_have_their_operators(samples: Path) -> None:
    folder = samples / "torch_npu" / "llm_4ranks"
    runs = open_path(folder)
    assert isinstance(runs, ProfileSet)
    assert [len(run.communication) for run in runs] == [15, 15, 23, 23]
    for rank in (1, 3):
        path = folder / f"rank_{rank}_ascend_pt" / "ASCEND_PROFILER_OUTPUT" / "communication.json"
        plain: dict[str, Any] = json.loads(path.read_bytes(), parse_float=Decimal)
        known = {
            key.partition("@")[0]: told["Communication Time Info"]
            for kinds in plain["step13"].values()
            for key, told in kinds.items()
            if "@" in key
        }
        for row in runs[rank].communication.to_dict("records"):
            told = known.pop(row["name"])
            assert row["start_ns"] == told["Start Timestamp(us)"] * 1000
            assert row["duration_ns"] == round(told["Elapse Time(ms)"] * 1_000_000)
        assert not known

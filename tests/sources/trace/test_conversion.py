"""A timeline's events become tables and links."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from npuprof import tables
from npuprof.sources import torch_npu
from npuprof.sources.trace.columns import gather
from npuprof.sources.trace.conversion import build_tables
from npuprof.sources.trace.events import read_events
from npuprof.sources.trace.links import build_links, renumbered
from npuprof.sources.trace.marks import add_device_sides
from npuprof.sources.trace.producer import kind_of_trace
from npuprof.tables.notes import Notes
from tests.sources.trace.maker import GC, HCCL, HOST, NPU, TraceMaker, ns, small_trace


def load(maker: TraceMaker, tmp_path: Path) -> tuple[dict[str, pd.DataFrame], Notes]:
    return load_file(maker.write(tmp_path / "trace_view.json"))


def load_file(path: Path) -> tuple[dict[str, pd.DataFrame], Notes]:
    notes = Notes()
    trace = gather(read_events(path, notes), notes, path.name)
    built = build_tables(trace, notes, path.name)
    found = {**built.tables, "links": build_links(trace, built, notes, path.name)}
    for name, frame in found.items():
        tables.check(name, frame)
    assert not list(notes.ledger.imbalances(found))
    return found, notes


@pytest.fixture
def small(tmp_path: Path) -> dict[str, pd.DataFrame]:
    found, notes = load(small_trace(), tmp_path)
    assert not len(notes)
    return found


def test_operators_and_steps_come_apart(small: dict[str, pd.DataFrame]) -> None:
    operators = small["operators"]
    assert operators["name"].tolist() == ["aten::mm", "Enqueue", "Dequeue@mm", "aten::add"]
    assert operators["kind"].tolist() == ["op", "enqueue", "dequeue", "op"]
    assert operators["id"].tolist() == [0, 1, 2, 3]
    assert operators["step"].tolist() == [7] * 4
    first = operators.iloc[0]
    assert (first["input_shapes"], first["stack"], first["sequence_number"]) == ("2,3;", "a(1): f\nb(2): g", 3)
    assert operators["sequence_number"].isna().tolist() == [False, True, True, True]
    assert small["steps"].iloc[0].tolist() == [7, ns(0), 1_000_000]


def test_the_python_root_has_no_parent(small: dict[str, pd.DataFrame]) -> None:
    python = small["python"]
    assert python["parent_id"].isna().tolist() == [True, False]
    assert python["depth"].tolist() == [0, 1]


def test_api_levels_and_names_are_ours(small: dict[str, pd.DataFrame]) -> None:
    api = small["api"]
    assert api["name"].tolist() == ["aclnnMm", "launch", "allReduce"]
    assert api["level"].tolist() == ["acl", "node", "communication"]
    assert api["item"].tolist()[1] == "MatMul1"


def test_tasks_have_exact_times_and_the_labelled_device(small: dict[str, pd.DataFrame]) -> None:
    device_tasks = small["tasks"]
    assert device_tasks["start_ns"].tolist() == [ns(100.001), ns(150.002), ns(160)]
    assert device_tasks["duration_ns"].tolist() == [10_500] * 3
    assert set(device_tasks["device_id"]) == {1}
    assert device_tasks["context_id"].isna().all()


def test_communication_operators_and_their_steps(small: dict[str, pd.DataFrame]) -> None:
    operator, step = small["communication"].iloc[0], small["communication_tasks"].iloc[0]
    assert (operator["op_type"], operator["group"], operator["duration_ns"]) == ("hcom_allReduce_", "Group 0", 50_000)
    assert (step["op_id"], step["plane_id"], step["size_bytes"], step["bandwidth_gb_s"]) == (0, 0, 64, 1.5)
    assert pd.isna(step["dst_rank"])
    assert pd.isna(step["link"])


def test_overlap_goes_by_names(small: dict[str, pd.DataFrame]) -> None:
    assert small["overlap"]["kind"].tolist() == ["computing", "free", "computing", "communication_not_overlapped"]


def test_counters_have_their_instance_and_unit(small: dict[str, pd.DataFrame]) -> None:
    rows = small["counters"][["counter", "instance", "value", "unit"]].astype(object)
    assert rows.iloc[0].tolist() == ["HBM read", "0", 2.5, "MB/s"]
    assert rows.iloc[1].tolist()[:3] == ["Acc PMU read_bandwidth", "3", 7.0]


def named_links(found: dict[str, pd.DataFrame]) -> set[tuple[str, str, str]]:
    return {
        (kind, found[source]["name"].iloc[row], found[target]["name"].iloc[effect])
        for kind, source, row, target, effect in found["links"].itertuples(index=False)
    }


def test_links_join_causes_and_all_their_effects(small: dict[str, pd.DataFrame]) -> None:
    assert named_links(small) == {
        ("enqueue", "Enqueue", "Dequeue@mm"),
        ("api_task", "launch", "MatMul1"),
        ("api_task", "launch", "Add2"),
        ("api_task", "allReduce", "hcom_allReduce__586_0_1"),
        ("operator_api", "aten::mm", "launch"),
        ("operator_api", "aten::add", "allReduce"),
    }


def test_without_cann_calls_operators_link_to_tasks(tmp_path: Path) -> None:
    found, _ = load(small_trace(cann_named=False), tmp_path)
    assert "api" not in found
    assert ("operator_api", "aten::mm", "MatMul1") in named_links(found)
    assert ("operator_api", "aten::add", "hcom_allReduce__586_0_1") in named_links(found)


def test_a_ring_of_python_parents_is_cut_and_noted(tmp_path: Path) -> None:
    maker = TraceMaker()
    for number, parent in ((1, 2), (2, 1), (3, 99)):
        call: dict[str, Any] = {"Python id": number, "Python parent id": parent}
        maker.slice(HOST, 1, f"f{number}", number, 1, "python_function", **call)
    found, notes = load(maker, tmp_path)
    assert found["python"]["parent_id"].tolist()[2] == 99
    assert found["python"]["depth"].tolist() == [0, 0, 0]
    assert any("own ancestor" in message for message in notes.to_frame()["message"])


@pytest.mark.parametrize(
    ("ts", "start_ns", "note"),
    [
        (1_763_600_000_000_000, 1_763_600_000_000_000_000, None),
        ("1763600000000000", 1_763_600_000_000_000_000, None),
        (1_763_600_000_000_000.5, 1_763_600_000_000_000_500, "floats"),
        (12.5, 12_500, "do not count from 1970"),
        ("12.5", 12_500, "relative"),
    ],
)
def test_other_forms_of_time_are_read_and_reported(
    tmp_path: Path, ts: int | float | str, start_ns: int, note: str | None
) -> None:
    maker = TraceMaker()
    maker.slice(HOST, 1, "aten::mm", 0, 1, "cpu_op")
    maker.events[0]["ts"] = ts
    found, notes = load(maker, tmp_path)
    assert found["operators"]["start_ns"].tolist() == [start_ns]
    assert note is None or any(note in message for message in notes.to_frame()["message"])


def test_damaged_fields_are_left_out_and_counted(tmp_path: Path) -> None:
    maker = TraceMaker()
    for row, (ts, dur) in enumerate((("x", 1), ("1763600000000000.000", -5), ("1763600000000001.000", "0.25"))):
        maker.slice(HOST, 1, f"op{row}", 0, 1, "cpu_op")
        maker.events[-1].update(ts=ts, dur=dur, args={"Sequence number": [row]})
    found, notes = load(maker, tmp_path)
    counts = {message: count for _, _, message, count, *_ in notes.to_frame().itertuples(index=False)}
    assert found["operators"]["duration_ns"].tolist() == [0, 250]
    assert counts["an event has no readable time; left out"] == 1
    assert counts["an event has no valid duration; taken as 0"] == 1
    assert sum(count for message, count in counts.items() if "arguments" in message) == 2


@pytest.mark.parametrize("odd", [rb"\ud800", b"\xff"])
def test_broken_utf8_costs_no_event(tmp_path: Path, odd: bytes) -> None:
    maker = TraceMaker()
    for row in range(3):
        maker.slice(HOST, 1, f"op{row}", row, 1, "cpu_op", **{"Sequence number": row, "ODD": "ODD"})
    maker.process(HOST, "ODD", "CPU")
    path = maker.write(tmp_path / "trace_view.json")
    path.write_bytes(path.read_bytes().replace(b"op1", b"op1" + odd).replace(b"ODD", odd))
    found, notes = load_file(path)
    operators = found["operators"]
    assert operators["name"].tolist() == ["op0", "op1\ufffd", "op2"]
    assert operators["sequence_number"].tolist() == [0, 1, 2]
    assert not notes.to_frame()["message"].str.contains("arguments|lost").any()
    assert kind_of_trace(path) == kind_of_trace(maker.write(tmp_path / "sound.json"))


@pytest.mark.slow
@pytest.mark.parametrize("value", ["9" * 5_000, "1e999"])
def test_unreadable_arguments_cost_only_themselves(tmp_path: Path, value: str) -> None:
    maker = small_trace()
    path = maker.write(tmp_path / "trace_view.json")
    args = next(event["args"] for event in maker.events if "data_type" in event.get("args", {}))
    args["data_type"] = "ODD"
    whole, _ = load_file(path)
    maker.write(path).write_text(path.read_text().replace('"ODD"', value))
    found, notes = load_file(path)
    assert {name: len(frame) for name, frame in found.items()} == {name: len(frame) for name, frame in whole.items()}
    assert notes.to_frame()["message"].str.contains("arguments of an event cannot be read").any()


def test_numbers_too_large_for_a_column_are_absent_and_counted(tmp_path: Path) -> None:
    maker = TraceMaker()
    numbers = (3, 1 << 63, -(1 << 80), str(1 << 70), "9" * 400, (1 << 64) - 1, "N/A", None)
    for place, number in enumerate(numbers):
        maker.slice(HOST, 1, "op", place, 1, "cpu_op", **{"Sequence number": number, "Fwd thread id": 5})
    found, notes = load(maker, tmp_path)
    assert found["operators"]["sequence_number"].tolist() == [3] + [pd.NA] * 7
    assert found["operators"]["forward_thread_id"].tolist() == [5] * 8
    told = notes.to_frame()
    assert told[["severity", "count"]].to_numpy().tolist() == [["warning", 4]]
    assert "too large" in told["message"].iloc[0]


def test_pauses_of_the_garbage_collector_are_marks(tmp_path: Path) -> None:
    maker = TraceMaker()
    maker.slice(HOST, 7, "step", 4, 9, event_type="start/end", domain="default")
    maker.process(GC, "Python GC", "CPU", 1)
    maker.slice(GC, 7, "GC", 2, 1.5, "GC")
    maker.slice(GC, 7, "GC", 6, 0.25, "GC")
    found, notes = load(maker, tmp_path)
    marks = found["marks"][["start_ns", "duration_ns", "message", "domain", "thread_id"]]
    assert marks.astype(object).to_numpy().tolist() == [
        [ns(2), 1500, "GC", "python_gc", 7],
        [ns(4), 9000, "step", "default", 7],
        [ns(6), 250, "GC", "python_gc", 7],
    ]
    assert not len(notes)


def test_pauses_alone_are_marks(tmp_path: Path) -> None:
    maker = TraceMaker()
    maker.slice(GC, 7, "GC", 2, 1.5, "GC")
    found, _ = load(maker, tmp_path)
    assert found["marks"]["domain"].tolist() == ["python_gc"]


def test_marks_lead_to_their_device_side(tmp_path: Path) -> None:
    maker = TraceMaker()
    maker.slice(HOST, 7, "unseen", 1, 50, event_type="marker", domain="default")
    for row, us in enumerate((30.25, 10.125)):
        maker.slice(HOST, 7, f"mark {row}", us, 50, event_type="marker_ex", domain="default")
        maker.slice(NPU, 2, f"mark {row}", us + 20, 40, **{"Physic Stream Id": 2, "Task Id": 900 + row})
        maker.flow("MsTx", str(4000000100 + row), (HOST, 7, us), (NPU, 2, us + 20))
    found, notes = load(maker, tmp_path)
    links = found["links"]
    assert links["kind"].tolist() == ["mark", "mark"]
    assert links["source_table"].unique().tolist() == ["marks"]
    assert links["target_table"].unique().tolist() == ["tasks"]
    messages = found["marks"]["message"].take(links["source_row"].to_numpy()).tolist()
    assert sorted(messages) == ["mark 0", "mark 1"]
    assert messages == found["tasks"]["name"].take(links["target_row"].to_numpy()).tolist()
    add_device_sides(found)
    assert found["marks"]["id"].astype(object).tolist() == [pd.NA, 100, 99]
    marks = found["marks"][["message", "device_start_ns", "device_duration_ns", "device_id"]]
    assert marks.astype(object).to_numpy().tolist() == [
        ["unseen", pd.NA, pd.NA, pd.NA],
        ["mark 1", ns(30.125), 40_000, 0],
        ["mark 0", ns(50.25), 40_000, 0],
    ]
    tables.check("marks", found["marks"])
    assert not len(notes)


def test_links_follow_the_rows_of_an_exchanged_table() -> None:
    former = pd.DataFrame({"start_ns": [1, 5, 5, 9], "duration_ns": 2, "thread_id": 7})
    frame = pd.DataFrame({"start_ns": [0, 1, 5, 5], "duration_ns": 2, "thread_id": [8, 7, 7, 7]})
    links = tables.build(
        "links",
        {
            "kind": pd.Categorical(["mark"] * 4 + ["api_task"]),
            "source_table": pd.Categorical(["marks"] * 4 + ["api"]),
            "source_row": [0, 1, 2, 3, 3],
            "target_table": pd.Categorical(["tasks"] * 5),
            "target_row": [4, 5, 6, 7, 8],
        },
    )
    moved = renumbered(links, "marks", former, frame)
    assert moved[["source_row", "target_row"]].to_numpy().tolist() == [[1, 4], [2, 5], [3, 6], [3, 8]]
    tables.check("links", moved)


def test_steps_know_their_task_without_any_process_name(tmp_path: Path) -> None:
    maker = small_trace()
    maker.events = [event for event in maker.events if event["ph"] != "M"]
    found, _ = load(maker, tmp_path)
    assert len(found["tasks"]) == 3
    assert found["communication_tasks"]["op_id"].tolist() == [0]


def test_old_results_have_the_device_in_a_packed_process_id(tmp_path: Path) -> None:
    maker = TraceMaker()
    maker.process(NPU, "Ascend Hardware", "NPU", 13)  # 417 = 13 << 5 | 1
    task: dict[str, Any] = {"Task Type": "AI_CORE", "Stream Id": 2, "Task Id": 1, "Batch Id": 0}
    maker.slice(NPU, 2, "MatMul1", 1, 1, **task)
    found, _ = load(maker, tmp_path)
    assert found["tasks"]["device_id"].tolist() == [1]


def test_newer_results_describe_copies_and_collectives(tmp_path: Path) -> None:
    maker = TraceMaker()
    maker.process(NPU, "Ascend Hardware", "NPU 1", 13)
    maker.process(HCCL, "Communication", "NPU 1", 15)
    maker.thread(HCCL, 0, "Group 10.0.0.1%eth0_60000_0_12 Communication")
    maker.thread(HCCL, 1, "Plane 0")
    copy: dict[str, Any] = {"Task Type": "SDMA_SQE", "Physic Stream Id": 3, "Task Id": 0, "size(B)": 4096}
    maker.slice(NPU, 3, "MEMCPY_ASYNC", 1, 1, **copy, operation="host to device")
    told: dict[str, Any] = {"rank_size": 8, "data_type": "FP32", "alg_type": "RING", "relay": "no", "retry": "yes"}
    maker.slice(HCCL, 0, "hcom_allReduce__721_0_1", 5, 9, **told)
    step: dict[str, Any] = {"task type": "Memcpy", "notify_id": "77", "data type": "FP32", "link type": "INVALID_TYPE"}
    maker.slice(HCCL, 1, "Memcpy", 6, 2, **step, **{"duration estimated(us)": 12.5})
    found, _ = load(maker, tmp_path)
    assert found["tasks"]["copied_bytes"].tolist() == [4096]
    assert found["tasks"]["copy_direction"].tolist() == ["host to device"]
    (collective,) = found["communication"].to_dict("records")
    assert collective["group"] == "10.0.0.1%eth0_60000_0_12"
    assert (collective["rank_size"], collective["relay"], collective["retry"]) == (8, False, True)
    (task,) = found["communication_tasks"].to_dict("records")
    assert (task["data_type"], task["notify_id"], task["estimated_us"]) == ("FP32", 77, 12.5)
    assert pd.isna(task["link"])
    assert pd.isna(task["rdma_type"])


@pytest.mark.slow
def test_threads_may_be_numbered_in_text(tmp_path: Path) -> None:
    maker = small_trace()
    numbered = torch_npu.read(maker.write(tmp_path / "numbers.json"))
    for event in maker.events:
        event["tid"] = str(event["tid"])
    in_text = torch_npu.read(maker.write(tmp_path / "text.json"))
    for name in ("operators", "api", "python"):
        assert in_text.tables[name]["thread_id"].tolist() == numbered.tables[name]["thread_id"].tolist()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kept", "message", "count"),
    [
        (set(), "a task has no flow from the call that launched it: a link is missing", 3),
        ({"s", "t", "f"}, "a flow has no category, so no kind; left out; counts and sums of links are too low", 11),
    ],
    ids=["no flows", "no categories"],
)
def test_a_timeline_without_its_flows_has_a_note(tmp_path: Path, kept: set[str], message: str, count: int) -> None:
    maker = small_trace()
    maker.events[:] = [event for event in maker.events if event["ph"] not in {"s", "t", "f"} - kept]
    for event in maker.events:
        if event["ph"] in kept:
            event.pop("cat", None)
    decoded = torch_npu.read(maker.write(tmp_path / "trace_view.json"))
    assert not len(decoded.tables.get("links", ()))
    notes = decoded.notes.to_frame().query("severity == 'warning'").set_index("message")["count"]
    assert notes[message] == count

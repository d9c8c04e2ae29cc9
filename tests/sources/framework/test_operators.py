"""Operators, the task queue, steps, and what caused what."""

from __future__ import annotations

import pandas as pd

from npuprof.sources.base import Decoded
from tests.sources.framework.conftest import Reader
from tests.sources.framework.writer import (
    BACKWARD,
    DEQUEUE_END,
    ENQUEUE_BEGIN,
    ENQUEUE_END,
    MAIN,
    WORKER,
    Framework,
    small,
    utc,
)


def linked(decoded: Decoded, kind: str) -> list[tuple[str, str]]:
    links, operators = decoded.tables["links"], decoded.tables["operators"]
    chosen = links[links["kind"] == kind]
    assert chosen["source_table"].eq("operators").all()
    assert chosen["target_table"].eq("operators").all()
    names = [operators["name"].astype(object).iloc[chosen[f"{side}_row"]].tolist() for side in ("source", "target")]
    return list(zip(*names, strict=True))


def test_operators_come_in_order_of_time_without_steps(read: Reader) -> None:
    operators = read(small()).tables["operators"]
    assert operators[["name", "kind", "thread_id", "step"]].to_numpy(object).tolist() == [
        ["aten::linear", "op", MAIN, 3],
        ["aten::mm", "op", MAIN, 3],
        ["Enqueue@aclnnMatmul", "enqueue", MAIN, 3],
        ["Dequeue@aclnnMatmul", "dequeue", WORKER, 3],
        ["MmBackward0", "op", BACKWARD, 3],
        ["aten::add", "op", MAIN, 4],
    ]
    assert operators["start_ns"].tolist() == [utc(time) for time in (105, 110, 120, 160, 300, 450)]
    assert operators["duration_ns"].tolist() == [85, 40, 20, 100, 40, 50]
    assert operators["id"].tolist() == list(range(6))


def test_an_operator_keeps_what_was_recorded_of_it(read: Reader) -> None:
    operators = read(small()).tables["operators"]
    multiply = operators.iloc[1]
    assert multiply["input_shapes"] == "2,3;3,4"
    assert multiply["input_dtypes"] == "float;float"
    assert multiply["stack"] == "a.py(3): f\nb.py(9): g"
    assert multiply["sequence_number"] == 5
    assert pd.isna(multiply["modules"])
    assert operators["modules"][0] == "Net/Linear_0"
    assert pd.isna(multiply["forward_thread_id"])


def test_steps_are_the_front_ends_own_ranges(read: Reader) -> None:
    steps = read(small()).tables["steps"]
    assert steps.to_numpy(object).tolist() == [[3, utc(100), 300], [4, utc(400), 300]]


def test_an_enqueue_is_linked_to_its_dequeue(read: Reader) -> None:
    decoded = read(small())
    assert linked(decoded, "enqueue") == [("Enqueue@aclnnMatmul", "Dequeue@aclnnMatmul")]
    assert decoded.tables["operators"]["correlation_id"].dropna().tolist() == [7, 7]


def test_a_correlation_id_that_returns_is_linked_in_turn(read: Reader) -> None:
    run = Framework()
    run.queued("first", 7, (10, 20), (30, 40))
    run.queued("second", 7, (50, 60), (70, 80))
    rows = read(run).tables["links"][["source_row", "target_row"]]
    assert rows.to_numpy().tolist() == [[0, 1], [2, 3]]


def test_marks_without_their_other_end_are_counted(read: Reader) -> None:
    run = Framework()
    run.mark(5, ENQUEUE_END, "before", 1, MAIN)
    run.mark(10, ENQUEUE_BEGIN, "lost", 0, MAIN)
    run.mark(20, ENQUEUE_BEGIN, "lost", 0, MAIN)
    run.mark(25, ENQUEUE_END, "lost", 2, MAIN)
    run.mark(30, DEQUEUE_END, "lost", 3, WORKER)
    run.mark(40, 9, "unknown", 4, WORKER)
    decoded = read(run)
    assert decoded.tables["operators"]["start_ns"].tolist() == [utc(20)]
    assert decoded.tables["operators"]["name"].tolist() == ["Enqueue"]  # no dequeue tells what it was
    assert decoded.notes.to_frame()[["severity", "message", "count"]].to_numpy().tolist() == [
        ["info", "a mark is of an unknown kind", 1],
        ["info", "an enqueue or dequeue has only one end: the recording began or ended within it", 2],
        ["warning", "the other end of an enqueue or dequeue is missing, or has another name; left out", 1],
    ]


def test_backward_call_links_to_last_forward_call(read: Reader) -> None:
    run = small()
    run.op("aten::later", 800, 850, sequence=5)  # torch numbers anew in another thread
    assert linked(read(run), "forward_backward") == [("aten::mm", "MmBackward0")]


def test_of_backward_calls_around_each_other_the_innermost_is_meant(read: Reader) -> None:
    run = small()
    run.op("autograd::engine::evaluate_function: MmBackward0", 295, 345, BACKWARD, sequence=5, forward_thread=1)
    assert linked(read(run), "forward_backward") == [("aten::mm", "MmBackward0")]


def test_times_that_cannot_be_are_left_out_or_repaired(read: Reader) -> None:
    run = Framework()
    run.op("backwards", 200, 100)
    run.op("of another century", 300, 10**18 * 3)
    decoded = read(run)
    assert decoded.tables["operators"][["name", "duration_ns"]].to_numpy(object).tolist() == [["backwards", 0]]
    assert len(decoded.notes) == 2


def test_broken_utf8_name_is_shown_partly(read: Reader) -> None:
    run = Framework()
    run.op(b"caf\xe9", 1, 2)
    run.op("café", 3, 4)
    decoded = read(run)
    assert decoded.tables["operators"]["name"].tolist() == ["caf\N{REPLACEMENT CHARACTER}", "café"]
    assert len(decoded.notes) == 1


def test_a_pause_of_the_garbage_collector_is_a_mark(read: Reader) -> None:
    marks = read(small()).tables["marks"]
    assert marks[["start_ns", "duration_ns", "message", "domain"]].to_numpy(object).tolist() == [
        [utc(600), 50, "GC", "python_gc"]
    ]


def test_parameters_are_kept_as_they_came(read: Reader) -> None:
    run = small()
    run.parameters(1, optimizer="lr;momentum")
    found = read(run).statistics["param_tensor_info"]
    assert found.to_numpy(object).tolist() == [
        ["Linear######9001", "module", "weight;bias"],
        ["train.py(1): <module>", "optimizer", "lr;momentum"],
    ]


def test_an_empty_folder_gives_empty_tables(read: Reader) -> None:
    decoded = read(Framework())
    assert not any(len(frame) for frame in decoded.tables.values())
    assert not len(decoded.notes)


def test_other_files_of_the_folder_are_named(read: Reader) -> None:
    run = small()
    run.files["torch.future"] = bytearray(b"?")
    assert read(run).notes.to_frame()["source"].tolist() == ["torch.future"]


def test_an_enqueue_whose_operator_is_lost_is_told(read: Reader) -> None:
    framework = Framework()
    for start in (1_000, 3_000):  # that at 2_000 is lost
        framework.op("aten::mm", start, start + 500)
    for number, start in enumerate((500, 1_100, 2_100, 3_100)):  # the first one's operator had begun before
        framework.queued("aclnnMatmul", number + 1, (start, start + 10), (start + 50, start + 60))
    notes = read(framework).notes.to_frame()
    (told,) = notes[notes["source"] == "torch.op_range"]["message"]
    assert told.startswith("outside of every operator: 1 enqueue of 4;")

"""Whose timeline a file is, told by what happens in it and not by what stands before its events."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import npuprof
from npuprof.sources.trace.producer import kind_of_trace
from tests.sources.kineto.traces import KinetoTrace
from tests.sources.trace.maker import TraceMaker, small_trace

_HEADER = {"schemaVersion": 1, "deviceProperties": [], "baseTimeNanoseconds": 1}
_SAMPLES = ("torch_npu/text/level1/rank0_ascend_pt/ASCEND_PROFILER_OUTPUT", "torch_npu/cann7_2023")


def _wrapped(events: list[dict[str, Any]], path: Path) -> Path:
    path.write_text(json.dumps({**_HEADER, "traceEvents": events}))
    return path


def _same(one: npuprof.Profile, other: npuprof.Profile) -> None:
    for name, frame in one.tables.items():
        pd.testing.assert_frame_equal(other.tables[name], frame)


@pytest.mark.slow
def test_an_ascend_trace_wrapped_as_torch_wraps_its_own_loses_nothing(tmp_path: Path) -> None:
    maker = small_trace()
    plain = npuprof.load(maker.write(tmp_path / "plain.json"))
    wrapped = npuprof.load(_wrapped(maker.events, tmp_path / "wrapped.json"))
    assert all(len(plain.tables[name]) for name in ("api", "tasks", "kernels", "communication", "overlap", "operators"))
    _same(plain, wrapped)


@pytest.mark.slow
@pytest.mark.parametrize("sample", _SAMPLES)
def test_real_ascend_traces_wrapped_as_torch_wraps_its_own_lose_nothing(
    samples: Path, tmp_path: Path, sample: str
) -> None:
    path = samples / sample / "trace_view.json"
    wrapped = _wrapped(json.loads(path.read_text()), tmp_path / "trace_view.json")
    _same(npuprof.load(path), npuprof.load(wrapped))


@pytest.mark.slow
def test_stacks_of_megabytes_before_the_first_process_do_not_hide_it(tmp_path: Path) -> None:
    maker = TraceMaker()
    for number in range(20_000):
        maker.slice(1, 1, f"model.py({number}): forward", number, 1, "python_function", **{"Python id": number})
    maker.events += small_trace().events
    for event in maker.events:
        if "ts" in event:
            event["ts"] = float(event["ts"]) - 1_763_600_000_000_000  # relative numbers, as a converter leaves them
    path = _wrapped(maker.events, tmp_path / "converted.json")
    assert path.stat().st_size > 2 << 20
    run = npuprof.load(path)
    assert len(run.python) == 20_000 + 2  # those of the small trace too
    assert len(run.api)
    assert len(run.tasks)


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
@pytest.mark.parametrize("device", [False, True])
def test_a_trace_of_torch_without_its_header_is_read_as_one(tmp_path: Path, name: str, device: bool) -> None:
    trace = KinetoTrace(head={}, base_behind=True)
    trace.operator("aten::mm", 0, 9, 10, Input_Dims=[[2, 3], [3, 4]])
    if device:
        trace.slice("cuda_runtime", "cudaLaunchKernel", 4, 2, correlation=77, External_id=10)
        trace.on_gpu("kernel", "gemm", 12, 5, 0, correlation=77, stream=7)
    run = npuprof.load(trace.write(tmp_path / name))
    assert run.info.collector == "kineto"
    assert run.operators["input_shapes"].tolist() == ["2,3;3,4"]
    assert len(run.tasks) == device


def test_events_of_torch_in_a_plain_list_are_read_as_such(tmp_path: Path) -> None:
    trace = KinetoTrace()
    trace.operator("aten::mm", 0, 9, 10, Input_Dims=[[2, 3]])
    path = tmp_path / "list.json"
    path.write_text("[" + ",".join(trace.events) + "]")
    assert npuprof.load(path).operators["input_shapes"].tolist() == ["2,3"]


@pytest.mark.parametrize(
    ("head", "event", "kind"),
    [
        ({}, {"args": {}}, ""),
        ({"schemaVersion": 1}, {"args": {}}, "kineto"),
        ({"schemaVersion": 1}, {"args": {"Physic Stream Id": 3}}, "ascend"),
        ({"schemaVersion": 1}, {"cat": "enqueue"}, "ascend"),
        ({}, {"cat": "kernel"}, "kineto"),
        ({}, {"cat": "cpu_op", "args": {"Ev Idx": 1}}, "kineto"),
        ({}, {"cat": "cpu_op", "args": [1]}, ""),
        ({}, {"cat": "cpu_op", "ts": "1.5"}, "ascend"),
        ({}, {"cat": "cuda_runtime", "ts": "1.5"}, "kineto"),
        ({}, {"cat": "cpu_op", "args": {"Sequence number": 1}}, ""),
        ({"schemaVersion": 1}, {"ph": "M", "name": "process_labels", "args": {"labels": "NPU 3"}}, "ascend"),
        ({"schemaVersion": 1}, {"ph": "M", "name": "process_labels", "args": {"labels": "CPU"}}, "kineto"),
    ],
)
def test_each_sign(head: dict[str, Any], event: dict[str, Any], kind: str, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    plain = {"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": 1.5, "dur": 1}
    path.write_text(json.dumps({**head, "traceEvents": [{**plain, **event}]}))
    assert kind_of_trace(path) == kind


def test_the_producer_of_a_truncated_archive_is_known_from_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "t.json.gz"
    whole = gzip.compress(json.dumps(small_trace().events * 20).encode())
    path.write_bytes(whole[: len(whole) // 2])
    assert kind_of_trace(path) == "ascend"
    path.write_bytes(b"")
    assert kind_of_trace(path) == ""


@pytest.mark.parametrize("name", ["process_name", "process_labels", "thread_name"])
@pytest.mark.parametrize("value", [[1], {"a": 1}, True, None, [[[]]]])
def test_name_of_another_type_is_noted(name: str, value: object, tmp_path: Path) -> None:
    maker = small_trace()
    maker.events.insert(0, {"ph": "M", "name": name, "pid": 9, "tid": 9, "args": {"name": value, "labels": value}})
    path = maker.write(tmp_path / "trace_view.json")
    assert kind_of_trace(path) == "ascend"
    run = npuprof.load(path)
    assert len(run.kernels)
    assert run.notes["message"].str.contains(f"metadata '{name}'").any()

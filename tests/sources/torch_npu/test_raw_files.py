"""A result that nobody analysed opens as it is: the framework's files joined with the collector's."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import npuprof
from npuprof import tables
from npuprof.errors import SourceError
from npuprof.simulator import synthesise
from npuprof.sources import raw, torch_npu
from npuprof.sources.base import Decoded
from npuprof.sources.raw.metadata.clocks import epoch_offset
from npuprof.sources.raw.metadata.control_files import read_sides
from npuprof.sources.torch_npu import raw_files
from npuprof.tables.notes import Notes
from tests.sources.framework.writer import Framework, profiler_info, small
from tests.sources.trace.maker import small_trace

LAUNCHES = 20


def run_around(device: Path, through_queue: bool = False) -> Framework:
    """Write operators around the launches of a raw directory, ten a step."""
    api = raw.read(device).tables["api"]
    calls = api[api["level"] == "node"]
    offset_ns = epoch_offset(read_sides(device, Notes()), Notes())
    starts = (calls["start_ns"] - offset_ns).tolist()
    threads = calls["thread_id"].tolist()
    run = Framework(to_stamp=lambda stamp: stamp)
    border = starts[10] - (8000 if through_queue else 30)
    run.op("ProfilerStep#1", starts[0] - 9000, border)
    run.op("ProfilerStep#2", border, starts[-1] + 9000)
    for number, (start, thread) in enumerate(zip(starts, threads, strict=True)):
        if through_queue:
            # The host is a step ahead: all of step 1 is enqueued before the device thread begins.
            early = starts[0] - 9000 + 100 * number if number < 10 else border + 100 * number
            run.op(f"aten::op{number}", early, early + 90, 4242)
            for time, category, at in (
                (early + 10, 0, 4242),
                (early + 20, 1, 4242),
                (start, 2, thread),
                (start + 1, 3, thread),
            ):
                run.mark(time, category, "aclnn", number if category else 0, at)
        else:
            run.op(f"aten::op{number}", start - 10, start + 10, thread)
            run.op("around", start - 20, start + 20, thread)
    return run


@pytest.fixture
def device(tmp_path: Path) -> Path:
    root = tmp_path / "renamed by its user"
    root.mkdir()
    return synthesise(root, launches=LAUNCHES, streams=1)


def causes_of_kernels(run: npuprof.Profile) -> list[str]:
    """Follow the links from each kernel's task back to the operator."""
    links, operators = run.links, run.operators
    to_call = links[links["kind"] == "api_task"].set_index("target_row")["source_row"]
    to_operator = links[links["kind"] == "operator_api"].set_index("target_row")["source_row"]
    rows = to_operator[to_call[np.arange(len(run.tasks))]]
    return [str(name) for name in operators["name"].iloc[rows]]


@pytest.mark.slow
def test_operators_are_linked_to_the_calls_that_launched_their_kernels(device: Path) -> None:
    root = run_around(device).write(device.parent)
    run = npuprof.load(root)
    for name, frame in run.tables.items():
        tables.check(name, frame)
    assert causes_of_kernels(run) == [f"aten::op{number}" for number in range(LAUNCHES)]
    assert run.kernels["step"].tolist() == [1] * 10 + [2] * 10
    assert run.info.source == "torch_npu raw files"
    assert run.info.simulated
    assert run.info.collector == "torch_npu"
    assert run.info.versions["torch_npu"] == "2.13.0"


@pytest.mark.slow
def test_queued_kernel_belongs_to_its_enqueuer(device: Path) -> None:
    run = npuprof.load(run_around(device, through_queue=True).write(device.parent))
    assert causes_of_kernels(run) == [f"aten::op{number}" for number in range(LAUNCHES)]
    assert run.kernels["step"].tolist() == [1] * 10 + [2] * 10


@pytest.mark.slow
def test_tables_of_both_sides_are_joined_without_moving_rows(device: Path) -> None:
    alone = raw.read(device)
    written = run_around(device)
    for name in ("gc_record", "memory_usage"):
        written.files[f"torch.{name}"] = bytearray()
    offset_ns = epoch_offset(read_sides(device, Notes()), Notes())
    start = int(alone.tables["api"]["start_ns"][0]) - offset_ns
    written.pause(start, start + 5)
    written.block(start, 0, 0x10, 64)
    run = npuprof.load(written.write(device.parent))
    for name, frame in run.tables.items():
        tables.check(name, frame)
    assert sorted(run.memory["component"].astype(str)) == sorted(
        [*alone.tables["memory"]["component"].astype(str), "PTA"]
    )
    assert run.memory["time_ns"].is_monotonic_increasing
    assert len(run.allocations) == 1 + len(alone.tables.get("allocations", ()))
    assert run.marks["domain"].astype(str).tolist() == [*alone.tables["marks"]["domain"].astype(str), "python_gc"]


def test_without_framework_files_the_device_is_read(device: Path) -> None:
    run = npuprof.load(Framework().write(device.parent))
    assert len(run.kernels) == LAUNCHES
    assert run.info.collector == "torch_npu"
    assert not len(run.operators)


def test_without_a_raw_directory_the_framework_is_read(tmp_path: Path) -> None:
    run = npuprof.load(small().write(tmp_path / "result"))
    assert len(run.operators) == 6
    assert "there is no raw directory" in "".join(run.notes["message"])


@pytest.mark.parametrize("given", ["", "FRAMEWORK"])
def test_the_folder_of_the_framework_names_its_run(tmp_path: Path, given: str) -> None:
    run = npuprof.load(small().write(tmp_path / "result") / given)
    assert run.info.name == "result"


@pytest.mark.slow
def test_a_damaged_raw_directory_leaves_the_framework(device: Path) -> None:
    root = run_around(device).write(device.parent)
    shutil.rmtree(device)
    device.mkdir()
    run = npuprof.load(root)
    assert len(run.operators) == 2 * LAUNCHES
    assert "the raw directory cannot be read" in "".join(run.notes["message"])


@pytest.mark.slow
def test_an_earlier_start_of_the_collector_is_reported(device: Path) -> None:
    root = run_around(device).write(device.parent)
    (root / "PROF_000000_20000101_EARLIER").mkdir()
    notes = npuprof.load(root).notes
    assert "PROF_000000_20000101_EARLIER" in notes["source"].tolist()


def test_neither_side_readable_is_an_error(tmp_path: Path) -> None:
    root = Framework().write(tmp_path / "result")
    (root / "PROF_000001_20260101_EMPTY").mkdir()
    with pytest.raises(SourceError, match="neither FRAMEWORK files nor a PROF"):
        raw_files.read(root)


def test_foreign_directory_says_what_is_needed(tmp_path: Path) -> None:
    (tmp_path / "FRAMEWORK").mkdir()
    assert not raw_files.recognises(tmp_path)
    with pytest.raises(SourceError, match="a FRAMEWORK folder with torch"):
        raw_files.read(tmp_path)


def parsed(root: Path) -> Path:
    output = root / "ASCEND_PROFILER_OUTPUT"
    output.mkdir()
    small_trace().write(output / "trace_view.json")
    return output


@pytest.mark.slow
def test_parsed_result_is_preferred_and_reported(tmp_path: Path) -> None:
    root = small().write(tmp_path / "result")
    parsed(root)
    decoded = torch_npu.read(root)
    assert decoded.info.source == "torch_npu text result"
    assert "its raw files were not read" in "".join(decoded.notes.to_frame()["message"])
    assert npuprof.load(root).info.source == "torch_npu text result"
    assert npuprof.load(root, source="raw").info.source == "torch_npu raw files"


def test_unreadable_result_gives_way_to_raw_files(tmp_path: Path) -> None:
    root = small().write(tmp_path / "result")
    (parsed(root) / "trace_view.json").write_bytes(b"")
    decoded = torch_npu.read(root)
    assert len(decoded.tables["operators"]) == 6
    assert "its raw files are shown" in "".join(decoded.notes.to_frame()["message"])


def real(samples: Path) -> Decoded:
    return raw_files.read(next((samples / "torch_npu" / "host_only_raw").iterdir()))


def walked(path: Path, fixed: str) -> list[tuple[Any, ...]]:
    """Read a file record by record, by the specification: the fixed parts, each with the texts of its fields."""
    content, at, rows = path.read_bytes(), 0, []
    while at < len(content):
        _, length = struct.unpack_from("<HI", content, at)
        place, at = at + 6 + struct.calcsize(fixed), at + 6 + length
        texts = {}
        values = struct.unpack_from(fixed, content, at - length)
        while place < at:
            kind, size = struct.unpack_from("<HI", content, place)
            texts[kind] = content[place + 6 : place + 6 + size].decode()
            place += 6 + size
        rows.append((values, texts))
    return rows


def test_a_real_capture_is_read_to_its_last_byte(samples: Path) -> None:
    decoded = real(samples)
    notes = decoded.notes.to_frame()
    (warning,) = notes.loc[notes["severity"] != "info", "message"]
    assert "type_info_dic: slices without a .done mark" in warning  # the collector closed its other files
    records = walked(next(samples.glob("torch_npu/host_only_raw/*/FRAMEWORK/torch.op_range")), "<3q4QBB")
    offset_ns = 1795182184369958000 - 1890473081286  # the pair of clocks in host/start_info
    expected = sorted(
        (
            start + offset_ns,
            end - start,
            texts[2],
            thread,
            texts.get(4) or "",
            texts.get(3) or "",
            sequence if sequence != -1 else None,
            forward or None,
        )
        for (start, end, sequence, _, thread, _, forward, _, _), texts in records
        if not texts[2].startswith("ProfilerStep#")
    )
    operators = decoded.tables["operators"]
    ranges = operators[operators["kind"] == "op"].astype(object)
    columns = ["start_ns", "duration_ns", "name", "thread_id", "input_shapes", "input_dtypes"]
    ranges[columns] = ranges[columns].fillna("")
    columns += ["sequence_number", "forward_thread_id"]
    found = [tuple(None if pd.isna(value) else value for value in row) for row in ranges[columns].to_numpy().tolist()]
    assert len(found) == 208
    assert sorted(found, key=repr) == sorted(expected, key=repr)
    assert decoded.tables["steps"]["step"].tolist() == [1, 2]


def test_real_queue_and_backward_pass_are_linked(samples: Path) -> None:
    decoded = real(samples)
    assert decoded.tables["operators"]["kind"].value_counts().to_dict() == {"op": 208, "enqueue": 4, "dequeue": 4}
    links, names = decoded.tables["links"], decoded.tables["operators"]["name"].astype(object)
    assert links["kind"].value_counts().to_dict() == {"forward_backward": 12, "enqueue": 4}
    passes = links[links["kind"] == "forward_backward"]
    pairs = set(zip(names[passes["source_row"]], names[passes["target_row"]], strict=True))
    assert pairs == {
        ("aten::sum", "SumBackward0"),
        ("aten::addmm", "AddmmBackward0"),
        ("aten::t", "TBackward0"),
        ("aten::relu", "ReluBackward0"),
    }


def test_operators_of_a_real_capture_nest(samples: Path) -> None:
    operators = real(samples).tables["operators"]
    assert (operators["duration_ns"] > 0).all()
    for _, frame in operators[operators["kind"] == "op"].groupby("thread_id"):
        open_until: list[int] = []
        for start, duration in zip(frame["start_ns"].tolist(), frame["duration_ns"].tolist(), strict=True):
            while open_until and open_until[-1] <= start:
                open_until.pop()
            assert not open_until or start + duration <= open_until[-1]
            open_until.append(start + duration)


def test_both_clocks_of_a_real_capture_agree(samples: Path) -> None:
    decoded = real(samples)
    started_ns, stopped_ns = decoded.info.started_ns, decoded.info.stopped_ns
    assert started_ns is not None
    assert stopped_ns is not None
    starts = decoded.tables["operators"]["start_ns"]
    # The first operator comes right after the collector's start, on the collector's own clock.
    assert 0 < int(starts.min()) - started_ns < 2_000_000
    assert int(starts.max()) < stopped_ns
    # AND not at the time that profiler_info.json tells: its end is of another clock, a quarter of a second away.
    assert decoded.tables["steps"]["start_ns"][0] == 1890473522118 + 1795182184369958000 - 1890473081286


@pytest.mark.slow
def test_mindspore_without_device_reads_its_text(samples: Path) -> None:
    runs = sorted((samples / "mindspore" / "cpu").rglob("*_ascend_ms"))
    assert len(runs) == 7
    for path in runs:
        run = npuprof.load(path)
        for name, frame in run.tables.items():
            tables.check(name, frame)
        assert run.info.source == "mindspore raw files"
        assert run.notes["severity"].eq("info").all()
        assert len(run.operators)


def test_mindspore_run_agrees_with_its_timeline(samples: Path) -> None:
    path = next((samples / "mindspore" / "cpu" / "case_cpu").iterdir())
    operators = npuprof.load(path).operators
    events = json.loads((path / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").read_text())
    slices = [event for event in events if event["ph"] == "X" and event["args"]]  # scopes have none
    written = pd.DataFrame(
        {
            "start_ns": [int(event["ts"].replace(".", "")) for event in slices],
            "duration_ns": [int(event["dur"].replace(".", "")) for event in slices],
            "name": [event["name"] for event in slices],
        }
    ).sort_values("start_ns", ignore_index=True)
    assert len(operators) == len(written) == 50
    assert operators["name"].tolist() == written["name"].tolist()
    assert operators["duration_ns"].tolist() == written["duration_ns"].tolist()
    # The timeline's times went through a float64 of nanoseconds or microseconds, which steps by up to 256 ns.
    assert (operators["start_ns"] - written["start_ns"]).abs().max() <= 256


def test_profiler_info_may_be_missing(tmp_path: Path) -> None:
    root = small().write(tmp_path / "result", profiler_info())
    (root / "profiler_info.json").unlink()
    decoded = raw_files.read(root)
    assert len(decoded.tables["operators"]) == 6
    assert "count from the host's boot" in "".join(decoded.notes.to_frame()["message"])

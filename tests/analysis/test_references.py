"""Rows whose counterpart was lost are counted, in both directions, and healthy results have none."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import npuprof
from npuprof import tables
from npuprof.analysis.examination import examine
from npuprof.errors import SourceError
from npuprof.profiles.profile import Profile
from npuprof.sources.base import Preference
from npuprof.sources.decoding import decode_run
from npuprof.sources.detect import detect
from npuprof.tables.notes import Notes
from tests.budget import examples
from tests.sources.kineto.jobs import TorchJob
from tests.sources.kineto.traces import KinetoTrace
from tests.sources.trace.maker import HOST, small_trace

_WORDS = (
    "names a call that is not in api",
    "a launch has no task",
    "belongs to no operator",
    "has no communication_tasks",
    "not in communication_tasks",
    "has no dequeue",
    "has no enqueue",
    "names a caller that is missing",
    "has no sample of its allocator",
    "no block was allocated",
    "lacks the row that",
    "a connection with one end",
    "lacks frames of a stack",
    "lacks rows, by the numbers",
    "names an operator that is missing",
    "has no task",
    "by the numbers of the others",
)


def _told(run: Profile) -> dict[str, int]:
    """Return the counts of the notes on references by the words that tell them apart."""
    counts: dict[str, int] = {}
    for message, count in zip(run.notes["message"], run.notes["count"].tolist(), strict=True):
        counts |= {word: counts.get(word, 0) + count for word in _WORDS if word in message}
    return counts


def _rows(count: int) -> dict[str, pd.DataFrame]:
    """Build calls, each with its task, one after another."""
    numbers = np.arange(count)
    span = {"start_ns": 100 * numbers, "duration_ns": np.full(count, 10)}
    connection = {"connection_id": pd.array(numbers + 5, "Int64")}
    level = pd.Categorical(["node"] * count)
    name = pd.Categorical(["Add"] * count)
    api = tables.build("api", {**span, **connection, "name": name, "level": level, "thread_id": numbers * 0})
    kind = pd.Categorical(["AI_CORE"] * count)
    tasks = tables.build("tasks", {**span, **connection, "device_id": numbers * 0, "task_type": kind, "name": name})
    return {"api": api, "tasks": tasks}


@settings(max_examples=examples(50))
@given(st.integers(3, 12), st.data())
def test_each_lost_call_and_each_lost_task_is_counted(count: int, data: st.DataObject) -> None:
    frames = _rows(count)
    middle = st.sets(st.integers(1, count - 2))
    calls, tasks = data.draw(middle), data.draw(middle)
    for name, gone in (("api", calls), ("tasks", tasks)):
        frames[name] = frames[name].drop(index=sorted(gone)).reset_index(drop=True)
    notes = Notes()
    examine({**{name: tables.empty(name) for name in tables.NAMES}, **frames}, notes)
    told = {source: counted for _, source, _, counted, *_ in notes.to_frame().itertuples(index=False)}
    assert told.get("tasks", 0) == len(calls - tasks)
    # Launches after the last one whose task is there may have ended the collection.
    left = [row for row in range(count) if row not in calls | tasks]
    assert told.get("api", 0) == len([row for row in tasks - calls if row < left[-1]])


def test_the_share_of_time_is_told() -> None:
    frames = _rows(10)
    frames["api"] = frames["api"].drop(index=[3, 4]).reset_index(drop=True)
    notes = Notes()
    examine({**{name: tables.empty(name) for name in tables.NAMES}, **frames}, notes)
    assert notes.to_frame()["message"].str.contains(r"\(20\.0 % of the time of tasks\)").tolist() == [True]


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("Enqueue", "has no enqueue"),
        ("Dequeue@mm", "has no dequeue"),
        ("root", "names a caller that is missing"),
    ],
)
def test_of_a_timeline_lost_slices_are_told(tmp_path: Path, name: str, word: str) -> None:
    def told(names: list[str]) -> dict[str, int]:
        maker = small_trace()
        # A second pair in the queue, so that there are links of it.
        maker.slice(HOST, 1, "Enqueue2", 70, 2, "enqueue", correlation_id=6)
        maker.slice(HOST, 2, "Dequeue@2", 80, 2, "dequeue", correlation_id=6)
        maker.flow("async_task_queue", 6, (HOST, 1, 70), (HOST, 2, 80))
        maker.events = [event for event in maker.events if event["name"] not in names]
        return _told(npuprof.load(maker.write(tmp_path / "trace_view.json")))

    assert word not in told([])
    assert told([name])[word] == 1


_LOST_IN_TORCH: tuple[tuple[str, str, int], ...] = (  # category, words, and how many of its slices are lost
    ("kernel", "has no task", 5),
    ("kernel", "has no task", 24),
    ("cuda_runtime", "names a call that is not in api", 5),
    ("cuda_runtime", "names a call that is not in api", 24),
    ("cpu_op", "names an operator that is missing", 2),
    ("cpu_op", "names an operator that is missing", 6),
    ("cpu_op", "by the numbers of the others", 2),
    ("user_annotation", "by the numbers of the others", 2),
)


@pytest.mark.parametrize(("category", "word", "count"), _LOST_IN_TORCH)
def test_lost_torch_slices_are_told(tmp_path: Path, category: str, word: str, count: int) -> None:
    (path,) = TorchJob([300], steps=6).write(tmp_path).iterdir()
    assert not _told(npuprof.load(path))
    document = json.loads(path.read_bytes())
    rows = [at for at, event in enumerate(document["traceEvents"]) if event.get("cat") == category]
    lost = set(rows if count >= len(rows) else rows[2 : 2 + count])
    document["traceEvents"] = [event for at, event in enumerate(document["traceEvents"]) if at not in lost]
    path.write_text(json.dumps(document))
    assert word in _told(npuprof.load(path))


def test_captured_launches_need_no_task(tmp_path: Path) -> None:
    trace = KinetoTrace()
    trace.slice("cuda_runtime", "cudaLaunchKernel", 1, 1, correlation=1)
    trace.slice("cuda_runtime", "cudaStreamBeginCapture_v2", 3, 1, correlation=2)
    trace.slice("cuda_runtime", "cudaLaunchKernel", 5, 1, correlation=3)
    trace.slice("cuda_runtime", "cudaStreamEndCapture", 7, 1, correlation=4)
    trace.slice("cuda_runtime", "cudaLaunchHostFunc", 9, 1, correlation=5)
    trace.slice("cuda_runtime", "cudaMemsetAsync", 11, 1, correlation=6)
    for number in range(20):
        trace.slice("cuda_runtime", "cudaMemsetAsync", 20 + 4 * number, 1, correlation=10 + number)
        trace.on_gpu("gpu_memset", "Memset (Device)", 21 + 4 * number, 1, 0, correlation=10 + number)
    trace.on_gpu("kernel", "gemm", 2, 1, 0, correlation=1)
    assert not _told(npuprof.load(trace.write(tmp_path / "trace.json")))


_DAMAGES = (
    ("DELETE FROM PYTORCH_API WHERE rowid % 10 = 0", {"lacks the row that", "lacks rows, by the numbers"}),
    ("DELETE FROM PYTORCH_API WHERE rowid % 2 = 0", {"lacks the row that", "lacks rows, by the numbers"}),
    ("DELETE FROM CONNECTION_IDS WHERE rowid % 2 = 0", {"lacks the row that", "a connection with one end"}),
    ("DELETE FROM COMMUNICATION_TASK_INFO WHERE rowid % 2 = 0", {"not in communication_tasks"}),
    ("DELETE FROM COMMUNICATION_OP WHERE rowid % 2 = 0", {"belongs to no operator"}),
    ("DELETE FROM PYTORCH_CALLCHAINS WHERE stackDepth = 1", {"lacks frames of a stack"}),
    ("DELETE FROM TASK WHERE globalTaskId % 10 = 1", {"lacks rows, by the numbers"}),
    ("DELETE FROM MEMORY_RECORD WHERE rowid / 4 % 3 = 0", {"has no sample of its allocator"}),
    ("DELETE FROM OP_MEMORY WHERE rowid % 2 = 0", {"no block was allocated"}),
    ("DROP TABLE MEMORY_RECORD", {"has no sample of its allocator"}),
)


@pytest.mark.slow
@pytest.mark.parametrize(("statement", "words"), _DAMAGES)
def test_dangling_rows_tell_lost_ones(samples: Path, tmp_path: Path, statement: str, words: set[str]) -> None:
    (original,) = (samples / "torch_npu/db/level1/rank1_ascend_pt").rglob("ascend_pytorch_profiler_1.db")
    path = tmp_path / original.name
    path.write_bytes(original.read_bytes())
    with closing(sqlite3.connect(path)) as opened:
        opened.execute(statement)
        opened.commit()
    told = _told(npuprof.load(path))
    assert words <= told.keys()


@pytest.mark.slow
def test_counts_equal_lost_rows(samples: Path, tmp_path: Path) -> None:
    (original,) = (samples / "torch_npu/db/level1/rank1_ascend_pt").rglob("ascend_pytorch_profiler_1.db")
    path = tmp_path / original.name
    path.write_bytes(original.read_bytes())
    with closing(sqlite3.connect(path)) as opened:
        opened.execute("DELETE FROM PYTORCH_API WHERE rowid % 10 = 0")
        (connections,) = opened.execute(
            "SELECT count(DISTINCT id) FROM CONNECTION_IDS WHERE id NOT IN "
            "(SELECT connectionId FROM PYTORCH_API WHERE connectionId NOT NULL)"
        ).fetchone()
        opened.commit()
    notes = npuprof.load(path).notes
    named = notes["message"].str.contains("a number of CONNECTION_IDS belongs to")
    assert notes["count"][named].tolist() == [connections]


def test_without_the_allocators_record_report_and_memory_peak_agree(samples: Path, tmp_path: Path) -> None:
    (original,) = (samples / "torch_npu/db/level1/rank1_ascend_pt").rglob("ascend_pytorch_profiler_1.db")
    path = tmp_path / original.name
    path.write_bytes(original.read_bytes())
    with closing(sqlite3.connect(path)) as opened:
        opened.execute("DROP TABLE MEMORY_RECORD")
        opened.commit()
    run = npuprof.load(path)
    (peak,) = run.memory_peak().groupby("device_id")["size_bytes"].sum()
    assert peak == run.summary.memory_peaks["allocated_bytes"].max() == 1_245_688_832
    assert "memory peak of blocks of operators" in run._repr_html_()


_FOLDERS = (
    "kineto/nccl",
    "kineto/sendrecv",
    "kineto/amd",
    "torch_npu/text",
    "torch_npu/db",
    "torch_npu/llm_4ranks",
    "torch_npu/host_only_raw",
    "msprof",
    "raw",
)


@pytest.mark.slow
@pytest.mark.parametrize("folder", _FOLDERS)
@pytest.mark.parametrize("preferred", [None, "parsed"])
def test_in_healthy_results_no_reference_leads_nowhere(samples: Path, folder: str, preferred: Preference) -> None:
    try:
        found = detect(samples / folder, preferred).results
    except SourceError:
        pytest.skip("there is none in this form")
    for result in found:
        messages = decode_run(result).notes.to_frame()["message"].tolist()
        assert [text for text in messages if any(word in text for word in _WORDS)] == []

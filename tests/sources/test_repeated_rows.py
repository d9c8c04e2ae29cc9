"""Rows that a tool wrote twice are one, in every format, and a warning counts them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pandas as pd
import pytest

import npuprof
from npuprof.profiles.profile import Profile
from npuprof.simulator import synthesise
from npuprof.sources.columns.repetitions import REPEATED
from npuprof.sources.raw.records.repeated_records import REPEATED as REPEATED_RECORDS
from tests.sources.database.maker import Maker, at, thread
from tests.sources.msprof.results import STAMP, SUMMARY_HEAD, csv, kernel
from tests.sources.trace.maker import HOST, NPU, TraceMaker

_ROWS = 200
_SHARES = (1, 10, 50)
_Write = Callable[[Path, int], tuple[Path, int]]


def _some(share: int) -> list[int]:
    """Return how often each row is written, if so many percent are repeated: now beside the row, now far off."""
    return [1 + (row % 100 < share) for row in range(_ROWS)]


def _trace(folder: Path, share: int) -> tuple[Path, int]:
    maker = TraceMaker()
    maker.process(NPU, "Ascend Hardware", "NPU 0", 13)
    maker.process(HOST, "CANN", "CPU")
    for row in range(_ROWS):
        maker.slice(HOST, 1, f"launch{row % 3}", 5 * row, 2, **{"Thread Id": 1, "level": "node", "connection_id": row})
        task = {"Task Type": "AI_CORE", "Task Id": row, "Stream Id": 2, "connection_id": row}
        maker.slice(NPU, 2, f"Add{row % 3}", 5 * row + 3, 4, **task)
        maker.flow("HostToDevice", str(row << 32), (HOST, 1, 5 * row), (NPU, 2, 5 * row + 3))
    slices = [event for event in maker.events if event["ph"] == "X"]
    again = [event for event, times in zip(slices, [t for t in _some(share) for _ in "ht"], strict=True) if times > 1]
    path = folder / "trace_view.json"
    path.write_text(json.dumps(maker.events + again))
    return path, len(again)


def _csv(folder: Path, share: int) -> tuple[Path, int]:
    rows = [kernel(f"Add{row % 3}", 100 + 20 * row, 10, task=row) for row in range(_ROWS)]
    written = [row for row, times in zip(rows, _some(share), strict=True) for _ in range(times)]
    return csv(folder / f"op_summary_{STAMP}.csv", SUMMARY_HEAD, written), len(written) - _ROWS


def _database(folder: Path, share: int) -> tuple[Path, int]:
    maker = Maker(folder / "msprof_1.db")
    kind, name = maker.text("KERNEL_AIVEC"), maker.text("Add")
    columns = "startNs endNs deviceId connectionId globalTaskId globalPid taskType contextId streamId taskId modelId"
    none = 4294967295
    tasks = [(at(20 * row), at(20 * row + 10), 0, row, row, 1, kind, none, 2, row, none) for row in range(_ROWS)]
    again = [row for row, times in zip(range(_ROWS), _some(share), strict=True) if times > 1]
    # A row that is written again has the next free number, which is the key of both tables.
    more = [(*tasks[row][:4], _ROWS + place, *tasks[row][5:]) for place, row in enumerate(again)]
    maker.table("TASK", columns, tasks + more)
    described = [(name, number, 8) for number in range(_ROWS + len(again))]
    maker.table(
        "COMPUTE_TASK_INFO", "name globalTaskId blockNum taskType opType", [(*row, kind, name) for row in described]
    )
    calls = [(at(20 * row - 9), at(20 * row - 1), 10000, thread(7), row, name) for row in range(_ROWS)]
    maker.table("CANN_API", "startNs endNs type globalTid connectionId name", calls)
    return maker.close(), len(again)


_FORMATS: dict[str, _Write] = {"trace": _trace, "csv": _csv, "database": _database}


def _told(run: Profile) -> int:
    notes = run.notes[run.notes["message"].str.startswith(REPEATED)]
    assert (notes["severity"] == "warning").all()
    return int(notes["count"].sum())


@pytest.mark.parametrize("share", _SHARES)
@pytest.mark.parametrize("form", _FORMATS)
def test_repeated_rows_change_no_table_and_are_counted(tmp_path: Path, form: str, share: int) -> None:
    (tmp_path / "whole").mkdir()
    (tmp_path / "repeated").mkdir()
    whole = npuprof.load(_FORMATS[form](tmp_path / "whole", 0)[0])
    path, times = _FORMATS[form](tmp_path / "repeated", share)
    run = npuprof.load(path)
    assert len(whole.kernels) == _ROWS
    for name, frame in whole.tables.items():
        pd.testing.assert_frame_equal(run.tables[name], frame, obj=name)
    assert _told(whole) == 0
    assert _told(run) == times > 0
    assert not run.notes["message"].str.contains("too high|too low|no known reason|no kernel").any()


@pytest.mark.slow
@pytest.mark.parametrize("table", ["PYTORCH_API", "PYTORCH_CALLCHAINS", "OP_MEMORY", "COMMUNICATION_TASK_INFO"])
def test_repeated_database_rows_change_no_table(samples: Path, tmp_path: Path, table: str) -> None:
    (original,) = (samples / "torch_npu/db/level1/rank1_ascend_pt").rglob("ascend_pytorch_profiler_1.db")
    path = tmp_path / original.name
    path.write_bytes(original.read_bytes())
    whole = npuprof.load(original)
    with closing(sqlite3.connect(path)) as opened:
        opened.execute(f"INSERT INTO {table} SELECT * FROM {table} WHERE rowid % 3 = 0")
        opened.commit()
    run = npuprof.load(path)
    for name, frame in whole.tables.items():
        pd.testing.assert_frame_equal(run.tables[name], frame, obj=name)
    assert _told(run) > 0


def test_serial_equal_kernels_are_no_repetition(tmp_path: Path) -> None:
    rows = [kernel("Add", 100 + 20 * row, 10) for row in range(_ROWS)]
    run = npuprof.load(csv(tmp_path / f"op_summary_{STAMP}.csv", SUMMARY_HEAD, rows))
    assert (len(run.kernels), _told(run)) == (_ROWS, 0)


def test_kernels_that_differ_only_in_their_task_are_two(tmp_path: Path) -> None:
    rows = [kernel("Add", 100, 10, task=1), kernel("Add", 100, 10, task=2)]
    run = npuprof.load(csv(tmp_path / f"op_summary_{STAMP}.csv", SUMMARY_HEAD, rows))
    assert (len(run.kernels), _told(run)) == (2, 0)


def test_instant_events_may_repeat(tmp_path: Path) -> None:
    maker = TraceMaker()
    maker.process(NPU, "Ascend Hardware", "NPU 0", 13)
    for _ in range(3):
        maker.slice(NPU, 2, "EVENT_RECORD", 5, 0, **{"Task Type": "EVENT_RECORD_SQE", "Task Id": 1, "Stream Id": 2})
    run = npuprof.load(maker.write(tmp_path / "trace_view.json"))
    assert (len(run.tasks), _told(run)) == (3, 0)


def test_samples_that_are_there_twice_are_reported(tmp_path: Path) -> None:
    head = "Device_id,Component,Timestamp(us),Total Allocated(KB),Total Reserved(KB),Device"
    rows = [f"0,GE,{1_763_600_000_000_000 + row}.5\t,{row},{row},NPU:0" for row in range(30)]
    run = npuprof.load(csv(tmp_path / f"memory_record_{STAMP}.csv", head, [*rows, *rows]))
    told = run.notes[run.notes["message"].str.contains("a file was merged with itself")]
    assert told["count"].tolist() == [30]


@pytest.mark.slow
def test_repeated_communication_operators_are_one(samples: Path, tmp_path: Path) -> None:
    (original,) = (samples / "torch_npu/db/level1/rank1_ascend_pt").rglob("ascend_pytorch_profiler_1.db")
    path = tmp_path / original.name
    path.write_bytes(original.read_bytes())
    whole = npuprof.load(original)
    with closing(sqlite3.connect(path)) as opened:
        for table, shift in (("COMMUNICATION_OP", "opId"), ("COMMUNICATION_TASK_INFO", "opId")):
            names = [name for _, name, *_ in opened.execute(f"PRAGMA table_info({table})")]
            values = ", ".join(f"{name} + 1000" if name == shift else name for name in names)
            opened.execute(f"INSERT INTO {table} SELECT {values} FROM {table}")
        opened.commit()
    run = npuprof.load(path)
    for name, frame in whole.tables.items():
        pd.testing.assert_frame_equal(run.tables[name], frame, obj=name)
    assert _told(run) == len(whole.communication) + len(whole.communication_tasks)


_SIZES = {"api_event": 40, "compact": 64, "additional": 256, "stars_soc": 64, "ffts_profile": 128}


@pytest.mark.parametrize("share", _SHARES)
def test_repeated_raw_records_are_counted(tmp_path: Path, share: int) -> None:
    path = synthesise(tmp_path, launches=_ROWS, streams=2)
    whole, times = npuprof.load(path), 0
    for file in sorted(path.rglob("*.slice_0")):
        size = next((size for words, size in _SIZES.items() if words in file.name), 0)
        if size and "_dic." not in file.name:
            content = file.read_bytes()
            records = [content[at : at + size] for at in range(0, len(content), size)]
            more = [record for row, record in enumerate(records) if row % 100 < share]
            file.write_bytes(b"".join(records + more))
            times += len(more)
    run = npuprof.load(path)
    for name, frame in whole.tables.items():
        pd.testing.assert_frame_equal(run.tables[name], frame, obj=name)
    repeated = run.notes[run.notes["message"].str.contains(REPEATED_RECORDS)]
    assert repeated["count"].sum() == times > 0
    assert whole.notes.empty

"""Whatever a timeline holds, reading it ends within bounds of memory, and what was left out is told."""

from __future__ import annotations

import gzip
import tracemalloc
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from npuprof.sources import torch_npu
from npuprof.sources.columns.builders import MAX_NAME
from npuprof.sources.trace import columns as trace_columns
from npuprof.sources.trace import events as trace_events
from npuprof.sources.trace.columns import gather
from npuprof.sources.trace.events import read_events
from npuprof.tables.notes import Notes
from tests.sources.trace.maker import at

_MIB = 1 << 20


def slice_text(name: str = "a", us: float = 1, **more: Any) -> bytes:
    own = "".join(f',"{key}":{value}' for key, value in more.items())
    return f'{{"ph":"X","name":"{name}","pid":1,"tid":1,"ts":"{at(us)}","dur":1,"cat":"cpu_op"{own}}}'.encode()


def written(path: Path, *events: bytes) -> Path:
    path.write_bytes(b"[" + b",".join(events) + b"]")
    return path


def messages(notes: Notes | pd.DataFrame) -> str:
    return "\n".join(notes.to_frame()["message"] if isinstance(notes, Notes) else notes["message"])


@pytest.mark.long
@pytest.mark.parametrize(
    ("filling", "events"), [(b" " * 32, False), (b"\0" * 32, False), (slice_text() + b", ", True), (b"{" * 32, False)]
)
def test_memory_bomb_archive_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, filling: bytes, events: bool
) -> None:
    monkeypatch.setattr(trace_events, "_UNZIPPED_ANYWAY_BYTES", 2 * _MIB)
    monkeypatch.setattr(trace_events, "_MAX_UNZIPPED_RATIO", 1)
    path = tmp_path / "trace_view.json.gz"
    path.write_bytes(gzip.compress(b"[" + slice_text() + b", " + filling * (24 * _MIB // len(filling))))
    notes, found = Notes(), 0
    tracemalloc.start()
    for batch in read_events(path, notes):
        found += len(batch)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "unpacks to more than 2 MiB; the rest is not read" in messages(notes)
    assert found * len(slice_text()) <= 2 * _MIB
    assert found > 1000 if events else found <= 1
    assert peak < 20 * _MIB


@pytest.mark.slow
def test_an_ordinary_archive_is_read_whole_without_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_events, "_UNZIPPED_ANYWAY_BYTES", 1)
    path = tmp_path / "trace_view.json.gz"
    path.write_bytes(gzip.compress(b"[" + b",".join(slice_text(f"op {row % 90}", row) for row in range(20_000)) + b"]"))
    notes = Notes()
    assert sum(map(len, read_events(path, notes))) == 20_000
    assert not len(notes)


def test_endless_event_is_lost_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_events, "_MAX_EVENT_BYTES", _MIB)
    endless = slice_text("x" * (6 * _MIB))
    path = written(tmp_path / "trace_view.json", slice_text("first"), endless, slice_text("last"))
    notes = Notes()
    names = [event.name for batch in read_events(path, notes, 1 << 16) for event in batch]
    assert names == ["first", "last"]
    assert "damaged and its events are lost" in messages(notes)


def test_more_events_than_any_run_has_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_columns, "_MAX_EVENTS", 100)
    path = written(tmp_path / "trace_view.json", *(slice_text(us=row) for row in range(1000)))
    notes = Notes()
    trace = gather(read_events(path, notes, 1 << 12), notes, path.name)
    assert 0 < trace.events <= 100
    assert "more than 100 events" in messages(notes)


def test_long_names_are_cut_and_stay_distinct(tmp_path: Path) -> None:
    long = "n" * (3 * MAX_NAME)
    path = written(
        tmp_path / "trace_view.json", *(slice_text(f"{long}{row}", row) for row in range(2)), slice_text("short", 2)
    )
    names = torch_npu.read(path).tables["operators"]["name"].tolist()
    assert len(set(names)) == 3
    assert max(map(len, names)) < MAX_NAME + 40
    assert names[2] == "short"


@pytest.mark.parametrize(
    "more",
    [
        {"id": "9" * 5000},
        {"dur": "1e999"},
        {"args": '{"Input Dims": ' + "[" * 2000 + "]" * 2000 + "}"},
    ],
    ids=["id", "dur", "nesting"],
)
def test_a_monstrous_value_costs_no_other_event(tmp_path: Path, more: dict[str, str]) -> None:
    path = written(
        tmp_path / "trace_view.json", slice_text("before", 1), slice_text("it", 2, **more), slice_text("z", 3)
    )
    decoded = torch_npu.read(path)
    names = decoded.tables["operators"]["name"].tolist()
    assert names[0] == "before"
    assert names[-1] == "z"
    assert set(names) <= {"before", "it", "z"}
    assert len(decoded.notes) >= 1


def test_a_number_that_fits_no_column_is_absent(tmp_path: Path) -> None:
    args = ('{"Sequence number": ' + digits + "}" for digits in ("7", "9" * 400, "9" * 20))
    path = written(tmp_path / "trace_view.json", *(slice_text(us=row, args=one) for row, one in enumerate(args)))
    numbers = torch_npu.read(path).tables["operators"]["sequence_number"]
    assert numbers[0] == 7
    assert numbers[1:].isna().all()

"""A timeline that was glued to itself, or to a part of itself, counts every event once."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import npuprof
from npuprof.sources.trace.events import read_events
from npuprof.tables.notes import Notes
from tests.budget import examples
from tests.sources.kineto.traces import KinetoTrace
from tests.sources.trace.maker import small_trace

_ARGS = st.dictionaries(
    st.sampled_from(["k", "]["]), st.lists(st.dictionaries(st.just("name"), st.just("X")), max_size=2)
)
_ROWS = st.lists(
    st.fixed_dictionaries({"ph": st.sampled_from("XM"), "name": st.sampled_from(["a", "[", "]["]), "args": _ARGS}),
    min_size=1,
    max_size=8,
    unique_by=lambda row: json.dumps(row, sort_keys=True),
)


def _names(path: Path, chunk_bytes: int, notes: Notes) -> list[tuple[str, str, bytes]]:
    batches = read_events(path, notes, chunk_bytes)
    return [(event.ph, event.name, bytes(event.args)) for batch in batches for event in batch]


@pytest.mark.slow
@settings(max_examples=examples(80), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    parts=st.lists(_ROWS, min_size=1, max_size=4),
    wrapped=st.booleans(),
    between=st.sampled_from(["", "\n", " \n\t", ","]),
    chunk_bytes=st.sampled_from([1, 7, 40, 1 << 20]),
)
def test_each_event_is_read_once_whatever_was_glued(
    tmp_path: Path, parts: list[list[dict[str, Any]]], wrapped: bool, between: str, chunk_bytes: int
) -> None:
    path = tmp_path / "t.json"
    texts = [json.dumps({"traceEvents": rows, "z": 1} if wrapped else rows) for rows in parts]
    path.write_text(between.join(texts))
    notes = Notes()
    found = _names(path, chunk_bytes, notes)
    every = [(row["ph"], row["name"], json.dumps(row["args"]).encode()) for rows in parts for row in rows]
    assert found == list(dict.fromkeys(every))
    told = notes.to_frame().set_index("message")["count"]
    repeated = [count for message, count in told.items() if "repeats an earlier one" in str(message)]
    assert sum(repeated) == len(every) - len(found)
    assert told.index.str.contains(f"holds {len(parts)} documents").any() == (len(parts) > 1)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["trace_view.json", "trace_view.json.gz"])
def test_a_trace_glued_to_itself_has_the_tables_of_one(tmp_path: Path, name: str) -> None:
    maker = small_trace()
    whole = npuprof.load(maker.write(tmp_path / "whole.json"))
    path = tmp_path / name
    text = (json.dumps(maker.events) * 2).encode()
    path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    glued = npuprof.load(path)
    for table, frame in whole.tables.items():
        pd.testing.assert_frame_equal(glued.tables[table], frame)
    told = glued.notes[glued.notes["message"].str.contains("repeats an earlier one")]
    assert told["count"].tolist() == [len(maker.events)]
    assert not glued.notes["message"].str.contains("damaged").any()


@pytest.mark.slow
def test_later_export_adds_new_data(tmp_path: Path) -> None:
    maker = small_trace()
    path = tmp_path / "trace_view.json"
    path.write_text(json.dumps(maker.events[: len(maker.events) // 2]) + "\n" + json.dumps(maker.events))
    glued = npuprof.load(path)
    for table, frame in npuprof.load(maker.write(tmp_path / "whole.json")).tables.items():
        pd.testing.assert_frame_equal(glued.tables[table], frame)


def test_doubled_torch_trace_has_single_tables(tmp_path: Path) -> None:
    trace = KinetoTrace()
    for turn in range(5):
        trace.operator("aten::mm", turn * 10, 9, turn)
    path = tmp_path / "trace.json"
    path.write_text(trace.text() * 3)
    run = npuprof.load(path)
    assert len(run.operators) == 5
    assert run.notes["message"].str.contains("3 documents").any()


@pytest.mark.slow
def test_a_large_trace_glued_to_itself_is_compared_piece_by_piece(tmp_path: Path) -> None:
    rows = [{"ph": "X", "name": f"n{number}", "ts": f"{number}.000", "dur": 1, "args": {}} for number in range(30_000)]
    path = tmp_path / "t.json"
    path.write_text("\n".join([json.dumps(rows[:20_000]), json.dumps(rows[10_000:]), json.dumps(rows)]))
    notes = Notes()
    assert [name for _, name, _ in _names(path, 1 << 18, notes)] == [row["name"] for row in rows]
    assert notes.ledger.to_frame()["left_out"].tolist() == [10_000 + 30_000]


@pytest.mark.slow
def test_a_real_trace_glued_to_itself(samples: Path, tmp_path: Path) -> None:
    source = samples / "torch_npu/text/level1/rank0_ascend_pt/ASCEND_PROFILER_OUTPUT/trace_view.json"
    path = tmp_path / "trace_view.json"
    path.write_text(source.read_text() * 2)
    once, twice = npuprof.load(source), npuprof.load(path)
    assert {name: len(frame) for name, frame in twice.tables.items()} == {
        name: len(frame) for name, frame in once.tables.items()
    }

"""Which marker gets which domain."""

from __future__ import annotations

import pandas as pd

from npuprof import tables
from npuprof.sources.recording.files import assign
from npuprof.tables.notes import Notes


def marks(*rows: tuple[str, int]) -> pd.DataFrame:
    messages, starts = [row[0] for row in rows], pd.array([row[1] for row in rows], "int64")
    zeros = pd.array([0] * len(rows), "int64")
    return tables.build("marks", {"message": messages, "start_ns": starts, "duration_ns": zeros, "thread_id": zeros})


def domains_of(frame: pd.DataFrame) -> list[str]:
    tables.check("marks", frame)
    return ["" if value is pd.NA or value != value else str(value) for value in frame["domain"]]


def test_call_and_marker_share_their_place() -> None:
    notes = Notes()
    table = marks(("a", 100), ("b", 200), ("a", 300))
    assert domains_of(assign(table, [("a", "second", 1)], notes)) == ["", "", "second"]
    assert domains_of(assign(table, [("a", "first", 0), ("b", "x", 0)], notes)) == ["first", "x", ""]
    assert len(notes) == 0


def test_a_message_that_was_cut_is_found() -> None:
    table = marks(("é" * 63, 5))
    assert domains_of(assign(table, [("é" * 100, "long", 0)], Notes())) == ["long"]


def test_rewritten_message_is_found() -> None:
    table = marks(("a 'b''c", 5), ("a 'b''c", 6))
    calls = [('a "b"\nc', "first", 0), ("a 'b''c", "second", 1)]
    assert domains_of(assign(table, calls, Notes())) == ["first", "second"]


def test_calls_without_a_marker_are_counted() -> None:
    notes = Notes()
    table = marks(("a", 100))
    assert domains_of(assign(table, [("a", "x", 0), ("a", "y", 1), ("b", "z", 0), ("a", "w", -1)], notes)) == ["x"]
    assert notes.to_frame()["count"].tolist() == [3]

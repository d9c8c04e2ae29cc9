"""Timelines are read in chunks, and what is left of damaged ones is read too."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from npuprof.errors import SourceError
from npuprof.sources.trace import events as reader
from npuprof.sources.trace.event import Event
from npuprof.sources.trace.events import is_trace, read_events
from npuprof.tables.notes import Notes
from tests.budget import examples

nasty = st.sampled_from(['}, {"ph":"X"', "a, b", '"', "\\", "é\n", "]}", "{", "", "nn.Module: Conv2d_0"])
events = st.lists(
    st.fixed_dictionaries(
        {"ph": st.sampled_from("XsfCM"), "name": nasty},
        optional={
            "ts": st.from_regex(r"[0-9]{1,16}\.[0-9]{3}", fullmatch=True),
            "id": st.integers(0, 1 << 70),
            "args": st.dictionaries(nasty, nasty | st.lists(st.fixed_dictionaries({"name": nasty}), max_size=3)),
        },
    ),
    max_size=12,
)
_DEEP = 1_000_000  # from Python 3.14 on, the size of the stack is the limit
quick = settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])


def read(path: Path, chunk_bytes: int = 1 << 20) -> tuple[list[tuple[Any, ...]], Notes]:
    notes = Notes()
    found = [plain(event) for batch in read_events(path, notes, chunk_bytes) for event in batch]
    return found, notes


def plain(event: Event) -> tuple[Any, ...]:
    return event.ph, event.name, event.ts, event.id, json.loads(bytes(event.args))


def expected(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(row["ph"], row["name"], row.get("ts"), row.get("id"), row.get("args", {})) for row in rows]


def messages(notes: Notes) -> list[str]:
    return list(notes.to_frame()["message"])


@pytest.mark.slow
@quick
@given(rows=events, chunk_bytes=st.integers(1, 200), indent=st.sampled_from([None, 1]), wrapped=st.booleans())
def test_every_cut_into_chunks_gives_the_same_events(
    tmp_path: Path, rows: list[dict[str, Any]], chunk_bytes: int, indent: int | None, wrapped: bool
) -> None:
    path = tmp_path / "trace_view.json"
    path.write_text(json.dumps({"a": 1, "traceEvents": rows, "z": 2} if wrapped else rows, indent=indent))
    assert read(path, chunk_bytes)[0] == expected(rows)


@pytest.mark.slow
@quick
@given(rows=events, data=st.data(), chunk_bytes=st.sampled_from([16, 1 << 20]))
def test_every_truncation_gives_a_prefix_and_a_note(
    tmp_path: Path, rows: list[dict[str, Any]], data: st.DataObject, chunk_bytes: int
) -> None:
    path = tmp_path / "trace_view.json"
    text = json.dumps(rows, ensure_ascii=False).encode()
    path.write_bytes(text[: data.draw(st.integers(1, len(text) - 1))])
    found, notes = read(path, chunk_bytes)
    assert found == expected(rows)[: len(found)]
    assert any("end is incomplete" in message for message in messages(notes))


X, Y = '{"ph":"X","name":"a"}', '{"ph":"X","name":"b"}'


@pytest.mark.parametrize(
    ("text", "names", "lost"),
    [
        (f"[{X},]", ["a"], 0),
        (f"[{X}", ["a"], 0),
        (f"[{X}{X}]", ["a", "a"], 0),
        (f"[{X}][{X},{Y}]", ["a", "b"], 0),
        (f'[{X},{{"ph":"X","name":"half{X},{X}]', ["a", "a", "a"], 1),
        (f'[{X},{{"ph":"X","na', ["a"], 1),
        (f"[{X}, null, {X}]", ["a", "a"], 0),
        ('[{"ph":"C","args":{"v":NaN}}]', [""], 0),
        ("[1, 2]", [], 0),
        ('[{"ph":"X","name":"a","args":{"l":[{"name":1}, {"name":2}]}},]', ["a"], 0),
    ],
)
def test_damage_is_repaired_or_counted(tmp_path: Path, text: str, names: list[str], lost: int) -> None:
    path = tmp_path / "trace_view.json"
    path.write_text(text)
    found, notes = read(path)
    frame = notes.to_frame()
    assert [row[1] for row in found] == names
    assert frame.loc[frame["message"].str.contains("lost"), "count"].sum() == lost
    assert any(re.search("damaged|2 documents|inf or nan", message) for message in messages(notes))


def test_bytes_that_are_not_utf8_are_replaced(tmp_path: Path) -> None:
    path = tmp_path / "trace_view.json"
    path.write_bytes(b'[{"ph":"X","name":"\xff"}]')
    assert read(path)[0][0][1] == "�"


@pytest.mark.long
@pytest.mark.parametrize(
    "text", [b'[{"ph":"X","args":' + b"[" * _DEEP + b"]" * _DEEP + b"}]", b"[" + b'{"ph":' * _DEEP]
)
def test_bottomless_nesting_ends(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "trace_view.json"
    path.write_bytes(text)
    found, notes = read(path, 1 << 16)
    assert not found
    assert len(notes)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"", "empty"),
        (b"  \n", "empty"),
        (b"version https://git-lfs.github.com/spec/v1", "LFS"),
        (b"{}", "no timeline"),
    ],
)
def test_what_is_no_timeline_is_one_clear_error(tmp_path: Path, text: bytes, why: str) -> None:
    path = tmp_path / "trace_view.json"
    path.write_bytes(text)
    with pytest.raises(SourceError, match=why):
        read(path)
    assert not is_trace(path)


def test_a_missing_file_is_a_source_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="cannot be read"):
        read(tmp_path / "trace_view.json")


def test_gzip_and_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "any.gz"
    path.write_bytes(gzip.compress(b"\xef\xbb\xbf" + f"[{X}]".encode()))
    assert is_trace(path)
    assert [row[1] for row in read(path)[0]] == ["a"]


@pytest.mark.slow
def test_a_cut_gzip_gives_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "trace_view.json.gz"
    rows = [{"ph": "X", "name": f"{number * 7919}"} for number in range(20_000)]
    packed = gzip.compress(json.dumps(rows).encode())
    path.write_bytes(packed[: len(packed) // 2])
    found, notes = read(path)
    assert 5000 < len(found) < 15_000
    assert found == expected(rows)[: len(found)]
    assert any("gzip" in message for message in messages(notes))


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("chunk_bytes", [40, 1 << 20])
def test_numeric_time_keeps_all_digits(tmp_path: Path, wrapped: bool, chunk_bytes: int) -> None:
    path = tmp_path / "trace.json"
    moments = ["1736408883674584.732", "12", "0.001"]
    listed = ", ".join(f'{{"ph": "X", "ts": {moment}, "dur": 1.5}}' for moment in moments)
    path.write_text(f'{{"traceEvents": [{listed}]}}' if wrapped else f"[{listed}]")
    read = [event for batch in read_events(path, Notes(), chunk_bytes, exact=True) for event in batch]
    assert [str(event.ts) for event in read] == moments
    assert [event.dur for event in read] == [1.5, 1.5, 1.5]


def test_a_damaged_event_does_not_cost_the_digits_of_the_others(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text('[{"ph": "X", "name": "a", "ts" 1.0}, {"ph": "X", "ts": 1736408883674584.732}]')
    read = [event for batch in read_events(path, Notes(), exact=True) for event in batch]
    assert [event.ts for event in read] == ["1736408883674584.732"]


@pytest.mark.parametrize(
    "tail",
    [
        b'],"other":' + b"[" * 100_000,
        b'],"other":{"a":{"b":1}},"cut":{"c',
        b',{"ph":{"what":"no event"}}]',
        b" and } some } more",
    ],
)
def test_last_whole_event_is_kept(tmp_path: Path, tail: bytes) -> None:
    path = tmp_path / "trace_view.json"
    path.write_bytes(b'{"traceEvents":[{"ph":"X","name":"\xc3\xa9","args":{"a":{}}}' + tail)
    found, notes = read(path, 1 << 16)
    assert [name for _, name, *_ in found] == ["é"]
    assert len(notes)


def test_a_file_without_events_is_not_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_MAX_EVENTLESS_BYTES", 1 << 20)
    path = tmp_path / "trace_view.json"
    with path.open("wb") as file:
        file.write(b'[{"ph":"X","name":"a"},')
        file.truncate(1 << 33)  # set up for writing, and never filled
    found, notes = read(path, 1 << 16)
    assert [name for _, name, *_ in found] == ["a"]
    assert "1 MiB of it hold no event; the rest of the file is not read" in str(messages(notes))

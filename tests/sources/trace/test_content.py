"""A timeline as tools save it: an event in each line, and in UTF-16."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import npuprof
from npuprof.sources.trace.events import is_trace, read_events
from npuprof.tables.notes import Notes
from tests.budget import examples
from tests.sources.kineto.traces import KinetoTrace
from tests.sources.trace.maker import small_trace

_EVENTS = [{"ph": "X", "name": name, "args": {"deep": {"}\n{": "},{"}}} for name in ("a", "b\n}", "é𝄞", "{")]


def _lines(end: str) -> Callable[[Path], bytes]:
    return lambda path: (end.join(map(json.dumps, json.loads(path.read_bytes()))) + end).encode()


_FORMS: dict[str, Callable[[Path], bytes]] = {
    "lines": _lines("\n"),
    "lines of Windows, some empty": _lines("\r\n\r\n"),
    "lines with commas": _lines(",\n"),
    "lines, packed": lambda path: gzip.compress(_lines("\n")(path)),
    "UTF-16": lambda path: path.read_text().encode("utf-16"),
    "UTF-16, big end first": lambda path: b"\xfe\xff" + path.read_text().encode("utf-16-be"),
    "UTF-16 without a mark": lambda path: path.read_text().encode("utf-16-le"),
    "UTF-16 without a mark, big end first, lines": lambda path: _lines("\n")(path).decode().encode("utf-16-be"),
    "UTF-16, packed lines": lambda path: gzip.compress(_lines("\n")(path).decode().encode("utf-16")),
}


@pytest.mark.slow
@pytest.mark.parametrize("form", _FORMS)
def test_a_timeline_in_another_form_is_the_same_run(tmp_path: Path, form: str) -> None:
    path = tmp_path / "trace_view.json"
    small_trace().write(path)
    whole = npuprof.load(path)
    path.write_bytes(_FORMS[form](path))
    run = npuprof.load(path)
    assert len(run.kernels) == len(whole.kernels) == 2
    for name in ("api", "tasks", "kernels", "communication", "operators", "links"):
        assert getattr(run, name).equals(getattr(whole, name)), name
    assert run.notes.equals(whole.notes)


def test_torch_trace_of_lines_is_recognised(tmp_path: Path) -> None:
    trace = KinetoTrace()
    trace.operator("aten::add", 10, 5, 3)
    path = tmp_path / "t.json"
    path.write_text("\n".join(map(json.dumps, json.loads(trace.text())["traceEvents"])))
    run = npuprof.load(path)
    assert (run.info.source, len(run.operators)) == ("torch profiler trace", 1)


@pytest.mark.slow
@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(st.sampled_from(_EVENTS), min_size=1, max_size=6, unique_by=lambda row: str(row["name"])),
    between=st.sampled_from(["\n", "\r\n", ",\n", "\n\n", " \n "]),
    end=st.sampled_from(["", "\n", ",\n"]),
    encoding=st.sampled_from(["utf-8", "utf-16", "utf-16-le", "utf-16-be"]),
    chunk_bytes=st.sampled_from([1, 7, 40, 1 << 20]),
)
def test_each_line_is_an_event_whatever_its_text(
    tmp_path: Path, rows: list[dict[str, object]], between: str, end: str, encoding: str, chunk_bytes: int
) -> None:
    path, notes = tmp_path / "t.json", Notes()
    text = between.join(json.dumps(row, ensure_ascii=False) for row in rows) + end
    path.write_bytes(text.encode(encoding))
    assert is_trace(path)
    found = [event.name for batch in read_events(path, notes, chunk_bytes) for event in batch]
    assert found == [row["name"] for row in rows]
    assert not len(notes)


def test_a_line_that_is_cut_is_reported(tmp_path: Path) -> None:
    path, notes = tmp_path / "t.json", Notes()
    path.write_text('{"ph": "X", "name": "a"}\n{"ph": "X", "name": "b"}\n{"ph": "X", "na')
    assert [event.name for batch in read_events(path, notes) for event in batch] == ["a", "b"]
    assert "its end is incomplete" in " ".join(notes.to_frame()["message"])


@pytest.mark.parametrize("text", ['{"name": "x"}\n{"name": "y"}\n', '{"ph": 1}\n', '{"ph": "X"'])
def test_lines_that_are_no_events_are_no_timeline(tmp_path: Path, text: str) -> None:
    path = tmp_path / "t.json"
    path.write_text(text)
    assert not is_trace(path)

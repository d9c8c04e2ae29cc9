"""What is read of damaged JSON: exactly the damaged events are lost, and counted; what has one reading is repaired."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import npuprof
from npuprof.sources.trace.events import read_events
from npuprof.tables.notes import Notes

_FORMS: dict[str, Callable[[list[str]], str]] = {
    "list": lambda events: "[" + ", ".join(events) + "]",
    "lines": lambda events: "[\n" + ",\n".join(events) + "\n]\n",
    "object": lambda events: (
        '{"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "GPU"}], "traceEvents": [\n'
        + ",\n".join(events)
        + '\n], "traceName": "t.json", "baseTimeNanoseconds": 17}\n'
    ),
}


def _event(number: int) -> dict[str, Any]:
    if number % 7 == 0:
        return {"name": "process_name", "ph": "M", "ts": 0.5, "pid": number, "tid": 0, "args": {"name": f"p{number}"}}
    return {
        "ph": "X",
        "cat": "kernel",
        "name": f"k{number}<a, b>(int)",
        "pid": 0,
        "tid": 7,
        "ts": number + 0.25,
        "dur": 1.5,
        "args": {"device": 0, "grid": [1, 2, 3], "correlation": number, "External id": number},
    }


def _without(text: str, at: int) -> str:
    return text[:at] + text[at + 1 :]


def _insert(text: str, at: int) -> str:
    return text[:at] + ":x" + text[at:]


def _blank(text: str, at: int) -> str:
    return text[:at] + "\0" * len(text[at : at + 9]) + text[at + 9 :]


def _cut(text: str, at: int) -> str:
    return text[: max(at, 12)]


def _replaced(character: str) -> Callable[[str, int], str]:
    return lambda text, at: text[:at] + character + text[at + 1 :]


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("character", '#"}{,]')
def test_one_wrong_character_costs_one_event(tmp_path: Path, character: str, indent: int | None) -> None:
    whole = [json.dumps(_event(number), indent=indent) for number in range(5, 9)]
    wrong = []
    for row in (1, 2, 3):
        for at in range(row, len(whole[row]), 3):
            events = [*whole[:row], _replaced(character)(whole[row], at), *whole[row + 1 :]]
            found, notes = _read(tmp_path / "t.json", _FORMS["list"](events), 1 << 20)
            if len(found) < 3 or notes["missing_rows"].sum() != 4 - len(found):
                wrong.append((row, at, found, notes["missing_rows"].sum()))
    assert not wrong


@pytest.mark.parametrize("form", _FORMS)
@pytest.mark.parametrize(("first", "after"), [(3, 3), (10, 17), (20, 55), (7, 58)])
def test_holes_of_zeros_count_by_their_length(tmp_path: Path, form: str, first: int, after: int) -> None:
    """Events `first` to `after` are hit: the first and the last in their middle, all others as a whole."""
    events = [json.dumps(_event(number)) for number in range(60)]
    text = _FORMS[form](events)
    begin = text.index(events[first]) + len(events[first]) // 3
    end = text.index(events[after]) + 2 * len(events[after]) // 3
    found, notes = _read(tmp_path / "t.json", text[:begin] + "\0" * (end - begin) + text[end:], 500)
    lost = after - first + 1
    assert len(found) == 60 - lost
    assert abs(notes["missing_rows"].sum() - lost) <= (1 if lost > 1 else 0)
    assert notes["message"].str.contains("estimated by its length").any() == (lost > 2)


def _is_event(text: str) -> bool:
    try:
        return "ph" in json.loads(text)
    except ValueError:
        return False


def _read(path: Path, text: str, chunk_bytes: int) -> tuple[list[str], Any]:
    path.write_text(text)
    notes = Notes()
    names = [event.name or str(event.pid) for batch in read_events(path, notes, chunk_bytes) for event in batch]
    return names, notes.to_frame()


@pytest.mark.parametrize("form", _FORMS)
@pytest.mark.parametrize("damage", [_without, _insert, _blank, _cut])
@pytest.mark.parametrize("seed", range(12))
def test_loses_exactly_the_damaged_events(
    tmp_path: Path, form: str, damage: Callable[[str, int], str], seed: int
) -> None:
    chosen = random.Random(seed)
    indent = chosen.choice([None, 1])
    events = [json.dumps(_event(number), indent=indent) for number in range(60)]
    names = [json.loads(event)["name"] for event in events]
    for row in chosen.sample(range(len(events)), chosen.choice([1, 2, 9, 30])):
        hurt = damage(events[row], chosen.randrange(1, len(events[row])))
        if not _is_event(hurt):
            events[row], names[row] = hurt, ""
    found, notes = _read(tmp_path / "t.json", _FORMS[form](events), chosen.choice([300, 2000, 1 << 20]))
    assert found == [name for name in names if name]
    assert notes["missing_rows"].sum() == names.count("")


_NUMBERS = ("inf", "-inf", "nan", "-nan", "NaN", "Infinity", "-Infinity", "-nan(ind)", "1.#INF", "-1.#IND")


@pytest.mark.parametrize("form", _FORMS)
@pytest.mark.parametrize("value", _NUMBERS)
def test_repairs_numbers(tmp_path: Path, form: str, value: str) -> None:
    events = [json.dumps({"ph": "X", "name": f"f(a: {value}, {value})", "ts": n, "args": {"v": 3}}) for n in range(9)]
    for row in (4, 8):
        events[row] = events[row].replace('"v": 3', f'"u": [{value}, {value}], "v": {value}')
    found, notes = _read(tmp_path / "t.json", _FORMS[form](events), 1 << 20)
    assert found == [f"f(a: {value}, {value})"] * 9
    assert set(notes["severity"]) <= {"info"}


@pytest.mark.parametrize(
    ("written", "name"),
    [
        (rb"C:\users\new\train.py(219): f", r"C:\users\new\train.py(219): f"),
        (rb"torch\cuda\__init__.py(2): g", r"torch\cuda\__init__.py(2): g"),
        (rb"\\server\share\x.py(1): f", r"\server\share\x.py(1): f"),  # an escaped backslash is one
        (rb"work\\a.py(3): outer", r"work\a.py(3): outer"),
        (rb'say("hello", "you")', 'say("hello", "you")'),
        (rb'"quoted"', '"quoted"'),
        (b"two\nlines\tand \x01", "two\nlines\tand \x01"),
        (b"a \x00 zero", "a \x00 zero"),
        (rb"C:\dir" + b"\\", "C:\\dir\\"),
        (rb'C:\dir\say("hello")', r'C:\dir\say("hello")'),
        (b"caf\xe9_kernel", "caf\ufffd_kernel"),
        (b"gemm\xff\xfe_kernel", "gemm\ufffd\ufffd_kernel"),
        (rb"half \ud800 pair", "half \ufffd pair"),
        (rb'all \q "of" ' + b"\x02\xff", 'all \\q "of" \x02\ufffd'),
    ],
)
@pytest.mark.parametrize("row", [0, 3, 6])
def test_repairs_names(tmp_path: Path, written: bytes, name: str, row: int) -> None:
    events = [json.dumps({"ph": "X", "cat": "kernel", "name": f"n{n}", "pid": 1, "ts": n}).encode() for n in range(7)]
    events[row] = events[row].replace(b'"n%d"' % row, b'"' + written + b'"')
    path, notes = tmp_path / "t.json", Notes()
    for head, tail in ((b"[", b"]"), (b'{"traceEvents": [', b'], "traceName": "t"}')):
        path.write_bytes(head + b", ".join(events) + tail)
        found = [event.name for batch in read_events(path, notes) for event in batch]
        assert found == [name if n == row else f"n{n}" for n in range(7)]
    assert set(notes.to_frame()["severity"]) <= {"info"}


@pytest.mark.parametrize(
    ("written", "start_ns"),
    [
        ("1.700000000123456e+15", 1_700_000_000_123_456_000),
        ("1.700000000123456789E15", 1_700_000_000_123_456_789),
        ("1.700000000123e15", 1_700_000_000_123_000_000),  # with a warning
        ("1.7e+15", None),  # hours are lost
    ],
)
def test_reads_times_with_exponents(tmp_path: Path, written: str, start_ns: int | None) -> None:
    path = tmp_path / "t.pt.trace.json"
    event = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "dur": 1e-1, "args": {"Ev Idx": 0}}
    later = json.dumps({**event, "ts": 1_700_000_000_200_000, "args": {"Ev Idx": 1}})
    path.write_text(f'{{"schemaVersion": 1, "traceEvents": [{json.dumps(event)[:-1]}, "ts": {written}}}, {later}]}}')
    run = npuprof.load(path)
    assert run.operators["start_ns"].tolist() == [*([start_ns] if start_ns else []), 1_700_000_000_200_000_000]
    assert run.operators["duration_ns"].tolist()[0] == 100
    assert (len(run.notes) > 0) == (start_ns is None or start_ns % 1_000_000 == 0)


def test_keeps_backslashes_of_windows_paths(tmp_path: Path) -> None:
    path = tmp_path / "t.pt.trace.json"
    names = [r"C:\temp\new\fit.py(3): run", r"C:\users\me\b.py(4): go"]
    events = [
        f'{{"ph": "X", "cat": "python_function", "name": "{name}", "pid": 1, "tid": 1, "ts": {row}, "dur": 1, '
        f'"args": {{"Python id": {row}, "Python parent id": null, "Ev Idx": {row}}}}}'
        for row, name in enumerate(names)
    ]
    path.write_text('{"schemaVersion": 1, "traceEvents": [' + ", ".join(events) + "]}")
    assert npuprof.load(path).python["name"].tolist() == names

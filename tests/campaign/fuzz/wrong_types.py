"""A value of another type at every key, cell and column that is read: an answer or npuprof's own error, nothing else.

The keys of JSON are those that stand in an input and those that its reader asks for: whatever it decodes are
:class:`_Watched` dictionaries, which remember the keys that they lack; events of timelines are decoded into structs,
whose fields are known. Cells are those of each column of a CSV, and of each column of a table of a database.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
import pickle
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec

from npuprof.errors import NpuprofError
from npuprof.files import small_files
from npuprof.sources.kineto import layouts as of_kineto
from npuprof.sources.trace import layouts as of_ascend
from npuprof.sources.trace.event import Event
from tests.campaign.fuzz import oracle
from tests.campaign.fuzz.oracle import Load, Outcome
from tests.campaign.tally import Tally, peak_mib
from tests.field_damage import WRONG, damaged, places

_PLAIN = {  # the same values for formats that are not text
    "null": None,
    "true": True,
    "a negative number": -1,
    "a number of 70 bits": 1 << 70,
    "a fraction": 1.5,
    "no number": float("nan"),
    "no text": "",
    "text": "x",
    "half a character": "\ud800",
    "a list": [],
    "a list of a number": [1],
    "an object": {},
    "an object of a number": {"a": 1},
}
_CELLS = {
    "no text": b"",
    "text": b"x",
    "true": b"true",
    "a negative number": b"-1",
    "a fraction": b"1.5",
    "a number of 70 bits": b"%d" % (1 << 70),
    "no number": b"NaN",
    "a number beyond all": b"1e999",
    "half a character": b"\xed\xa0\x80",
    "a list": b"[]",
    "an object": b"{}",
    "null": b"None",
    "a zero byte": b"\0",
}
_STORED = {
    "null": None,
    "a negative number": -1,
    "a number of 63 bits": (1 << 63) - 1,
    "a fraction": 1.5,
    "no text": "",
    "a number beyond all": float("inf"),
    "text": "x",
    "a number as text": "1",
    "bytes": b"\xff\x00",
}
_UNTOLD = ("nothing", "a list", "an object")  # a writer may have had nothing to write there
_ALIKE = 2  # of places that differ only in numbers, so many are tried
_JSON_BYTES = 1 << 20


@dataclass(frozen=True)
class Wrong:
    """A value of another type: the file below an input, the place and the value in words, and what writes it.

    `write` returns whether the file can hold it.
    """

    file: Path
    place: str
    value: str
    write: Callable[[Path], object]


class _Watched(dict[str, Any]):
    """A dictionary that remembers the keys that it was asked for and lacks."""

    def __init__(self, plain: Any) -> None:
        super().__init__(plain)
        self.lacks: set[str] = set()

    def _ask(self, key: Any) -> None:
        if isinstance(key, str) and not dict.__contains__(self, key):
            self.lacks.add(key)

    def get(self, key: Any, default: Any = None) -> Any:
        self._ask(key)
        return super().get(key, default)

    def __getitem__(self, key: Any) -> Any:
        self._ask(key)
        return super().__getitem__(key)

    def __contains__(self, key: Any) -> bool:
        self._ask(key)
        return super().__contains__(key)


@contextmanager
def _watching() -> Iterator[list[Any]]:
    """Yield the documents that readers decode meanwhile."""
    documents: list[Any] = []
    plain = small_files.decode

    def decode(content: bytes) -> Any:
        documents.append(_watched(plain(content)))
        return documents[-1]

    with mock.patch.object(small_files, "decode", decode):
        yield documents


def _watched(plain: Any) -> Any:
    if isinstance(plain, dict):
        return _Watched({key: _watched(value) for key, value in plain.items()})
    return [_watched(value) for value in plain] if isinstance(plain, list) else plain


def _lacking(document: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the places that a document lacks and was asked for."""
    if isinstance(document, _Watched):
        for key in sorted(document.lacks):
            yield (*place, key)
    children: Iterable[tuple[Any, Any]] = ()
    if isinstance(document, dict):
        children = document.items()
    elif isinstance(document, list):
        children = enumerate(document)
    for key, value in children:
        yield from _lacking(value, (*place, key))


def _structs() -> Iterator[list[str]]:
    """Yield the arguments of each kind of event that is read."""
    for module in (of_ascend, of_kineto):
        for kind in vars(module).values():
            if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
                yield [field.encode_name for field in msgspec.structs.fields(kind)]


def wrong_values(path: Path, load: Load, *, each: int = 0) -> Iterator[Wrong]:
    """Yield the wrong values of every place of every file of an input.

    Parameters
    ----------
    path, load
        The input and what reads it, once, to learn the keys that it asks for.
    each
        How many values each place takes, the next ones each time; all by default.
    """
    with _watching() as documents, suppress(NpuprofError):
        load(path)
    asked = {_signature(document): set(_lacking(document)) for document in documents}
    kinds: dict[str, list[str]] = {"json": [*WRONG], "csv": [*_CELLS], "db": [*_STORED], "pickle": [*_PLAIN]}
    rounds = {kind: itertools.cycle(values) for kind, values in kinds.items()}
    for file in sorted(one for one in path.rglob("*") if one.is_file()) if path.is_dir() else [path]:
        below = file.relative_to(path) if path.is_dir() else Path()
        for place, kind, write in _of_file(file, asked):
            for name in itertools.islice(rounds[kind], each) if each else kinds[kind]:
                yield Wrong(below, place, name, lambda path, write=write, name=name: write(path, name))  # type: ignore[misc]


_Written = tuple[str, str, Callable[[Path, str], object]]


def _of_file(path: Path, asked: Mapping[str, set[tuple[Any, ...]]]) -> Iterator[_Written]:
    content = path.read_bytes()
    if path.suffix == ".db":
        yield from _of_database(path)
    elif path.suffix == ".csv":
        yield from _of_csv(content)
    elif path.suffix == ".pickle":
        yield from _of_pickle(pickle.loads(content))
    elif len(content) <= _JSON_BYTES and content.lstrip()[:1] in (b"{", b"["):
        yield from _of_json(content, asked)


def _of_json(content: bytes, asked: Mapping[str, set[tuple[Any, ...]]]) -> Iterator[_Written]:
    try:
        plain = json.loads(content)
    except ValueError:
        try:
            plain = [json.loads(line) for line in content.splitlines()]
        except ValueError:
            return  # no JSON at all
        for place in _distinct(places(plain)):
            yield str(place), "json", lambda path, value, place=place: _write_lines(path, plain, place, WRONG[value])  # type: ignore[misc]
        return
    known = [*places(plain), *sorted(asked.get(_signature(plain), ()), key=str)]
    events = plain.get("traceEvents") if isinstance(plain, dict) else plain
    if isinstance(events, list) and events and isinstance(events[0], dict) and "ph" in events[0]:
        known += _of_events(events, ("traceEvents",) if isinstance(plain, dict) else ())
    for place in _distinct(known, events):
        yield (
            str(place),
            "json",
            lambda path, value, place=place: path.write_text(damaged(plain, place, WRONG[value])),  # type: ignore[misc]
        )


def _of_events(events: list[dict[str, Any]], place: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """Yield the keys that an event of each phase lacks, and the arguments that the event most like a struct lacks."""
    of_phase = {event.get("ph"): at for at, event in enumerate(events)}
    for at in of_phase.values():
        yield from ((*place, at, field.encode_name) for field in msgspec.structs.fields(Event))
    for names in _structs():
        known = [len({*names}.intersection(event.get("args") or ())) for event in events]
        at = max(range(len(events)), key=known.__getitem__)
        if known[at]:
            yield from ((*place, at, "args", name) for name in names)


def _signature(document: Any) -> str:
    return json.dumps(document)[:1_000]


def _distinct(known: Iterator[tuple[Any, ...]] | list[tuple[Any, ...]], events: Any = None) -> list[tuple[Any, ...]]:
    """Return few of the places that differ only in numbers, or in which event of a kind they are."""
    counts: dict[tuple[Any, ...], int] = {}
    kept = []
    for place in known:
        alike = tuple("#" if re.fullmatch(r"[0-9.-]+|[SR]DMA", str(key)) else key for key in place)
        at = next((key for key in place if isinstance(key, int)), None)
        if isinstance(events, list) and at is not None and isinstance(events[at], dict) and "ph" in events[at]:
            alike = (events[at]["ph"], events[at].get("cat"), *(events[at].get("args") or ()), alike)
        counts[alike] = counts.get(alike, 0) + 1
        if counts[alike] <= (1 if events else _ALIKE):
            kept.append(place)
    return kept


def _write_lines(path: Path, plain: list[Any], place: tuple[Any, ...], value: str) -> None:
    lines = [json.dumps(line) for line in plain]
    lines[place[0]] = damaged(plain[place[0]], place[1:], value) if place[1:] else value
    path.write_text("\n".join([*lines, ""]))


def _of_pickle(plain: Any) -> Iterator[_Written]:
    for place in _distinct(places(_without_tuples(plain))):
        yield str(place), "pickle", lambda path, value, place=place: _write_pickle(path, plain, place, _PLAIN[value])  # type: ignore[misc]


def _without_tuples(plain: Any) -> Any:
    if isinstance(plain, dict):
        return {key: _without_tuples(value) for key, value in plain.items()}
    return [_without_tuples(value) for value in plain] if isinstance(plain, (list, tuple)) else plain


def _write_pickle(path: Path, plain: Any, place: tuple[Any, ...], value: Any) -> None:
    around = changed = _without_tuples(plain)
    for key in place[:-1]:
        around = around[key]
    around[place[-1]] = value
    path.write_bytes(pickle.dumps(changed))


def _of_csv(content: bytes) -> Iterator[_Written]:
    rows = list(csv.reader(io.StringIO(content.decode("utf-8", "replace"), newline="")))
    for at, name in enumerate(rows[0] if len(rows) > 1 else ()):
        yield f"column {name!r}", "csv", lambda path, value, at=at: _write_cell(path, rows, at, _CELLS[value])  # type: ignore[misc]


def _write_cell(path: Path, rows: list[list[str]], column: int, value: bytes) -> None:
    changed = [list(row) for row in rows]
    middle = 1 + (len(rows) - 1) // 2
    changed[middle][column:] = ["the wrong cell", *changed[middle][column + 1 :]]
    text = io.StringIO(newline="")
    csv.writer(text).writerows(changed)
    path.write_bytes(text.getvalue().encode("utf-8", "replace").replace(b"the wrong cell", value))


def _of_database(path: Path) -> Iterator[_Written]:
    with closing(sqlite3.connect(f"{path.as_uri()}?immutable=1", uri=True)) as opened:
        names = [name for (name,) in opened.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in names:
            for _, column, *_ in opened.execute(f'PRAGMA table_info("{table}")').fetchall():
                yield f"{table}.{column}", "db", _stored(table, column)


def _stored(table: str, column: str) -> Callable[[Path, str], bool]:
    def write(path: Path, value: str) -> bool:
        with closing(sqlite3.connect(path)) as opened:
            middle = f'SELECT rowid FROM "{table}" LIMIT 1 OFFSET (SELECT count(*) / 2 FROM "{table}")'
            try:
                opened.execute(f'UPDATE "{table}" SET "{column}" = ? WHERE rowid = ({middle})', (_STORED[value],))
            except sqlite3.IntegrityError:  # a key is a whole number
                return False
            opened.commit()
        return True

    return write


def finds(path: Path, load: Load, sound: Outcome, *, each: int = 0, most: int = 0) -> Iterator[tuple[Wrong, str]]:
    """Load an input with each wrong value; yield it with what is wrong, or without words.

    Parameters
    ----------
    path, load
        The input, and what reads it.
    sound
        What it gave before.
    each
        As in :func:`wrong_values`.
    most
        How many of them are tried, evenly spread; all by default.
    """
    wrongs = list(wrong_values(path, load, each=each))
    for wrong in wrongs[:: max(1, len(wrongs) // most)] if most else wrongs:
        file = path / wrong.file if path.is_dir() else path
        before = file.read_bytes()
        try:
            if wrong.write(file) is not False:
                find = oracle.judge(_naming(load), path, sound)
                is_untold = find is not None and find.kind == "loss" and wrong.value in _UNTOLD
                yield wrong, "" if find is None or is_untold else f"{find.kind}: {find.signature}"
        finally:
            file.write_bytes(before)


def _naming(load: Load) -> Load:
    """Return what reads an input, and fails where an error does not name the path."""

    def loaded(path: Path) -> Outcome:
        try:
            return load(path)
        except NpuprofError as error:
            if str(path) not in str(error):
                raise AssertionError(str(error)) from error
            raise

    return loaded


def tally(name: str, path: Path, load: Load) -> Tally:
    """Return what wrong values of an input showed."""
    counts = Tally(f"types {name}")
    for wrong, find in finds(path, load, load(path)):
        counts.tried += 1
        if find:
            counts.crashes += find.startswith("crash")
            counts.losses += find.startswith("loss")
            counts.hangs += find.startswith("hang")
            counts.finds.append(f"{find} ({wrong.file} {wrong.place}: {wrong.value})")
    counts.peak_mib = peak_mib()
    return counts

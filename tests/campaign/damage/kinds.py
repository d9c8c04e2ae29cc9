"""Kinds of damage: each changes one file of a copy of a recording, and is named for what it did."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

_HEAD_BYTES = 4096
_DELETED = (10, 2)  # of how many rows one is deleted
_REPEATED = (100, 10, 2)  # of how many rows one is repeated
_MARKS = ("level", "Task Type", "task type", "Python id", "correlation_id")  # arguments that tell kinds of slices apart

_RECORD_BYTES = {"api_event": 40, "compact": 64, "additional": 256, "stars_soc": 64, "ffts_profile": 128, "hwts": 64}


class Damage(NamedTuple):
    """What is done to a file."""

    name: str
    apply: Callable[[Path], object]


def _zero_head(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(bytes(min(_HEAD_BYTES, len(content))) + content[_HEAD_BYTES:])


FILE_DAMAGES = (
    Damage("deleted", lambda path: path.unlink()),
    Damage("emptied", lambda path: path.write_bytes(b"")),
    Damage("zeroed at its head", _zero_head),
)


def of_file(path: Path) -> Iterator[Damage]:
    """Yield every kind of damage that fits a file."""
    yield from FILE_DAMAGES
    if path.suffix == ".db":
        yield from of_database(path)
    elif path.suffix == ".csv":
        yield from of_rows()
    elif ".slice_" in path.name and not path.name.endswith(".done"):
        yield from of_records(path)
    elif path.suffix == ".json" and b'"ph"' in path.read_bytes()[:100_000]:
        yield from of_trace(path)


def of_database(path: Path) -> Iterator[Damage]:
    """Yield rows deleted from and repeated in each table of a database, and dropped tables."""
    with closing(sqlite3.connect(f"{path.as_uri()}?immutable=1", uri=True)) as opened:
        names = [name for (name,) in opened.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        filled = [
            name
            for name in names
            if not name.startswith("sqlite_") and opened.execute(f'SELECT 1 FROM "{name}"').fetchone()
        ]
    for table in filled:
        for share in _DELETED:
            statement = f'DELETE FROM "{table}" WHERE rowid % {share} = 0'
            yield Damage(f"1 of {share} rows of {table} deleted", partial(_run, statement))
        yield Damage(f"all rows of {table} deleted", partial(_run, f'DELETE FROM "{table}"'))
        yield Damage(f"{table} dropped", partial(_run, f'DROP TABLE "{table}"'))
        for share in _REPEATED:
            statement = f'INSERT INTO "{table}" SELECT * FROM "{table}" WHERE rowid % {share} = 0'
            yield Damage(f"1 of {share} rows of {table} repeated", partial(_run, statement))


def _run(statement: str, path: Path) -> None:
    with closing(sqlite3.connect(path)) as opened:
        try:
            opened.execute(statement)
        except sqlite3.IntegrityError:  # a key that may not repeat
            return
        opened.commit()


def of_rows() -> Iterator[Damage]:
    """Yield rows deleted from and repeated in a CSV."""
    for share in (*_DELETED, 1):
        yield Damage(f"1 of {share} rows deleted", partial(_rows, share, 0))
    for share in _REPEATED:
        yield Damage(f"1 of {share} rows repeated", partial(_rows, share, 2))


def _rows(share: int, times: int, path: Path) -> None:
    head, *rows = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(head + b"".join(row * (1 if number % share else times) for number, row in enumerate(rows, 1)))


def of_records(path: Path) -> Iterator[Damage]:
    """Yield records deleted from and repeated in a slice of raw data whose records have one size."""
    size = next((size for words, size in _RECORD_BYTES.items() if words in path.name), 0)
    if not size or "_dic." in path.name:
        return
    for share in _DELETED:
        yield Damage(f"1 of {share} records deleted", partial(_records, size, share, 0))
    for share in _REPEATED:
        yield Damage(f"1 of {share} records repeated", partial(_records, size, share, 2))


def _records(size: int, share: int, times: int, path: Path) -> None:
    content = path.read_bytes()
    parts = (content[at : at + size] for at in range(0, len(content), size))
    path.write_bytes(b"".join(part * (1 if number % share else times) for number, part in enumerate(parts, 1)))
    done = path.with_name(f"{path.name}.done")
    if done.exists():
        done.write_text(re.sub(r"filesize:\d+", f"filesize:{path.stat().st_size}", done.read_text()))


def of_trace(path: Path) -> Iterator[Damage]:
    """Yield events of each kind deleted from and repeated in a timeline."""
    for kind in sorted({_kind(event) for event in _events(json.loads(path.read_bytes()))}):
        for share in (*_DELETED, 1):
            yield Damage(f"1 of {share} events {kind} deleted", partial(_change, kind, share, 0))
        for share in _REPEATED:
            yield Damage(f"1 of {share} events {kind} repeated", partial(_change, kind, share, 2))


def _events(document: Any) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = document if isinstance(document, list) else document["traceEvents"]
    return listed


def _kind(event: dict[str, Any]) -> str:
    args = event.get("args") or {}
    words = [event.get("ph"), event.get("cat"), next((name for name in _MARKS if name in args), "")]
    words += [event["name"]] if event.get("ph") in ("C", "M") else []
    return " ".join(str(word) for word in words if word)


def _change(kind: str, share: int, times: int, path: Path) -> None:
    document = json.loads(path.read_bytes())
    seen, left = 0, []
    for event in _events(document):
        seen += (is_meant := _kind(event) == kind)
        left += [event] * (times if is_meant and seen % share == 0 else 1)
    path.write_text(json.dumps(left if isinstance(document, list) else {**document, "traceEvents": left}))

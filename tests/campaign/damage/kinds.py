"""Kinds of damage: each changes files of a copy of a recording, and is named for what it did."""

from __future__ import annotations

import csv
import io
import json
import random
import re
import sqlite3
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

_HEAD_BYTES = 4096
_WITHOUT_FIGURES = ("C", "M")  # one sample of a counter more or less changes no figure
_OF_NAMES = "ENUM_"  # tables of names, one of which stands for many rows
_DELETED = (10, 2)  # of how many rows one is deleted
_REPEATED = (100, 10, 2)  # of how many rows one is repeated
_MARKS = ("level", "Task Type", "task type", "Python id", "correlation_id")  # arguments that tell kinds of slices apart
_ENCODINGS = {"UTF-16": "utf-16", "UTF-8 with a byte order mark": "utf-8-sig", "GBK": "gbk"}
_SHIFTS = {"1 us": 10**3, "1 ms": 10**6, "1 s": 10**9, "1 h": 3600 * 10**9}
_DRIFT_PPM = 100

_FRAMEWORK = ["torch.op_range", "torch.op_mark", "torch.memory_usage"]  # files of records with their length before them
_RECORD_BYTES = {"api_event": 40, "compact": 64, "additional": 256, "stars_soc": 64, "ffts_profile": 128, "hwts": 64}


class Damage(NamedTuple):
    """What is done to a copy of a recording.

    Attributes
    ----------
    kind
        The row of the campaign's table.
    name
        What is done, in full.
    file
        The path of the damaged file below the copy; empty where many are.
    apply
        Damages the copy at a path.
    """

    kind: str
    name: str
    file: str
    apply: Callable[[Path], object]


def damages(root: Path, seed: int = 0) -> Iterator[Damage]:
    """Yield every damage that fits a recording."""
    files = sorted(path.relative_to(root) for path in root.rglob("*") if path.is_file()) if root.is_dir() else [Path()]
    for file in files:
        path = root / file
        if path.name.endswith(".done"):
            continue
        for kind, words, apply in _of_file(path, seed):
            name = f"{file.name or path.name}: {words}"
            yield Damage(kind, name, str(file), lambda copy, file=file, apply=apply: apply(copy / file))  # type: ignore[misc]
    yield from _of_many(root)


_Kind = tuple[str, str, Callable[[Path], object]]


def _of_file(path: Path, seed: int) -> Iterator[_Kind]:
    yield "file gone", "gone", Path.unlink
    yield "file emptied", "emptied", lambda path: path.write_bytes(b"")
    yield "head of a file zeroed", "its head zeroed", _zero_head
    if path.suffix == ".db":
        yield from _of_database(path, seed)
    elif path.suffix == ".csv":
        yield from _of_rows(_csv_rows(path.read_bytes()), partial(_change_csv, seed))
    elif ".slice_" in path.name and (size := _record_bytes(path)):
        yield from _of_rows(range(path.stat().st_size // size), partial(_change_records, size, seed))
    elif path.name in _FRAMEWORK:
        yield from _of_rows(_lengthy_records(path.read_bytes()), partial(_change_lengthy, seed))
    elif path.suffix == ".json" and b'"ph"' in path.read_bytes()[:100_000]:
        events = _events(json.loads(path.read_bytes()))
        for kind in sorted({_kind(event) for event in events}):
            of_kind = [event for event in events if _kind(event) == kind]
            change = partial(_change_events, seed, kind)
            if of_kind[0].get("ph") in _WITHOUT_FIGURES:
                yield "all rows deleted", f"all rows deleted of {kind}", partial(change, 1, 0)
                continue
            for name, words, apply in _of_rows(of_kind, change):
                yield name, f"{words} of {kind}", apply


def _zero_head(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(bytes(min(_HEAD_BYTES, len(content))) + content[_HEAD_BYTES:])


def _of_rows(rows: Sequence[Any], change: Callable[[int, int, Path], object]) -> Iterator[_Kind]:
    """Yield what may be done to some rows, by how many of them it is done to one."""
    for share in _DELETED:
        if len(rows) >= share:
            yield "rows deleted", f"1 of {share} rows deleted", partial(change, share, 0)
    if rows:
        yield "all rows deleted", "all rows deleted", partial(change, 1, 0)
    for share in _REPEATED:
        if len(rows) >= share:
            yield f"{100 // share} % of rows repeated", f"1 of {share} rows repeated", partial(change, share, 2)


def _chosen(count: int, share: int, seed: int) -> set[int]:
    """Return the random rows that are meant."""
    return set(random.Random(seed * 1_000 + share).sample(range(count), count // share))


def _of_database(path: Path, seed: int) -> Iterator[_Kind]:
    with closing(sqlite3.connect(f"{path.as_uri()}?immutable=1", uri=True)) as opened:
        names = [name for (name,) in opened.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        counts = {
            name: opened.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0]
            for name in names
            if not name.startswith("sqlite_")
        }
    for table in (name for name, count in counts.items() if count):
        rows = range(0 if table.startswith(_OF_NAMES) else counts[table])
        for kind, words, apply in _of_rows(rows, partial(_change_table, table, seed)):
            yield kind, f"{words} of {table}", apply
        yield "table dropped", f"{table} dropped", partial(_run, [f'DROP TABLE "{table}"'])


def _change_table(table: str, seed: int, share: int, times: int, path: Path) -> None:
    with closing(sqlite3.connect(path)) as opened:
        rows = [row for (row,) in opened.execute(f'SELECT rowid FROM "{table}" ORDER BY rowid')]
        keys = [name for _, name, *_, is_key in opened.execute(f'PRAGMA table_info("{table}")') if is_key]
        columns = [f'"{name}"' for _, name, *_ in opened.execute(f'PRAGMA table_info("{table}")')]
    chosen = ", ".join(str(rows[at]) for at in sorted(_chosen(len(rows), share, seed)))
    if not times:
        _run([f'DELETE FROM "{table}" WHERE rowid IN ({chosen})'], path)
        return
    # A key cannot repeat: a program that repeats rows writes a table without one.
    again = f'CREATE TABLE "copy" AS SELECT * FROM "{table}"'
    insert = f'INSERT INTO "{table}" SELECT {", ".join(columns)} FROM "{table}" WHERE rowid IN ({chosen})'
    rebuilt = [again, f'DROP TABLE "{table}"', f'ALTER TABLE "copy" RENAME TO "{table}"']
    if keys:
        key = f'"{keys[0]}"'
        insert = f'INSERT INTO "{table}" SELECT * FROM "{table}" WHERE {key} IN ({chosen})'
    _run([*(rebuilt if keys else ()), insert], path)


def _run(statements: Sequence[str], path: Path) -> None:
    with closing(sqlite3.connect(path)) as opened:
        for statement in statements:
            opened.execute(statement)
        opened.commit()


def _csv_rows(content: bytes) -> list[bytes]:
    """Return the rows below the head; cells may have lines."""
    rows, is_open = [b""], False
    for line in content.splitlines(keepends=True):
        rows[-1] += line
        is_open ^= line.count(b'"') % 2 == 1
        rows += [] if is_open else [b""]
    return [row for row in rows[1:] if row]


def _change_csv(seed: int, share: int, times: int, path: Path) -> None:
    content = path.read_bytes()
    rows = _csv_rows(content)
    head = content[: len(content) - sum(map(len, rows))]
    chosen = _chosen(len(rows), share, seed)
    path.write_bytes(head + b"".join(row * (times if at in chosen else 1) for at, row in enumerate(rows)))


def _record_bytes(path: Path) -> int:
    known = next((size for words, size in _RECORD_BYTES.items() if words in path.name), 0)
    return 0 if "_dic." in path.name else known


def _change_records(size: int, seed: int, share: int, times: int, path: Path) -> None:
    content = path.read_bytes()
    parts = [content[at : at + size] for at in range(0, len(content), size)]
    chosen = _chosen(len(parts), share, seed)
    path.write_bytes(b"".join(part * (times if at in chosen else 1) for at, part in enumerate(parts)))
    done = path.with_name(f"{path.name}.done")
    if done.exists():
        done.write_text(re.sub(r"filesize:\d+", f"filesize:{path.stat().st_size}", done.read_text()))


def _lengthy_records(content: bytes) -> list[bytes]:
    """Return the records of a file of torch_npu: a type and a length, and so many bytes."""
    parts, at = [], 0
    while at < len(content):
        _, size = struct.unpack_from("<HI", content, at)
        parts.append(content[at : at + 6 + size])
        at += 6 + size
    return parts


def _change_lengthy(seed: int, share: int, times: int, path: Path) -> None:
    parts = _lengthy_records(path.read_bytes())
    chosen = _chosen(len(parts), share, seed)
    path.write_bytes(b"".join(part * (times if at in chosen else 1) for at, part in enumerate(parts)))


def _events(document: Any) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = document if isinstance(document, list) else document["traceEvents"]
    return listed


def _kind(event: dict[str, Any]) -> str:
    args = event.get("args") or {}
    words = [event.get("ph"), event.get("cat"), next((name for name in _MARKS if name in args), "")]
    words += [event["name"]] if event.get("ph") in ("C", "M") else []
    return " ".join(str(word) for word in words if word)


def _change_events(seed: int, kind: str, share: int, times: int, path: Path) -> None:
    document = json.loads(path.read_bytes())
    events = _events(document)
    of_kind = [at for at, event in enumerate(events) if _kind(event) == kind]
    chosen = {of_kind[at] for at in _chosen(len(of_kind), share, seed)}
    left = [event for at, event in enumerate(events) for _ in range(times if at in chosen else 1)]
    path.write_text(json.dumps(left if isinstance(document, list) else {**document, "traceEvents": left}))


# -- damage of many files ----------------------------------------------------------------------------------------


def _of_many(root: Path) -> Iterator[Damage]:
    files = [path for path in root.rglob("*") if path.is_file()] if root.is_dir() else [root]
    if any(path.suffix == ".csv" for path in files):
        for name, encoding in _ENCODINGS.items():
            yield Damage("another encoding", f"texts in {name}", "", partial(_encode, encoding))
    set_clock = next((change for is_of, change in _CLOCKS if any(map(is_of, files))), None)
    if set_clock is not None:
        for words, shift_ns in _SHIFTS.items():
            for way, sign in (("late", 1), ("early", -1)):
                apply = partial(set_clock, sign * shift_ns, 0)
                yield Damage("device clock shifted", f"device clock {words} {way}", "", apply)
        for sign in (1, -1):
            words = f"device clock drifts by {sign * _DRIFT_PPM} ppm"
            yield Damage("device clock drifting", words, "", partial(set_clock, 0, sign * _DRIFT_PPM))


def _encode(encoding: str, root: Path) -> None:
    """Write texts in another encoding; timelines too in GBK, which is the only other one that their writers have."""
    for path in [*root.rglob("*.csv"), *(root.rglob("trace_view.json") if encoding == "gbk" else ())]:
        path.write_bytes(path.read_text("utf-8").encode(encoding))


_OF_DEVICE = {"TASK": ("startNs", "endNs"), "COMMUNICATION_OP": ("startNs", "endNs")}


def _move_database(shift_ns: int, drift_ppm: int, root: Path) -> None:
    for path in [root] if root.is_file() else root.rglob("*profiler*.db"):
        with closing(sqlite3.connect(path)) as opened:
            names = {name for (name,) in opened.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            begin = opened.execute("SELECT min(startNs) FROM TASK").fetchone()[0]
            for table in names & {*_OF_DEVICE}:
                for column in _OF_DEVICE[table]:
                    moved = f"{column} + {shift_ns} + ({column} - {begin}) * {drift_ppm} / 1000000"
                    opened.execute(f'UPDATE "{table}" SET {column} = {moved}')
            opened.commit()


_ON_DEVICE = re.compile(r"Ascend Hardware|Communication|HCCL|Overlap Analysis")


def _move_text(shift_ns: int, drift_ppm: int, root: Path) -> None:
    (path,) = root.rglob("trace_view.json")
    document = json.loads(path.read_bytes())
    named = [event for event in document if event.get("ph") == "M" and event["name"] == "process_name"]
    processes = {event["pid"] for event in named if _ON_DEVICE.fullmatch(event["args"]["name"])}
    tasks = [event for event in document if event["pid"] in processes and "ts" in event]
    begin = min(_ns(event["ts"]) for event in tasks)

    def moved(text: Any) -> str:
        time_ns = _ns(text)
        time_ns += shift_ns + (time_ns - begin) * drift_ppm // 1_000_000
        return f"{time_ns // 1000}.{time_ns % 1000:03}"

    for event in tasks:
        event["ts"] = moved(event["ts"])
    path.write_text(json.dumps(document))
    for table in root.rglob("kernel_details.csv"):
        rows = list(csv.reader(io.StringIO(table.read_text())))
        at = rows[0].index("Start Time(us)")
        for row in rows[1:]:
            row[at] = f"{moved(row[at].strip())}\t"
        with table.open("w", newline="") as file:
            csv.writer(file).writerows(rows)


def _ns(text: Any) -> int:
    whole, _, digits = str(text).partition(".")
    return int(whole) * 1000 + int(f"{digits:0<3}"[:3])


def _move_raw(shift_ns: int, drift_ppm: int, root: Path) -> None:
    """The device's counter is what places its tasks, which began `shift_ns` later by the anchor of its clock."""
    for path in root.rglob("dev_start.log.*"):
        text = path.read_text()
        if path.suffix != ".done":
            path.write_text(
                re.sub(r"(clock_monotonic_raw: )(\d+)", lambda found: f"{found[1]}{int(found[2]) + shift_ns}", text)
            )
    for path in root.rglob("info.json.*") if drift_ppm else ():
        frequency = re.compile(r'("hwts_frequency"\s*:\s*")([\d.]+)')
        text = path.read_text()
        path.write_text(frequency.sub(lambda found: f"{found[1]}{float(found[2]) * (1 - drift_ppm / 1e6):.6f}", text))


_Clock = tuple[Callable[[Path], bool], Callable[[int, int, Path], object]]
_CLOCKS: tuple[_Clock, ...] = (
    (lambda path: path.suffix == ".db" and "profiler" in path.name, _move_database),
    (lambda path: path.name == "trace_view.json", _move_text),
    (lambda path: path.name.startswith("dev_start.log"), _move_raw),
)

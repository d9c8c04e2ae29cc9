"""The records of a recording by what they are of, in every format, to be changed and written back."""

from __future__ import annotations

import csv
import io
import json
import random
import re
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from npuprof.sources.raw.records.enums import SQE_TYPES


@dataclass
class Row:
    """A record with a time, and what the format has of it."""

    kinds: tuple[str, ...]
    lane: Any
    start_ns: int
    length_ns: int
    origin: Any = None
    lost: bool = False


@dataclass
class Records:
    """The records of a recording, and how to write them back."""

    rows: list[Row]
    write: Callable[[Sequence[Row]], None]
    merge: Callable[[random.Random], None] | None = None


def _wrote(time_ns: int) -> str:
    return f"{time_ns // 1000}.{time_ns % 1000:03}"


def _ns(text: Any) -> int:
    whole, _, digits = str(text).strip().partition(".")
    return int(whole) * 1000 + int(f"{digits:0<3}"[:3])


# -- formats -----------------------------------------------------------------------------------------------------------

_KERNELS, _COPIES, _COLLECTIVES = ("device", "kernels"), ("device", "copies"), ("device", "communication")
_OF_KINETO = {
    "kernel": _KERNELS,
    "gpu_memcpy": _COPIES,
    "gpu_memset": _COPIES,
    "cuda_runtime": ("calls",),
    "cpu_op": ("operators",),
    "python_function": ("python",),
    "user_annotation": ("steps",),
    "cpu_instant_event": ("memory",),
}


_NUMBERS = (
    *("ts", "dur", "pid", "tid", "id", "correlation", "External id", "device", "stream", "context", "bytes", "Ev Idx"),
    *("Python id", "Python parent id", "baseTimeNanoseconds", "schemaVersion"),
)
_AS_NUMBER = re.compile(rf'"({"|".join(_NUMBERS)})": "(\d+(?:\.\d+)?)"')  # no time passes through a float


def _kineto(path: Path) -> Records:
    document = json.loads(path.read_bytes(), parse_float=str, parse_int=str)
    events = document["traceEvents"]
    rows = []
    for event in events:
        if event.get("ph") not in ("X", "i") or event.get("cat") not in _OF_KINETO:
            continue
        kinds = _COLLECTIVES if "nccl" in event["name"] else _OF_KINETO[event["cat"]]
        rows.append(Row(kinds, (event["pid"], event["tid"]), _ns(event["ts"]), _ns(event.get("dur", 0)), event))

    def write(changed: Sequence[Row]) -> None:
        lost = {id(row.origin) for row in changed if row.lost}
        for row in changed:
            row.origin["ts"] = _wrote(row.start_ns)
            if "dur" in row.origin:
                row.origin["dur"] = _wrote(row.length_ns)
        document["traceEvents"] = [event for event in events if id(event) not in lost]
        path.write_text(_AS_NUMBER.sub(r'"\1": \2', json.dumps(document)))

    def merge(chance: random.Random) -> None:
        """Add the same events as of another process, which a tool gave other numbers or not, and a little later."""
        by, late = chance.choice((0, 1000, 10**7)), chance.randrange(1000, 9000)
        for event in list(events):
            times = {"ts": _wrote(_ns(event["ts"]) + late)} if "ts" in event else {}
            pid = event.get("pid")
            moved = {"pid": str(int(pid) + by)} if isinstance(pid, str) and pid.isdigit() else {}
            events.append({**event, **times, **moved})

    return Records(rows, write, merge)


_HOST = {"python": "python", "cann": "calls"}
_COPYING = re.compile("memcpy|memset|sdma", re.IGNORECASE)
_LISTS = {"memory_record.csv": "Timestamp(us)", "operator_memory.csv": "Allocation Time(us)"}


def _of_timeline(event: Mapping[str, Any], process: str) -> tuple[str, ...]:
    kind = next((kind for name, kind in _HOST.items() if name == process), "")
    if kind == "python":
        kind = "steps" if event["name"].startswith("ProfilerStep") else str(event.get("cat") or "operators")
        kind = {"cpu_op": "operators", "python_function": "python"}.get(kind, kind)
    if kind or not re.search("hardware|communication|hccl", process):
        return (kind or process,)
    if "hardware" not in process or event["name"].startswith("hcom_"):
        return _COLLECTIVES
    return _COPIES if _COPYING.search(f"{event['name']} {event.get('args')}") else _KERNELS


def _lists(root: Path) -> tuple[list[Row], dict[Path, list[list[str]]]]:
    """Read the lists of memory, and their lines as they were."""
    rows, files = [], {}
    for name, column in _LISTS.items():
        for path in root.rglob(name):
            files[path] = lines = list(csv.reader(io.StringIO(path.read_text("utf-8"))))
            at = lines[0].index(column)
            rows += [Row(("memory",), path, _ns(line[at]), 0, line) for line in lines[1:] if line[at].strip(" \t")]
    return rows, files


def _text(root: Path) -> Records:
    trace = next(root.rglob("trace_view.json"), None)
    events = [] if trace is None else json.loads(trace.read_bytes(), parse_float=str)
    named = {
        event["pid"]: event["args"]["name"]
        for event in events
        if event.get("ph") == "M" and event["name"] == "process_name"
    }
    rows, files = _lists(root)
    for event in events:
        process = str(named.get(event.get("pid"), "")).lower()
        if event.get("ph") != "X" or "overlap" in process:
            continue
        kinds = _of_timeline(event, process)
        rows.append(Row(kinds, (event["pid"], event["tid"]), _ns(event["ts"]), _ns(event.get("dur", 0)), event))
    (table,) = root.rglob("kernel_details.csv")
    files[table] = lines = list(csv.reader(io.StringIO(table.read_text("utf-8"))))
    start, length, name = (lines[0].index(column) for column in ("Start Time(us)", "Duration(us)", "Name"))
    stream = lines[0].index("Stream ID") if "Stream ID" in lines[0] else None
    for line in lines[1:]:
        kinds = _COLLECTIVES if line[name].startswith("hcom_") else _KERNELS
        rows.append(Row(kinds, None if stream is None else line[stream], _ns(line[start]), _ns(line[length]), line))

    def write(changed: Sequence[Row]) -> None:
        lost = {id(row.origin) for row in changed if row.lost}
        for row in changed:
            if isinstance(row.origin, dict):
                row.origin["ts"], row.origin["dur"] = _wrote(row.start_ns), float(_wrote(row.length_ns))
            elif "memory" not in row.kinds:
                row.origin[start], row.origin[length] = f"{_wrote(row.start_ns)}\t", _wrote(row.length_ns)
        if trace is not None:
            trace.write_text(json.dumps([event for event in events if id(event) not in lost]))
        for path, of_file in files.items():
            with path.open("w", newline="", encoding="utf-8") as file:
                csv.writer(file).writerows(line for line in of_file if id(line) not in lost)
        for name in ("op_statistic", "api_statistic", "step_trace_time", "communication"):
            for path in root.rglob(f"{name}*"):
                path.unlink()

    return Records(rows, write)


_TABLES = {
    "TASK": ("startNs, endNs", "streamId"),
    "COMMUNICATION_OP": ("startNs, endNs", "groupName"),
    "CANN_API": ("startNs, endNs", "globalTid"),
    "PYTORCH_API": ("startNs, endNs", "globalTid"),
    "STEP_TIME": ("startNs, endNs", "id"),
    "MEMORY_RECORD": ("timestamp, timestamp", "deviceId"),
    "OP_MEMORY": ("allocationTime, allocationTime", "deviceId"),
}
_OF_TABLES = {
    "COMMUNICATION_OP": _COLLECTIVES,
    "CANN_API": ("calls",),
    "STEP_TIME": ("steps",),
    "MEMORY_RECORD": ("memory",),
    "OP_MEMORY": ("memory",),
}


def _kinds_of_tasks(opened: sqlite3.Connection, names: set[str]) -> dict[int, tuple[str, ...]]:
    """Return what the tasks and rows of torch are, by table and row, that the tables do not tell by themselves."""
    kinds: dict[int, tuple[str, ...]] = {}
    types = "SELECT TASK.rowid, value FROM TASK LEFT JOIN STRING_IDS ON taskType = id"
    for row, kind in opened.execute(types):
        kinds[row] = _COPIES if _COPYING.search(kind or "") else _KERNELS
    if "COMMUNICATION_TASK_INFO" in names:
        of = "SELECT rowid FROM TASK WHERE globalTaskId IN (SELECT globalTaskId FROM COMMUNICATION_TASK_INFO)"
        kinds |= dict.fromkeys((row for (row,) in opened.execute(of)), _COLLECTIVES)
    return kinds


def _kinds_of_torch(opened: sqlite3.Connection) -> dict[int, tuple[str, ...]]:
    query = "SELECT PYTORCH_API.rowid, value, PYTORCH_API.type FROM PYTORCH_API LEFT JOIN STRING_IDS ON name = id"
    return {
        row: ("steps",) if str(name).startswith("ProfilerStep") else ("python",) if kind == 50003 else ("operators",)
        for row, name, kind in opened.execute(query)
    }


def _database(root: Path) -> Records:
    path = next(root.rglob("*profiler*.db")) if root.is_dir() else root
    rows = []
    with closing(sqlite3.connect(path)) as opened:
        names = {name for (name,) in opened.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        several = {"TASK": _kinds_of_tasks(opened, names)}
        if "PYTORCH_API" in names:
            several["PYTORCH_API"] = _kinds_of_torch(opened)
        for table in sorted(names & {*_TABLES}):
            times, lane = _TABLES[table]
            for key, start, end, of_lane in opened.execute(f'SELECT rowid, {times}, "{lane}" FROM "{table}"'):
                kinds = _OF_TABLES.get(table) or several[table][key]
                if start is not None:
                    rows.append(Row(kinds, (table, of_lane), int(start), int(end) - int(start), (table, key)))

    def write(changed: Sequence[Row]) -> None:
        with closing(sqlite3.connect(path)) as opened:
            for row in changed:
                table, key = row.origin
                if row.lost:
                    opened.execute(f'DELETE FROM "{table}" WHERE rowid = ?', (key,))
                elif "memory" not in row.kinds:
                    times = row.start_ns, row.start_ns + row.length_ns, key
                    opened.execute(f'UPDATE "{table}" SET startNs = ?, endNs = ? WHERE rowid = ?', times)
            for table in names & {"COMPUTE_TASK_INFO", "COMMUNICATION_TASK_INFO"}:
                opened.execute(f'DELETE FROM "{table}" WHERE globalTaskId NOT IN (SELECT globalTaskId FROM TASK)')
            if {"COMMUNICATION_TASK_INFO", "COMMUNICATION_OP"} <= names:
                opened.execute(
                    "DELETE FROM COMMUNICATION_TASK_INFO WHERE opId NOT IN (SELECT opId FROM COMMUNICATION_OP)"
                )
            opened.commit()
        for other in root.rglob("analysis.db") if root.is_dir() else ():
            other.unlink()

    return Records(rows, write)


_RECORDS: Mapping[str, tuple[tuple[str, ...], int, str]] = {
    "api_event": (("calls",), 40, "begin"),
    "compact.task_track": (("launches",), 64, "stamp"),
    "compact.node_basic_info": (("operators",), 64, "stamp"),
    "hccl_op_info": (("communication",), 64, "stamp"),
    "additional.hccl_info": (("communication",), 256, "stamp"),
    "ts_track": (("steps",), 40, "counter"),
    "npu_mem": (("memory",), 32, ""),
    "additional.memory_application": (("memory",), 256, "stamp"),
}
"""By file: the kind of its records, their size, and where they have their time; records without one are in order."""
_AT = {"begin": 16, "stamp": 16, "counter": 8}


def _parts(path: Path, size: int) -> list[bytearray]:
    content = path.read_bytes()
    return [bytearray(content[at : at + size]) for at in range(0, len(content), size)]


def _tasks_of(path: Path, parts: list[bytearray]) -> list[Row]:
    """Return the tasks of records of starts and ends, which are changed together."""
    rows, begun = [], {}
    for number, part in sorted(enumerate(parts), key=lambda each: each[1][8:16][::-1]):
        head, counter = int.from_bytes(part[:2], "little"), int.from_bytes(part[8:16], "little")
        key = bytes(part[4:8] + part[16:20]), head & 0x3E
        if not head & 1:
            begun[key] = number, counter
        elif key in begun:
            first, start = begun.pop(key)
            sqe = SQE_TYPES.get(head >> 10, "")
            kinds = _KERNELS if "CORE" in sqe or "CPU" in sqe else _COPIES if "DMA" in sqe else ("device",)
            lane = int.from_bytes(part[4:6], "little")
            rows.append(Row(kinds, lane, start * 20, (counter - start) * 20, (path, first, number)))
    return rows


def _raw(root: Path) -> Records:
    rows: list[Row] = []
    files: dict[Path, list[bytearray]] = {}
    for path in sorted(root.rglob("*.slice_*")):
        if path.name.endswith(".done") or "_dic." in path.name:
            continue
        if path.name.startswith("stars_soc"):
            files[path] = _parts(path, 64)
            rows += _tasks_of(path, files[path])
        for name, (kinds, size, time) in _RECORDS.items():
            if name in path.name:
                files[path] = _parts(path, size)
                for number, part in enumerate(files[path]):
                    at = _AT.get(time)
                    start = number if at is None else int.from_bytes(part[at : at + 8], "little") * 10
                    length = int.from_bytes(part[24:32], "little") * 10 - start if time == "begin" else 0
                    lane = bytes(part[8:12]) if time == "begin" else None
                    rows.append(Row(kinds, lane, start, max(length, 0), (path, number, number)))

    def write(changed: Sequence[Row]) -> None:
        lost = {(row.origin[0], number) for row in changed if row.lost for number in row.origin[1:]}
        for row in changed:
            path, first, last = row.origin
            if path.name.startswith("stars_soc"):
                files[path][first][8:16] = (row.start_ns // 20).to_bytes(8, "little")
                files[path][last][8:16] = ((row.start_ns + row.length_ns) // 20).to_bytes(8, "little")
            elif "api_event" in path.name and row.length_ns:
                files[path][first][16:24] = (row.start_ns // 10).to_bytes(8, "little")
                files[path][first][24:32] = ((row.start_ns + row.length_ns) // 10).to_bytes(8, "little")
        for path, parts in files.items():
            path.write_bytes(b"".join(part for number, part in enumerate(parts) if (path, number) not in lost))
            done = path.with_name(f"{path.name}.done")
            if done.exists():
                done.write_text(re.sub(r"filesize:\d+", f"filesize:{path.stat().st_size}", done.read_text()))
        for path in [*root.rglob("ffts_profile*")]:
            path.unlink()

    return Records(rows, write)


READERS: Mapping[str, Callable[[Path], Records]] = {
    "kineto": _kineto,
    "text": _text,
    "database": _database,
    "raw": _raw,
}
"""By format: what reads the records of a recording, so that they can be written back."""

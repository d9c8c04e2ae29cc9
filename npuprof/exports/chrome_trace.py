"""The timeline as a Chrome trace: JSON that Perfetto, MindStudio Insight and ``npuprof.load`` open.

Processes and arguments are named as the vendor's ``trace_view.json`` names them (sources/RESULTS.md section 2).
Times are microseconds with three decimals, written from integers, as text: numbers would lose digits in most readers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TextIO

import pandas as pd

from npuprof.info import Info

_HOST = 1  # the process id of the host's layers; a device's are this times so many more
_DEVICE_PIDS = 1_000


@dataclass(frozen=True)
class _Lane:
    """A table as slices: in which process, on which thread, with which arguments.

    Attributes
    ----------
    table, process
        The table, and what its process is called.
    order
        Where the process stands, and its id where the table has no device.
    thread
        The column that numbers the threads; empty for a single one.
    label
        What a thread is called, before its number.
    arguments
        Columns by the name of the argument.
    """

    table: str
    process: str
    order: int
    thread: str
    label: str
    arguments: Mapping[str, str]


_LANES = (
    _Lane("steps", "Steps", 1, "", "Steps", {"step": "step"}),
    _Lane("python", "Python", 2, "thread_id", "Thread", {"Python id": "id", "Python parent id": "parent_id"}),
    _Lane(
        "operators",
        "Framework operators",
        3,
        "thread_id",
        "Thread",
        {
            "Sequence number": "sequence_number",
            "Input Dims": "input_shapes",
            "Input type": "input_dtypes",
            "Call stack": "stack",
        },
    ),
    _Lane("api", "CANN", 4, "thread_id", "Thread", {"level": "level", "connection_id": "connection_id"}),
    _Lane("marks", "Markers", 5, "thread_id", "Thread", {"domain": "domain"}),
    _Lane(
        "tasks",
        "Ascend Hardware",
        6,
        "stream_id",
        "Stream",
        {
            "Model Id": "model_id",
            "Task Type": "task_type",
            "Stream Id": "stream_id",
            "Task Id": "task_id",
            "Batch Id": "batch_id",
            "Subtask Id": "context_id",
            "connection_id": "connection_id",
        },
    ),
    _Lane("communication", "Communication", 7, "", "Group", {"op_type": "op_type", "group": "group", "count": "count"}),
    _Lane("overlap", "Overlap Analysis", 8, "", "Overlap", {"kind": "kind"}),
)
_NAMES = {"steps": "step", "marks": "message", "overlap": "kind"}


def write(out: TextIO, tables: Mapping[str, pd.DataFrame], info: Info, *, pretty: bool = False) -> int:
    """Write a run as a Chrome trace.

    Parameters
    ----------
    out
        A file opened for text.
    tables
        Every table of the schema by name.
    info
        What is known of the run; it is put into ``otherData``.
    pretty
        Whether to give each event a line.

    Returns
    -------
    int
        The number of events.
    """
    told = {"producer": "npuprof", "collector": info.collector, "simulated": info.simulated, "name": info.name}
    out.write('{"otherData": ' + json.dumps(told) + ', "displayTimeUnit": "ns", "traceEvents": [')
    separator = ",\n" if pretty else ","
    count = 0
    for event in _events(tables):
        out.write(separator * bool(count) + event)
        count += 1
    out.write("]}")
    return count


def _events(tables: Mapping[str, pd.DataFrame]) -> Iterator[str]:
    for lane in _LANES:
        yield from _slices(lane, tables[lane.table])
    yield from _counters(tables["counters"])
    yield from _flows(tables)


def _slices(lane: _Lane, frame: pd.DataFrame) -> Iterator[str]:
    if not len(frame):
        return
    pids, tids = _places(lane, frame)
    for pid in sorted(set(pids)):
        device = f" {(pid - lane.order) // _DEVICE_PIDS - 1}" if pid >= _DEVICE_PIDS else ""
        yield _meta("process_name", pid, 0, {"name": lane.process + device * (lane.table != "overlap")})
        yield _meta("process_sort_index", pid, 0, {"sort_index": pid})
    for pid, tid in sorted(set(zip(pids, tids, strict=True))):
        yield _meta("thread_name", pid, tid, {"name": f"{lane.label} {tid}" if lane.thread else lane.label})
    known = {shown: column for shown, column in lane.arguments.items() if column in frame}
    columns = [frame[column].astype(object).tolist() for column in known.values()]
    names = frame[_NAMES.get(lane.table, "name")].astype(object).tolist()
    starts, durations = frame["start_ns"].tolist(), frame["duration_ns"].tolist()
    for row, (name, start, duration, pid, tid) in enumerate(zip(names, starts, durations, pids, tids, strict=True)):
        arguments = {
            shown: value for shown, values in zip(known, columns, strict=True) if _present(value := values[row])
        }
        shown_name = f"Step {name}" if lane.table == "steps" else (str(name) if _present(name) else "")
        yield (
            f'{{"ph":"X","name":{json.dumps(shown_name)},"pid":{pid},"tid":{tid},"ts":"{_us(start)}","dur":"{_us(duration)}",'
            f'"args":{json.dumps(arguments, default=str)}}}'
        )


def _places(lane: _Lane, frame: pd.DataFrame) -> tuple[list[int], list[int]]:
    """Return the process and the thread of each row."""
    rows = len(frame)
    devices = frame["device_id"].fillna(0).astype("int64").tolist() if "device_id" in frame else None
    pids = [lane.order] * rows if devices is None else [_DEVICE_PIDS * (device + 1) + lane.order for device in devices]
    tids = frame[lane.thread].fillna(0).astype("int64").tolist() if lane.thread else [0] * rows
    return pids, tids


def _counters(frame: pd.DataFrame) -> Iterator[str]:
    if not len(frame):
        return
    yield _meta("process_name", _HOST + 8, 0, {"name": "Counters"})
    units = frame["unit"].astype(object).tolist()
    for time_ns, counter, instance, value, unit in zip(
        frame["time_ns"].tolist(),
        frame["counter"].astype(str).tolist(),
        frame["instance"].astype(object).tolist(),
        frame["value"].tolist(),
        units,
        strict=True,
    ):
        if not _present(value):
            continue
        name = f"{counter} {instance}" if _present(instance) else counter
        series = json.dumps({str(unit) if _present(unit) else "value": value})
        yield f'{{"ph":"C","name":{json.dumps(name)},"pid":{_HOST + 8},"tid":0,"ts":"{_us(time_ns)}","args":{series}}}'


def _flows(tables: Mapping[str, pd.DataFrame]) -> Iterator[str]:
    """Draw an arrow for each link whose two ends are slices."""
    by_table = {lane.table: lane for lane in _LANES}
    ends = {
        name: (*_places(by_table[name], tables[name]), tables[name]["start_ns"].tolist())
        for name in by_table
        if len(tables[name])
    }
    links = tables["links"]
    rows = zip(
        links["kind"].astype(str).tolist(),
        links["source_table"].astype(str).tolist(),
        links["source_row"].tolist(),
        links["target_table"].astype(str).tolist(),
        links["target_row"].tolist(),
        strict=True,
    )
    for number, (kind, source, source_row, target, target_row) in enumerate(rows):
        if source not in ends or target not in ends:
            continue
        for phase, table, row in (("s", source, source_row), ("f", target, target_row)):
            pids, tids, starts = ends[table]
            bound = ',"bp":"e"' if phase == "f" else ""
            yield (
                f'{{"ph":"{phase}","cat":{json.dumps(kind)},"id":"{number}","name":{json.dumps(kind)},'
                f'"pid":{pids[row]},"tid":{tids[row]},"ts":"{_us(starts[row])}"{bound}}}'
            )


def _meta(kind: str, pid: int, tid: int, arguments: Mapping[str, object]) -> str:
    return json.dumps({"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": arguments})


def _us(nanoseconds: int) -> str:
    sign, rest = ("-", -nanoseconds) if nanoseconds < 0 else ("", nanoseconds)
    return f"{sign}{rest // 1_000}.{rest % 1_000:03d}"


def _present(value: object) -> bool:
    return value is not None and value is not pd.NA and value == value  # NaN differs from itself

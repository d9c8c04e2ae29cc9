"""The timeline as a Chrome trace: JSON for Perfetto, MindStudio Insight and ``npuprof.load``.

Processes and arguments have the names of the vendor's ``trace_view.json`` (sources/RESULTS.md section 2), and the rank
where there are several. Times are microseconds with three decimals, as text: most readers round numbers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TextIO

import numpy as np
import pandas as pd

from npuprof.info import Info

_DEVICE_PIDS = 1_000  # process ids of a device's lanes
_RUN_PIDS = 1_000_000  # process ids of a run's lanes, where the tables are of several
_COUNTERS = 9


@dataclass(frozen=True)
class _Lane:
    """The process and threads of a table's slices.

    Attributes
    ----------
    process, order
        Name and sort index of the process; the index is also its id for a table without devices.
    thread, label
        The column of thread numbers, empty for a single thread, and the label before each number.
    arguments
        Column names by argument name.
    """

    table: str
    process: str
    order: int
    thread: str
    label: str
    arguments: Mapping[str, str]

    @property
    def on_device(self) -> bool:
        """Whether each device has a process; a table of the host has one, also where ranks added their device."""
        return self.table in ("tasks", "communication", "overlap")


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
    """Write a run, or the merged tables of several ranks, as a Chrome trace; return the number of events.

    `info` goes into ``otherData``; `pretty` puts each event on a line of its own.
    """
    other_data = {"producer": "npuprof", "collector": info.collector, "simulated": info.simulated, "name": info.name}
    out.write('{"otherData": ' + json.dumps(other_data) + ', "displayTimeUnit": "ns", "traceEvents": [')
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
    pids, tids = _pids_and_tids(lane, frame)
    ranks = _ranks(frame)
    for pid in sorted(set(pids)):
        device = f" {pid % _RUN_PIDS // _DEVICE_PIDS - 1}" if pid % _RUN_PIDS >= _DEVICE_PIDS else ""
        name = lane.process + device * (lane.table != "overlap") + ranks.get(pid // _RUN_PIDS, "")
        yield _meta("process_name", pid, 0, {"name": name})
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


def _pids_and_tids(lane: _Lane, frame: pd.DataFrame) -> tuple[list[int], list[int]]:
    """Return the process and the thread of each row."""
    rows = len(frame)
    pids = np.full(rows, lane.order, np.int64)
    if lane.on_device:
        pids += _DEVICE_PIDS * (1 + frame["device_id"].fillna(0).to_numpy(np.int64))
    if "run" in frame:
        pids += _RUN_PIDS * frame["run"].to_numpy(np.int64)
    tids = frame[lane.thread].fillna(0).astype("int64").tolist() if lane.thread else [0] * rows
    return pids.tolist(), tids


def _ranks(frame: pd.DataFrame) -> dict[int, str]:
    """Return the suffix of process names by run; nothing for the tables of a single run."""
    if "run" not in frame:
        return {}
    rows = frame[["run", "rank"]].drop_duplicates().itertuples(index=False)
    return {int(row.run): f" (run {row.run})" if pd.isna(row.rank) else f" (rank {row.rank})" for row in rows}


def _counters(frame: pd.DataFrame) -> Iterator[str]:
    if not len(frame):
        return
    pids = _RUN_PIDS * frame["run"].to_numpy(np.int64) + _COUNTERS if "run" in frame else [_COUNTERS] * len(frame)
    ranks = _ranks(frame)
    for pid in sorted(set(map(int, pids))):
        yield _meta("process_name", pid, 0, {"name": f"Counters{ranks.get(pid // _RUN_PIDS, '')}"})
    columns = (frame[name].astype(object).tolist() for name in ("time_ns", "counter", "instance", "value", "unit"))
    for pid, time_ns, counter, instance, value, unit in zip(pids, *columns, strict=True):
        if not _present(value):
            continue
        name = f"{counter} {instance}" if _present(instance) else counter
        series = json.dumps({str(unit) if _present(unit) else "value": value})
        yield f'{{"ph":"C","name":{json.dumps(name)},"pid":{pid},"tid":0,"ts":"{_us(time_ns)}","args":{series}}}'


def _flows(tables: Mapping[str, pd.DataFrame]) -> Iterator[str]:
    """Yield an arrow for each link between two slices."""
    by_table = {lane.table: lane for lane in _LANES}
    ends = {
        name: (*_pids_and_tids(by_table[name], tables[name]), tables[name]["start_ns"].tolist())
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

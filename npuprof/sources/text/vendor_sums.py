"""Sums of the vendor's analysis: breakdown of steps, collectives built from their sums, and checks of row counts.

Source: sources/RESULTS.md sections 4 and 5.3.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.errors import SourceError
from npuprof.sources.base import Decoded
from npuprof.sources.columns.builders import ABSENT, optional, recoded, whole_numbers
from npuprof.sources.columns.decimals import MS_TO_NS, US_TO_NS, scaled
from npuprof.sources.overlap import COMMUNICATION_KERNELS
from npuprof.sources.text.csv_table import CsvTable
from npuprof.sources.trace.communication import operator_type
from npuprof.tables.notes import Notes
from npuprof.tables.schema import SCHEMA
from npuprof.words.quantities import counted

DURATIONS = {
    **{name: header for name, (header,) in SCHEMA["step_times"].names_in("csv").items() if name.endswith("_ns")},
    "communication_not_overlapped_exclude_receive_ns": "Communication(Not Overlapped and Exclude Receive)",
}
"""The vendor's columns (microseconds) by column of ``step_times``."""

_COMMUNICATION = "communication"
_ELAPSED, _MOVED = "Elapse Time(ms)", "Transit Time(ms)"
_TIMES = ("start_ns", "duration_ns")
_FROM_SUMS = (
    "operators are made of the vendor's sums: only name, group, step, start and duration are known, and the start, "
    "which was a float there, to a quarter of a microsecond"
)
_WITH_DEVICE = ("memory", "step_times", "kernels")
_FOLLOWS = {"api": ", and so are links, launches and causes of idle time"}
_TORCH_COLUMN = "Host Self Duration(us)"  # MindSpore lists only operators with shapes


def read_step_times(path: Path, notes: Notes, device: int | None) -> pd.DataFrame:
    """Read ``step_trace_time.csv`` as the table ``step_times``; the step is <NA> in a run without marked steps.

    `device` is the device of a file without a device column.
    """
    table = CsvTable(path, notes, ("Step",))
    table.expect(("Step", "Device_id", *DURATIONS.values()))
    if set(DURATIONS.values()).isdisjoint(table.names):
        raise SourceError(f"{path} has no column 'Computing', so it is no breakdown of steps; is it another file?")
    table.require(("Step",), ("Computing",), ("Communication",), ("Free",))
    columns: dict[str, Any] = {}
    if "Step" in table.names:
        columns["step"] = table.whole("Step")
    if "Device_id" in table.names:
        columns["device_id"] = table.whole("Device_id")
    else:
        columns["device_id"] = pd.array([pd.NA if device is None else device] * len(table), dtype="Int64")
    for name, header in DURATIONS.items():
        if header in table.names:
            columns[name] = table.scaled(header, US_TO_NS)
            negative = int(np.count_nonzero(columns[name].to_numpy(np.int64, na_value=0) < 0))
            table.warn(f"{header!r}: a time is negative; kept as it is", negative)
    table.put("step_times")
    frame = tables.build("step_times", columns)
    table.warn(
        "a step of a device occurs more than once: sums over steps count it each time",
        int(frame[["step", "device_id"]].dropna().duplicated().sum()),
    )
    return frame


def names_devices(path: Path) -> bool:
    """Return whether ``step_trace_time.csv`` names the device of its steps; False if it cannot be read."""
    try:
        return "Device_id" in CsvTable(path, Notes(), ("Step",)).names
    except SourceError:
        return False


def add_listed_operators(decoded: Decoded, columns: Collection[str] = ()) -> None:
    """Fill an empty `communication` from ``communication.json``; only some of its columns, or all."""
    listed = decoded.statistics.get(_COMMUNICATION)
    if len(decoded.tables.get("communication", ())) or listed is None or not len(listed):
        return
    notes, device = decoded.notes, _only_device(decoded.tables)
    operators = _operators(listed, 0 if device is None else device, notes, columns)
    decoded.tables["communication"] = operators
    notes.ledger.make(_COMMUNICATION, "communication", len(operators))
    decoded.derived["communication"] = (_COMMUNICATION, _FROM_SUMS)
    if device is None and "device_id" in operators:
        notes.warning(_COMMUNICATION, "no file names the device of the operators: they are shown on device 0")
    if lost_count := len(listed) - len(operators):
        notes.warning(
            _COMMUNICATION,
            "an operator has no start or no duration: it is in statistics, and not in the table",
            lost_count,
        )


def _operators(listed: pd.DataFrame, device: int, notes: Notes, only: Collection[str]) -> pd.DataFrame:
    listed = listed.reindex(columns=list(dict.fromkeys([*listed.columns, "start_ns", _ELAPSED])))
    # NaN means no value
    texts = ["" if text is None or text is pd.NA else str(text) for text in listed[_ELAPSED].tolist()]
    elapsed, timed = scaled(texts, MS_TO_NS)
    timed &= listed["start_ns"].notna().to_numpy() & (elapsed >= 0)
    rows = listed if timed.all() else listed[timed]
    name, group, step = (rows[column].astype("category").cat for column in ("name", "group", "step"))
    names = [str(text) for text in name.categories]

    def note(count: int) -> None:
        notes.warning(_COMMUNICATION, "an operator's step is no number; taken as absent", count)

    numbers = np.append(whole_numbers(step.categories.tolist()), ABSENT)
    sound = bool((numbers[:-1] != ABSENT).all())  # else each row counts
    steps = numbers[step.codes.to_numpy()] if sound else whole_numbers(rows["step"].tolist(), note)
    columns = {
        "start_ns": rows["start_ns"].to_numpy(np.int64),
        "duration_ns": elapsed[timed],
        "device_id": np.full(len(rows), device, np.int64),
        "name": tables.categorical(name.codes.to_numpy(), names),
        "op_type": recoded(name.codes.to_numpy(), [operator_type(text) for text in names]),
        "group": recoded(group.codes.to_numpy(), [str(text) for text in group.categories]),
        "step": optional(steps),
    }
    if only:
        columns = {column: columns[column] for column in columns if column in only or column in _TIMES}
    built = tables.sort_by_time(tables.build("communication", columns, {*only, *_TIMES} if only else ()))
    return built[[column for column in built if column in only]] if only else built


def _only_device(frames: Mapping[str, pd.DataFrame]) -> int | None:
    """Return the only device of the run; None if there are several or none."""
    columns = [frames[name]["device_id"].dropna() for name in _WITH_DEVICE if name in frames]
    devices = {int(device) for column in columns for device in column.unique()}
    return devices.pop() if len(devices) == 1 else None


def check_sums(decoded: Decoded) -> None:
    """Warn if files of a result disagree on the number of rows: the shorter file was truncated after a row."""
    for name, total, table, rows in _counts(decoded):
        _compare(decoded, name, total, table, rows)
    _check_steps(decoded)
    _check_memory(decoded)
    check_collectives(decoded)


def _check_steps(decoded: Decoded) -> None:
    """Warn of steps in `kernels` that the timeline or the breakdown of steps lacks."""
    frames = decoded.tables
    if "kernels" not in frames:
        return
    expected = set(frames["kernels"]["step"].dropna())
    for name in ("steps", "step_times"):
        if name in frames or (name == "steps" and "operators" in frames):
            lacking = expected - set(frames[name]["step"].dropna() if name in frames else ())
            if lacking:
                decoded.notes.warning(name, "a step that kernels name is missing", len(lacking))


def _check_memory(decoded: Decoded) -> None:
    """Warn of blocks allocated or released after the allocator's last sample."""
    memory, blocks = decoded.tables.get("memory"), decoded.tables.get("allocations")
    if memory is None or blocks is None or not len(memory) or not len(blocks):
        return
    last = memory.loc[memory["allocated_bytes"].notna(), "time_ns"].max()  # samples of an allocator
    if late := int((blocks[["allocated_ns", "released_ns"]] > last).any(axis=1).sum()):
        decoded.notes.warning("memory", "a block was allocated or released after the last sample", late)


def _compare(decoded: Decoded, name: str, total: int, table: str, rows: int) -> None:
    if total != rows:
        message = f"it counts {counted(total, 'row')} of {table}, which has {rows:,}: one is incomplete"
        decoded.notes.warning(name, message + _FOLLOWS.get(table, ""))


def check_collectives(decoded: Decoded) -> None:
    """Warn if collectives are not those of the vendor's sums, or lack the tasks whose time these sum."""
    frames, listed = decoded.tables, decoded.statistics.get(_COMMUNICATION)
    if listed is None or not len(frames.get("communication", ())):
        return
    _compare(decoded, _COMMUNICATION, len(listed), "communication", len(frames["communication"]))
    has_tasks = len(frames.get("communication_tasks", ())) > 0
    if has_tasks or "links" not in frames or _MOVED not in listed:  # sums alone have no tasks
        return
    if (pd.to_numeric(listed[_MOVED], errors="coerce") > 0).any():
        decoded.notes.warning(
            "communication_tasks",
            "there are no tasks of collectives, though the vendor's sums have their transfers: waiting and moving "
            "cannot be told apart, and sizes and links are missing",
        )


def _counts(decoded: Decoded) -> Iterator[tuple[str, int, str, int]]:
    """Yield the file of each sum, its count, the table that it counts and the rows of that table."""
    frames, statistics = decoded.tables, decoded.statistics
    if (summed := _count(statistics.get("op_statistic"))) is not None:
        yield "op_statistic", summed, "kernels", _computing(frames.get("kernels"), summed)
    calls = frames.get("api", ())
    has_timeline = "links" in frames
    if (len(calls) or has_timeline) and (summed := _count(statistics.get("api_statistic"))) is not None:
        yield "api_statistic", summed, "api", len(calls)
    operators, details = frames.get("operators"), statistics.get("operator_details")
    if operators is not None and details is not None and _TORCH_COLUMN in details:
        yield "operator_details", len(details), "operators", int((operators["kind"] == "op").sum())


def _computing(kernels: pd.DataFrame | None, summed: int) -> int:
    """Return the number of kernels, without communication kernels if the vendor's sum excludes them."""
    if kernels is None:
        return 0
    communication = int(tables.matching(kernels["name"], lambda name: name.endswith(COMMUNICATION_KERNELS)).sum())
    without = len(kernels) - communication
    return without if without == summed else len(kernels)


def _count(statistic: pd.DataFrame | None) -> int | None:
    if statistic is None or "Count" not in statistic:
        return None
    count = float(pd.to_numeric(statistic["Count"], errors="coerce").sum())
    return int(count) if math.isfinite(count) else None

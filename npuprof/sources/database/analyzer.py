"""``analysis.db`` and ``communication_analyzer.db``: the vendor's breakdown of steps and of communication.

Source: sources/RESULTS.md section 5.3.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.sources.columns.builders import ABSENT, optional
from npuprof.sources.columns.decimals import MAX_DURATION_US, US_TO_NS
from npuprof.sources.database.connection import Database
from npuprof.sources.text.communication_entries import START
from npuprof.sources.text.communication_json import with_starts
from npuprof.tables.ledger import STATISTICS

STEP_TIMES = "StepTraceTime"
_LIMIT = 5_000_000
DURATIONS = {
    "computing_ns": "computing",
    "communication_ns": "communication",
    "overlapped_ns": "overlapped",
    "communication_not_overlapped_ns": "communication_not_overlapped",
    "free_ns": "free",
    "stage_ns": "stage",
    "bubble_ns": "bubble",
    "preparing_ns": "preparing",
    "communication_not_overlapped_exclude_receive_ns": "communication_not_overlapped_and_exclude_receive",
}
_ALWAYS = ("computing", "communication", "overlapped", "communication_not_overlapped", "free", "stage", "bubble")
_WHERE = {"step": "step", "kind": "type", "name": "hccl_op_name", "group": "group_name"}
_BANDWIDTH = {
    "link": "transport_type",
    "Transit Size(MB)": "transit_size",
    "Transit Time(ms)": "transit_time",
    "Bandwidth(GB/s)": "bandwidth",
    "Large Packet Ratio": "large_packet_ratio",
}
_STATISTICS: dict[str, tuple[str, dict[str, str]]] = {
    "communication": (
        "CommAnalyzerTime",
        {
            START: "start_timestamp",
            "Elapse Time(ms)": "elapse_time",
            "Transit Time(ms)": "transit_time",
            "Wait Time(ms)": "wait_time",
            "Synchronization Time(ms)": "synchronization_time",
            "Idle Time(ms)": "idle_time",
        },
    ),
    "communication_bandwidth": ("CommAnalyzerBandwidth", _BANDWIDTH),
    "communication_matrix": (
        "CommAnalyzerMatrix",
        {
            "src_rank": "src_rank",
            "dst_rank": "dst_rank",
            "Transport Type": "transport_type",
            "Transit Size(MB)": "transit_size",
            "Transit Time(ms)": "transit_time",
            "Bandwidth(GB/s)": "bandwidth",
            "Op Name": "op_name",
        },
    ),
}
_TEXTS = [*_WHERE, "link", "src_rank", "dst_rank", "Transport Type", "Op Name"]
TABLE_OF = {name: table for name, (table, _) in _STATISTICS.items()}
"""The table of a file that each frame of `statistics` is made of."""
READ = frozenset((STEP_TIMES, *(table for table, _ in _STATISTICS.values())))
"""The tables that are read here."""
_STEP = re.compile(r"(?:step)?\s*(\d{1,18})")


def columns_of(table: str) -> frozenset[str]:
    """Return the columns that are read from a table; for `step_times`, those in the file."""
    if table == STEP_TIMES:
        return frozenset(("step", *_ALWAYS))
    columns = next(columns for name, columns in _STATISTICS.values() if name == table)
    return frozenset((*_WHERE.values(), *columns.values())) - {"large_packet_ratio"}


def step_times_table(database: Database, device: int | None) -> pd.DataFrame | None:
    """Read `step_times`; the step is <NA> if the run marked no steps.

    The numbers are microseconds, contrary to the vendor's documentation. `device` is the device for files that do not
    name it.
    """
    present = {ours: theirs for ours, theirs in DURATIONS.items() if database.has(STEP_TIMES, theirs)}
    rows = database.rows(STEP_TIMES, ["deviceId"], list(present.values()))
    steps = [_step(step) for (step,) in database.records(STEP_TIMES, ["step"], len(rows["deviceId"]))]
    if not steps:
        return None
    devices = np.where(rows["deviceId"] < 0, ABSENT if device is None else device, rows["deviceId"])[: len(steps)]
    columns: dict[str, Any] = {"step": pd.array(steps, dtype="Int64"), "device_id": optional(devices)}
    for ours, theirs in present.items():
        values = rows[theirs][: len(steps)]
        sound = np.abs(values) < MAX_DURATION_US  # false for NaN too
        whole = np.rint(np.where(sound, values, 0) * US_TO_NS).astype(np.int64)
        columns[ours] = pd.arrays.IntegerArray(whole, ~sound)
    database.accounts.keep(STEP_TIMES, "step_times", len(steps))
    return tables.build("step_times", columns)


def communication_statistics(database: Database) -> dict[str, pd.DataFrame]:
    """Read the vendor's sums over communication operators, in the columns of ``communication.json``.

    The file repeats a bandwidth for each packet size; here it is a single row. Links without traffic, which the JSON
    lists with zeros, are not in the file.
    """
    statistics = {}
    for name, (table, columns) in _STATISTICS.items():
        wanted = {**_WHERE, **columns}
        records = database.records(table, list(wanted.values()), _LIMIT)
        if records:
            frame = pd.DataFrame.from_records(records, columns=list(wanted)).drop_duplicates(ignore_index=True)
            database.accounts.read(table, len(records))
            database.accounts.keep(table, STATISTICS, len(records), len(frame))
            frame = with_starts(frame, [*frame.filter([START]).astype(object).to_dict("records")])
            frame["step"] = frame["step"].astype("string").str.removeprefix("step").astype(object)
            for column in frame.columns.difference([*_TEXTS, "start_ns"]):
                frame[column] = pd.to_numeric(frame[column], errors="coerce").astype(np.float64)
            statistics[name] = _with_ratios(frame) if name == "communication" else frame
    return statistics


def _with_ratios(frame: pd.DataFrame) -> pd.DataFrame:
    """Add the JSON's wait ratios, wait / (wait + transfer), rounded to its four digits."""
    moved = frame["Transit Time(ms)"]
    for name in ("Wait", "Synchronization"):
        waited_rows = frame[f"{name} Time(ms)"]
        whole = waited_rows + moved
        frame[f"{name} Time Ratio"] = (waited_rows / whole.where(whole > 0)).fillna(0.0).round(4)
    return frame


def _step(value: Any) -> int | None:
    match = _STEP.fullmatch(str(value).strip()) if value is not None else None
    return int(match[1]) if match else None

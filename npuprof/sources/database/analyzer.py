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
from npuprof.sources.database.format import STEP_TIMES, TABLES
from npuprof.sources.database.reader import Reader
from npuprof.sources.text.communication_entries import START
from npuprof.sources.text.communication_json import with_starts
from npuprof.tables.ledger import STATISTICS

_LIMIT = 5_000_000
_STEP = re.compile(r"(?:step)?\s*(\d{1,18})")


def step_times_table(reader: Reader, device: int | None) -> pd.DataFrame | None:
    """Read `step_times`; the step is <NA> if the run marked no steps.

    The numbers are microseconds, contrary to the vendor's documentation. `device` is the device for files that do not
    name it.
    """
    rows = reader.rows(STEP_TIMES)
    steps = [_step(step) for (step,) in reader.database.records(STEP_TIMES, ["step"], len(rows))]
    if not steps:
        return None
    rows = rows.take(slice(len(steps)))
    devices = np.where(rows["deviceId"] < 0, ABSENT if device is None else device, rows["deviceId"])
    columns: dict[str, Any] = {"step": pd.array(steps, dtype="Int64"), "device_id": optional(devices)}
    columns |= {
        column.to: rows.column(column.name)
        for column in rows.table.columns
        if column.kind == "us" and reader.has(STEP_TIMES, column.name)
    }
    reader.accounts.keep(STEP_TIMES, "step_times", len(steps))
    return tables.build("step_times", columns)


def communication_statistics(reader: Reader) -> dict[str, pd.DataFrame]:
    """Read the vendor's sums over communication operators, in the columns of ``communication.json``.

    The file repeats a bandwidth for each packet size; here it is a single row. Links without traffic, which the JSON
    lists with zeros, are not in the file.
    """
    statistics = {}
    for table in TABLES.values():
        columns = {column.name: " ".join(column.more) for column in table.columns if column.to == "statistic"}
        records = reader.database.records(table.name, list(columns), _LIMIT) if table.statistic else []
        if records:
            frame = pd.DataFrame.from_records(records, columns=[*columns.values()]).drop_duplicates(ignore_index=True)
            reader.accounts.read(table.name, len(records))
            reader.accounts.keep(table.name, STATISTICS, len(records), len(frame))
            frame = with_starts(frame, [*frame.filter([START]).astype(object).to_dict("records")])
            frame["step"] = frame["step"].astype("string").str.removeprefix("step").astype(object)
            for name in (columns[column.name] for column in table.columns if column.kind == "float"):
                if name in frame:
                    frame[name] = pd.to_numeric(frame[name], errors="coerce").astype(np.float64)
            statistics[table.statistic] = _with_ratios(frame) if table.statistic == "communication" else frame
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

"""Read ``step_trace_time.csv``: the vendor's breakdown of each step.

Source: sources/RESULTS.md section 4.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from npuprof import tables
from npuprof.errors import SourceError
from npuprof.notes import Notes
from npuprof.sources.columns.decimals import US_TO_NS
from npuprof.sources.text.csv_table import CsvTable

DURATIONS = {
    "computing_ns": "Computing",
    "communication_ns": "Communication",
    "overlapped_ns": "Overlapped",
    "communication_not_overlapped_ns": "Communication(Not Overlapped)",
    "free_ns": "Free",
    "stage_ns": "Stage",
    "bubble_ns": "Bubble",
    "preparing_ns": "Preparing",
    "communication_not_overlapped_exclude_receive_ns": "Communication(Not Overlapped and Exclude Receive)",
}
"""The vendor's columns of microseconds by ours."""


def read_step_times(path: Path, notes: Notes, device: int | None) -> pd.DataFrame:
    """Read the table ``step_times``; the step is <NA> where the run marked none.

    `device` is the device of files that do not name it.

    Raises
    ------
    SourceError
        As :class:`npuprof.sources.text.csv_table.CsvTable`, or if the file has no such column.
    """
    table = CsvTable(path, notes, ("Step",))
    table.expect(("Step", "Device_id", *DURATIONS.values()))
    if set(DURATIONS.values()).isdisjoint(table.names):
        raise SourceError(f"{path} has no column 'Computing', so it tells of no steps; is it another file?")
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
    table.put("step_times")
    return tables.build("step_times", columns)

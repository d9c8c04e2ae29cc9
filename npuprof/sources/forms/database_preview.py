"""Compare a database with a text result by row counts: a database is read only if it has more tables or rows.

Source: sources/RESULTS.md section 5.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from npuprof.errors import SourceError
from npuprof.sources.base import Decoded
from npuprof.sources.database.connection import open_database
from npuprof.sources.database.format import STEP_TIMES, TABLES
from npuprof.sources.database.layout import DatabaseFiles
from npuprof.sources.database.passthrough import is_of_run
from npuprof.sources.database.reader import Reader
from npuprof.tables.notes import Notes

# Tables of a database, and the tables of a profile that are built from them.
_ROWS: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (("CANN_API",), ("api",)),
    (("TASK",), ("tasks",)),
    (("COMPUTE_TASK_INFO",), ("kernels",)),
    (("COMMUNICATION_OP",), ("communication",)),
    (("COMMUNICATION_TASK_INFO",), ("communication_tasks",)),
    (("PYTORCH_API",), ("operators", "python", "steps")),
    (("MEMORY_RECORD", "NPU_MODULE_MEM"), ("memory",)),
    (("OP_MEMORY",), ("allocations",)),
    (("MSTX_EVENTS", "GC_RECORD"), ("marks",)),
    ((STEP_TIMES,), ("step_times",)),
)
_PRESENT = (
    (tuple(table.name for table in TABLES.values() if table.samples), "counters"),
    (("NPU_OP_MEM",), "allocations"),
    (("STEP_TIME",), "steps"),
)
_SPANS = ("TASK", "CANN_API")
_SECOND_NS = 1_000_000_000


def far_more(theirs: int, ours: int) -> bool:
    """Check whether a form has over a quarter more rows of a table, so that the other form must have lost rows.

    Forms of a run differ by a few rows: a timeline shows the parts of a task instead of the task.
    """
    return 4 * theirs > 5 * ours


def holds_more(layout: DatabaseFiles, text: Decoded) -> bool:
    """Check whether the databases may hold more than the text result; true for an unreadable database."""
    notes = Notes()
    try:
        has_more = any(_more_in(path, text, notes) for path in (*layout.profile[:1], *layout.analysis))
    except SourceError:
        return True
    return has_more or len(notes) > 0  # damage is noted when the database is read


def extent(frames: Mapping[str, pd.DataFrame]) -> tuple[int, int] | None:
    """Return the first and the last start of host and device activities; None without any activity."""
    spans = [
        frames[name] for name in ("tasks", "api", "operators", "kernels", "communication") if len(frames.get(name, ()))
    ]
    if not spans:
        return None
    return min(int(frame["start_ns"].min()) for frame in spans), max(int(frame["start_ns"].max()) for frame in spans)


def are_apart(first: tuple[int, int] | None, second: tuple[int, int] | None) -> bool:
    """Check whether two time ranges belong to different runs."""
    if first is None or second is None:
        return False
    return first[1] + _SECOND_NS < second[0] or second[1] + _SECOND_NS < first[0]


def _more_in(path: Path, text: Decoded, notes: Notes) -> bool:
    with open_database(path, notes) as opened:
        reader = Reader(opened)
        if are_apart(extent(text.tables), _extent(reader)):
            return True
        if any(reader.count(name) for name in reader.tables if is_of_run(name)):
            return True  # statistics
        if any(
            reader.count(table.name) and not len(text.statistics.get(table.statistic, ()))
            for table in TABLES.values()
            if table.statistic
        ):
            return True
        counted = [(sum(map(reader.count, theirs)), ours) for theirs, ours in _ROWS]
        if any(_lacks(text, count, ours) for count, ours in counted):
            return True
        return any(not len(text.tables.get(name, ())) and any(map(reader.count, theirs)) for theirs, name in _PRESENT)


def _lacks(text: Decoded, count: int, names: tuple[str, ...]) -> bool:
    ours = sum(len(text.tables.get(name, ())) for name in names)
    return bool(count) and (not ours or any(name in text.derived for name in names) or far_more(count, ours))


def _extent(reader: Reader) -> tuple[int, int] | None:
    if reader.is_older:  # its times have another origin, and may be rounded texts
        return None
    bounds = [limits for table in _SPANS if (limits := reader.bounds(table, "startNs")) is not None]
    return (min(low for low, _ in bounds), max(high for _, high in bounds)) if bounds else None

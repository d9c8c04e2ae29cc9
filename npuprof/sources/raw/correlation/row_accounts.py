"""What the ledger tells of tables that were made of others."""

from __future__ import annotations

from npuprof.sources.base import Decoded

_MADE_OF = {
    "kernels": "tasks",
    "communication": "tasks",
    "communication_tasks": "tasks",
    "steps": "ts_track",
    "overlap": "kernels",
}


def add_made(decoded: Decoded, device_marks: int) -> None:
    """Account for the rows that are of no record of their own.

    Parameters
    ----------
    decoded
        The run, whose records the readers have accounted for.
    device_marks
        How many tasks were made of the device side of marks.
    """
    ledger = decoded.notes.ledger
    if device_marks:
        ledger.make("marks", "tasks", device_marks)
    for table, source in _MADE_OF.items():
        if len(decoded.tables[table]):
            ledger.make(source, table, len(decoded.tables[table]))

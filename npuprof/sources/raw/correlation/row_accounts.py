"""Ledger entries of tables that are derived from other tables."""

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
    """Register rows without a record in the ledger.

    Parameters
    ----------
    decoded
        The run, whose records the readers have accounted for.
    device_marks
        Number of tasks that stand for device marks.
    """
    ledger = decoded.notes.ledger
    if device_marks:
        ledger.make("marks", "tasks", device_marks)
    for table, source in _MADE_OF.items():
        if len(decoded.tables[table]):
            ledger.make(source, table, len(decoded.tables[table]))

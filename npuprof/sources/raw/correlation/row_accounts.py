"""Ledger entries of tables that are derived from other tables."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from npuprof.tables.ledger import Ledger

_MADE_OF = {
    "kernels": "tasks",
    "communication": "tasks",
    "communication_tasks": "tasks",
    "steps": "ts_track",
    "overlap": "kernels",
}


def add_made(frames: Mapping[str, pd.DataFrame], ledger: Ledger, device_marks: int) -> None:
    """Register rows without a record in the ledger."""
    if device_marks:
        ledger.make("marks", "tasks", device_marks)
    for table, source in _MADE_OF.items():
        if len(frames[table]):
            ledger.make(source, table, len(frames[table]))

"""What the vendor summed of a run, taken from its result where the raw files beside it are read.

The raw files hold nothing of this: the breakdown of steps (`step_times`) and the statistics of its CSV and JSON files.

Source: sources/RESULTS.md sections 4 and 5.3.
"""

from __future__ import annotations

from pathlib import Path

from npuprof.errors import SourceError
from npuprof.sources.base import Decoded
from npuprof.sources.database.analyzer import communication_statistics, step_times_table
from npuprof.sources.database.connection import open_database
from npuprof.sources.result_folder.layout import OUTPUT, Layout
from npuprof.sources.torch_npu.result import Reading

_DATABASE = "analysis.db"


def add_sums(layout: Layout, decoded: Decoded) -> None:
    """Add `step_times` and statistics of the result that lies beside raw files; what cannot be read is noted."""
    if layout.output is None:
        return
    reading = Reading(layout)
    reading.notes = decoded.notes
    reading.decoded.info.devices = decoded.info.devices
    reading.read_sums()
    found = reading.decoded
    database = layout.output / _DATABASE
    if database.is_file():
        _add_database(database, decoded, found)
    if "step_times" in found.tables:
        decoded.tables["step_times"] = found.tables["step_times"]
    new = {name: frame for name, frame in found.statistics.items() if name not in decoded.statistics}
    decoded.statistics.update(new)
    if new or "step_times" in found.tables:
        decoded.notes.info(OUTPUT, "the breakdown of steps and other sums are the vendor's, from its result")


def _add_database(path: Path, decoded: Decoded, found: Decoded) -> None:
    devices = decoded.info.devices
    try:
        with open_database(path, decoded.notes) as database:
            times = step_times_table(database, devices[0] if len(devices) == 1 else None)
            if times is not None:
                found.tables.setdefault("step_times", times)
            found.statistics = {**communication_statistics(database), **found.statistics}
    except SourceError as error:
        decoded.notes.error(_DATABASE, str(error))

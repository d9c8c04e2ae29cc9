"""Read the timelines of one part of a result as one: its slices, its iterations, and what only side files hold.

Source: sources/RESULTS.md sections 2 and 2.5.
"""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from npuprof.errors import SourceError
from npuprof.notes import Notes
from npuprof.sources.msprof.layout import File, Part
from npuprof.sources.trace.columns import Trace, gather
from npuprof.sources.trace.conversion import build_tables, device_ids
from npuprof.sources.trace.event import Event
from npuprof.sources.trace.events import read_events
from npuprof.sources.trace.links import build_links
from npuprof.sources.trace.marks import add_device_sides

_MAIN = "msprof"
_SIDE_FILES = ("task_time", "hccl", "step_trace", "msprof_tx")  # msprof_*.json repeats all of them
_OF_DEVICE = ("tasks", "communication", "communication_tasks", "overlap", "steps", "counters")


def read_timeline(
    part: Part, notes: Notes, failed: list[SourceError], statistics: dict[str, pd.DataFrame]
) -> dict[str, pd.DataFrame]:
    """Read the tables of a timeline; empty where there is none.

    Parameters
    ----------
    part
        The files; in an old result all are of one device, which they do not name.
    notes, failed
        Where files that cannot be read are told.
    statistics
        Takes what no table holds.
    """
    files = _chosen(part)
    if not files:
        return {}
    source = name_of(part)
    trace = gather(_batches(files, notes, failed), notes, source)
    built = build_tables(trace, notes, source)
    links = build_links(trace, built, notes, source)
    found = dict(built.tables)
    statistics.update(built.statistics)
    if found:
        found["links"] = links
    if part.device and not _names_devices(trace):
        for name in _OF_DEVICE:
            if name in found and "device_id" in found[name]:
                found[name]["device_id"] = pd.Series(part.device, found[name].index, found[name]["device_id"].dtype)
    add_device_sides(found)
    return found


def name_of(part: Part) -> str:
    """Return what the timelines of a part are called in notes and in the ledger; empty where there are none."""
    files = _chosen(part)
    return "" if not files else files[0].path.name + (f" and {len(files) - 1} more" if len(files) > 1 else "")


def _chosen(part: Part) -> list[File]:
    """Choose the files to read: what the main timeline of an iteration covers is not read twice."""
    main = part.of(_MAIN, "json")
    covered = {file.numbers for file in main}
    sides = [file for module in _SIDE_FILES for file in part.of(module, "json") if file.numbers not in covered]
    return [*main, *sides]


def _names_devices(trace: Trace) -> bool:
    return any(device_ids(trace).values())


def _batches(files: list[File], notes: Notes, failed: list[SourceError]) -> Iterator[list[Event]]:
    for file in files:
        try:
            yield from read_events(file.path, notes)
        except SourceError as error:
            failed.append(error)
            notes.error(file.path.name, str(error))

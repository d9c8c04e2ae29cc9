"""Raw files of a run of torch_npu or MindSpore, before any analysis: FRAMEWORK and ``PROF_*``.

The tables of both are joined: operators are linked to their CANN calls, and kernels get the step of their launch. Times
of the framework are mapped to the collector's clock. The breakdown of steps and other totals, which raw files lack, are
taken from the vendor's result, if any.

Source: sources/RESULTS.md sections 1.1, 1.2, 4 and 5.3, and collectors/FRONTENDS.md sections 1 and 2.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.errors import SourceError
from npuprof.sources import raw
from npuprof.sources.base import Decoded, Source, describe_by_name
from npuprof.sources.columns.concatenation import stacked
from npuprof.sources.columns.steps import assign_steps
from npuprof.sources.database.analyzer import communication_statistics, step_times_table
from npuprof.sources.database.connection import open_database
from npuprof.sources.database.layout import ANALYSIS
from npuprof.sources.database.reader import Reader
from npuprof.sources.framework import reader_of
from npuprof.sources.framework.clock import framework_clock
from npuprof.sources.framework.correlation import launch_links
from npuprof.sources.lost_files import note_lost_records
from npuprof.sources.raw.metadata.control_files import RecordedSide, read_sides
from npuprof.sources.result_folder.description import describe, load
from npuprof.sources.result_folder.layout import OUTPUT, ResultFiles, find
from npuprof.sources.selection import SelectedPart, SelectedWindows, Selection
from npuprof.sources.torch_npu.result import TextResultReading
from npuprof.tables.info import Info
from npuprof.tables.notes import Notes

_OF_DEVICE = ("kernels", "communication")


def recognises(path: Path) -> bool:
    """Check whether `path` holds raw files of a framework's run, with or without a parsed result."""
    layout = find(path)
    return layout is not None and layout.is_raw


def read(path: Path, selection: Selection | None = None) -> Decoded:
    """Read the raw files of one result: a ``*_ascend_pt`` or ``*_ascend_ms`` directory, or its ``FRAMEWORK``.

    A selection saves joining other device records.
    """
    layout = find(path)
    if layout is None or not layout.is_raw:
        raise SourceError(
            f"{path} holds no raw files of a framework's run: it needs a FRAMEWORK folder with torch.* files or "
            "cpu_op_execute_timestamp_*.txt, or PROF_* next to profiler_info*.json; give the directory *_ascend_pt or "
            "*_ascend_ms that the profiler wrote"
        )
    return read_layout(layout, selection)


def read_layout(layout: ResultFiles, selection: SelectedPart = None, epoch_ns: int = 0) -> Decoded:
    """Read the files of the framework's profiler and of the collector; a missing or damaged side is noted.

    `epoch_ns` is the UTC time of CLOCK_MONOTONIC_RAW 0 from the enclosing recording, which the files lack.
    """
    decoded = Decoded()
    decoded.info = describe(layout, decoded.notes)
    reader = reader_of(layout.framework)
    if reader is not None:
        decoded.info.collector = reader.COLLECTOR
        info, sides = load(layout.profiler_info, Notes()), _sides(layout)
        collector = reader.COLLECTOR
        reader.read(layout.framework, lambda: framework_clock(info, sides, decoded.notes, collector, epoch_ns), decoded)
    else:
        decoded.notes.info("FRAMEWORK", "no file of the framework can be read: no operators")
    device = _read_raw(layout, decoded.notes, _part(decoded.tables, selection))
    if device is None and reader is None:
        raise SourceError(
            f"{layout.root} holds neither FRAMEWORK files nor a PROF_* directory that can be read: "
            "the run may have ended before the collector wrote anything"
        )
    decoded.info.source = f"{decoded.info.collector} raw files"
    if device is not None:
        _join(decoded, device)
    add_sums(layout, decoded)
    note_lost_records(layout, decoded.info, decoded.notes)
    return decoded


def _part(frames: Mapping[str, pd.DataFrame], selection: SelectedPart) -> SelectedPart:
    """Return the windows of the selected steps, and the launch times within them."""
    if isinstance(selection, SelectedWindows):
        if not len(selection.launches.starts) or "operators" not in frames:
            return selection
        windows = selection.windows
    elif selection is None or selection.steps is None or not len(frames.get("steps", ())):
        return selection
    else:
        windows = selection.windows(frames["steps"], 0)
    operators = frames["operators"]
    starts = operators["start_ns"].to_numpy(np.int64)
    ends = starts + operators["duration_ns"].to_numpy(np.int64)
    queued = frames["links"][(frames["links"]["kind"] == "enqueue").to_numpy()]
    enqueues, dequeues = queued["source_row"].to_numpy(), queued["target_row"].to_numpy()
    selected = windows.touch(starts, starts)
    launches = windows.joined(starts[selected], ends[selected])  # an operator may enqueue after the end of its step
    later = dequeues[launches.touch(starts, starts)[enqueues]]
    return SelectedWindows(windows, launches.joined(starts[later], ends[later]))


def _read_raw(layout: ResultFiles, notes: Notes, part: SelectedPart) -> Decoded | None:
    """Read the newest raw directory, the last by name; None, with a note, if there is none or it is damaged."""
    if not layout.raw:
        notes.info("PROF_*", "there is no raw directory: the device was not recorded")
        return None
    for earlier in layout.raw[:-1]:
        notes.warning(earlier.name, "an earlier start of the collector is not shown: load this directory")
    try:
        return raw.read(layout.raw[-1], part)
    except SourceError as error:
        notes.error(layout.raw[-1].name, f"the raw directory cannot be read, no device data: {error}")
        return None


def _sides(layout: ResultFiles) -> list[RecordedSide]:
    try:
        return read_sides(layout.raw[-1], Notes()) if layout.raw else []
    except OSError:  # noted by the reader of the raw directory
        return []


def _join(decoded: Decoded, device: Decoded) -> None:
    """Join the tables of both sides; device rows keep their numbers, so that their links stay valid."""
    host, others = decoded.tables, device.tables
    parts = [others["links"], *([host["links"]] if "links" in host else [])]
    if len(host.get("operators", ())):
        parts.append(launch_links(host["operators"], others["api"], others["links"]))
    joined_tables = {name: _stack([others[name], host[name]]) for name in others if name in host}
    joined_tables["links"] = _stack(parts)
    if "memory" in joined_tables:
        joined_tables["memory"] = tables.sort_by_time(joined_tables["memory"])
    decoded.tables = {**host, **others, **joined_tables}
    if len(host.get("steps", ())):
        decoded.tables["steps"] = host["steps"]
        device.notes.ledger.replace("steps")
        assign_steps(decoded.tables, _OF_DEVICE)
    decoded.statistics.update(device.statistics)
    decoded.notes.extend(device.notes)
    _describe(decoded.info, device.info)


def _stack(parts: list[pd.DataFrame]) -> pd.DataFrame:
    return stacked([part for part in parts if len(part)] or parts[:1])


def _describe(info: Info, device: Info) -> None:
    """Add the facts of the raw directory; the front end's facts of the session take precedence."""
    info.simulated = device.simulated
    info.chip, info.devices = device.chip, device.devices
    info.rank = device.rank if info.rank is None else info.rank
    info.started_ns = device.started_ns if device.started_ns is not None else info.started_ns
    info.stopped_ns = device.stopped_ns if device.stopped_ns is not None else info.stopped_ns
    info.versions = {**device.versions, **info.versions}
    info.options = {**device.options, **info.options}
    info.environment = {**device.environment, **info.environment}


def describe_path(path: Path) -> Info:
    """Return the facts in the small files of a run."""
    layout = find(path)
    if layout is None:
        return describe_by_name(path)
    info = describe(layout, Notes())
    info.source = f"{info.collector} raw files"
    return info


SOURCE = Source("torch_npu.unparsed", (None, "raw"), recognises, read, read, describe_path, is_raw=True)


def add_sums(layout: ResultFiles, decoded: Decoded) -> None:
    """Add `step_times` and statistics from the result next to raw files."""
    if layout.output is None:
        return
    reading = TextResultReading(layout)
    reading.notes = decoded.notes
    reading.decoded.info.devices = decoded.info.devices
    reading.read_sums()
    result = reading.decoded
    database = layout.output / ANALYSIS
    if database.is_file():
        _add_database(database, decoded, result)
    if "step_times" in result.tables:
        decoded.tables["step_times"] = result.tables["step_times"]
    new = {name: frame for name, frame in result.statistics.items() if name not in decoded.statistics}
    decoded.statistics.update(new)
    if new or "step_times" in result.tables:
        decoded.notes.info(OUTPUT, "the breakdown of steps and other sums come from the vendor's result")


def _add_database(path: Path, decoded: Decoded, result: Decoded) -> None:
    devices = decoded.info.devices
    try:
        with open_database(path, decoded.notes) as database:
            reader = Reader(database)
            times = step_times_table(reader, devices[0] if len(devices) == 1 else None)
            if times is not None:
                result.tables.setdefault("step_times", times)
            result.statistics = {**communication_statistics(reader), **result.statistics}
    except SourceError as error:
        decoded.notes.error(ANALYSIS, str(error))

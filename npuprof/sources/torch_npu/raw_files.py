"""Raw files of a torch_npu or MindSpore run, as they are before anybody analyses them: FRAMEWORK and ``PROF_*``.

The tables of both are joined: operators are linked to the CANN calls that they made, and kernels get the step in
which they were asked for. Times of the framework stand on the collector's clock.

Source: sources/RESULTS.md sections 1.1 and 1.2, and collectors/FRONTENDS.md sections 1 and 2.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.errors import SourceError
from npuprof.info import Info
from npuprof.notes import Notes
from npuprof.sources import raw
from npuprof.sources.base import Decoded, Source, describe_by_name
from npuprof.sources.columns.concatenation import stacked
from npuprof.sources.columns.steps import assign_steps
from npuprof.sources.framework import reader_of
from npuprof.sources.framework.clock import framework_clock
from npuprof.sources.framework.correlation import launch_links
from npuprof.sources.raw.metadata.control_files import Side, read_sides
from npuprof.sources.result_folder.description import describe, load
from npuprof.sources.result_folder.layout import Layout, find
from npuprof.sources.selection import Part, Selection
from npuprof.sources.torch_npu.vendor_sums import add_sums

_OF_DEVICE = ("kernels", "communication")


def recognises(path: Path) -> bool:
    """Return whether `path` holds raw files of a framework's run, whether or not a parsed result is beside them."""
    layout = find(path)
    return layout is not None and layout.is_raw


def read(path: Path, selection: Selection | None = None) -> Decoded:
    """Read the raw files of one result.

    Parameters
    ----------
    path
        A ``*_ascend_pt`` or ``*_ascend_ms`` directory under any name, or its ``FRAMEWORK``.
    selection
        What is wanted of it, so that other device records need not be joined; None for everything.

    Raises
    ------
    SourceError
        If it holds no such files, or none of them can be read.
    """
    layout = find(path)
    if layout is None or not layout.is_raw:
        raise SourceError(
            f"{path} holds no raw files of a framework's run: it needs a FRAMEWORK folder with torch.* files or "
            "cpu_op_execute_timestamp_*.txt, or PROF_* beside profiler_info*.json; give the *_ascend_pt or *_ascend_ms "
            "directory that the profiler wrote"
        )
    return read_layout(layout, selection)


def read_part(path: Path, selection: Selection) -> Decoded:
    """Read what is selected of the raw files, and somewhat more; as :func:`read`.

    Raises
    ------
    SourceError
        As :func:`read`, or if the run has no step of a selected number.
    """
    return read(path, selection)


def read_layout(layout: Layout, selection: Selection | Part | None = None, epoch_ns: int = 0) -> Decoded:
    """Read what the framework's profiler and the collector wrote.

    Either side may be missing or damaged; then the other is read alone, and that is noted. What the vendor summed
    is taken from its result, where there is one beside them. A recording around them tells when CLOCK_MONOTONIC_RAW
    stood at 0 (`epoch_ns`), which the framework's files do not.

    Raises
    ------
    SourceError
        If neither can be read.
    """
    decoded = Decoded()
    decoded.info = describe(layout, decoded.notes)
    reader = reader_of(layout.framework)
    if reader is not None:
        decoded.info.collector = reader.COLLECTOR
        told, sides = load(layout.profiler_info, Notes()), _sides(layout)
        collector = reader.COLLECTOR
        reader.read(layout.framework, lambda: framework_clock(told, sides, decoded.notes, collector, epoch_ns), decoded)
    else:
        decoded.notes.info("FRAMEWORK", "there are no files of the framework that can be read: no operators")
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
    return decoded


def _part(frames: Mapping[str, pd.DataFrame], selection: Selection | Part | None) -> Selection | Part | None:
    """Find the wanted stretches by the framework's steps, and when what was asked for in them was launched."""
    if isinstance(selection, Part):
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
    asked, taken = queued["source_row"].to_numpy(), queued["target_row"].to_numpy()
    own = windows.touch(starts, starts)
    launches = windows.joined(starts[own], ends[own])  # an operator may reach beyond its step, and enqueue there
    later = taken[launches.touch(starts, starts)[asked]]
    return Part(windows, launches.joined(starts[later], ends[later]))


def _read_raw(layout: Layout, notes: Notes, part: Selection | Part | None) -> Decoded | None:
    """Read the newest raw directory, which is the last by name; None, and a note, where that cannot be."""
    if not layout.raw:
        notes.info("PROF_*", "there is no raw directory: the device was not recorded")
        return None
    for earlier in layout.raw[:-1]:
        notes.warning(earlier.name, "an earlier start of the collector in this result is not shown: load it by itself")
    try:
        return raw.read(layout.raw[-1], part)
    except SourceError as error:
        notes.error(layout.raw[-1].name, f"the raw directory cannot be read, no device data: {error}")
        return None


def _sides(layout: Layout) -> list[Side]:
    try:
        return read_sides(layout.raw[-1], Notes()) if layout.raw else []
    except OSError:  # reading the raw directory has failed on the same, and is noted
        return []


def _join(decoded: Decoded, device: Decoded) -> None:
    """Put both sides' tables together; rows of the device side keep their numbers, so that its links stay right."""
    own, theirs = decoded.tables, device.tables
    parts = [theirs["links"], *([own["links"]] if "links" in own else [])]
    if len(own.get("operators", ())):
        parts.append(launch_links(own["operators"], theirs["api"], theirs["links"]))
    joined = {name: _stacked([theirs[name], own[name]]) for name in theirs if name in own}
    joined["links"] = _stacked(parts)
    if "memory" in joined:
        joined["memory"] = tables.sort_by_time(joined["memory"])
    decoded.tables = {**own, **theirs, **joined}
    if len(own.get("steps", ())):
        decoded.tables["steps"] = own["steps"]
        device.notes.ledger.replace("steps")
        assign_steps(decoded.tables, _OF_DEVICE)
    decoded.statistics.update(device.statistics)
    decoded.notes.extend(device.notes)
    _describe(decoded.info, device.info)


def _stacked(parts: list[pd.DataFrame]) -> pd.DataFrame:
    return stacked([part for part in parts if len(part)] or parts[:1])


def _describe(info: Info, device: Info) -> None:
    """Add what the raw directory tells; what the front end says of the session stands over it."""
    info.simulated = device.simulated
    info.chip, info.devices = device.chip, device.devices
    info.rank = device.rank if info.rank is None else info.rank
    info.started_ns = device.started_ns if device.started_ns is not None else info.started_ns
    info.stopped_ns = device.stopped_ns if device.stopped_ns is not None else info.stopped_ns
    info.versions = {**device.versions, **info.versions}
    info.options = {**device.options, **info.options}
    info.environment = {**device.environment, **info.environment}


def describe_path(path: Path) -> Info:
    """Return what the small files of a run tell."""
    layout = find(path)
    if layout is None:
        return describe_by_name(path)
    info = describe(layout, Notes())
    info.source = f"{info.collector} raw files"
    return info


SOURCE = Source("torch_npu.unparsed", (None, "raw"), recognises, read, read_part, describe_path, is_raw=True)

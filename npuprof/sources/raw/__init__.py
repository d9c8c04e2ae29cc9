"""Raw ``PROF_*`` directories, as the Ascend collector writes them, decoded without the vendor's toolkit.

:func:`read` passes the packages in this order; none imports from a package below it::

    records/        slices of a data folder -> whole records, whose layouts and enumerations are here
    metadata/       facts of the recording: control files, clocks, chips, dictionaries of names
    join_keys/      joins of records of different streams by task ids and times
    host/           -> calls, operators, launched tasks, communication, memory of operators
    device/         -> executed tasks, steps, performance counters, AI CPU records
    chips/          the same for other chip families, and their readers
    correlation/    host and device -> launches, marks, collectives; the tables of calls, tasks and kernels
    communication/  -> the tables of communication
    samples/        streams sampled by time -> memory and counters

A new record type is a layout in :mod:`.records.layouts` and a function that reads it.
Source: raw/FORMAT.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from npuprof.analysis.examination import with_overruns, without_overruns
from npuprof.errors import SourceError
from npuprof.sources.base import Decoded, Source
from npuprof.sources.lazy_tables import LazyTables
from npuprof.sources.overlap import SPAN, of_span, overlap_table
from npuprof.sources.raw.chips import readers
from npuprof.sources.raw.communication import device_collectives
from npuprof.sources.raw.communication.operator_tables import Communication
from npuprof.sources.raw.correlation import (
    launch_tables,
    launches,
    marks,
    missing_slices,
    missing_streams,
    row_accounts,
    selected_records,
)
from npuprof.sources.raw.correlation.collectives import gather
from npuprof.sources.raw.device import pmu, track_records
from npuprof.sources.raw.device.aicpu import read_aicpu
from npuprof.sources.raw.device.reader import RawDevice
from npuprof.sources.raw.device.task_rates import read_task_rates
from npuprof.sources.raw.device.tasks import join
from npuprof.sources.raw.host import captures, memory, runtime_records
from npuprof.sources.raw.host.calls import nest_calls, read_calls
from npuprof.sources.raw.host.hccl import read_hccl
from npuprof.sources.raw.host.operators import read_operands, read_operators, with_captured
from npuprof.sources.raw.host.reader import RawHost
from npuprof.sources.raw.host.tracks import join_calls, read_launched
from npuprof.sources.raw.metadata import clocks
from npuprof.sources.raw.metadata.chip_families import note_family, note_old_names
from npuprof.sources.raw.metadata.clocks import relative_clock
from npuprof.sources.raw.metadata.control_files import RecordedSide, read_info, read_old_sides, read_sides
from npuprof.sources.raw.metadata.dictionaries import read_dictionaries
from npuprof.sources.raw.records import layouts
from npuprof.sources.raw.records.folders import devices_of, old_folder
from npuprof.sources.raw.records.slices import Streams
from npuprof.sources.raw.samples.counter_tables import counters_table, held_rows, memory_table
from npuprof.sources.selection import SelectedPart, Selection
from npuprof.tables.info import Info
from npuprof.tables.notes import Notes
from npuprof.words.quantities import counted

_SIDE = re.compile(r"host|device_\d{1,4}")
_NO_START = int(np.iinfo(np.int64).min)


NOT_USED = "the NPU was not used while collecting"
"""What a note says of a run without a device."""


def recognises(path: Path) -> bool:
    """Return whether `path` is a raw directory: its ``host`` or ``device_N`` folders hold control files or data.

    A ``data`` folder of an old chip's slices, or the folder around it, is recognised too.
    """
    try:
        return path.is_dir() and (bool(_side_folders(path)) or old_folder(path) is not None)
    except OSError:  # a directory that cannot be listed cannot be read as this format either
        return False


def read(path: Path, part: SelectedPart = None) -> Decoded:
    """Decode a raw directory.

    Parameters
    ----------
    part
        The selection, which saves joining other records; None for all. Rows outside of it may remain.

    Returns
    -------
    The tables `api`, `tasks`, `kernels`, `communication`, `communication_tasks`, `marks`, `memory`, `allocations`,
    `counters`, `links`, `overlap` and `steps`, and statistics such as the vendor's sums over graphs; the notes hold
    skipped and repaired records.
    """
    decoded, tables = _read(path, part)
    tables.make_all()
    decoded.tables = dict(tables)
    return decoded


def read_lazily(path: Path) -> Decoded:
    """Decode and join the records of a raw directory; the tables of launches are made when they are touched.

    These are `api`, `tasks`, `kernels`, `links` and `overlap`, made of what is in memory: no file is read again.
    """
    decoded, _ = _read(path, None)
    return decoded


def _read(path: Path, part: SelectedPart) -> tuple[Decoded, LazyTables]:
    notes = Notes()
    try:
        sides = _read_sides(path, notes)
    except OSError as error:
        raise SourceError(
            f"{path} cannot be listed ({error.strerror or error}); load the PROF_* directory that the collector wrote"
        ) from error
    utc_ns = 0 if all(_is_undated(side) for side in sides) else clocks.epoch_offset(sides, notes)
    info = read_info(sides[0].directory if sides and sides[0].is_old else path, sides, utc_ns)
    tables = LazyTables(notes)
    decoded = Decoded(tables, info, notes)
    _decode(decoded, tables, sides, utc_ns, part)
    return decoded, tables


def read_part(path: Path, selection: Selection) -> Decoded:
    """Decode at least the selected part of a raw directory; see :func:`read`."""
    return read(path, selection)


def _decode(decoded: Decoded, tables: LazyTables, sides: list[RecordedSide], utc_ns: int, part: SelectedPart) -> None:
    notes, info = decoded.notes, decoded.info
    host = _open_host(sides, utc_ns, info, notes)
    devices = _open_devices(sides, host, utc_ns, info, notes)
    tracks_of = [readers.track_of(device) for device in devices]
    frequencies = [pmu.read_frequencies(device) for device in devices]
    tables["steps"] = track_records.steps_table(devices, tracks_of)
    calls = read_calls(host)
    launched = read_launched(host, unique_ids=readers.have_unique_ids(devices))
    tasks = join([readers.tasks_of(device, track) for device, track in zip(devices, tracks_of, strict=True)])
    tasks = launches.with_streams(tasks, launched)
    matched = launches.match(tasks, launched)
    recorded = selected_records.Recorded(host, devices, calls, launched, tasks, matched)
    needed = selected_records.find(recorded, tables["steps"], info, part)
    if needed is not None:
        notes.ledger.deselect("api", len(calls.begins) - len(needed.calls.begins))
        notes.ledger.deselect("tasks", len(tasks) - len(needed.tasks))
        host, calls, launched, tasks, matched = needed.host, needed.calls, needed.launched, needed.tasks, needed.matched
    operands, api = read_operands(host), nest_calls(host, calls)
    del calls, recorded  # these records take as much memory as the tables
    contexts, _ = host.read("additional.context_id_info", layouts.CONTEXT_ID)
    captured, graphs = captures.read_operators(host), captures.read_streams(host)
    operators = with_captured(read_operators(host, api, contexts, operands), captured)
    tracks = join_calls(host, api, launched)
    hccl = read_hccl(host, api, tracks, contexts)
    joined = launches.join(tasks, launches.HostSide(tracks, operators, hccl, captured, graphs, host.names), matched)
    device_marks = marks.read_device_marks(devices, tracks_of)
    tables["marks"] = marks.marks_table(host, device_marks)
    tasks, joined = launches.add_marks(tasks, joined, device_marks, tables["marks"])
    steps = gather(tasks, joined, tracks, api)
    run = launch_tables.DecodedLaunches(api, operators, tracks, tasks, joined, steps, needed is not None)
    info.devices = np.unique(run.tasks.device).tolist()
    _note_missing(run, devices, host, _host_side(sides), tables["marks"], info.options.get("level"))
    _add_launch_tables(tables, run, readers.counters_of(devices, frequencies), Communication(run, hccl, host.names))
    tables["memory"] = memory_table(devices, host.clock)
    held = held_rows(tables["memory"])
    memory.add_tables(host, tables)
    decoded.statistics.update(memory.read_statistics(host, api))
    tables["counters"] = counters_table(devices, frequencies, host, _host_side(sides), held)
    _add_device_statistics(decoded, host, devices, graphs)
    tables.later("overlap", _overlap_of(decoded, run, graphs))
    tables.at_last(_account(decoded, host, len(device_marks.id)))
    if needed is not None:
        tables.make_all()
        needed.number(tables)
    for streams in dict.fromkeys((host.streams, *(device.streams for device in devices))):
        note_old_names(streams.names(), notes)
        streams.note_unread()


def _add_launch_tables(
    tables: LazyTables, run: launch_tables.DecodedLaunches, counters: list[pmu.Counters], of: Communication
) -> None:
    steps, marks = tables["steps"].copy(), tables["marks"].copy()
    tables["communication"] = of.operators_table(steps)
    tables["communication_tasks"] = of.tasks_table()
    issued = tables["communication"][["connection_id", "name"]].copy()
    tables.later("api", lambda: launch_tables.api_table(run, issued), lambda: launch_tables.times_of_calls(run))
    tables.later("tasks", lambda: launch_tables.tasks_table(run), lambda: launch_tables.spans(run))
    tables.later("kernels", lambda: launch_tables.kernels_table(run, counters, steps))
    tables.later("links", lambda: launch_tables.links_table(run, marks))
    if not all(of.in_memory for of in counters):
        tables["kernels"]  # made now: no file is read after loading


def _add_device_statistics(
    decoded: Decoded, host: RawHost, devices: list[RawDevice], graphs: captures.CaptureStreams
) -> None:
    tables = decoded.tables
    aicpu = read_aicpu(devices, tables, host.names)
    decoded.statistics |= aicpu | read_task_rates(devices, tables) | readers.read_details(devices)
    decoded.statistics |= runtime_records.read_statistics(host) | captures.read_statistics(graphs)
    decoded.statistics |= track_records.read_statistics(devices)
    decoded.statistics |= device_collectives.add_rows(host, graphs, tables, aicpu)


def _overlap_of(
    decoded: Decoded, run: launch_tables.DecodedLaunches, graphs: captures.CaptureStreams
) -> Callable[[], pd.DataFrame]:
    communication, groups = decoded.tables["communication"][SPAN].copy(), decoded.statistics.get("mc2_comm_info")

    def make() -> pd.DataFrame:
        tasks = launch_tables.spans(run)
        kernels = with_overruns(tasks[run.launches.is_kernel], launch_tables.times_of_calls(run))
        kernels = without_overruns({"kernels": kernels})["kernels"]
        issuers = device_collectives.are_issuers(kernels, graphs, groups)
        return overlap_table(kernels[~issuers], communication, of_span(tasks))

    return make


def _account(decoded: Decoded, host: RawHost, device_marks: int) -> Callable[[Mapping[str, pd.DataFrame]], None]:
    statistics, notes = list(decoded.statistics.values()), decoded.notes

    def account(frames: Mapping[str, pd.DataFrame]) -> None:
        host.names.note_unnamed([*frames.values(), *statistics], notes)
        row_accounts.add_made(frames, notes.ledger, device_marks)
        missing_streams.note_lost_descriptions(frames, decoded.info.options.get("level"), notes)

    return account


def _host_side(sides: list[RecordedSide]) -> RecordedSide | None:
    return next((side for side in sides if side.device_id is None), None)


def _open_host(sides: list[RecordedSide], utc_ns: int, info: Info, notes: Notes) -> RawHost:
    side = _host_side(sides)
    if side is None:
        notes.error(
            "host", "the host side is missing: no calls, no operator names", lacks=("api", "operators", "links")
        )
    streams = Streams(side.data if side else None, notes, "host")
    return RawHost(
        streams, read_dictionaries(streams, notes), clocks.host_clock(sides, utc_ns, notes), _start(info), notes
    )


def _open_devices(sides: list[RecordedSide], host: RawHost, utc_ns: int, info: Info, notes: Notes) -> list[RawDevice]:
    expanded = any(
        bool((host.streams.read(f"{age}.compact.{kind}", layouts.EXPANSION)["status"] == 1).any())
        for age in ("unaging", "aging")
        # the collector's spelling, and that of the format
        for kind in ("expand_stream_spec", "stream_expand_spec_info")
    )
    devices = []
    streams_of: dict[Path, Streams] = {}  # in an old recording, all devices share a folder
    for side in sides:
        if side.device_id is None:
            continue
        if side.data not in streams_of:
            streams_of[side.data] = Streams(side.data, notes, side.label)
        streams = streams_of[side.data]
        is_undated = _is_undated(side)
        clock = relative_clock(side, streams, notes) if is_undated else clocks.device_clock(side, utc_ns, notes)
        if clock is not None:
            start_ns = _NO_START if is_undated else _start(info)
            device = RawDevice(side.device_id, side, streams, clock, start_ns, expanded, notes)
            note_family(device.family, side.info.get("platform_version"), side.label, notes)
            devices.append(device)
    return devices


def _note_missing(
    run: launch_tables.DecodedLaunches,
    devices: list[RawDevice],
    host: RawHost,
    side: RecordedSide | None,
    marks: pd.DataFrame,
    level: object,
) -> None:
    """Note the records that others call for; `side` has the control files of the host."""
    launched, notes = len(run.tracks.stamp_ns), host.notes
    if not devices and launched:
        missing = f"no device side could be read: {counted(launched, 'task')} of the host missing"
        notes.error("device", missing, lacks=("tasks", "kernels", "communication", "communication_tasks"))
    elif not devices:
        notes.info("device", f"there is no device data: {NOT_USED}")
    elif not run.is_part:
        missing_slices.note_idle_devices(run, notes)
    if not run.is_part:
        missing_slices.note_missing_ends(run, notes)
        missing_streams.note_lost_partners(run, marks, level, notes)
        missing_streams.note_switched_on(devices, host, side, run)


def _start(info: Info) -> int:
    return info.started_ns if info.started_ns is not None else _NO_START


def _is_undated(side: RecordedSide) -> bool:
    """Return whether a side belongs to an old recording without clock anchors."""
    return side.is_old and not (side.host_anchor and side.device_anchor)


def _side_folders(path: Path) -> list[str]:
    names = [entry.name for entry in path.iterdir() if _SIDE.fullmatch(entry.name) and entry.is_dir()]
    return [name for name in names if (path / name / "data").is_dir() or any((path / name).glob("info.json*"))]


def _read_sides(path: Path, notes: Notes) -> list[RecordedSide]:
    if _side_folders(path):
        return read_sides(path, notes)
    root = old_folder(path)
    if root is None:
        raise SourceError(
            f"{path} holds no host or device_N folder; load the PROF_* directory that the collector wrote"
        )
    return read_old_sides(root, devices_of(Streams(root / "data", Notes(), root.name).names()), notes)


def describe(path: Path) -> Info:
    """Return the facts of a raw directory's control files."""
    notes = Notes()  # reading the run reports them
    sides = read_sides(path, notes)
    return read_info(path, sides, clocks.epoch_offset(sides, notes))


SOURCE = Source("raw", (None, "raw"), recognises, read_lazily, read_part, describe, is_raw=True)

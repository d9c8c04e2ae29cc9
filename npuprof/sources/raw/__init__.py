"""Raw ``PROF_*`` directories, as the Ascend collector writes them, decoded without the vendor's toolkit.

:func:`read` goes one way: control files and clocks; host records to calls, operators and launched tasks;
device records to tasks; the join of both; communication, memory, samples and marks. A new record type is a layout in
:mod:`.layouts`, and a function beside its neighbours that reads it.
Source: formats/raw.md.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from npuprof.errors import SourceError
from npuprof.info import Info
from npuprof.notes import Notes
from npuprof.sources.base import Decoded
from npuprof.sources.raw import (
    allocations,
    assemble,
    clocks,
    graph_memory,
    launches,
    layouts,
    marks,
    pmu,
    samples,
    steps,
)
from npuprof.sources.raw.aicpu import read_aicpu
from npuprof.sources.raw.collectives import gather
from npuprof.sources.raw.communication import Communication
from npuprof.sources.raw.control import STARS_CHIPS, Side, read_sides
from npuprof.sources.raw.device import Device, join, read_tasks, read_track
from npuprof.sources.raw.dictionaries import read_dictionaries
from npuprof.sources.raw.facts import chip_name, read_info
from npuprof.sources.raw.hccl import read_hccl
from npuprof.sources.raw.host import Host, read_api
from npuprof.sources.raw.operators import read_operators
from npuprof.sources.raw.slices import Streams
from npuprof.sources.raw.task_rates import read_task_rates
from npuprof.sources.raw.tracks import read_tracks

_SIDE = re.compile(r"host|device_\d{1,4}")
_OLD_STREAM = re.compile(r"(hwts|training_trace|aicore|ts_track).*\.slice_\d+")
_EXPANSION = layouts.layout(64, status=("u1", 24))


def recognises(path: Path) -> bool:
    """Tell whether `path` is a raw directory: one with ``host`` or ``device_N`` folders of control files or data.

    A bare ``data`` folder of an old chip's slices is recognised too, so that :func:`read` can say what it is.
    """
    try:
        return path.is_dir() and (bool(_side_folders(path)) or _is_old(path))
    except OSError:  # what cannot be listed cannot be read as this format either
        return False


def read(path: Path) -> Decoded:
    """Decode a raw directory.

    Parameters
    ----------
    path
        A ``PROF_*`` directory; it is only read.

    Returns
    -------
    The tables `api`, `tasks`, `kernels`, `communication`, `communication_tasks`, `marks`, `memory`, `allocations`,
    `counters`, `links`, `overlap` and `steps`, and what the vendor sums of graphs among the statistics; what was
    skipped or repaired is in the notes.

    Raises
    ------
    SourceError
        If it is no raw directory, or of a chip whose device records are not decoded.
    """
    notes = Notes()
    try:
        if not _side_folders(path):
            raise SourceError(_refusal(path))
        sides = read_sides(path, notes)
    except OSError as error:
        raise SourceError(
            f"{path} cannot be listed ({error.strerror or error}); give the PROF_* directory that the collector wrote"
        ) from error
    utc_ns = clocks.epoch_offset(sides, notes)
    info = read_info(path, sides, utc_ns)
    _check_chip(path, sides)
    decoded = Decoded(info=info, notes=notes)
    _decode(decoded, sides, utc_ns)
    return decoded


def _decode(decoded: Decoded, sides: list[Side], utc_ns: int) -> None:
    notes, info, tables = decoded.notes, decoded.info, decoded.tables
    host = _open_host(sides, utc_ns, info, notes)
    devices = _open_devices(sides, host, utc_ns, info, notes)
    tracks_of = [read_track(device) for device in devices]
    frequencies = [pmu.read_frequencies(device) for device in devices]
    api = read_api(host)
    contexts, _ = host.read("additional.context_id_info", layouts.CONTEXT_ID)
    operators = read_operators(host, api, contexts)
    tracks = read_tracks(host, api)
    hccl = read_hccl(host, api, tracks, contexts)
    if not devices:
        _note_no_device(notes, len(tracks.stamp_ns))
    tasks = join([read_tasks(device, track) for device, track in zip(devices, tracks_of, strict=True)])
    joined = launches.join(tasks, tracks, operators, hccl, host.names)
    device_marks = marks.read_device_marks(devices, tracks_of)
    tables["marks"] = marks.marks_table(host, device_marks)
    tasks, joined = launches.add_marks(tasks, joined, device_marks, tables["marks"])
    run = assemble.Run(api, operators, tracks, tasks, joined, gather(tasks, joined, tracks, api))
    tables["steps"] = steps.steps_table(devices, tracks_of)
    tables["api"] = assemble.api_table(api)
    tables["tasks"] = assemble.tasks_table(run)
    tables["kernels"] = assemble.kernels_table(run, devices, frequencies, tables["steps"])
    tables["links"] = assemble.links_table(run, tables["marks"])
    tables["overlap"] = assemble.overlap_table(run)
    communication = Communication(run, hccl, host.names)
    tables["communication"] = communication.operators_table(tables["steps"])
    tables["communication_tasks"] = communication.tasks_table()
    tables["memory"] = samples.memory_table(devices, host.clock)
    allocations.add_tables(host, tables)
    decoded.statistics.update(graph_memory.read_statistics(host, api))
    tables["counters"] = samples.counters_table(devices, frequencies, host, _host_side(sides))
    found, tables["kernels"] = read_aicpu(devices, tables["kernels"])
    decoded.statistics |= found | read_task_rates(devices, tables["kernels"])
    for streams in (host.streams, *(device.streams for device in devices)):
        streams.note_unread()


def _host_side(sides: list[Side]) -> Side | None:
    return next((side for side in sides if side.device_id is None), None)


def _open_host(sides: list[Side], utc_ns: int, info: Info, notes: Notes) -> Host:
    side = _host_side(sides)
    if side is None:
        notes.error("host", "the host side is missing: no calls, no operator names")
    streams = Streams(side.data if side else None, notes, "host")
    return Host(
        streams, read_dictionaries(streams, notes), clocks.host_clock(sides, utc_ns, notes), _start(info), notes
    )


def _open_devices(sides: list[Side], host: Host, utc_ns: int, info: Info, notes: Notes) -> list[Device]:
    expanded = any(
        bool((host.streams.read(f"{age}.compact.{kind}", _EXPANSION)["status"] == 1).any())
        for age in ("unaging", "aging")
        for kind in ("expand_stream_spec", "stream_expand_spec_info")  # the collector's name, and the format's
    )
    devices = []
    for side in sides:
        if side.device_id is None:
            continue
        clock = clocks.device_clock(side, utc_ns, notes)
        if clock is not None:
            streams = Streams(side.data, notes, side.label)
            devices.append(Device(side.device_id, side, streams, clock, _start(info), expanded, notes))
    return devices


def _note_no_device(notes: Notes, launched: int) -> None:
    if launched:
        notes.error("device", f"no device side could be read: the {launched} tasks that the host launched are missing")
    else:
        notes.info("device", "there is no device data: the NPU was not used while collecting")


def _start(info: Info) -> int:
    return info.started_ns if info.started_ns is not None else int(np.iinfo(np.int64).min)


def _check_chip(path: Path, sides: Sequence[Side]) -> None:
    versions = {str(side.info["platform_version"]) for side in sides if "platform_version" in side.info}
    unknown = sorted(versions - STARS_CHIPS)
    if unknown and any(side.device_id is not None for side in sides):
        names = ", ".join(chip_name(version) for version in unknown)
        raise SourceError(
            f"{path} was recorded on {names}, whose device records are not decoded yet; "
            "load the result that the vendor's tools made of it instead"
        )


def _side_folders(path: Path) -> list[str]:
    names = [entry.name for entry in path.iterdir() if _SIDE.fullmatch(entry.name) and entry.is_dir()]
    return [name for name in names if (path / name / "data").is_dir() or any((path / name).glob("info.json*"))]


def _is_old(path: Path) -> bool:
    folder = path / "data"
    return folder.is_dir() and any(_OLD_STREAM.fullmatch(entry.name) for entry in folder.iterdir())


def _refusal(path: Path) -> str:
    if _is_old(path):
        return (
            f"{path} holds records of an older chip without control files, which are not decoded yet; "
            "load the result that the vendor's tools made of it instead"
        )
    return f"{path} holds no host or device_N folder; give the PROF_* directory that the collector wrote"

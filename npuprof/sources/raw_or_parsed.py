"""Choose between raw data and the vendor's result of it, if a directory holds both: raw data if it is complete.

Raw data is exact and holds every record. It is complete if everything that the vendor's tools read is present, so that
our result lacks nothing of theirs:

- control files and data of the host, and of a device of a chip whose decoding was compared with the vendor's;
- ``end_info`` and the anchors of the clocks on every side: the run ended in order;
- every slice: none is missing by their numbers, and where slices have ``.done`` marks, each has one and the size that
  it names;
- of a run of torch_npu one ``PROF_*`` directory, ``profiler_info.json`` with the end of the run, and the files of the
  framework that its options call for.

Source: raw/FORMAT.md section 2, sources/RESULTS.md section 1.1 and collectors/FRONTENDS.md section 2.
"""

from __future__ import annotations

from pathlib import Path

from npuprof.sources.framework import reader_of
from npuprof.sources.framework import torch as torch_files
from npuprof.sources.raw.metadata.control_files import RecordedSide, read_sides
from npuprof.sources.raw.records.folders import read_folder
from npuprof.sources.result_folder.description import describe
from npuprof.sources.result_folder.layout import OUTPUT, ResultFiles, find
from npuprof.tables.notes import Notes

COMPARED_CHIPS = frozenset({"5"})  # 910B and 910C
"""The values of ``platform_version`` whose decoding was compared with the vendor's, table by table."""

_FILES_OF = {"stacks": ("torch.python_tracer_func", "torch.python_tracer_hash"), "memory": ("torch.memory_usage",)}
_OPERATORS = "torch.op_range"


def raw_problem(path: Path) -> str:
    """Return why the raw data of a run is incomplete; empty if it is complete."""
    try:
        if path.name == OUTPUT:
            return "the result's own folder was given"
        if not (path / "host").is_dir() and (layout := find(path)) is not None:
            return _framework_files(layout)
        return _prof_files(path)
    except OSError as error:
        return f"it cannot be listed ({error.strerror or error})"


def _framework_files(layout: ResultFiles) -> str:
    if len(layout.raw) != 1:
        return f"there are {len(layout.raw)} PROF_* directories"
    info = describe(layout, Notes())
    if info.collector != "torch_npu" or not info.options:
        return "profiler_info.json does not have the options of a run of torch_npu"
    if info.stopped_ns is None:
        return "profiler_info.json does not say when the run ended"
    wanted_names = [name for option, names in _FILES_OF.items() if info.options.get(option) for name in names]
    if "cpu" in info.options["activities"] or wanted_names:
        if reader_of(layout.framework) is not torch_files:
            return "the files of the framework are missing"
        lacking = [name for name in (_OPERATORS, *wanted_names) if not _is_there(layout.framework / name)]
        if lacking:
            return f"{lacking[0]} is missing or empty"
    return _prof_files(layout.raw[0])


def _is_there(path: Path) -> bool:
    return path.is_file() and path.stat().st_size > 0


def _prof_files(path: Path) -> str:
    sides = read_sides(path, Notes())  # its notes are reported when the raw data is read
    devices = [side for side in sides if side.device_id is not None and _has_data(side)]
    if not any(side.device_id is None and _has_data(side) for side in sides):
        return "there is no data of the host"
    if not devices:
        return "there is no data of a device"
    chips = {str(side.info.get("platform_version")) for side in devices}
    if chips - COMPARED_CHIPS:
        return "the decoding of this chip's records was not compared with the vendor's"
    return next((problem for side in sides if (problem := _side_files(side))), "")


def _side_files(side: RecordedSide) -> str:
    if not side.end:
        return f"{side.label} has no end_info: the run did not end in order"
    is_device = side.device_id is not None
    if is_device and not ("cntvct" in side.device_anchor and "clock_monotonic_raw" in side.host_anchor):
        return f"{side.label} has no anchor of its clock"
    problem = next(read_folder(side.data).problems(), None) if side.data.is_dir() else None
    return f"{side.label}: {problem[0]}: {problem[1]} ({problem[2]})" if problem else ""


def _has_data(side: RecordedSide) -> bool:
    streams = read_folder(side.data).streams if side.data.is_dir() else {}
    return any(part.size for slices in streams.values() for part in slices)

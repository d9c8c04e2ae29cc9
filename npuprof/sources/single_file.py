"""A single file of a result, identified by content: a CSV by its columns, a JSON by its keys.

Source: sources/RESULTS.md sections 2 to 4.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from npuprof.errors import SourceError
from npuprof.sources import torch_npu
from npuprof.sources.base import Decoded, Source
from npuprof.sources.exported_trace.layout import FORMAT
from npuprof.sources.files.gzip_file import read_head
from npuprof.sources.framework import mindspore
from npuprof.sources.msprof.csv_files import read_marks, read_step_trace, read_steps, read_task_time
from npuprof.sources.result_folder.description import describe
from npuprof.sources.result_folder.layout import ResultFiles
from npuprof.sources.text.communication_json import read_communication, read_communication_matrix
from npuprof.sources.text.csv_kinds import kind_of
from npuprof.sources.text.csv_table import column_names, read_statistic
from npuprof.sources.text.kernel_details import read_kernel_details
from npuprof.sources.text.memory_csv import MEMORY_READERS, read_operator_memory
from npuprof.sources.text.pipeline_summary import holds_pipeline, read_pipeline_summary
from npuprof.sources.text.vendor_sums import add_listed_operators, read_step_times
from npuprof.sources.trace.events import is_trace
from npuprof.tables.info import Info
from npuprof.tables.notes import Notes

_HEAD_BYTES = 1 << 16
_EXPORTED = re.compile(r"(.+?)(?:_slice_\d+)?(?:_\d{14}|(?:_\d+){1,3})?(?:\.csv|\.json|\.txt)?")


def _kernels(path: Path, notes: Notes) -> dict[str, pd.DataFrame]:
    read = read_kernel_details(path, notes)
    return {"kernels": read.kernels, "communication": read.communication}


_READERS: dict[str, Callable[[Path, Notes], dict[str, pd.DataFrame]]] = {
    "kernel_details": _kernels,
    "task_time": lambda path, notes: {"tasks": read_task_time(path, notes)},
    "msprof_tx": lambda path, notes: {"marks": read_marks(path, notes)},
    "step_trace": lambda path, notes: {"steps": read_steps(path, notes)},
    "step_trace_time": lambda path, notes: {"step_times": read_step_times(path, notes, None)},
    "operator_memory": lambda path, notes: {"allocations": read_operator_memory(path, notes)},
    **{
        name: lambda path, notes, read=read: {"memory": read(path, notes)}  # type: ignore[misc]
        for name, read in MEMORY_READERS.items()
    },
}  # of each kind that fills a table

_JSON = (
    (re.compile(rb'"Communication (?:Time|Bandwidth) Info"\s*:'), "communication"),
    (re.compile(rb'"Transport Type"\s*:'), "communication_matrix"),
    (re.compile(rb'"(?:common_config|experimental_config|profiler_parameters|ms_profiler_info)"\s*:'), "profiler_info"),
    (re.compile(rb'"(?:ENV_VARIABLES|distributed_args|parallel_group_info)"\s*:'), "profiler_metadata"),
)
_DESCRIPTIONS = ("profiler_info", "profiler_metadata")


def recognises(path: Path) -> bool:
    """Return whether `path` is a single file of a result, by its first bytes."""
    try:
        return path.is_file() and (
            is_trace(path)
            or _json_kind(path) is not None
            or bool(mindspore.kind_of(path))
            or holds_pipeline(path)
            or _is_csv(path)
        )
    except OSError:
        return False


def read(path: Path) -> Decoded:
    """Read one file: its table, or its frame of `statistics`."""
    if is_trace(path):
        return _timeline(path)
    decoded = Decoded(info=Info(name=path.name, recording=path))
    kind = _json_kind(path)
    if kind in _DESCRIPTIONS:
        return _description(path, kind)
    if mindspore.kind_of(path):
        mindspore.read_file(path, decoded)
        decoded.info.collector = mindspore.COLLECTOR
        decoded.info.source = f"single file, {next(iter({**decoded.tables, **decoded.statistics}))}"
        return decoded
    if holds_pipeline(path):
        decoded.statistics.update(read_pipeline_summary(path, decoded.notes))
        decoded.info.collector, decoded.info.source = mindspore.COLLECTOR, f"single file, {_module(path)}"
        return decoded
    if kind is not None:
        frames = (
            read_communication(path, decoded.notes)
            if kind == "communication"
            else {"communication_matrix": read_communication_matrix(path, decoded.notes)}
        )
        decoded.statistics.update(frames)
        add_listed_operators(decoded)
        decoded.info.source = f"single file, {kind}"
        return decoded
    csv_kind = kind_of(column_names(path))
    if csv_kind is None:
        raise SourceError(f"{path} has columns that no known file of a result has; is it another file?")
    if csv_kind.table:
        decoded.tables.update(_READERS[csv_kind.names[0]](path, decoded.notes))
        if "steps" in decoded.tables:
            decoded.statistics.update(read_step_trace(path, decoded.notes))
            decoded.notes.ledger.make(path.name, "steps", len(decoded.tables["steps"]))
        decoded.info.source = f"single file, {next(iter(decoded.tables))}"
        _name_devices(decoded)
        return decoded
    module = _module(path)
    decoded.statistics[module] = read_statistic(path, decoded.notes)
    decoded.info.source = f"single file, {module}"
    return decoded


def _timeline(path: Path) -> Decoded:
    """Read a timeline; only timelines of a framework hold operators or Python calls."""
    decoded = torch_npu.read(path)
    of_framework = any(len(decoded.tables.get(name, ())) for name in ("operators", "python"))
    if not of_framework and decoded.info.source != FORMAT:
        decoded.info.collector, decoded.info.source = "", "single file, timeline"
    return decoded


def _description(path: Path, kind: str) -> Decoded:
    """Read the metadata file of a run, which has no tables."""
    decoded = Decoded()
    info = path if kind == "profiler_info" else None
    decoded.info = describe(ResultFiles(path, None, None, info, None if info else path), decoded.notes)
    decoded.info.source = f"single file, {kind}"
    if kind == "profiler_metadata":
        decoded.info.collector = ""  # torch_npu and MindSpore write the same file
    decoded.notes.info(
        path.name, "it has the metadata of a run and holds no tables: give the directory that it lies in"
    )
    return decoded


def _module(path: Path) -> str:
    match = _EXPORTED.fullmatch(path.name.removesuffix(".gz"))
    return match[1] if match else path.stem


def _json_kind(path: Path) -> str | None:
    head = read_head(path, _HEAD_BYTES)
    if not head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return None
    return next((kind for pattern, kind in _JSON if pattern.search(head)), None)


def _is_csv(path: Path) -> bool:
    try:
        return kind_of(column_names(path)) is not None
    except SourceError:
        return False


def _name_devices(decoded: Decoded) -> None:
    devices: set[int] = set()
    for frame in decoded.tables.values():
        if "device_id" in frame:
            devices |= {int(device) for device in frame["device_id"].dropna().unique()}
    decoded.info.devices = sorted(devices)


SOURCE = Source("single_file", (None, "parsed", "text"), recognises, read)

"""Profiles of other tools, which npuprof does not read: what a file is, and what can be opened instead."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable
from contextlib import closing, suppress
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from npuprof.sources.base import files_below
from npuprof.sources.files.gzip_file import read_head

_HEAD_BYTES = 1 << 16
_MOST_FILES = 200
_OF_TORCH = re.compile(rb'"(?:schemaVersion|deviceProperties|baseTimeNanoseconds)"\s*:')
_SQLITE = b"SQLite format 3\0"
_READS = (
    "npuprof reads traces of torch.profiler (export_chrome_trace), results of torch_npu, MindSpore and msprof, and "
    "memory snapshots"
)
_WITH_TORCH = "profile the program with torch.profiler, and load what export_chrome_trace wrote"


class _Kind(NamedTuple):
    """A kind of file: its name, what to do, endings of its names, its content, and tables of its database."""

    name: str
    instead: str
    endings: tuple[str, ...] = ()
    content: re.Pattern[bytes] | None = None
    tables: tuple[str, ...] = ()


_KINDS = (
    _Kind(
        "a profile of JAX or TensorFlow (XSpace)",
        "open it with XProf or TensorBoard",
        (".xplane.pb",),
        re.compile(rb"\A\x0a(?s:.){1,40}(?:/host:CPU|/device:|/host:metadata|#Chip)"),
    ),
    _Kind(
        "a trace of Perfetto in its binary form",
        "open it at ui.perfetto.dev",
        (".pftrace", ".perfetto-trace", ".perfetto_trace"),
        re.compile(rb"\A(?:\x0a[\x02-\x7f](?=[\x08\x10\x18\x40\x50\x52\x58\x80-\xfa])(?s:.){2,127}?){3}"),
    ),
    _Kind(
        "a report of Nsight Systems",
        f"open it with nsys-ui, or {_WITH_TORCH}",
        (".nsys-rep", ".qdrep", ".qdstrm"),
        tables=("CUPTI_ACTIVITY_KIND_", "TARGET_INFO_GPU", "NVTX_EVENTS"),
    ),
    _Kind("a report of Nsight Compute", "open it with ncu-ui", (".ncu-rep", ".ncu-repz", ".nsight-cuprof-report")),
    _Kind(
        "a result of rocprof",
        f"open it at ui.perfetto.dev or with ROCm's own tools, or {_WITH_TORCH}",
        (".otf2",),
        re.compile(rb'"rocprofiler-sdk-tool"|"BeginNs"\s*:|"roctracer|"ROCProfiler|"kernel_dispatch"\s*:'),
        ("rocpd_",),
    ),
    _Kind(
        "an execution trace of PyTorch (operators and their inputs, without times of a device)",
        "load the trace of the same run that export_chrome_trace wrote",
        (".et",),
        re.compile(
            rb'\A\s*\{(?=(?s:.)*"nodes"\s*:\s*\[)(?=(?s:.)*"(?:schema|ctrl_deps|rf_id)")(?!(?s:.)*"traceEvents")'
        ),
    ),
)


def foreign_kind(path: Path) -> str:
    """Return what a file of another tool is, and what to do, in words; empty for any other file."""
    with suppress(OSError):
        if not path.is_file():
            return ""
        name = path.name.lower()
        named = next((kind for kind in _KINDS if name.endswith(kind.endings)), None) if name else None
        head = read_head(path, _HEAD_BYTES)
        if head.startswith(_SQLITE):
            tables = _tables(path)
            kind = next((kind for kind in _KINDS if any(table.startswith(kind.tables) for table in tables)), None)
        else:
            of_torch = _OF_TORCH.search(head) is not None
            kind = named or next(
                (kind for kind in _KINDS if not of_torch and kind.content and kind.content.search(head)), None
            )
        return f"{kind.name}, which npuprof does not read: {kind.instead}. {_READS}" if kind else ""
    return ""


def foreign_below(path: Path) -> str:
    """Return what the first file of another tool below a folder is, in words; empty without one."""
    files = islice(files_below(path), _MOST_FILES) if path.is_dir() else ()
    return next((f"{file.name} is {text}" for file in files if (text := foreign_kind(file))), "")


def _tables(path: Path) -> Iterable[str]:
    address = f"{path.resolve().as_uri()}?mode=ro&immutable=1"  # else SQLite writes files beside one with a WAL
    with suppress(sqlite3.Error), closing(sqlite3.connect(address, uri=True)) as database:
        return [str(name) for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    return []

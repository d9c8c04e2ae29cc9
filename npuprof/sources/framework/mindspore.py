"""The FRAMEWORK folder of MindSpore: text files of CPU operators, of the graph and of the memory pool.

Source: collectors/FRONTENDS.md section 1.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.arrays import Int64
from npuprof.errors import SourceError
from npuprof.sources.base import Decoded
from npuprof.sources.columns.builders import recoded
from npuprof.sources.columns.decimals import MS_TO_NS, scaled
from npuprof.sources.files.gzip_file import read_head, read_whole
from npuprof.sources.framework.files import MINDSPORE_RANGES, note_unread
from npuprof.sources.framework.intervals import by_time
from npuprof.sources.raw.metadata.clocks import CounterClock
from npuprof.sources.text.csv_table import read_statistic
from npuprof.tables.ledger import STATISTICS
from npuprof.tables.notes import Notes

COLLECTOR = "mindspore"

_OPERATORS = re.compile(r"cpu_op_execute_timestamp_\d{1,6}\.txt")
_MEMORY = re.compile(r"cpu_ms_memory_record_\d{1,6}\.txt")
_GRAPH = re.compile(r"cpu_framework_\d{1,6}\.txt")
_STATISTIC = re.compile(r"(cpu_op_(?:type|detail)_info)_\d{1,6}\.csv")
_NUMBER = rb"(\d{1,18}|[1-8]\d{18})"  # fits an int64
_CALL = re.compile(rb"(?<![^ ])" + _NUMBER + rb",(\d[\d.eE+-]{0,30}),(\d{1,18})(?= |$)")
_GRAPH_LINE = re.compile(rb"([^;\n]*);([^;\n]*);(\d{0,20});([^\n]*)")
_MEMORY_HEAD = b"Timestamp(ns),Total Allocated(Byte)"
_HEAD_BYTES = 1 << 16
_MAX_BYTES = 4 << 30
_SAMPLE = re.compile(rb"^" + rb",".join([_NUMBER] * 4) + rb"\r?$", re.MULTILINE)


def holds_data(folder: Path) -> bool:
    """Check whether a folder has a file of CPU operators."""
    return folder.is_dir() and any(_OPERATORS.fullmatch(path.name) for path in folder.iterdir())


def read(folder: Path, _clock_of: Callable[[], CounterClock], decoded: Decoded) -> None:
    """Read the tables ``operators`` and ``memory``; the vendor's sums become statistics.

    A file name ends with the device number; several files of a kind are stacked. Times are UTC epoch times, so no clock
    is needed.
    """
    notes = decoded.notes
    paths = sorted(path for path in folder.iterdir() if path.is_file())
    operators = [path.name for path in paths if _OPERATORS.fullmatch(path.name)]
    memory = [path.name for path in paths if _MEMORY.fullmatch(path.name)]
    decoded.tables["operators"] = _operators(folder, operators, notes)
    decoded.tables["memory"] = _memory(folder, memory, notes)
    graphs = [path.name for path in paths if _GRAPH.fullmatch(path.name)]
    if graphs:
        decoded.statistics["cpu_framework"] = _graph(folder, graphs, notes)
    taken_names = {*operators, *memory, *graphs, MINDSPORE_RANGES}
    for path in paths:
        if match := _STATISTIC.fullmatch(path.name):
            taken_names.add(path.name)
            try:
                decoded.statistics[match[1]] = read_statistic(path, notes)
            except SourceError as error:
                notes.error(path.name, str(error))
    note_unread(folder, taken_names, notes)


def kind_of(path: Path) -> str:
    """Return the kind of a text file by its first bytes: operators, memory or graph; empty for other files."""
    head = read_head(path, _HEAD_BYTES)
    first = head.partition(b"\n")[0]
    if b";HostCpuOps;" in first and _CALL.search(first.rpartition(b";")[2]):
        return "operators"
    if head.startswith(_MEMORY_HEAD):
        return "memory"
    return "graph" if _GRAPH_LINE.fullmatch(first.rstrip(b"\r")) and re.search(rb";input_\d+:", head) else ""


def read_file(path: Path, decoded: Decoded) -> None:
    """Read one of the text files, whatever its name; see :func:`read`."""
    folder, names, notes = path.parent, [path.name], decoded.notes
    kind = kind_of(path)
    if kind == "operators":
        decoded.tables["operators"] = _operators(folder, names, notes)
    elif kind == "memory":
        decoded.tables["memory"] = _memory(folder, names, notes)
    else:
        decoded.statistics["cpu_framework"] = _graph(folder, names, notes)


def _operators(folder: Path, names: list[str], notes: Notes) -> pd.DataFrame:
    """Read lines of ``name;HostCpuOps;start,duration,thread start,duration,thread ...`` (ns, ms)."""
    parts: list[tuple[Int64, Int64, Int64]] = []
    operators: list[str] = []
    for name in names:
        for line in _content(folder, name, notes).splitlines():
            operator, _, remainder = line.rpartition(b";")
            if operator.endswith(b";HostCpuOps"):
                parts.append(_calls(remainder, name, notes))
                operators.append(operator.removesuffix(b";HostCpuOps").decode(errors="replace"))
            elif line:
                notes.warning(name, "a line is not of the form of CPU operators, and left out")
                notes.ledger.read(name, 1)
                notes.ledger.leave_out(name, 1)
    if not parts:
        return tables.empty("operators")
    start_ns, duration_ns, thread = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    code = np.repeat(np.arange(len(parts)), [len(part[0]) for part in parts])
    order = by_time(start_ns, duration_ns)
    columns: dict[str, Any] = {
        "start_ns": start_ns[order],
        "duration_ns": duration_ns[order],
        "name": recoded(code[order], list(operators)),
        "thread_id": thread[order],
        "kind": tables.categorical(np.zeros(len(order), np.int8), ["op"]),
        "id": np.arange(len(order)),
    }
    return tables.build("operators", columns)


def _calls(remainder: bytes, source: str, notes: Notes) -> tuple[Int64, Int64, Int64]:
    calls = _CALL.findall(remainder)
    starts, lengths, threads = zip(*calls, strict=True) if calls else ((), (), ())
    duration_ns, valid = scaled([length.decode() for length in lengths], MS_TO_NS)
    damaged = len(remainder.split()) - int(valid.sum())
    notes.ledger.read(source, damaged + int(valid.sum()))
    notes.ledger.keep(source, "operators", int(valid.sum()))
    if damaged:
        notes.warning(source, "a call of a CPU operator is damaged, and left out", damaged)
        notes.ledger.leave_out(source, damaged)
    return _whole(starts)[valid], duration_ns[valid], _whole(threads)[valid]


def _memory(folder: Path, names: list[str], notes: Notes) -> pd.DataFrame:
    rows: list[tuple[bytes, ...]] = []
    for name in names:
        content = _content(folder, name, notes)
        samples = _SAMPLE.findall(content)
        damaged = len(content.splitlines()) - 1 - len(samples)  # the first line holds the column names
        notes.ledger.read(name, len(samples) + max(damaged, 0))
        notes.ledger.keep(name, "memory", len(samples))
        if damaged > 0:
            notes.warning(name, "a line is no sample of memory, and left out", damaged)
            notes.ledger.leave_out(name, damaged)
        rows += samples
    columns = [_whole(column) for column in zip(*rows, strict=True)] if rows else [_whole(())] * 4
    frame = tables.build(
        "memory",
        {
            "time_ns": columns[0],
            "component": tables.categorical(np.zeros(len(rows), np.int8), ["MindSpore"]),
            "allocated_bytes": columns[1],
            "reserved_bytes": columns[2],
            "active_bytes": columns[3],
        },
    )
    return tables.sort_by_time(frame)


def _graph(folder: Path, names: list[str], notes: Notes) -> pd.DataFrame:
    """Read lines of ``type;name;graph;input_1:[2, 3];...``; a line without type and name has no further content."""
    rows: list[tuple[str, ...]] = []
    for name in names:
        for line in _content(folder, name, notes).splitlines():
            match = _GRAPH_LINE.fullmatch(line)
            notes.ledger.read(name, bool(line.strip()))
            if match is None and line.strip():
                notes.warning(name, "a line is not of the form of a graph's operators, and left out")
                notes.ledger.leave_out(name, 1)
            elif match is not None and (match[1] or match[2]):
                rows.append(tuple(part.decode(errors="replace").strip(";") for part in match.groups()))
                notes.ledger.keep(name, STATISTICS, 1)
            elif match is not None:
                notes.ledger.use(name, bool(line.strip()))  # an operator without a name has no further content
    names_of = ["op_type", "op_name", "graph_id", "inputs"]
    return pd.DataFrame(rows, columns=names_of, dtype=object)


def _whole(texts: tuple[bytes, ...]) -> Int64:
    """Parse digits that fit an int64."""
    return np.array(texts, dtype="S19").astype(np.int64)


def _content(folder: Path, name: str, notes: Notes) -> bytes:
    try:
        content, problem = read_whole(folder / name, _MAX_BYTES)
    except OSError as error:
        content, problem = b"", f"cannot be read ({error.strerror or error})"
    except SourceError as error:  # the other files are still read
        content, problem = b"", str(error)
    if problem:
        notes.error(name, problem)
    elif not content:
        notes.warning(name, "the file is empty: its records are missing")
    return content

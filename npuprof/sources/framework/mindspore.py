"""The FRAMEWORK folder of MindSpore: its text files of CPU operators and of the memory pool.

Source: formats/frontends.md section 1.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.errors import SourceError
from npuprof.notes import Notes
from npuprof.sources.base import Decoded
from npuprof.sources.columns import recoded
from npuprof.sources.csv_table import read_statistic
from npuprof.sources.decimals import MS_TO_NS, scaled
from npuprof.sources.framework.files import note_unread, read_content
from npuprof.sources.framework.spans import by_time
from npuprof.sources.framework.tlv import Int64
from npuprof.sources.raw.clocks import Clock

COLLECTOR = "mindspore"

_OPERATORS = re.compile(r"cpu_op_execute_timestamp_\d{1,6}\.txt")
_MEMORY = re.compile(r"cpu_ms_memory_record_\d{1,6}\.txt")
_STATISTIC = re.compile(r"(cpu_op_(?:type|detail)_info)_\d{1,6}\.csv")
_NUMBER = rb"(\d{1,18}|[1-8]\d{18})"  # fits an int64
_CALL = re.compile(rb"(?<![^ ])" + _NUMBER + rb",(\d[\d.eE+-]{0,30}),(\d{1,18})(?= |$)")
_SAMPLE = re.compile(rb"^" + rb",".join([_NUMBER] * 4) + rb"\r?$", re.MULTILINE)


def holds_data(folder: Path) -> bool:
    """Tell whether a folder has any file that :func:`read` takes."""
    return folder.is_dir() and any(_OPERATORS.fullmatch(path.name) for path in folder.iterdir())


def read(folder: Path, _clock_of: Callable[[], Clock], decoded: Decoded) -> None:
    """Read a folder's files into the tables ``operators`` and ``memory``; the vendor's sums become statistics.

    Parameters
    ----------
    folder
        The FRAMEWORK folder. A file name ends with the number of its device; several are read one after another.
    _clock_of
        Not needed: the times are of the UTC epoch.
    decoded
        Takes the tables, the statistics and the notes.
    """
    notes = decoded.notes
    paths = sorted(path for path in folder.iterdir() if path.is_file())
    operators = [path.name for path in paths if _OPERATORS.fullmatch(path.name)]
    memory = [path.name for path in paths if _MEMORY.fullmatch(path.name)]
    decoded.tables["operators"] = _operators(folder, operators, notes)
    decoded.tables["memory"] = _memory(folder, memory, notes)
    taken = {*operators, *memory}
    for path in paths:
        if match := _STATISTIC.fullmatch(path.name):
            taken.add(path.name)
            try:
                decoded.statistics[match[1]] = read_statistic(path, notes)
            except SourceError as error:
                notes.error(path.name, str(error))
    note_unread(folder, taken, notes)


def _operators(folder: Path, names: list[str], notes: Notes) -> pd.DataFrame:
    """Read lines of ``name;HostCpuOps;start,duration,thread start,duration,thread ...`` (ns, ms)."""
    parts: list[tuple[Int64, Int64, Int64]] = []
    operators: list[str] = []
    for name in names:
        for line in _content(folder, name, notes).splitlines():
            operator, _, rest = line.rpartition(b";")
            if operator.endswith(b";HostCpuOps"):
                parts.append(_calls(rest, name, notes))
                operators.append(operator.removesuffix(b";HostCpuOps").decode(errors="replace"))
            elif line:
                notes.warning(name, "a line is not of the form of CPU operators, and left out")
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


def _calls(rest: bytes, source: str, notes: Notes) -> tuple[Int64, Int64, Int64]:
    found = _CALL.findall(rest)
    starts, lengths, threads = zip(*found, strict=True) if found else ((), (), ())
    duration_ns, valid = scaled([length.decode() for length in lengths], MS_TO_NS)
    damaged = len(rest.split()) - int(valid.sum())
    if damaged:
        notes.warning(source, "a call of a CPU operator is damaged, and left out", damaged)
    return _whole(starts)[valid], duration_ns[valid], _whole(threads)[valid]


def _memory(folder: Path, names: list[str], notes: Notes) -> pd.DataFrame:
    rows: list[tuple[bytes, ...]] = []
    for name in names:
        content = _content(folder, name, notes)
        found = _SAMPLE.findall(content)
        damaged = len(content.splitlines()) - 1 - len(found)  # the first line names the columns
        if damaged > 0:
            notes.warning(name, "a line is no sample of memory, and left out", damaged)
        rows += found
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


def _whole(texts: tuple[bytes, ...]) -> Int64:
    """Read digits that are known to fit."""
    return np.array(texts, dtype="S19").astype(np.int64)


def _content(folder: Path, name: str, notes: Notes) -> bytes:
    content = read_content(folder, name, notes)
    return b"" if content is None else content.padded[: content.size].tobytes()

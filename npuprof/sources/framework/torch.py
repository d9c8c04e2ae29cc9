"""The FRAMEWORK folder of torch_npu: ``torch.op_range`` and the other files; garbage collection and parameters here.

Source: collectors/FRONTENDS.md section 2.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.sources.base import Decoded
from npuprof.sources.columns.builders import PYTHON_GC, recoded
from npuprof.sources.framework import memory, operators, python_calls
from npuprof.sources.framework.correlation import operator_links
from npuprof.sources.framework.files import note_unread, read_content, read_rows, read_texts
from npuprof.sources.framework.intervals import by_time, durations, reached, to_ns
from npuprof.sources.framework.python_calls import read_hash
from npuprof.sources.framework.tlv import scan
from npuprof.sources.raw.metadata.clocks import CounterClock
from npuprof.tables.ledger import STATISTICS
from npuprof.tables.notes import Notes

_PAUSES = "torch.gc_record"
_PAUSE_LAYOUT = [("process", "<i8"), ("start", "<u8"), ("end", "<u8")]
_PARAMETERS, _PARAMETER_KIND = "torch.param_tensor_info", 5
_PARAMETER_FIELDS = {1: "module", 2: "optimizer"}
_PARAMETERS_NAME = "param_tensor_info"  # name of the statistic
_FILES = (
    *("torch.op_range", "torch.op_mark", "torch.memory_usage"),
    *("torch.python_tracer_func", "torch.python_tracer_hash", _PARAMETERS, _PAUSES),
)

COLLECTOR = "torch_npu"


def holds_data(folder: Path) -> bool:
    """Check whether a folder has a file that :func:`read` reads."""
    return folder.is_dir() and any((folder / name).is_file() for name in _FILES)


def read(folder: Path, clock_of: Callable[[], CounterClock], decoded: Decoded) -> None:
    """Read the tables ``operators, steps, python, memory, allocations, marks`` and ``links``, and the parameters.

    A missing file leaves its tables empty. `clock_of` is :func:`npuprof.sources.framework.clock.framework_clock`.
    """
    notes, frames, clock = decoded.notes, decoded.tables, clock_of()
    frames.update(operators.read_operators(folder, clock, notes))
    frames["python"] = python_calls.read_python(folder, clock, notes)
    frames.update(memory.read_memory(folder, clock, frames["operators"], notes))
    frames["marks"] = read_garbage(folder, clock, notes)
    frames["links"] = operator_links(frames["operators"])
    parameters = read_parameters(folder, notes)
    if parameters is not None:
        decoded.statistics[_PARAMETERS_NAME] = parameters
    note_unread(folder, _FILES, notes)


def read_garbage(folder: Path, clock: CounterClock, notes: Notes) -> pd.DataFrame:
    """Read the pauses of Python's garbage collector as rows of `marks`; empty without the file.

    The file has no thread id: the process id is used, which on Linux is also the id of the main thread.
    """
    records = read_rows(folder, _PAUSES, _PAUSE_LAYOUT, notes)
    stamps = [np.ascontiguousarray(records[name]) for name in ("start", "end")]
    good = reached(clock, stamps, notes, _PAUSES)
    start_ns, end_ns = (to_ns(clock, column[good]) for column in stamps)
    duration_ns = durations(start_ns, end_ns, notes, _PAUSES)
    order = by_time(start_ns, duration_ns)
    same = np.zeros(len(order), np.int8)
    notes.ledger.keep(_PAUSES, "marks", len(order))
    return tables.build(
        "marks",
        {
            "start_ns": start_ns[order],
            "duration_ns": duration_ns[order],
            "message": tables.categorical(same, ["GC"]),
            "domain": tables.categorical(same, [PYTHON_GC]),
            "thread_id": records["process"][good][order].astype(np.int64),
        },
    )


def read_parameters(folder: Path, notes: Notes) -> pd.DataFrame | None:
    """Read the parameters of modules and optimizers; None without the file.

    Returns
    -------
    A row per text: ``function`` (the Python function that they belong to), ``kind`` and ``parameters``.
    """
    content = read_content(folder, _PARAMETERS, notes)
    if content is None:
        return None
    records = scan(content, _PARAMETER_KIND, 8, notes, _PARAMETERS)
    keys, names = read_hash(folder, Notes())  # the reader of Python calls notes damage of that file
    key = records.column(0, "<u8").astype(np.uint64)
    place = np.searchsorted(keys, key)
    is_known = place < len(keys)
    is_known[is_known] = keys[place[is_known]] == key[is_known]
    fields, parts = records.fields(tuple(_PARAMETER_FIELDS), notes, _PARAMETERS), []
    if empty := int(np.logical_and.reduce([length < 0 for _, length in fields.values()]).sum()):
        notes.warning(_PARAMETERS, "a record has no parameters of a module or optimizer: it is damaged", empty)
    for field, (at, length) in fields.items():
        rows = np.flatnonzero(length >= 0)
        codes, texts = read_texts(content, at[rows], length[rows], notes, _PARAMETERS)
        columns = {
            "function": recoded(np.where(is_known, place, -1)[rows], list(names)),
            "kind": tables.categorical(np.zeros(len(rows), np.int8), [_PARAMETER_FIELDS[field]]),
            "parameters": recoded(codes, texts),
        }
        parts.append(pd.DataFrame(columns).astype(object))
    notes.ledger.keep(_PARAMETERS, STATISTICS, len(records.start), sum(map(len, parts)))
    return pd.concat(parts, ignore_index=True).astype("category")

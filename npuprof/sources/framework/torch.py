"""The FRAMEWORK folder of torch_npu: ``torch.op_range`` and its neighbours to tables.

Source: collectors/FRONTENDS.md section 2.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from npuprof.sources.base import Decoded
from npuprof.sources.framework import gc_pauses, memory, operators, parameters, python_calls
from npuprof.sources.framework.correlation import operator_links
from npuprof.sources.framework.files import note_unread
from npuprof.sources.raw.metadata.clocks import Clock

_FILES = (
    "torch.op_range",
    "torch.op_mark",
    "torch.memory_usage",
    "torch.python_tracer_func",
    "torch.python_tracer_hash",
    "torch.param_tensor_info",
    "torch.gc_record",
)

COLLECTOR = "torch_npu"


def holds_data(folder: Path) -> bool:
    """Return whether a folder has any file that :func:`read` takes."""
    return folder.is_dir() and any((folder / name).is_file() for name in _FILES)


def read(folder: Path, clock_of: Callable[[], Clock], decoded: Decoded) -> None:
    """Read a folder's files into the tables ``operators, steps, python, memory, allocations, marks`` and ``links``.

    Parameters
    ----------
    folder
        The FRAMEWORK folder; a file that is missing leaves its tables empty.
    clock_of
        Gives the clock, see :func:`npuprof.sources.framework.clock.framework_clock`.
    decoded
        Takes the tables, the parameters as a statistic, and the notes.
    """
    notes, tables, clock = decoded.notes, decoded.tables, clock_of()
    tables.update(operators.read_operators(folder, clock, notes))
    tables["python"] = python_calls.read_python(folder, clock, notes)
    tables.update(memory.read_memory(folder, clock, tables["operators"], notes))
    tables["marks"] = gc_pauses.read_garbage(folder, clock, notes)
    tables["links"] = operator_links(tables["operators"])
    found = parameters.read_parameters(folder, notes)
    if found is not None:
        decoded.statistics[parameters.NAME] = found
    note_unread(folder, _FILES, notes)

"""MindSpore's own processes in a timeline: its slices have no category that tells an operator from other things.

The process tells: ``MindSpore`` and ``CPU OP`` hold operators and steps, ``Scope Layer`` the layers of the network
around the kernels, one thread a depth. Python calls have no numbers of their own; they nest in time.

Source: sources/RESULTS.md section 1.2.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from npuprof import tables
from npuprof.arrays import Int64
from npuprof.ledger import STATISTICS
from npuprof.notes import Notes
from npuprof.sources.columns.builders import Columns
from npuprof.sources.columns.nullable import ABSENT
from npuprof.sources.trace.columns import Trace

_OPERATORS = ("MindSpore", "CPU OP")
_SCOPES = "Scope Layer"
_PARTS = ("start_ns", "duration_ns", "name", "lane", "category")
_ABSENT_NUMBERS = ("sequence_number", "forward_thread_id")
_ABSENT_NAMES = ("input_shapes", "input_dtypes", "stack")


def is_mindspore(trace: Trace) -> bool:
    """Return whether MindSpore wrote a timeline, by the processes that only it has."""
    return any(name in (*_OPERATORS, _SCOPES) for name in trace.processes.values())


def sort_out(trace: Trace, notes: Notes, source: str) -> dict[str, pd.DataFrame]:
    """Put the operators of a timeline of MindSpore where those of others are, and number its Python calls.

    Returns
    -------
    ``scope_layers``, where there are any: name, depth, start_ns and duration_ns of the layers of the network. Their
    times are those of the first and the last kernel of each.
    """
    if not is_mindspore(trace):
        return {}
    _nest_python(trace)
    plain = trace.slices["plain"]
    if not len(plain):
        return {}
    of_process = np.array([trace.processes.get(pid, "") for pid, _ in trace.lanes], object)[plain["lane"]]
    operator, scope = np.isin(of_process, _OPERATORS), of_process == _SCOPES
    if operator.any():
        _add_operators(trace.slices["operator"], plain, operator)
    found = {"scope_layers": _scope_layers(trace, plain, scope)} if scope.any() else {}
    notes.ledger.keep(source, STATISTICS, int(scope.sum()))
    rest = Columns()
    rest.books = plain.books
    rest.add({name: plain[name][~operator & ~scope] for name in _PARTS})
    trace.slices["plain"] = rest
    return found


def _add_operators(operators: Columns, plain: Columns, chosen: npt.NDArray[np.bool_]) -> None:
    count = int(chosen.sum())
    columns = {name: plain[name][chosen] for name in ("start_ns", "duration_ns", "lane")}
    for name in ("name", "category"):
        code = operators.books[name].codes(plain.books[name].values)
        columns[name] = np.append(code, np.int32(-1))[plain[name][chosen]]
    columns.update({name: np.full(count, ABSENT, np.int64) for name in _ABSENT_NUMBERS})
    columns.update({name: np.full(count, -1, np.int32) for name in _ABSENT_NAMES})
    operators.add(columns)


def _scope_layers(trace: Trace, plain: Columns, chosen: npt.NDArray[np.bool_]) -> pd.DataFrame:
    depths = np.array([tid if isinstance(tid, int) and 0 <= tid < 1 << 31 else 0 for _, tid in trace.lanes], np.int64)
    frame: pd.DataFrame = pd.DataFrame(
        {
            "name": tables.categorical(plain["name"][chosen], plain.names("name")).remove_unused_categories(),
            "depth": depths[plain["lane"][chosen]],
            "start_ns": plain["start_ns"][chosen],
            "duration_ns": plain["duration_ns"][chosen],
        }
    )
    ordered: pd.DataFrame = frame.sort_values(["start_ns", "depth"], kind="stable", ignore_index=True)
    return ordered


def _nest_python(trace: Trace) -> None:
    """Assign numbers to Python calls without one, and set the call around each as its parent."""
    calls = trace.slices["python"]
    if not len(calls) or (calls["id"] != ABSENT).any():
        return
    start, lane = calls["start_ns"], calls["lane"]
    end = start + calls["duration_ns"]
    parent = np.full(len(start), ABSENT, np.int64)
    around: list[int] = []
    for row in np.lexsort((-end, start, lane)).tolist():
        while around and not (lane[around[-1]] == lane[row] and end[row] <= end[around[-1]]):
            around.pop()
        if around:
            parent[row] = around[-1]
        around.append(row)
    _replace(calls, "id", np.arange(len(start)))
    _replace(calls, "parent_id", parent)


def _replace(columns: Columns, name: str, values: Int64) -> None:
    columns[name][:] = values

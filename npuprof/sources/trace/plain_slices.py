"""Slices without a layout: MindSpore's operators and scopes, and the parts of a graph's iterations.

In MindSpore's timelines the process decides: ``MindSpore`` and ``CPU OP`` hold operators and steps, ``Scope Layer`` the
layers of the network around the kernels, one thread per depth. Its Python calls have no ids; they nest in time.

Source: sources/RESULTS.md sections 1.2 and 2.5.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.arrays import Bools
from npuprof.sources.columns.builders import ABSENT, GatheredColumns
from npuprof.sources.trace.columns import Trace
from npuprof.tables.ledger import STATISTICS
from npuprof.tables.notes import Notes

_OPERATORS = ("MindSpore", "CPU OP")
_SCOPES = "Scope Layer"
_COLUMNS = ("start_ns", "duration_ns", "name", "lane", "category")
_ABSENT_NUMBERS = ("sequence_number", "forward_thread_id")
_ABSENT_NAMES = ("input_shapes", "input_dtypes", "stack")


def is_mindspore(trace: Trace) -> bool:
    """Check by the processes whether MindSpore wrote the timeline."""
    return any(name in (*_OPERATORS, _SCOPES) for name in trace.processes.values())


def take_mindspore(trace: Trace, notes: Notes, source: str) -> dict[str, pd.DataFrame]:
    """Move MindSpore's operators to the layout of other frameworks' operators, and number its Python calls.

    Returns
    -------
    ``scope_layers``, if any: name, depth, start_ns and duration_ns of the layers of the network; a layer lasts from its
    first to its last kernel.
    """
    if not is_mindspore(trace):
        return {}
    _nest_python(trace)
    plain = trace.slices["plain"]
    if not len(plain):
        return {}
    process = np.array([trace.processes.get(pid, "") for pid, _ in trace.lanes], object)[plain["lane"]]
    operator, scope = np.isin(process, _OPERATORS), process == _SCOPES
    if operator.any():
        _add_operators(trace.slices["operator"], plain, operator)
    layers = {"scope_layers": _scope_layers(trace, plain, scope)} if scope.any() else {}
    notes.ledger.keep(source, STATISTICS, int(scope.sum()))
    _keep(trace, ~operator & ~scope)
    return layers


def _keep(trace: Trace, is_selected: Bools) -> None:
    """Keep only the selected slices without a layout."""
    plain, remainder = trace.slices["plain"], GatheredColumns()
    remainder.books = plain.books
    remainder.add({name: plain[name][is_selected] for name in _COLUMNS})
    trace.slices["plain"] = remainder


def _add_operators(operators: GatheredColumns, plain: GatheredColumns, is_selected: Bools) -> None:
    count = int(is_selected.sum())
    columns = {name: plain[name][is_selected] for name in ("start_ns", "duration_ns", "lane")}
    for name in ("name", "category"):
        code = operators.books[name].codes(plain.books[name].values)
        columns[name] = np.append(code, np.int32(-1))[plain[name][is_selected]]
    columns.update({name: np.full(count, ABSENT, np.int64) for name in _ABSENT_NUMBERS})
    columns.update({name: np.full(count, -1, np.int32) for name in _ABSENT_NAMES})
    operators.add(columns)


def _scope_layers(trace: Trace, plain: GatheredColumns, is_selected: Bools) -> pd.DataFrame:
    depths = np.array([tid if isinstance(tid, int) and 0 <= tid < 1 << 31 else 0 for _, tid in trace.lanes], np.int64)
    frame: pd.DataFrame = pd.DataFrame(
        {
            "name": tables.categorical(plain["name"][is_selected], plain.names("name")).remove_unused_categories(),
            "depth": depths[plain["lane"][is_selected]],
            "start_ns": plain["start_ns"][is_selected],
            "duration_ns": plain["duration_ns"][is_selected],
        }
    )
    return frame.sort_values(["start_ns", "depth"], kind="stable", ignore_index=True)


def _nest_python(trace: Trace) -> None:
    """Assign ids to Python calls without ids, and set the enclosing call as the parent."""
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
    calls["id"][:], calls["parent_id"][:] = np.arange(len(start)), parent


NAME = "iteration_parts"
"""The name of the statistic."""

_KINDS = {"FP_BP Time": "fp_bp", "Iteration Refresh": "refresh", "Reduce": "reduce"}


def take_iteration_parts(trace: Trace, notes: Notes, source: str) -> dict[str, pd.DataFrame]:
    """Remove the parts of iterations from the slices without a layout, and return them as a frame.

    Returns
    -------
    ``iteration_parts``, if any: kind (fp_bp, refresh or reduce), name, start_ns and duration_ns, in order of time.
    """
    plain = trace.slices["plain"]
    if not len(plain):
        return {}
    kinds = [_KINDS.get(str(category), "") for category in plain.books["category"].values]
    kind = np.array([*kinds, ""], object)[plain["category"]]  # code -1 selects the last entry
    is_selected = kind != ""
    if not is_selected.any():
        return {}
    frame = pd.DataFrame(
        {
            "kind": pd.Categorical(kind[is_selected]),
            "name": tables.categorical(plain["name"][is_selected], plain.names("name")).remove_unused_categories(),
            "start_ns": plain["start_ns"][is_selected],
            "duration_ns": plain["duration_ns"][is_selected],
        }
    )
    _keep(trace, ~is_selected)
    parts = frame.sort_values("start_ns", kind="stable").drop_duplicates(ignore_index=True)
    notes.ledger.keep(source, STATISTICS, len(parts))
    leave_out_repeated(len(frame) - len(parts), notes, source)
    return {NAME: parts}


def leave_out_repeated(count: int, notes: Notes, source: str) -> None:
    """Skip iterations that were read before: each file of an old result repeats all of them."""
    notes.leave_out(source, "several files hold the same iteration or part of it", count, severity="info")

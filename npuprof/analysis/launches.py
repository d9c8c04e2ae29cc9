"""From the operator over the CANN call to the kernel, and back to the line of Python that began it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from npuprof import tables as schema
from npuprof.analysis.correlation import LAYERS, Causes, causes, without_cycles
from npuprof.arrays import Bools, Int64

_FRAME = re.compile(r"(?P<file>.+)\((?P<line>\d{1,9})\): (?P<function>.+)", re.DOTALL)
# Files of Python and of installed packages, whose names a framework may shorten to begin with the package.
_INSTALLED = re.compile(
    r"(^|[/\\])((site|dist)-packages|lib[/\\]python\d[\d.]*|multiprocessing|importlib)[/\\]"
    r"|^(torch|torch_npu|torchvision|transformers|mindspore|numpy|npuprof)[/\\]|^<"
)
_MODULE = "nn.Module: "
_OF_KERNEL = ("device_id", "stream_id", "start_ns", "duration_ns", "name", "op_type", "step")


def launches(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Join each kernel with the operator that launched it, the CANN call, and the line of Python.

    Parameters
    ----------
    tables
        Every table of the schema by name; ``python``, ``operators``, ``api``, ``kernels``, ``tasks`` and ``links``
        are read.

    Returns
    -------
    pandas.DataFrame
        A row for each row of ``kernels``, in its order, so that durations of the device add up to those of all kernels:

        * ``device_id``, ``stream_id``, ``start_ns``, ``duration_ns``, ``name``, ``op_type`` and ``step`` of the kernel;
        * ``operator`` and ``operator_row``: the innermost framework operator that launched it, absent where the
          recording does not tell; ``operator_row`` counts rows of ``operators``; ``outer_operator``: the outermost one;
        * ``api``, ``api_row``, ``thread_id`` and ``launch_ns``: the CANN call, where it ran and when it began (of a
          kernel without a call, the operator that launched it);
        * ``file``, ``line`` and ``function``: the innermost frame of Python outside installed packages, else the
          innermost of all. A kernel of the backward pass without Python calls of its own has the line of the
          operator of the forward pass that autograd derives it from;
        * ``module``: the innermost ``nn.Module`` around it, where modules were recorded.
    """
    found = causes(tables)
    kernels = tables["kernels"]
    callers, backward = found.callers, _with_forward(tables["links"], found)
    operators = np.zeros(len(callers), bool)
    rows = slice(found.first_row["operators"], found.first_row["api"])
    kind = tables["operators"]["kind"]
    operators[rows] = ~kind.isin(["enqueue", "dequeue"]).to_numpy(bool)
    operator = _nearest(callers, found.launchers, operators)
    # A sampled Python call may lie between an operator and its CANN call, and its own caller outside of the operator:
    # of the operator around the call and the one that the links name, the inner one began later.
    begin = np.append(_of_host_layers(tables, "start_ns"), np.iinfo(np.int64).min)
    operator = np.where(begin[operator] >= begin[found.operators], operator, found.operators)
    outer = _nearest(callers, operator, operators & (_nearest(callers, callers, operators) < 0))
    operator, outer = (np.maximum(rows - found.first_row["operators"], -1) for rows in (operator, outer))
    api = np.maximum(found.launchers - found.first_row["api"], -1)
    frames, frame = _lines(tables, found.launchers, callers, backward)
    frame_parts = [_FRAME.fullmatch(one) for one in frames]
    modules, module = _modules(tables, found.launchers, callers, backward)
    joined: pd.DataFrame = (
        kernels[list(_OF_KERNEL)]
        .reset_index(drop=True)
        .assign(
            operator=_taken(tables["operators"]["name"], operator),
            operator_row=_optional(operator, operator < 0),
            outer_operator=_taken(tables["operators"]["name"], outer),
            api=_taken(tables["api"]["name"], api),
            api_row=_optional(api, api < 0),
            thread_id=_of_host(tables, found.launchers, "thread_id"),
            launch_ns=_of_host(tables, found.launchers, "start_ns"),
            file=_names(frame, [part["file"] if part else "" for part in frame_parts]),
            line=_optional(
                np.array([*(int(part["line"]) if part else 0 for part in frame_parts), 0])[frame], frame < 0
            ),
            function=_names(frame, [part["function"] if part else "" for part in frame_parts]),
            module=_names(module, modules),
        )
    )
    return joined


def _nearest(callers: Int64, rows: Int64, wanted: Bools) -> Int64:
    """Return for each row itself or its nearest caller that is wanted; -1 without one, and for -1."""
    if not len(callers):
        return np.full(len(rows), -1, np.int64)
    found = np.where(wanted, np.arange(len(callers)), callers)
    # Every round doubles how far up each row has looked; there are no cycles.
    while len(open_rows := np.flatnonzero((found >= 0) & ~wanted[found])):
        found[open_rows] = found[found[open_rows]]
    nearest: Int64 = np.where(rows >= 0, found[rows], -1)
    return nearest


def _with_forward(links: pd.DataFrame, found: Causes) -> Int64:
    """Return the callers, operators of the backward pass called by those of the forward pass that they derive from."""
    first, count = found.first_row["operators"], found.first_row["api"] - found.first_row["operators"]
    source, target = links["source_row"].to_numpy(np.int64), links["target_row"].to_numpy(np.int64)
    known = (source >= 0) & (source < count) & (target >= 0) & (target < count)
    derived = (links["kind"] == "forward_backward").to_numpy(bool) & known
    callers = found.callers.copy()
    callers[target[derived] + first] = source[derived] + first
    return without_cycles(callers)


def _lines(
    tables: Mapping[str, pd.DataFrame], launchers: Int64, callers: Int64, backward: Int64
) -> tuple[list[str], Int64]:
    """Return frames, and for each launcher the number of its own: one of the user's code, else any."""
    python, operators = tables["python"]["name"], tables["operators"]["stack"]
    own = [(python, lambda name: _frame(name, users=True)), (operators, lambda stack: _frame(stack, users=True))]
    every = [(python, _frame), (operators, _frame)]
    frames: list[str] = []
    chosen = np.full(len(launchers), -1, np.int64)
    for columns in (own, every):
        codes = _codes(columns, frames, len(callers))
        for above in (callers, backward):
            nearest = _nearest(above, launchers, codes >= 0)
            told = (chosen < 0) & (nearest >= 0)
            chosen[told] = codes[nearest[told]]
    return frames, chosen


def _frame(stack: str, *, users: bool = False) -> str:
    """Return the innermost frame of a stack, a frame a line, or of one call; the user's own if asked for."""
    frames = (line for line in stack.split("\n") if _FRAME.fullmatch(line))
    return next((line for line in frames if not users or not _INSTALLED.search(line)), "")


def _modules(
    tables: Mapping[str, pd.DataFrame], launchers: Int64, callers: Int64, backward: Int64
) -> tuple[list[str], Int64]:
    python, operators = tables["python"]["name"], tables["operators"].get("modules")
    columns = [(python, lambda name: name.removeprefix(_MODULE) if name.startswith(_MODULE) else "")]
    if operators is not None:
        columns.append((operators.astype("category"), str))
    names: list[str] = []
    codes = _codes(columns, names, len(callers))
    chosen = _nearest(callers, launchers, codes >= 0)
    chosen = np.where(chosen >= 0, chosen, _nearest(backward, launchers, codes >= 0))
    return names, np.append(codes, -1)[chosen]


def _codes(columns: Sequence[tuple[Any, Callable[[str], str]]], texts: list[str], count: int) -> Int64:
    """Return for each host slice the number of what its name tells, -1 for nothing; each name is read once.

    The columns are of ``python`` and ``operators``, in this order; what is told is added to `texts`.
    """
    number = {text: place for place, text in enumerate(texts)}
    parts = []
    for column, read in columns:
        told = [read(str(name)) for name in column.cat.categories]
        of_name = [number.setdefault(text, len(number)) if text else -1 for text in told]
        parts.append(np.array([*of_name, -1], np.int64)[column.cat.codes.to_numpy()])
    texts[:] = number
    codes = np.full(count, -1, np.int64)
    codes[: sum(map(len, parts))] = np.concatenate(parts)
    return codes


def _of_host(tables: Mapping[str, pd.DataFrame], rows: Int64, column: str) -> Any:
    return _optional(np.append(_of_host_layers(tables, column), 0)[rows], rows < 0)


def _of_host_layers(tables: Mapping[str, pd.DataFrame], column: str) -> Int64:
    return np.concatenate([tables[name][column].to_numpy(np.int64) for name in LAYERS])


def _optional(values: Int64, absent: Bools) -> Any:
    return pd.arrays.IntegerArray(np.where(absent, 0, values), absent)


def _names(codes: Int64, names: Sequence[str]) -> pd.Categorical:
    """Return a name column of codes into names that may repeat; what has no name is absent."""
    distinct = list(dict.fromkeys(filter(None, names)))
    number = {name: code for code, name in enumerate(distinct)}
    return schema.categorical(np.array([*(number.get(name, -1) for name in names), -1])[codes], distinct)


def _taken(names: pd.Series[Any], rows: Int64) -> pd.Categorical:
    codes = np.append(names.cat.codes.to_numpy(), -1)[rows]
    return schema.categorical(codes, [str(name) for name in names.cat.categories])

"""Operators that the host launched: names, cores, block numbers and tensors, joined to the launching call.

Source: raw/FORMAT.md sections 4.1, 4.2 and 8.2.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from npuprof.arrays import Bools, Int64, Records, first_rows
from npuprof.sources.raw.host.calls import Api
from npuprof.sources.raw.host.captures import CapturedOperators
from npuprof.sources.raw.host.reader import RawHost
from npuprof.sources.raw.host.tensors import OperandLists, describe_tensors, operand_lists
from npuprof.sources.raw.metadata.dictionaries import NameColumn
from npuprof.sources.raw.records import enums, layouts


@dataclass(frozen=True)
class Operators:
    """Operators in file order; the arrays are parallel."""

    # op_name, op_type, core: names; `core` is the vendor's task type (`AI_CORE`, `AI_VECTOR_CORE`, `MIX_AIC` ...).
    op_name: NameColumn
    op_type: NameColumn
    core: NameColumn
    # blocks, ratio: blocks, and blocks of the other core per block.
    blocks: Int64
    ratio: Int64
    # hf32, dynamic: whether HF32 is allowed, and whether shapes are dynamic.
    hf32: Bools
    dynamic: Bools
    attributes: NameColumn  # the front end's attributes (node_attr_info), or absent
    tensors: dict[str, NameColumn]  # the columns of `COLUMNS`
    of_call: Int64  # row of the operator by position of the launching call in the tree of calls, or -1
    # contexts, of_context: sorted keys of (call, context id) and the operator of each, for operators fused in a launch.
    contexts: Int64
    of_context: Int64

    def __len__(self) -> int:
        return len(self.blocks)

    def find(self, calls: Int64, contexts: Int64) -> Int64:
        """Return the operator of a task by its launching call and context (-1: none), or -1."""
        operator = take(self.of_call, calls)
        if len(self.contexts):
            keys = calls << 32 | contexts
            at = first_rows(self.contexts, keys)
            operator = np.where((calls >= 0) & (contexts >= 0) & (at >= 0), self.of_context[at], operator)
        return operator


def with_captured(operators: Operators, captured: CapturedOperators) -> Operators:
    """Append the operators of captured graphs to the launched ones."""
    if not len(captured):
        return operators
    columns: dict[str, Any] = {}
    for name in ("op_name", "op_type", "core", "attributes"):
        columns[name] = getattr(operators, name).append(getattr(captured, name))
    for name in ("blocks", "ratio", "hf32", "dynamic"):
        columns[name] = np.concatenate((getattr(operators, name), getattr(captured, name)))
    texts = {name: column.append(captured.tensors[name]) for name, column in operators.tensors.items()}
    return replace(operators, **columns, tensors=texts)


def take(values: Int64, rows: Int64) -> Int64:
    """Return values at rows; row -1 stays -1."""
    if not len(values):
        return np.full(len(rows), -1, np.int64)
    return np.where(rows >= 0, values[rows], -1)


def read_operands(host: RawHost) -> OperandLists:
    """Read tensor_info, whose records are the largest: before others are in memory."""
    return operand_lists(host.read("additional.tensor_info", layouts.TENSOR_INFO)[0])


def read_operators(host: RawHost, api: Api, context_ids: Records, operands: OperandLists) -> Operators:
    """Read operator descriptions, and join tensors, attributes and context_id_info records to them."""
    nodes, aging = host.read("compact.node_basic_info", layouts.NODE_BASIC)
    launch_of = api.nearest(enums.NODE)
    calls = take(launch_of, api.at(nodes["thread"], nodes["stamp"]))
    of_call = _operator_of_call(api, nodes, calls)
    lost_count = int((calls < 0).sum())
    if lost_count:
        host.notes.warning(
            "node_basic_info",
            "operators outside any launch call: their kernels stay without name, type and shapes",
            lost_count,
        )
    finder = _Finder(nodes, calls, of_call)
    described = finder.find(take(launch_of, api.at(operands.thread, operands.stamp)), operands.op_name)
    contexts, of_context = _contexts(api, context_ids, launch_of, finder)
    return Operators(
        op_name=host.names.names_of(nodes["op_name"]),
        op_type=host.names.names_of(nodes["op_type"]),
        core=NameColumn.lookup(nodes["task_type"], lambda value: enums.GE_TASK_TYPES.get(value) or str(value)),
        blocks=nodes["blocks"].astype(np.int64),
        ratio=nodes["ratio"].astype(np.int64),
        hf32=(nodes["flags"] & 1).astype(bool),
        dynamic=aging,
        attributes=_attributes(host, api, launch_of, finder, len(nodes)),
        tensors=describe_tensors(operands, described, len(nodes), host.notes, host.names.formats),
        of_call=of_call,
        contexts=contexts,
        of_context=of_context,
    )


def _operator_of_call(api: Api, nodes: Records, calls: Int64) -> Int64:
    # A launch usually describes a single operator. Where it describes several, the operator that the call names is last
    # and wins.
    of_call = np.full(len(api.rows), -1, np.int64)
    held_rows = np.flatnonzero(calls >= 0)
    of_call[calls[held_rows]] = held_rows
    of_call_name = held_rows[api.item[api.rows[calls[held_rows]]] == nodes["op_name"][held_rows]]
    of_call[calls[of_call_name]] = of_call_name
    return of_call


class _Finder:
    """Lookup of operators by launching call and operator name."""

    def __init__(self, nodes: Records, calls: Int64, of_call: Int64) -> None:
        self._names, self._calls, self._of_call = nodes["op_name"], calls, of_call

    def find(self, calls: Int64, names: npt.NDArray[Any]) -> Int64:
        operator = take(self._of_call, calls)
        if not len(self._names):
            return operator
        other = np.flatnonzero((operator >= 0) & (self._names[operator] != names))
        if len(other):
            operator[other] = self._search(calls[other], names[other])
        return operator

    def _search(self, calls: Int64, names: npt.NDArray[Any]) -> Int64:
        distinct, codes = np.unique(np.concatenate((self._names, names)), return_inverse=True)
        keys_of_nodes = self._calls * len(distinct) + codes[: len(self._names)]
        return first_rows(keys_of_nodes, calls * len(distinct) + codes[len(self._names) :])


def _attributes(host: RawHost, api: Api, launch_of: Int64, finder: _Finder, count: int) -> NameColumn:
    records, _ = host.read("compact.node_attr_info", layouts.NODE_ATTR)
    if not len(records):
        return NameColumn.absent(count)
    operators = finder.find(take(launch_of, api.at(records["thread"], records["stamp"])), records["op_name"])
    held_rows = np.flatnonzero(operators >= 0)
    of_operator = np.full(count, -1, np.int64)
    of_operator[operators[held_rows]] = held_rows
    return host.names.names_of(records["attributes"]).take(of_operator)


def _contexts(api: Api, records: Records, launch_of: Int64, finder: _Finder) -> tuple[Int64, Int64]:
    records = records[records["level"] == enums.NODE]
    calls = take(launch_of, api.at(records["thread"], records["stamp"]))
    operators = finder.find(calls, records["op_name"])
    counts = np.minimum(records["count"], records["ids"].shape[1])
    is_filled = np.arange(records["ids"].shape[1]) < counts[:, None]
    is_filled &= (operators >= 0)[:, None]
    rows, columns = np.nonzero(is_filled)
    keys = calls[rows] << 32 | records["ids"][rows, columns].astype(np.int64)
    order = np.argsort(keys, kind="stable")
    return keys[order], operators[rows][order]

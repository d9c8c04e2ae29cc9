"""Tensor descriptions of operators: shapes, data types and formats as text, each distinct operand list once.

Source: raw/FORMAT.md section 4.2 (tensor_info).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from npuprof.arrays import Bools, Int64, Records, taken
from npuprof.sources.raw.metadata.dictionaries import NameColumn
from npuprof.sources.raw.records import enums, layouts
from npuprof.tables.notes import Notes

COLUMNS = ("input_shapes", "input_dtypes", "input_formats", "output_shapes", "output_dtypes", "output_formats")
"""The columns of `kernels` that tensors fill."""

_ROWS_AT_ONCE = 4096  # in records of 224 bytes


@dataclass(frozen=True)
class OperandLists:
    """The operands of tensor_info records, each distinct list once: the records take ten times as much memory."""

    # thread, stamp, op_name: of each record, in file order: the thread and host counter of the call around it, and the
    # operator's hash.
    thread: Records
    stamp: Records
    op_name: Records
    codes: Int64  # the list of each record
    operands: list[list[Any]]  # the operands of each list
    is_short: Bools  # whether a list has fewer operands than its record claims


def operand_lists(records: Records) -> OperandLists:
    """Return the operands of tensor_info records."""
    codes, first = _distinct(records)
    distinct = taken(records, first)
    claimed = distinct["count"].astype(np.int64)
    return OperandLists(
        np.ascontiguousarray(records["thread"]),
        np.ascontiguousarray(records["stamp"]),
        np.ascontiguousarray(records["op_name"]),
        codes,
        # Shapes are views of what they are listed of: of all records they would keep these in memory.
        [held[:operands].tolist() for held, operands in zip(distinct["tensors"], claimed.tolist(), strict=True)],
        claimed > layouts.TENSORS_A_RECORD,
    )


def describe_tensors(
    recorded: OperandLists, operators: Int64, count: int, notes: Notes, formats: Mapping[int, str]
) -> dict[str, NameColumn]:
    """Describe the tensors of operators.

    Parameters
    ----------
    operators
        Operator (0 to `count` - 1) of each record, or -1. Several records of an operator are a list, in order.
    """
    kept = np.flatnonzero(operators >= 0)
    lists, used = pd.factorize(recorded.codes[kept])
    if short := int(np.count_nonzero(recorded.is_short[used])):
        notes.warning("tensor_info", "records that claim more tensors than they hold; those they hold are kept", short)
    lists_of_operator, distinct = _joined(lists, operators[kept], count)
    names = {**formats, **enums.FORMATS}
    texts = [
        _texts([operand for part in parts for operand in recorded.operands[used[part]]], names) for parts in distinct
    ]
    return {
        column: NameColumn.distinct(np.arange(len(texts)), [text[number] for text in texts]).take(lists_of_operator)
        for number, column in enumerate(COLUMNS)
    }


def _distinct(records: Records) -> tuple[Int64, Int64]:
    """Return a code per distinct record content, and the first record of each code."""
    words = records["words"]
    hashes = np.empty(len(records), np.uint64)
    weights = np.array(_WEIGHTS, np.uint64)
    for rows in _stretches(len(records)):
        np.matmul(words[rows], weights, out=hashes[rows])
    codes, first = _first_of_each(hashes)
    distinct = words[first]
    if any(bool((words[rows] != distinct[codes[rows]]).any()) for rows in _stretches(len(records))):
        # If hashes collide, the contents are compared.
        codes, first = _first_of_each(np.ascontiguousarray(words).view(f"V{words.shape[1] * words.itemsize}").ravel())
    return codes, first


def _stretches(count: int) -> Iterator[slice]:
    """Yield ranges of rows whose intermediate arrays fit into the processor's caches."""
    yield from (slice(low, low + _ROWS_AT_ONCE) for low in range(0, count, _ROWS_AT_ONCE))


def _first_of_each(values: npt.NDArray[Any]) -> tuple[Int64, Int64]:
    if values.dtype.kind == "V":
        _, first, codes = np.unique(values, return_index=True, return_inverse=True)
        return codes, first
    codes, _ = pd.factorize(values)
    first = np.empty(int(codes.max()) + 1 if len(codes) else 0, np.int64)
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
    return codes.astype(np.int64, copy=False), first


# Odd multipliers of a 64-bit polynomial hash; contents of equal hash are compared, so any odd numbers will do.
_WEIGHTS = [pow(0x9E3779B97F4A7C15, power, 1 << 64) for power in range(1, 29)]


def _joined(lists: Int64, operators: Int64, count: int) -> tuple[Int64, list[tuple[int, ...]]]:
    """Concatenate the lists of each operator: return its code, or -1, and the lists of each code."""
    result = np.full(count, -1, np.int64)
    order = np.argsort(operators, kind="stable")
    lists, operators = lists[order], operators[order]
    first = np.concatenate(([True], operators[1:] != operators[:-1]))[: len(operators)]
    rank = np.arange(len(lists)) - np.maximum.accumulate(np.where(first, np.arange(len(lists)), 0))
    result[operators[first]] = lists[first]
    chains: list[tuple[int, ...]] = [(part,) for part in range(int(lists.max()) + 1 if len(lists) else 0)]
    for turn in range(1, int(rank.max()) + 1 if len(rank) else 0):
        rows = np.flatnonzero(rank == turn)
        pairs = (result[operators[rows]] << 32) | lists[rows]
        codes, distinct = pd.factorize(pairs)
        result[operators[rows]] = codes + len(chains)
        chains += [(*chains[pair >> 32], pair & 0xFFFFFFFF) for pair in distinct.tolist()]
    return result, chains


def _texts(operands: Sequence[Any], formats: Mapping[int, str]) -> tuple[str, ...]:
    sides = ([], [])  # type: tuple[list[Any], list[Any]]
    for operand in operands:
        sides[min(operand[0], 1)].append(operand)
    return tuple(
        ";".join(text(operand) for operand in side)
        for side in sides
        for text in (_shape_text, _dtype_text, lambda operand: _format_text(operand, formats))
    )


def _shape_text(operand: Any) -> str:
    sizes = operand[3].tolist()
    length = sizes.index(0) if 0 in sizes else len(sizes)
    return ",".join(map(str, sizes[:length]))


def _dtype_text(operand: Any) -> str:
    return enums.DTYPES.get(operand[2]) or str(operand[2])


def _format_text(operand: Any, formats: Mapping[int, str]) -> str:
    value = operand[1]
    if value in formats:
        return formats[value]
    base, sub_format = value & 0xFF, value >> 8 & 0xFFFF
    name = formats.get(base) or str(base)
    return f"{name}:{sub_format}" if sub_format else name

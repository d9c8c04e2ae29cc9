"""Columns of ``operators`` that torch's trace lacks: call stacks from Python calls, FLOPs from the recording."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import msgspec
import numpy as np
import pandas as pd

from npuprof.arrays import Records, first_rows
from npuprof.lines.frames import Frame
from npuprof.sources.columns.builders import ABSENT, optional, recoded
from npuprof.sources.trace.maker import TraceTables
from npuprof.sources.trace.nesting import innermost
from npuprof.tables.notes import Notes

_STACK_CHARACTERS = 128 << 20  # of all distinct stacks together: of a deep recursion, each level has one
_LEAST_CHARACTERS = 1 << 10  # of each stack


def add_stacks(built: TraceTables, source: str, notes: Notes) -> None:
    """Fill in the stacks of `operators` from the Python calls: one line per frame, innermost first.

    The column ``entered`` says that the lines are where the functions begin: torch's tracer records no others. Stacks
    that are too long together lose their outermost frames; a note says so.
    """
    operators, calls = built.tables.get("operators"), built.tables.get("python")
    if operators is None or calls is None or not len(operators) or not len(calls):
        return
    if operators["stack"].notna().any():  # the trace already has stacks
        return
    starts = calls["start_ns"].to_numpy()
    around = innermost(
        built.lanes["python"],
        starts,
        starts + calls["duration_ns"].to_numpy(),
        built.lanes["operators"],
        operators["start_ns"].to_numpy(),
    )
    codes, texts, shortened = _stacks(calls, around)
    if shortened:
        notes.warning(source, "a stack is very long: its outermost frames are left out; `python` has them", shortened)
    operators["stack"] = recoded(codes, list(texts))
    operators["entered"] = operators["stack"].notna().astype("boolean")


def _stacks(calls: pd.DataFrame, around: Records) -> tuple[Records, list[str], int]:
    """Return the stack code of each call in `around`, the distinct stacks as text, and how many of them are cut."""
    up = first_rows(calls["id"].to_numpy(), calls["parent_id"].to_numpy(dtype=np.int64, na_value=ABSENT))
    names = [str(name) for name in calls["name"].cat.categories]
    is_frame = [Frame.parse(name) is not None for name in names]
    name_of = calls["name"].cat.codes.to_numpy()
    frames: dict[tuple[int, int], int] = {}  # stack number by innermost frame and number of the enclosing stack
    known: dict[int, int] = {-1: -1}
    rows, place = np.unique(around, return_inverse=True)
    for row in rows.tolist():
        path = []
        while row not in known:
            path.append(row)
            row = int(up[row])
        stack = known[row]
        for inner in reversed(path):
            name = int(name_of[inner])
            if name >= 0 and is_frame[name]:
                stack = frames.setdefault((name, stack), len(frames))
            known[inner] = stack
    links = list(frames)
    codes = np.array([known[row] for row in rows.tolist()], np.int64)
    used, text_codes = np.unique(codes, return_inverse=True)
    most = max(_LEAST_CHARACTERS, _STACK_CHARACTERS // max(len(used), 1))
    texts, shortened = [], 0
    for stack in used.tolist():
        lines: list[str] = []
        room = most
        while stack >= 0 and (room > 0 or not lines):
            name, stack = links[stack]
            lines.append(names[name])
            room -= len(names[name]) + 1
        shortened += stack >= 0
        texts.append("\n".join(lines))
    return text_codes[place], texts, shortened


_MAX_BYTES = 256 << 20  # about ten million operators


_Int64: TypeAlias = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]


class _Flops(msgspec.Struct):
    external_id: list[_Int64]
    flops: list[_Int64]


def add_flops(operators: pd.DataFrame, path: Path, notes: Notes) -> pd.DataFrame:
    """Add the column `flops` to ``operators``, as estimated by torch from shapes; <NA> for operators without a formula.

    The file at `path` is a JSON object of two integer lists, ``external_id`` and ``flops``; if it cannot be read, a
    note is added and the table is returned unchanged.
    """
    try:
        with path.open("rb") as file:
            document = msgspec.json.decode(file.read(_MAX_BYTES), type=_Flops)
    except (OSError, ValueError, msgspec.DecodeError, RecursionError) as error:
        notes.warning(path.name, f"the operators' flops cannot be read ({error}), and are left out")
        return operators
    ids, flops = np.array(document.external_id, np.int64), np.array(document.flops, np.int64)
    if len(ids) != len(flops):
        notes.warning(path.name, "ids and flops of operators differ in number, and are left out")
        return operators
    wanted_rows = operators["external_id"].to_numpy(dtype=np.int64, na_value=ABSENT)
    row = first_rows(ids, wanted_rows)
    known = np.concatenate((flops, [ABSENT]))[row]  # row -1 selects the last entry
    return operators.assign(flops=optional(known))

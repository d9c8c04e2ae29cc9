"""Call stacks of operators, from the Python calls that were running when each began."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from npuprof.arrays import Records
from npuprof.sources.columns.nullable import ABSENT, recoded
from npuprof.sources.kineto.rows import row_of
from npuprof.sources.trace.conversion import TraceTables
from npuprof.sources.trace.nesting import innermost

_FRAME = re.compile(r".+\(\d+\): .+", re.DOTALL)  # a function in a file; built-in ones and modules have no line


def add_stacks(built: TraceTables) -> None:
    """Fill in the stacks of `operators` where the trace has Python calls: a frame a line, the innermost first."""
    operators, calls = built.tables.get("operators"), built.tables.get("python")
    if operators is None or calls is None or not len(operators) or not len(calls):
        return
    starts = calls["start_ns"].to_numpy()
    around = innermost(
        built.lanes["python"],
        starts,
        starts + calls["duration_ns"].to_numpy(),
        built.lanes["operators"],
        operators["start_ns"].to_numpy(),
    )
    codes, texts = _stacks(calls, around)
    told = operators["stack"].notna().to_numpy()
    if told.any():  # the trace names some itself
        return
    operators["stack"] = recoded(codes, list(texts))


def _stacks(calls: pd.DataFrame, around: Records) -> tuple[Records, list[str]]:
    """Return the stack of each call of `around` as a code into texts; calls with the same stack share one."""
    up = row_of(calls["id"].to_numpy(), calls["parent_id"].to_numpy(dtype=np.int64, na_value=ABSENT))
    names = [str(name) for name in calls["name"].cat.categories]
    is_frame = [_FRAME.fullmatch(name) is not None for name in names]
    name_of = calls["name"].cat.codes.to_numpy()
    frames: dict[tuple[int, int], int] = {}  # a frame and the stack around it: the number of the stack with it
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
    used, own = np.unique(codes, return_inverse=True)
    texts = [_text(links, names, stack) for stack in used.tolist()]
    return own[place], texts


def _text(links: list[tuple[int, int]], names: list[str], stack: int) -> str:
    lines = []
    while stack >= 0:
        name, stack = links[stack]
        lines.append(names[name])
    return "\n".join(lines)

"""Stacks that were taken at launches, as the path above a kernel: exact, where samples are up to an interval old."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pandas as pd

from npuprof.analysis.correlation import Causes, callers_without_python, forward_operators, nearest, without_cycles
from npuprof.arrays import Int64
from npuprof.lines.frames import Frame
from npuprof.sources.python_frames import RUNNER, USER, role_of_call

_TABLES = ("operators", "api")


@dataclass(frozen=True)
class LaunchStacks:
    """The stacks of launching host rows."""

    rows: Int64  # the host rows that launched kernels and have a stack, in order
    numbers: Int64  # the number of the stack of each of them
    stacks: list[list[int]]  # the frames of each stack as numbers, the outermost first
    frames: list[str]  # the distinct frames: texts as tables have them
    # For each host row the operator or call around it, -1 at the top; for operators of the backward pass the forward
    # operator that they are derived from.
    callers: Int64

    def chains(self) -> Int64:
        """Return the host rows above each of `rows`, and itself; shape (levels, rows), the outermost first.

        Shorter chains end with -1.
        """
        climbed = [self.rows]
        while (climbed[-1] >= 0).any():
            climbed.append(np.where(climbed[-1] >= 0, self.callers[climbed[-1]], -1))
        upwards = np.stack(climbed[:-1]) if len(climbed) > 1 else np.zeros((0, len(self.rows)), np.int64)
        level = np.arange(len(upwards))[:, None]
        length = (upwards >= 0).sum(axis=0)
        return np.where(level < length, np.take_along_axis(upwards, np.maximum(length - 1 - level, 0), axis=0), -1)


def launch_stacks(tables: Mapping[str, pd.DataFrame], links: Causes) -> LaunchStacks:
    """Return the stacks that npuprof took at the launches of kernels.

    A kernel of the backward pass has the stack of its forward operator. Frames that run a cell are left out, and so are
    those of IPython and of npuprof anywhere.
    """
    rows = np.unique(links.launchers[links.launchers >= 0])
    if "stack" not in tables["api"]:
        return LaunchStacks(rows[:0], rows[:0], [], [], links.callers)
    callers = callers_without_python(tables, links)
    forward = forward_operators(tables, links.first_row, len(callers))
    numbers, texts = _numbers(tables, links)
    shown = [_shown(text) for text in texts]
    has_frames = np.array([*map(bool, shown), False])[numbers]
    derived = nearest(callers, rows, forward >= 0)
    source = nearest(callers, np.where(derived >= 0, forward[derived], rows), has_frames)
    rows, source = rows[source >= 0], source[source >= 0]
    used, of_row = np.unique(numbers[source], return_inverse=True)
    frames: dict[str, int] = {}
    stacks = [[frames.setdefault(frame, len(frames)) for frame in shown[number]] for number in used.tolist()]
    callers = without_cycles(np.where(forward >= 0, forward, callers))
    return LaunchStacks(rows, of_row.astype(np.int64), stacks, list(frames), callers)


def _numbers(tables: Mapping[str, pd.DataFrame], links: Causes) -> tuple[Int64, list[str]]:
    """Return the number of the stack of each host row, -1 for none, and the distinct stacks."""
    numbers, texts = np.full(len(links.callers), -1, np.int64), dict[str, int]()
    for table in _TABLES:
        if "stack" in tables[table]:
            stacks = tables[table]["stack"].astype("category").cat
            of_code = [texts.setdefault(str(stack), len(texts)) for stack in stacks.categories]
            first = links.first_row[table]
            numbers[first : first + len(tables[table])] = np.array([*of_code, -1], np.int64)[stacks.codes.to_numpy()]
    return numbers, list(texts)


def _shown(stack: str) -> list[str]:
    """Return the frames of the user's code in a stack and what they call, the outermost first."""
    frames = [frame for frame in stack.split("\n")[::-1] if frame]
    looks = [_look(frame) for frame in frames]
    # What is around a cell runs the shell, and what is around the user's first frame runs that.
    first = next((at for at, (_, is_cell) in enumerate(looks) if is_cell), None)
    if first is None:
        first = next((at for at, (role, _) in enumerate(looks) if role == USER), len(frames))
    return [frame for frame, (role, _) in zip(frames[first:], looks[first:], strict=True) if role >= 0]


@lru_cache(maxsize=16_384)
def _look(text: str) -> tuple[int, bool]:
    """Return the role of a frame, -1 for one that is never shown, and whether it is the code of a cell."""
    frame = Frame.parse(text)
    if frame is not None and frame.is_of_cell:
        return USER, True
    role = role_of_call(text)
    is_shown = role in (USER, RUNNER) and not (frame is not None and frame.is_of_shell)
    return role if is_shown else -1, False

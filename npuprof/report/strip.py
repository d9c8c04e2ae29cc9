"""The strip of a report: a window of time with the host's lines above the devices' work."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from npuprof import tables as schema
from npuprof.advice.facts import Facts
from npuprof.analysis.accounting import BETWEEN_STEPS, IDLE
from npuprof.analysis.basis import Basis
from npuprof.analysis.host_accounting import HOST
from npuprof.analysis.intervals import union, within
from npuprof.arrays import Int64
from npuprof.report.model import Lane, Segment, Strip
from npuprof.words.quantities import printable

MOST_LANES = 8
_MOST_SEGMENTS = 1_000  # of a lane; beyond that, what cannot be seen is summed in bins
_BINS = 420
_LONGEST = 60
_WAITING = re.compile(r"Synchronize|[Ww]ait")
_NAME = re.compile(r"([A-Za-z_][\w.]*)\s*\(")
_MOSTLY = 0.5


def called_name(text: str) -> str:
    """Return the name of the function that a line of code calls, ``next_batch()``; empty if it calls none.

    Of several calls it is the outermost; of a line that is no Python by itself, the first.
    """
    line = text.strip()
    for code in (line, f"{line}\n    pass", line.rstrip(":")):
        try:
            tree = ast.parse(code)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        for node in ast.walk(tree):  # breadth first: the outermost call comes first
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
                return f"{ast.unparse(node.func)}()" if isinstance(node.func, ast.Name) else f"{node.func.attr}()"
        return ""
    found = _NAME.search(line)
    return f"{found[1].rpartition('.')[2]}()" if found else ""


def window_of(facts: Facts, row: int) -> tuple[int, int] | None:
    """Return start and end of a step of the accounting in epoch nanoseconds; None where its position is unknown."""
    rows = facts.accounting.intervals
    rows = rows[(rows["row"] == row).to_numpy(bool)]
    if not len(rows) or rows["start_ns"].isna().any():
        return None
    begin = int(rows["start_ns"].min())
    return begin, int((rows["start_ns"] + rows["duration_ns"]).max())


def same_step(steps: pd.DataFrame, row: int) -> list[int]:
    """Return the rows of a step on all devices of the run."""
    number = steps["step"].iloc[row]
    if pd.isna(number):
        return np.flatnonzero(steps["step"].isna().to_numpy(bool)).tolist()
    return np.flatnonzero((steps["step"] == number).fillna(False).to_numpy(bool)).tolist()


def typical_strip(facts: Facts, basis: Basis, title: str, lines_of: Callable[[str], Sequence[str]]) -> Strip | None:
    """Return the strip of the usual step closest to the mean of the usual ones; see :func:`strip_of`."""
    chosen = basis.usual_rows if len(basis.usual_rows) else basis.rows
    if not len(chosen):
        return None
    steps = facts.accounting.steps
    times = steps["duration_ns"].to_numpy(np.int64)[chosen]
    return strip_of(facts, same_step(steps, int(chosen[np.argmin(np.abs(times - basis.usual_ns))])), title, lines_of)


def strip_of(facts: Facts, rows: Sequence[int], title: str, lines_of: Callable[[str], Sequence[str]]) -> Strip | None:
    """Return the strip of one step, with a row of the accounting per device; None without a position."""
    windows = [window for row in rows if (window := window_of(facts, row)) is not None]
    if not windows:
        return None
    begin, end = min(first for first, _ in windows), max(last for _, last in windows)
    host = _host(facts, begin, end, lines_of)
    lanes = [host] if host is not None else []
    if not facts.accounting.of_host:
        name = facts.device or "device"
        several = len(rows) > 1
        for row in rows[:MOST_LANES]:
            device = facts.accounting.steps["device_id"].iloc[row]
            lanes.append(Lane(f"{name} {device}" if several else name, _device(facts, row, begin, end - begin)))
    return Strip(title, end - begin, lanes) if any(lane.segments for lane in lanes) else None


def _device(facts: Facts, row: int, begin: int, length: int) -> list[Segment]:
    """Return the work of a device in a step; idle time is left blank."""
    intervals = facts.accounting.intervals
    chosen = intervals[(intervals["row"] == row).to_numpy(bool)]
    chosen = chosen[~chosen["part"].isin([*IDLE, BETWEEN_STEPS, HOST]).to_numpy(bool)]
    chosen = chosen.sort_values("start_ns", kind="stable")
    starts = chosen["start_ns"].to_numpy(np.int64) - begin
    return segments_of(starts, starts + chosen["duration_ns"].to_numpy(np.int64), chosen["part"].astype(str), length)


def segments_of(
    starts: Int64, ends: Int64, looks: pd.Series[Any], length: int, most: int = _MOST_SEGMENTS
) -> list[Segment]:
    """Return disjoint, ordered intervals as segments; of more than `most`, each bin of the lane has one look."""
    bins = min(_BINS, most)
    if len(starts) <= most:
        return [Segment(*piece) for piece in zip(starts.tolist(), ends.tolist(), looks, strict=True)]
    codes, names = pd.factorize(looks)
    edges = np.linspace(0, length, bins + 1).astype(np.int64)
    covered = np.zeros((len(names) + 1, bins), np.int64)
    for code in range(len(names)):
        of_look = codes == code
        covered[code] = within((starts[of_look], ends[of_look]), edges[:-1], edges[1:])
    covered[-1] = np.diff(edges) - covered.sum(axis=0)  # nothing
    # What a bin does not show is carried on to the next one, so that shares of the lane are right.
    owed, chosen = np.zeros(len(names) + 1), np.zeros(bins, np.int64)
    for at in range(bins):
        owed += covered[:, at]
        chosen[at] = owed.argmax()
        owed[chosen[at]] -= edges[at + 1] - edges[at]
    firsts = np.flatnonzero(np.append(True, chosen[1:] != chosen[:-1]))
    lasts = np.append(firsts[1:], bins)
    return [
        Segment(int(edges[first]), int(edges[last]), str(names[chosen[first]]))
        for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True)
        if chosen[first] < len(names)
    ]


def _host(facts: Facts, begin: int, end: int, lines_of: Callable[[str], Sequence[str]]) -> Lane | None:
    """Return the statements of the user in a window, or else the outermost operators of the busiest thread."""
    rows = _within(facts.tables["statements"], begin, end)
    if not len(rows):
        return _operators(facts, begin, end)
    lengths = rows["duration_ns"].to_numpy(np.int64)
    waits = _waiting(facts, rows) > _MOSTLY * lengths
    idle = _idle_in(facts, rows) > _MOSTLY * lengths
    looks = pd.Series(np.select([waits, idle], ["wait_line", "idle_line"], "line"), dtype="string")
    starts, ends = _clipped(rows, begin, end)
    if len(rows) > _MOST_SEGMENTS:
        return Lane("host", segments_of(starts, ends, looks, end - begin))
    labels = {}
    for file, line in rows[["file", "line"]].drop_duplicates().itertuples(index=False):
        texts = lines_of(str(file))
        name = called_name(texts[line - 1]) if 0 < line <= len(texts) else ""
        labels[(file, line)] = printable(f"{line} {name}".strip(), _LONGEST)
    places = zip(rows["file"], rows["line"], strict=True)
    pieces = zip(starts.tolist(), ends.tolist(), looks.tolist(), map(labels.__getitem__, places), strict=True)
    return Lane("host", [Segment(*piece) for piece in pieces])


def _operators(facts: Facts, begin: int, end: int) -> Lane | None:
    operators = _within(facts.tables["operators"], begin, end)
    operators = operators[(operators["kind"] == "op").to_numpy(bool)]
    if not len(operators):
        return None
    thread = operators.groupby("thread_id")["duration_ns"].sum().idxmax()
    operators = operators[(operators["thread_id"] == thread).to_numpy(bool)]
    ends = (operators["start_ns"] + operators["duration_ns"]).to_numpy(np.int64)
    operators = operators[ends > np.append(-1, np.maximum.accumulate(ends)[:-1])]
    starts, ends = _clipped(operators, begin, end)
    if len(operators) > _MOST_SEGMENTS:
        return Lane("host", segments_of(starts, ends, pd.Series(["line"] * len(operators)), end - begin))
    names = [printable(str(name), _LONGEST) for name in operators["name"]]
    pieces = zip(starts.tolist(), ends.tolist(), names, strict=True)
    return Lane("host", [Segment(start, stop, "line", name) for start, stop, name in pieces])


def _clipped(rows: pd.DataFrame, begin: int, end: int) -> tuple[Int64, Int64]:
    """Return starts and ends of rows within a window, from its start."""
    starts, lengths = (rows[name].to_numpy(np.int64) for name in ("start_ns", "duration_ns"))
    return np.maximum(starts, begin) - begin, np.minimum(starts + lengths, end) - begin


def _within(rows: pd.DataFrame, begin: int, end: int) -> pd.DataFrame:
    """Return the rows that overlap a window, in order."""
    starts = rows["start_ns"].to_numpy(np.int64)
    chosen = rows[(starts < end) & (starts + rows["duration_ns"].to_numpy(np.int64) > begin)]
    return chosen.sort_values(["start_ns", "duration_ns"], ascending=[True, False], kind="stable")


def _waiting(facts: Facts, statements: pd.DataFrame) -> Int64:
    """Return for how long each statement is in a call that waits for the device."""
    api = facts.tables["api"]
    waits = api[schema.matching(api["name"], lambda name: bool(_WAITING.search(name)))]
    return _covered(statements, waits["start_ns"].to_numpy(np.int64), waits["duration_ns"].to_numpy(np.int64))


def _idle_in(facts: Facts, statements: pd.DataFrame) -> Int64:
    """Return for how long a device is idle while each statement runs."""
    rows = facts.accounting.intervals
    is_idle = rows["part"].isin([*IDLE, BETWEEN_STEPS]).to_numpy(bool) & rows["start_ns"].notna().to_numpy(bool)
    starts, lengths = (rows[name][is_idle].to_numpy(np.int64) for name in ("start_ns", "duration_ns"))
    return _covered(statements, starts, lengths)


def _covered(statements: pd.DataFrame, starts: Int64, lengths: Int64) -> Int64:
    """Return how long intervals cover each statement."""
    begins = statements["start_ns"].to_numpy(np.int64)
    return within(union(starts, starts + lengths), begins, begins + statements["duration_ns"].to_numpy(np.int64))

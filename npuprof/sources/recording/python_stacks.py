"""Read the file of sampled Python stacks as the tables ``python`` and ``sampled_lines``.

Consecutive samples with the same outer frames are a single call of these functions. Frames that run a notebook cell,
and the profiler's frames, are left out; so are threads without other frames.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from npuprof import tables
from npuprof.analysis.intervals import Spans, pieces
from npuprof.arrays import Bools, Int64
from npuprof.lines.frames import Frame, cell_name
from npuprof.recordings.recording import SAMPLING_INTERVAL_NS
from npuprof.sources.python_frames import AFTERWARDS, MAGIC, PROFILER, USER, begins_cell, role_of_frame, shown_frames
from npuprof.sources.recording import lists
from npuprof.tables.notes import Notes

Frames: TypeAlias = dict[str, pd.DataFrame]

SOURCE = "python_stacks"
"""The source of the notes."""
_MAX_DEPTH = 1_000
_COLUMNS = {
    **dict.fromkeys(("time_ns", "thread_id", "stopped_ns", "sample_ns"), "int64"),
    **dict.fromkeys(("node", "line", "node_parent", "node_frame", "frame_line"), "int32"),
    **dict.fromkeys(("frame_file", "frame_function", "frame_module"), "string"),
}
_NEWER = ("line", "sample_ns")
_MOST_LINES = 5_000_000  # rows of sampled lines

_NO_BREAKS = np.zeros(0, np.int64)
_MOST_PARTS = 60  # folders and separators of a path that are looked at


@dataclass(frozen=True)
class Samples:
    """Changes of the threads' stacks, and the tree of these stacks."""

    # time_ns, thread_id, node: shape (changes,): from this time on, the stack of the thread is this node; -1 for none.
    time_ns: Int64
    thread_id: Int64
    node: Int64
    stopped_ns: int  # the end time of the last stacks
    # node_parent, node_frame: shape (nodes,): the caller's node, which has a lower number (-1 for none), and the
    # function.
    node_parent: Int64
    node_frame: Int64


class Stamped:
    """The stamped statements of a run, disjoint in each thread, and the sorted `moments` of its samples."""

    def __init__(self, statements: pd.DataFrame, moments: Int64) -> None:
        self.moments = moments
        ordered = statements.sort_values(["thread_id", "start_ns"], kind="stable")
        self.start_ns, self.duration_ns, self.thread_id = (
            ordered[name].to_numpy(np.int64) for name in ("start_ns", "duration_ns", "thread_id")
        )
        places = ordered["file"].astype(str) + "(" + ordered["line"].astype(str) + "): <module>"
        self.place, names = pd.factorize(places)
        self.names: list[str] = [str(name) for name in names]

    def fit(self, samples: Samples, cells: Bools) -> tuple[Samples, list[str], Int64]:
        """Return the stacks with each statement as a call of its own, its name, and the times at which calls end.

        A statement's frame comes in place of the code of the cell, and is the only exact one. A sample stands for the
        time since the one before it in the same statement, or since its begin; the last one until its end.
        """
        nodes = _StampedNodes(samples, cells)
        kept = ~np.isin(samples.thread_id, self.thread_id)
        parts: list[tuple[Int64, ...]] = [(samples.time_ns[kept], samples.thread_id[kept], samples.node[kept])]
        for thread in np.unique(self.thread_id).tolist():
            chosen = np.flatnonzero(samples.thread_id == thread)
            chosen = chosen[np.argsort(samples.time_ns[chosen], kind="stable")]
            times, node = self._of_thread(thread, samples.time_ns[chosen], samples.node[chosen], samples, nodes)
            parts.append((times, np.full(len(times), thread), node))
        time_ns, thread_id, node = (np.concatenate(part) for part in zip(*parts, strict=True))
        stopped_ns = max(samples.stopped_ns, int((self.start_ns + self.duration_ns).max()))
        fitted = Samples(time_ns, thread_id, node, stopped_ns, *nodes.columns())
        return fitted, self.names, np.unique(self.start_ns)

    def _of_thread(
        self, thread: int, times: Int64, node: Int64, samples: Samples, nodes: _StampedNodes
    ) -> tuple[Int64, Int64]:
        own = np.flatnonzero(self.thread_id == thread)
        start, place = self.start_ns[own], self.place[own]
        end = start + self.duration_ns[own]
        at = np.searchsorted(times, self.moments, side="left") - 1
        seen = np.where(at >= 0, np.append(node, -1)[at], -1)
        statement = np.searchsorted(start, self.moments, side="right") - 1
        within = (statement >= 0) & (self.moments <= np.append(end, 0)[statement])
        moments, seen, statement = self.moments[within], seen[within], statement[within]
        is_first = np.append(True, np.diff(statement) != 0)[: len(statement)]
        begins = np.where(is_first, start[statement], np.append(0, moments[:-1])[: len(moments)])
        unseen = np.setdiff1d(np.arange(len(own)), statement)
        begins = np.concatenate([begins, start[unseen]])
        below = nodes.below(
            np.concatenate([place[statement], place[unseen]]), np.append(seen, np.full(len(unseen), -1))
        )
        # Between statements, the stacks stay as they are.
        ends = np.append(times[1:], samples.stopped_ns)[: len(times)]
        outer, stops = np.append(np.iinfo(np.int64).min, end), np.append(start, np.iinfo(np.int64).max)
        rest_starts, rest_stops, _ = pieces((times, np.maximum(ends, times)), (outer, np.maximum(outer, stops)))
        of_rest = node[np.searchsorted(times, rest_starts, side="right") - 1] if len(times) else rest_starts
        changes = np.concatenate([end, rest_stops, rest_starts, begins])  # of equal times the last one counts
        after = np.concatenate([np.full(len(end) + len(rest_stops), -1), of_rest, below])
        order = np.argsort(changes, kind="stable")
        return changes[order], after[order]


class _StampedNodes:
    """Nodes of stacks with statements at their root; the frames of statements come after those of the tree."""

    def __init__(self, samples: Samples, cells: Bools) -> None:
        self._parents, self._frames = samples.node_parent.tolist(), samples.node_frame.tolist()
        self._first_frame = len(cells)
        self._is_cell = cells
        self._known: dict[tuple[int, int], int] = {}

    def below(self, places: Int64, nodes: Int64) -> Int64:
        """Return for each pair of a statement's place and a node the node of both together."""
        pairs, which = np.unique(np.stack([places, nodes], axis=1), axis=0, return_inverse=True)
        joined = [self._join(place, node) for place, node in pairs.tolist()]
        return np.array(joined, np.int64)[which.reshape(-1)] if len(pairs) else np.zeros(0, np.int64)

    def _join(self, place: int, node: int) -> int:
        path = []
        while node >= 0 and (place, node) not in self._known:
            path.append(node)
            node = self._parents[node]
        above = self._known.get((place, node), -1)
        if above < 0:
            above = self._known[place, -1] = self._add(-1, self._first_frame + place)
        for each in reversed(path):
            is_code = self._parents[each] < 0 and self._is_cell[self._frames[each]]
            above = above if is_code else self._add(above, self._frames[each])
            self._known[place, each] = above
        return above

    def _add(self, parent: int, frame: int) -> int:
        self._parents.append(parent)
        self._frames.append(frame)
        return len(self._parents) - 1

    def columns(self) -> tuple[Int64, Int64]:
        """Return the parents and the frames of all nodes."""
        return np.array(self._parents, np.int64), np.array(self._frames, np.int64)


@dataclass(frozen=True)
class SampledCalls:
    """Calls as parallel arrays, callers before callees; ``parent`` is a row, -1 for none."""

    start_ns: Int64
    duration_ns: Int64
    thread_id: Int64
    node: Int64
    parent: Int64
    depth: Int64


def read(path: Path, notes: Notes, cells: Spans | None = None, statements: pd.DataFrame | None = None) -> Frames:
    """Read a file that :class:`npuprof.collectors.python_stacks.PythonStacks` wrote.

    Parameters
    ----------
    cells
        When cells were executed, sorted and disjoint: a thread has no stack outside of them. None for the whole time.
    statements
        The stamped statements, which are calls of the code of the cell, each at its line; None for none. What samples
        saw while a statement ran is called by it, from its begin to its end.
    """
    return _frames(lists.read(path, _COLUMNS, _NEWER), path, notes, cells, statements)


def read_columns(
    columns: Mapping[str, Sequence[Any]],
    path: Path,
    notes: Notes,
    cells: Spans | None = None,
    statements: pd.DataFrame | None = None,
) -> Frames:
    """Return the tables of columns that the file at `path` would hold; see :func:`read`."""
    return _frames(lists.arrays(columns, _COLUMNS, path), path, notes, cells, statements)


def read_journal(
    path: Path, notes: Notes, cells: Spans | None = None, statements: pd.DataFrame | None = None
) -> Frames:
    """Read the samples written before the process was killed; see :func:`read`."""
    columns = lists.read_journal(path, _COLUMNS, notes, SOURCE)
    columns["stopped_ns"] = columns["stopped_ns"][-1:] if len(columns["stopped_ns"]) else np.zeros(1, np.int64)
    return _frames(columns, path, notes, cells, statements)


def _frames(
    columns: dict[str, Any], path: Path, notes: Notes, cells: Spans | None, statements: pd.DataFrame | None
) -> Frames:
    samples = _samples(columns, path)
    frames = list(zip(*(columns[f"frame_{part}"] for part in ("file", "line", "function", "module")), strict=True))
    roles = np.array([role_of_frame(file, function, module) for file, _, function, module in frames], np.int8)
    samples = _without_commands(samples, roles)
    sampled_lines = _sampled_lines(columns, samples, notes)
    if cells is not None:
        samples = _within(samples, cells, np.sort(columns["sample_ns"]))
        is_within = _are_within(sampled_lines["time_ns"].to_numpy(np.int64), cells)
        sampled_lines = sampled_lines[is_within].reset_index(drop=True)
    stamps = None if statements is None else Stamped(statements, np.sort(columns["sample_ns"]))
    return {"python": _calls(frames, roles, samples, notes, stamps), "sampled_lines": sampled_lines}


def _within(samples: Samples, cells: Spans, moments: Int64) -> Samples:
    """Return the samples with no stack outside of cells, or before the cell in which it was first seen.

    A change is as early as the sample before the one that saw it, at one of the sorted `moments`.
    """
    order = np.lexsort((samples.time_ns, samples.thread_id))
    times, threads, nodes = (column[order] for column in (samples.time_ns, samples.thread_id, samples.node))
    parts: list[tuple[Int64, ...]] = [(np.zeros(0, np.int64),) * 3]
    for thread in np.unique(threads).tolist():
        chosen = threads == thread
        ends = np.append(times[chosen][1:], samples.stopped_ns)
        place = np.searchsorted(moments, times[chosen], side="right")
        seen = np.where(place < len(moments), np.append(moments, 0)[place], times[chosen])
        cell = np.searchsorted(cells[0], seen, side="right") - 1
        is_new = np.append(True, nodes[chosen][1:] != nodes[chosen][:-1])  # not another line of the same stack
        earliest = np.where(is_new & (cell >= 0), np.append(cells[0], 0)[cell], times[chosen])
        begins = np.minimum(np.maximum(times[chosen], earliest), ends)
        starts, stops, _ = pieces((begins, ends), cells)
        changes = np.stack((starts, stops), axis=1).ravel()
        at = np.searchsorted(begins, starts, side="right") - 1
        node = np.stack((nodes[chosen][at], np.full(len(at), -1)), axis=1).ravel()
        parts.append((changes, np.full(len(changes), thread), node))
    time_ns, thread_id, node = (np.concatenate(part) for part in zip(*parts, strict=True))
    return replace(samples, time_ns=time_ns, thread_id=thread_id, node=node)


def _are_within(times: Int64, cells: Spans) -> Bools:
    at = np.searchsorted(cells[0], times, side="right") - 1
    return (at >= 0) & (times <= np.append(cells[1], 0)[at])


def _without_commands(samples: Samples, roles: npt.NDArray[np.int8]) -> Samples:
    """Return the samples with none in npuprof's line magics, such as ``%npuprof stop`` in a cell of its own."""
    role_of = [*roles[samples.node_frame].tolist(), USER]  # the last entry is for parent -1
    of_command = [False] * len(role_of)
    for node, parent in enumerate(samples.node_parent.tolist()):
        is_own = role_of[node] in (PROFILER, AFTERWARDS)
        goes_on = of_command[parent] and role_of[node] != USER  # such as the code of a script that the magic runs
        of_command[node] = goes_on or (is_own and role_of[parent] == MAGIC)
    return replace(samples, node=np.where(np.array(of_command)[samples.node], -1, samples.node))


def _sampled_lines(columns: dict[str, Any], samples: Samples, notes: Notes) -> pd.DataFrame:
    """Return the line of each sample of each thread: that of its last change, which was seen by the sample after it."""
    times = np.sort(columns["sample_ns"])
    lines = columns["line"] if len(columns["line"]) else np.zeros(len(samples.node), np.int64)
    frame_of = np.append(_innermost_users(columns, samples), -1)[samples.node]
    parts: list[tuple[Int64, ...]] = [tuple(np.zeros(0, np.int64) for _ in range(4))]
    for thread in np.unique(samples.thread_id[lines > 0]).tolist():
        changes = np.flatnonzero(samples.thread_id == thread)
        changes = changes[np.argsort(samples.time_ns[changes], kind="stable")]
        at = np.searchsorted(samples.time_ns[changes], times, side="left") - 1
        change = changes[at]
        known = np.flatnonzero((at >= 0) & (lines[change] > 0) & (frame_of[change] >= 0))
        if sum(len(part[0]) for part in parts) + len(known) > _MOST_LINES:
            notes.warning(SOURCE, "there are more sampled lines than are kept: those of some threads are left out")
            break
        change = change[known]
        parts.append((times[known], np.full(len(known), thread), lines[change], frame_of[change]))
    time_ns, thread_id, line, frame = (np.concatenate(part) for part in zip(*parts, strict=True))
    order = np.argsort(time_ns, kind="stable")
    files = [cell_name(file) or file for file in columns["frame_file"]]
    return tables.build(
        "sampled_lines",
        {
            "time_ns": time_ns[order],
            "file": _named(frame[order], files),
            "line": line[order],
            "function": _named(frame[order], columns["frame_function"]),
            "thread_id": thread_id[order],
        },
    )


def _named(frames: Int64, names: Sequence[str]) -> pd.Categorical:
    codes: dict[str, int] = {}
    code_of_frame = np.array([codes.setdefault(name, len(codes)) for name in names], np.int64)
    return tables.categorical(code_of_frame[frames] if len(frames) else frames, list(codes))


def _innermost_users(columns: dict[str, Any], samples: Samples) -> Int64:
    """Return the innermost frame of the user's code in the stack of each node, -1 for none."""
    parts = zip(*(columns[f"frame_{part}"] for part in ("file", "line", "function")), strict=True)
    are_users = [Frame(file, int(line), function).is_users for file, line, function in parts]
    innermost = [-1] * (len(samples.node_parent) + 1)  # the last entry is for parent -1
    for node, (parent, frame) in enumerate(zip(samples.node_parent.tolist(), samples.node_frame.tolist(), strict=True)):
        innermost[node] = frame if are_users[frame] else innermost[parent]
    return np.array(innermost[:-1], np.int64)


def _calls(
    frames: list[tuple[str, int, str, str]],
    roles: npt.NDArray[np.int8],
    samples: Samples,
    notes: Notes,
    stamped: Stamped | None,
) -> pd.DataFrame:
    cells = np.array(
        [begins_cell(Frame(file, line, function), module) for file, line, function, module in frames], bool
    )
    visible = _without_machinery(samples, roles, cells)
    shown = int((visible.node >= 0).sum())
    names = [_name(file, line, function) for file, line, function, _ in frames]
    stamps: list[str] = []
    breaks = np.zeros(0, np.int64)
    if stamped is not None and len(stamped.start_ns):
        visible, stamps, breaks = stamped.fit(visible, cells)
    calls = merge(visible, breaks)
    notes.ledger.read(SOURCE, len(visible.node))
    notes.ledger.keep(SOURCE, "python", shown, len(calls.node))
    notes.ledger.use(SOURCE, len(visible.node) - shown)  # they end the stacks of earlier lines
    if not len(calls.node):
        notes.info(
            SOURCE, f"no sample met Python code of the user's: they are taken every {SAMPLING_INTERVAL_NS / 1e6:g} ms"
        )
    return _table(calls, visible.node_frame, names, stamps)


def _samples(columns: dict[str, Any], path: Path) -> Samples:
    """Check that the columns are consistent, and return the samples and the tree."""
    count = {name: len(values) for name, values in columns.items()}
    for group in (("time_ns", "thread_id", "node"), ("node_parent", "node_frame")):
        if len({count[name] for name in group}) != 1:
            raise lists.damage_error(path, f"has columns of different lengths among {', '.join(group)}")
    if count["line"] not in (0, count["node"]):
        raise lists.damage_error(path, "has columns of different lengths among node, line")
    if len({number for name, number in count.items() if name.startswith("frame_")}) != 1 or count["stopped_ns"] != 1:
        raise lists.damage_error(path, "has columns of different lengths among its frames, or not one end")
    nodes, frames = count["node_parent"], count["frame_file"]
    for name, lowest, limit in (
        ("node", -1, nodes),
        ("node_parent", -1, np.arange(nodes)),
        ("node_frame", 0, frames),
    ):
        values = columns[name]
        if ((values < lowest) | (values >= limit)).any():
            raise lists.damage_error(path, f"refers to a missing entry in {name}")
    if (node_depths(columns["node_parent"]) >= _MAX_DEPTH).any():
        raise lists.damage_error(path, f"has stacks of more than {_MAX_DEPTH} frames")
    return Samples(
        columns["time_ns"],
        columns["thread_id"],
        columns["node"],
        int(columns["stopped_ns"][0]),
        columns["node_parent"],
        columns["node_frame"],
    )


def merge(samples: Samples, breaks: Int64 = _NO_BREAKS) -> SampledCalls:
    """Merge consecutive stacks with the same outer frames into one call per frame, up to the next of some `breaks`.

    Works level by level, from the deepest: the rows of the arrays at a level are the intervals of samples that reach
    it, each with its node there.
    """
    order = np.lexsort((samples.time_ns, samples.thread_id))
    start, thread, node = samples.time_ns[order], samples.thread_id[order], samples.node[order]
    end = np.append(start[1:], samples.stopped_ns)
    last = np.append(thread[1:] != thread[:-1], True) if len(thread) else np.zeros(0, bool)
    end[: len(last)][last] = samples.stopped_ns
    end = end[: len(start)]
    is_kept = (end > start) & (node >= 0)
    start, end, thread, node = start[is_kept], end[is_kept], thread[is_kept], node[is_kept]
    follows = np.zeros(len(start), bool)
    follows[1:] = (thread[1:] == thread[:-1]) & (start[1:] == end[:-1]) & ~np.isin(start[1:], breaks)
    return _sort(_levels(start, end, thread, node, follows, samples.node_parent))


def _levels(start: Int64, end: Int64, thread: Int64, node: Int64, follows: Bools, parents: Int64) -> SampledCalls:
    reach = node_depths(parents)[node] if len(node) else np.zeros(0, np.int64)
    current = node.copy()
    row_of = np.full(len(node), -1, np.int64)  # the row of an interval at the level below
    rows: list[tuple[Int64, ...]] = []
    parent_parts: list[Int64] = []
    count = 0
    for level in range(int(reach.max(initial=-1)), -1, -1):
        active = np.flatnonzero(reach >= level)
        here = current[active]
        is_joined = np.zeros(len(active), bool)
        is_joined[1:] = follows[active[1:]] & (np.diff(active) == 1) & (here[1:] == here[:-1])
        first = np.flatnonzero(~is_joined)
        last = np.append(first[1:], len(active)) - 1
        row_of[active] = count + np.cumsum(~is_joined) - 1
        if rows:
            parent_parts.append(row_of[rows[-1][0]])
        heads = active[first]
        rows.append(
            (
                heads,
                start[heads],
                end[active[last]] - start[heads],
                thread[heads],
                here[first],
                np.full(len(heads), level, np.int64),
            )
        )
        count += len(heads)
        current[active] = parents[here]
    if not rows:
        return SampledCalls(*(np.zeros(0, np.int64) for _ in range(6)))
    parent_parts.append(np.full(len(rows[-1][0]), -1, np.int64))
    _, starts, durations, threads, nodes, depths = (np.concatenate(part) for part in zip(*rows, strict=True))
    return SampledCalls(starts, durations, threads, nodes, np.concatenate(parent_parts), depths)


def _sort(calls: SampledCalls) -> SampledCalls:
    """Sort by time, callers before callees, and renumber the parents."""
    order = np.lexsort((calls.depth, calls.thread_id, calls.start_ns))
    place = np.empty(len(order) + 1, np.int64)
    place[order] = np.arange(len(order))
    place[-1] = -1  # -1 stays -1
    return SampledCalls(
        calls.start_ns[order],
        calls.duration_ns[order],
        calls.thread_id[order],
        calls.node[order],
        place[calls.parent[order]],
        calls.depth[order],
    )


def node_depths(parents: Int64) -> Int64:
    """Return the depth of every node of a tree, 0 for those without a parent, at most 1,000."""
    depth = np.zeros(len(parents), np.int64)
    above = parents.copy()
    active = np.flatnonzero(above >= 0)
    while len(active) and depth[active[0]] < _MAX_DEPTH:
        depth[active] += 1
        above[active] = parents[above[active]]
        active = active[above[active] >= 0]
    return depth


def _without_machinery(samples: Samples, roles: npt.NDArray[np.int8], cells: Bools) -> Samples:
    """Remove the frames that are not the user's; see :func:`npuprof.sources.python_frames.shown_frames`."""
    shown, above = shown_frames(samples.node_parent, roles[samples.node_frame], cells[samples.node_frame])
    new_of = np.full(len(shown) + 1, -1, np.int64)  # the last entry is for parent -1
    nodes: dict[tuple[int, int], int] = {}
    for node, (is_shown, parent, frame) in enumerate(
        zip(shown.tolist(), above.tolist(), samples.node_frame.tolist(), strict=True)
    ):
        new_of[node] = nodes.setdefault((int(new_of[parent]), frame), len(nodes)) if is_shown else new_of[parent]
    kept = np.array(list(nodes), np.int64).reshape(-1, 2)
    return Samples(samples.time_ns, samples.thread_id, new_of[samples.node], samples.stopped_ns, kept[:, 0], kept[:, 1])


def _name(file: str, line: int, function: str) -> str:
    """Return the name of a function, its file with as few folders as tell whether it is the user's."""
    short = cell_name(file)
    if not short:
        is_users = Frame(file, line, function).is_users
        parts = re.split(r"([/\\])", file)
        tails = ["".join(parts[at:]) for at in range(len(parts) - 1, max(len(parts) - _MOST_PARTS, 0), -2)]
        short = next((tail for tail in tails if Frame(tail, line, function).is_users == is_users), file)
    return f"{short}({line}): {function}"


def _table(calls: SampledCalls, node_frame: Int64, names: list[str], stamps: list[str]) -> pd.DataFrame:
    """Return the table of calls; frames beyond `names` are of statements, whose times are exact."""
    codes: dict[str, int] = {}
    code_of_frame = np.array([codes.setdefault(name, len(codes)) for name in [*names, *stamps]], np.int64)
    code = code_of_frame[node_frame[calls.node]] if len(calls.node) else np.zeros(0, np.int64)
    return tables.build(
        "python",
        {
            "start_ns": calls.start_ns,
            "duration_ns": calls.duration_ns,
            "name": tables.categorical(code, list(codes)),
            "thread_id": calls.thread_id,
            "id": np.arange(len(calls.node), dtype=np.int64),
            "parent_id": pd.arrays.IntegerArray(calls.parent.copy(), calls.parent < 0),
            "depth": calls.depth,
            "sampled": node_frame[calls.node] < len(names) if len(calls.node) else np.zeros(0, np.bool_),
        },
    )

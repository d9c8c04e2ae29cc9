"""Search in a call tree: paths with matching names, and their share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from npuprof.analysis.patterns import contains
from npuprof.arrays import Bools, Int64
from npuprof.errors import OptionsError
from npuprof.flame.fold import Frames, Root
from npuprof.flame.tree import MergedCalls, PathWeights
from npuprof.words.quantities import printable

_LONGEST_PATTERN = 1000
_MOST_LISTED, _LONGEST_LISTED = 5, 60


@dataclass(frozen=True)
class FrameMatches:
    """The matches of a search in a view."""

    frames: int  # number of matching paths, shown or folded away
    total: int  # their total weight; nested matches count once
    lit: Bools  # for each frame of the view, whether it matches or, if folded, contains a match


def paths_with(calls: MergedCalls, text: str, *, regex: bool = False) -> Bools:
    """Return a mask of the paths whose name contains a text, in any case, or matches a pattern; none for empty text."""
    if not text:
        return np.zeros(len(calls), bool)
    if len(text) > _LONGEST_PATTERN:
        raise OptionsError(f"the search has {len(text):,} characters; at most {_LONGEST_PATTERN:,} are allowed")
    return contains([str(name) for name in calls.names], text, regex=regex)[calls.label]


def matches_in(calls: MergedCalls, sums: PathWeights, root: Root, frames: Frames, matches: Bools) -> FrameMatches:
    """Return the matches within a view."""
    low, high = calls.span(root.path)
    lit = matches[low:high] & (sums.total[low:high] > 0)
    is_root = root.path >= 0 and bool(matches[root.path]) and int(sums.total[root.path]) > 0
    paths = np.flatnonzero(lit) + low
    total = int(frames.total[0]) if is_root else _union(calls, sums, paths)
    is_visible = np.zeros(len(frames), bool)
    is_visible[0] = is_root
    itself = (frames.folded == 0) & (np.arange(len(frames)) > 0)
    is_visible[itself] = lit[frames.path[itself] - low]
    return FrameMatches(len(paths) + is_root, total, is_visible | _hidden(calls, frames, low, lit))


def path_called(calls: MergedCalls, sums: PathWeights, names: str | Sequence[str]) -> int:
    """Return the widest path with these names from the outermost call, or with one name anywhere; -1 without names."""
    if isinstance(names, str):
        return _widest_called(calls, sums, np.arange(len(calls)), names, "in this run")
    path = -1
    for name in names:
        where = f"below {calls.name(path)!r}" if path >= 0 else "at the top"
        path = _widest_called(calls, sums, np.flatnonzero(calls.parent == path), name, where)
    return path


def _widest_called(calls: MergedCalls, sums: PathWeights, paths: Int64, name: str, where: str) -> int:
    by_width = paths[np.argsort(-sums.total[paths], kind="stable")]
    matches = by_width[(calls.names == name)[calls.label[by_width]]]
    if len(matches):
        return int(matches[0])
    widest = dict.fromkeys(printable(calls.name(path), _LONGEST_LISTED) for path in by_width[:_MOST_LISTED].tolist())
    raise OptionsError(f"there is no frame {name!r} {where}; the widest are {', '.join(widest) or '(none)'}")


def _union(calls: MergedCalls, sums: PathWeights, paths: Int64) -> int:
    """Sum the totals of paths, leaving out paths below other ones."""
    ends = calls.end[paths]
    reach = np.maximum.accumulate(np.concatenate([[-1], ends]))[:-1]
    return int(sums.total[paths[paths >= reach]].sum())


def _hidden(calls: MergedCalls, frames: Frames, low: int, lit: Bools) -> Bools:
    """Return a mask of the folded frames that contain a match."""
    before = np.concatenate([[0], np.cumsum(lit)])
    itself = frames.folded == 0
    start = frames.path - low
    end = np.where(frames.path >= 0, calls.end[frames.path], len(calls)) - low if len(calls) else start + 1
    start[0], end[0] = 0, len(lit)
    within = before[np.clip(end, 0, len(lit))] - before[np.clip(start, 0, len(lit))]
    is_visible = (
        np.where(itself & (np.arange(len(frames)) > 0), lit[np.clip(start, 0, len(lit) - 1)], 0) if len(lit) else 0
    )
    left = within - is_visible
    below = np.flatnonzero(itself)[1:]
    np.subtract.at(left, frames.above[below], within[below])
    hidden = np.zeros(len(frames), bool)
    folded = np.flatnonzero(~itself)
    hidden[folded] = left[frames.above[folded]] > 0
    return hidden

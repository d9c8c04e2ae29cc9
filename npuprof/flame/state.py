"""The state of a flame graph view: weight, scope, root and search; widgets only display it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import get_args

import numpy as np
import numpy.typing as npt
import pandas as pd

from npuprof.arrays import Int64
from npuprof.errors import OptionsError
from npuprof.flame.figure import Orientation
from npuprof.flame.fold import Root, fold, rest_of
from npuprof.flame.scope import Scope, scoped, steps, threads
from npuprof.flame.search import FrameMatches, matches_in, paths_with
from npuprof.flame.tree import MergedCalls, PathWeights, Weight, has_modules, merged_calls
from npuprof.flame.view import DrawnFlames
from npuprof.info import Info
from npuprof.observable import Observable

MOST_FRAMES = 2_000
"""Maximum number of frames in a view."""

MOST_LEVELS = 60
"""Maximum number of levels in a view; deeper callees are folded."""

_MOST_SCOPES = 8  # scopes whose sums are cached


class FlameGraph(Observable):
    """The flame graph of a run as the user sees it.

    Attributes
    ----------
    weights
        The weights that have data, in the order of :data:`Weight`.
    steps, threads
        The steps and host threads of the run; threads with the most calls first.
    weight, scope, root
        The current view.
    has_modules, by_module
        Whether calls of modules were recorded, and whether they are the only Python calls with frames.
    orientation
        Callees below their caller (``icicle``) or above it (``flame``).
    text, regex
        The current search, and whether it is a regular expression.
    cursor
        The frame under the keyboard cursor; 0 is the root.
    """

    def __init__(self, tables: Mapping[str, pd.DataFrame], info: Info) -> None:
        super().__init__()
        self.info = info
        self._tables = tables
        has_host = any(len(tables[name]) for name in ("python", "operators", "api"))
        has = {"host": has_host, "device": bool(len(tables["kernels"])), "count": True}
        self.weights: list[Weight] = [weight for weight in get_args(Weight) if has[weight]]
        self.steps, self.threads = steps(tables), threads(tables)
        self.weight: Weight = self.weights[0]
        self.scope, self.root = Scope(), Root()
        self.has_modules, self.by_module = has_modules(tables), False
        self.orientation: Orientation = "icicle"
        self.text, self.regex = "", False
        self.cursor = 0
        self._matches: npt.NDArray[np.bool_] | None = None
        self._sums: dict[Scope, dict[Weight, PathWeights]] = {}
        self._picture: DrawnFlames | None = None
        self._frame_matches: FrameMatches | None = None

    @cached_property
    def calls(self) -> MergedCalls:
        """The merged call tree of the run."""
        return merged_calls(self._tables, by_module=self.by_module)

    def picture(self) -> DrawnFlames:
        """Return the current view, with at most :data:`MOST_FRAMES` frames."""
        if self._picture is None:
            sums = self._scope()
            frames = fold(self.calls, sums[self.weight], self.root, MOST_FRAMES, MOST_LEVELS)
            self._picture = DrawnFlames(self.calls, sums, self.weight, self.scope, self.root, frames)
        return self._picture

    def frame_matches(self) -> FrameMatches | None:
        """Return the matches within the view; None if there is no search."""
        if self._matches is None:
            return None
        picture = self.picture()
        if self._frame_matches is None:
            self._frame_matches = matches_in(
                self.calls, picture.sums[self.weight], self.root, picture.frames, self._matches
            )
        return self._frame_matches

    def path(self) -> list[str]:
        """Return the names from the outermost call to the root, not escaped; empty if the whole tree is shown."""
        names = [self.calls.name(path) for path in self.calls.callers(self.root.path)]
        return [*names, "the rest"] if self.root.without else names

    def rows_of_root(self) -> dict[str, Int64]:
        """Return the rows of the frame at the top and of all that it calls, by table."""
        low, high = (
            (self.root.path, int(self.calls.end[self.root.path])) if self.root.path >= 0 else (0, len(self.calls))
        )
        host, kernels = self.calls.host_path, self.calls.kernel_path
        is_below = (host >= low) & (host < high)
        rows = {"kernels": np.flatnonzero((kernels >= low) & (kernels < high))}
        for table, first in self.calls.causes.first_row.items():
            rows[table] = np.flatnonzero(is_below[first : first + len(self._tables[table])])
        return {table: some for table, some in rows.items() if len(some)}

    def weigh(self, weight: Weight) -> None:
        """Set the weight; if the root has none of it, its nearest caller with some becomes the root.

        Raises
        ------
        OptionsError
            If the run has no data for the weight.
        """
        if weight not in self.weights:
            raise OptionsError(f"weight is {weight!r}; for this run it must be one of {', '.join(self.weights)}")
        self._set_view(weight, self.scope)

    def group(self, *, by_module: bool) -> None:
        """Draw of the Python calls those of modules alone, or all; everything is shown then, and the search stays."""
        self.by_module = by_module
        vars(self).pop("calls", None)
        self._sums.clear()
        if self.text:
            self._matches = paths_with(self.calls, self.text, regex=self.regex)
        self._set_root(Root())

    def look_at(self, scope: Scope) -> None:
        """Set the scope; if the root is outside, its nearest caller within the scope becomes the root.

        Raises
        ------
        OptionsError
            If the run has no such step or thread.
        """
        self._set_view(self.weight, scope)

    def turn(self, orientation: Orientation) -> None:
        """Set the orientation.

        Raises
        ------
        OptionsError
            If the orientation is neither ``icicle`` nor ``flame``.
        """
        if orientation not in get_args(Orientation):
            raise OptionsError(f"orientation is {orientation!r}; it must be one of {', '.join(get_args(Orientation))}")
        self.orientation = orientation
        self._notify()

    def zoom(self, frame: int) -> None:
        """Make a frame the root; a folded frame shows all its callees, the root goes up.

        Unknown numbers are ignored: the browser may refer to an older view.
        """
        frames = self.picture().frames
        if frame == 0:
            self.up()
        elif 0 < frame < len(frames):
            folded = bool(frames.folded[frame])
            self._set_root(rest_of(frames, frame, self.root) if folded else Root(int(frames.path[frame])))

    def up(self) -> None:
        """Zoom out to the caller of the root, or from the callees of a folded frame to their caller."""
        if self.root.without:
            self._set_root(Root(self.root.path))
        elif self.root.path >= 0:
            self._set_root(Root(int(self.calls.parent[self.root.path])))

    def show_all(self) -> None:
        """Show the whole tree within the scope."""
        self._set_root(Root())

    def search(self, text: str, *, regex: bool = False) -> None:
        """Highlight the frames that match a text or a regular expression; an empty text clears the search.

        Raises
        ------
        OptionsError
            If the regular expression is invalid; the highlights are removed.
        """
        self.text, self.regex, self._matches, self._frame_matches = "", regex, None, None
        try:
            if text:
                self._matches = paths_with(self.calls, text, regex=regex)
                self.text = text
        finally:
            self._notify()

    def point(self, frame: int) -> None:
        """Move the cursor to a frame."""
        if 0 <= frame < len(self.picture().frames):
            self.cursor = frame
            self._notify()

    def step_in(self) -> None:
        """Move the cursor to the widest callee."""
        below = self.picture().frames.below(self.cursor)
        if len(below):
            self.point(int(below[0]))

    def step_out(self) -> None:
        """Move the cursor to the caller."""
        self.point(int(self.picture().frames.above[self.cursor]))

    def step_aside(self, by: int) -> None:
        """Move the cursor within its level: to the right (1) or left (-1)."""
        frames = self.picture().frames
        level = np.flatnonzero(frames.depth == frames.depth[self.cursor])
        order = level[np.argsort(frames.left[level], kind="stable")]
        at = int(np.flatnonzero(order == self.cursor)[0]) + by
        if 0 <= at < len(order):
            self.point(int(order[at]))

    def next_match(self, by: int = 1) -> None:
        """Move the cursor to the next match, level by level; after the last comes the first."""
        hits, frames = self.frame_matches(), self.picture().frames
        if hits is None or not hits.lit.any():
            return
        order = np.lexsort((frames.left, frames.depth))
        lit = order[hits.lit[order]]
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        here = rank[self.cursor]
        after = np.searchsorted(rank[lit], here, side="right" if by > 0 else "left")
        self.point(int(lit[(after if by > 0 else after - 1) % len(lit)]))

    def _scope(self) -> dict[Weight, PathWeights]:
        if self.scope not in self._sums:
            while len(self._sums) >= _MOST_SCOPES:
                del self._sums[next(iter(self._sums))]
            self._sums[self.scope] = scoped(self.calls, self._tables, self.scope)
        return self._sums[self.scope]

    def _set_view(self, weight: Weight, scope: Scope) -> None:
        before, self.scope = self.scope, scope
        try:
            total = self._scope()[weight].total
        except OptionsError:
            self.scope = before
            raise
        self.weight = weight
        path = self.root.path
        while path >= 0 and not total[path]:
            path = int(self.calls.parent[path])
        self._set_root(Root(path))

    def _set_root(self, root: Root) -> None:
        self.root, self.cursor, self._picture, self._frame_matches = root, 0, None, None
        self._notify()


_ACTIONS: Mapping[str, Callable[[FlameGraph], object]] = {
    "ArrowLeft": lambda flame: flame.step_aside(-1),
    "ArrowRight": lambda flame: flame.step_aside(1),
    "Enter": lambda flame: flame.zoom(flame.cursor) if flame.cursor else None,
    "Backspace": FlameGraph.up,
    "Escape": FlameGraph.up,
    "u": FlameGraph.up,
    "0": FlameGraph.show_all,
    "n": lambda flame: flame.next_match(1),
    "p": lambda flame: flame.next_match(-1),
}


def press(flame: FlameGraph, key: str) -> bool:
    """Run the action of a key, given by its browser name (``u``, ``ArrowDown`` ...); return whether the key has one."""
    if key in ("ArrowUp", "ArrowDown"):
        inwards = (key == "ArrowDown") == (flame.orientation == "icicle")
        (flame.step_in if inwards else flame.step_out)()
        return True
    action = _ACTIONS.get(key if len(key) > 1 else key.lower())
    if action is None:
        return False
    action(flame)
    return True

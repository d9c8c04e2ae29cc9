"""The flame graph in the notebook: answers a page for data beyond the saved run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from npuprof.analysis.step_windows import run_window
from npuprof.arrays import Int64
from npuprof.browser.saved_run import save_tree
from npuprof.browser.setup import families, simulated_mark
from npuprof.flame.scope import Scope, scoped, steps, threads
from npuprof.flame.tree import MergedCalls, has_modules, merged_calls
from npuprof.notebook.explorer.canvas import CanvasPlace, CanvasWidget, Message, answering
from npuprof.notebook.explorer.requests import known_of, whole_in
from npuprof.profiles.selection import SelectedRows

if TYPE_CHECKING:
    import pandas as pd

    from npuprof.tables.info import Info

_LONGEST_NAME = 300


class FlameGraphView:
    """Answers a page that shows a flame graph; a page that holds the run asks for steps, threads and modules only.

    Parameters
    ----------
    select
        Called with the rows of a frame, by table, and its name, to select them in all views.

    Attributes
    ----------
    widget
        The widget to display.
    canvas
        The widget of the page in it.
    """

    def __init__(
        self,
        tables: Mapping[str, pd.DataFrame],
        info: Info,
        *,
        origin_ns: int = 0,
        runtime: str = "CANN",
        selected: Callable[[], SelectedRows] = SelectedRows,
        select: Callable[[Mapping[str, Int64], str], None] = lambda _, __: None,
        explorer: str = "",
    ) -> None:
        self._tables, self._info, self._origin_ns, self._runtime = tables, info, origin_ns, runtime
        self._selected, self._select, self._explorer = selected, select, explorer
        self._trees: dict[bool, MergedCalls] = {}
        self._receive = answering(
            lambda: self.canvas, {"tree": self._send_tree, "sums": self._send_sums, "choose": self._choose}
        )
        self.widget = CanvasPlace(self._make)

    def _make(self) -> CanvasWidget:
        setup = {
            "view": "flame",
            "explorer": self._explorer,
            "families": families(self._runtime),
            "simulated": simulated_mark(self._info),
            "steps": steps(self._tables),
            "threads": threads(self._tables),
            "modules": has_modules(self._tables),
            "selected": not self._selected().is_all,
        }
        self.canvas = CanvasWidget(setup, {}, self._receive)
        return self.canvas

    def follow(self, selected: SelectedRows) -> None:
        """Show in pages that another part of the run is selected."""
        self.canvas.say("selected", {"selected": not selected.is_all})

    def _calls(self, asked: Message) -> MergedCalls:
        by_module = asked.get("byModule") is True
        if by_module not in self._trees:
            self._trees[by_module] = merged_calls(self._tables, by_module=by_module)
        return self._trees[by_module]

    def _send_tree(self, asked: Message) -> None:
        data = np.frombuffer(save_tree(self._tables, self._calls(asked)), np.uint8)
        self.canvas.say("tree", known_of(asked), [data])

    def _send_sums(self, asked: Message) -> None:
        """Send the own time of each path, in a step, on a thread, and of the selection."""
        selected, range_ns = self._selected(), None
        if selected.start_ns is not None or selected.end_ns is not None:
            low, high = run_window(self._tables) or (0, 0)
            range_ns = (
                low if selected.start_ns is None else selected.start_ns,
                high if selected.end_ns is None else selected.end_ns,
            )
        scope = Scope(whole_in(asked.get("step")), whole_in(asked.get("thread")))
        sums = scoped(self._calls(asked), self._tables, scope, range_ns, selected.rows)
        part = {
            "range": None if range_ns is None else [moment_ns - self._origin_ns for moment_ns in range_ns],
            "isChosen": selected.rows is not None,
        }
        arrays = [sums[weight].exclusive.astype(np.float64) for weight in ("host", "device", "count")]
        self.canvas.say("sums", {**known_of(asked), **part}, arrays)

    def _choose(self, asked: Message) -> None:
        """Select the slices at and below paths."""
        calls, paths = self._calls(asked), asked.get("paths")
        if not isinstance(paths, list):
            return
        is_below = np.zeros(len(calls), bool)
        for path in paths:
            if isinstance(path, int) and 0 <= path < len(calls):
                is_below[path : int(calls.end[path])] = True
        host = is_below[calls.host_path]
        rows = {"kernels": np.flatnonzero(is_below[calls.kernel_path])}
        for table, first in calls.causes.first_row.items():
            rows[table] = np.flatnonzero(host[first : first + len(self._tables[table])])
        if rows := {table: some for table, some in rows.items() if len(some)}:
            self._select(rows, str(asked.get("name"))[:_LONGEST_NAME])

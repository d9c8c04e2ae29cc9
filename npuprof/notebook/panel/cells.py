"""Tells the panel when a cell begins and ends, so that it can profile the next one or every one."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from npuprof.notebook.controller import Cell
from npuprof.notebook.panel.controller import PanelController

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


class PanelCells:
    """Listens to the beginning and the end of cells."""

    def __init__(self, shell: InteractiveShell, panel: PanelController) -> None:
        self._shell = shell
        self._panel = panel

    def register(self) -> None:
        """Begin to listen."""
        self._shell.events.register("pre_run_cell", self.pre_run_cell)
        self._shell.events.register("post_run_cell", self.post_run_cell)

    def unregister(self) -> None:
        """Listen no more."""
        self._shell.events.unregister("pre_run_cell", self.pre_run_cell)
        self._shell.events.unregister("post_run_cell", self.post_run_cell)

    def pre_run_cell(self, info: Any) -> None:
        """Begin the run of a cell that is about to run. IPython calls this for cells that are not silent."""
        # The same object that the cell's result will have, by which its end is known.
        cell = Cell(id(info), info.raw_cell, self._title(numbered=bool(info.store_history)))
        if why := self._panel.cell_begins(cell):
            print(f"npuprof: the cell runs unprofiled: {why}", file=sys.stderr)  # noqa: T201 - to the user

    def post_run_cell(self, _: Any) -> None:
        """Show what has changed."""
        self._panel.cell_ended()

    def _title(self, *, numbered: bool) -> str:
        # IPython numbers a cell after this event.
        history = self._shell.history_manager
        number = len(history.input_hist_parsed) if history is not None else 0
        return f"cell [{number}]" if numbered else f"code run after cell [{number - 1}]"

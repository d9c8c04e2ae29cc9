"""The running panel of a shell: its controller and widgets, kept up to date."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from npuprof.notebook.controller import Controller
from npuprof.notebook.panel.background import Ticker
from npuprof.notebook.panel.controller import PanelController
from npuprof.notebook.panel.view import PanelView
from npuprof.session import history as run_history

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


class PanelCells:
    """Notifies the panel of the start and end of cells."""

    def __init__(self, shell: InteractiveShell, panel: PanelController) -> None:
        self._shell = shell
        self._panel = panel

    def register(self) -> None:
        """Register the hooks."""
        self._shell.events.register("pre_run_cell", self.pre_run_cell)
        self._shell.events.register("post_run_cell", self.post_run_cell)

    def unregister(self) -> None:
        """Remove the hooks."""
        self._shell.events.unregister("pre_run_cell", self.pre_run_cell)
        self._shell.events.unregister("post_run_cell", self.post_run_cell)

    def pre_run_cell(self, info: Any) -> None:
        """Have a cell profiled; IPython calls it before cells that are not silent."""
        self._panel.await_cell(info.raw_cell)

    def post_run_cell(self, _: Any) -> None:
        """Update the panel."""
        self._panel.cell_ended()


class LivePanel:
    """The panel of a shell that has npuprof's hooks.

    A single thread writes to the widgets; it is woken by every change, and by the start and end of runs.

    Attributes
    ----------
    view
        Its widgets.
    """

    def __init__(self, shell: Any, controller: Controller) -> None:
        self._ticker = Ticker(self._tick, lambda: self._panel.lively)
        self._panel = PanelController(controller, self._ticker.wake)
        self.view = PanelView(self._panel)
        self._cells = PanelCells(shell, self._panel)
        self._cells.register()
        self._end_listening = run_history.listen(self._ticker.wake)
        self._ticker.start()

    def close(self) -> None:
        """Remove the hooks and the widgets."""
        self._cells.unregister()
        self._end_listening()
        self._ticker.end()
        self.view.close()

    def _tick(self) -> None:
        try:
            self._panel.look()
            self.view.refresh()
        except Exception as error:  # noqa: BLE001 - must not end the thread; shown at the next update
            self._panel.note(f"the panel could not be shown: {type(error).__name__}: {error}")

"""A panel at work: its controller, its widgets, and what keeps them up to date."""

from __future__ import annotations

from typing import Any

from npuprof.notebook.controller import Controller
from npuprof.notebook.panel.background import Ticker
from npuprof.notebook.panel.cells import PanelCells
from npuprof.notebook.panel.controller import PanelController
from npuprof.notebook.panel.view import PanelView
from npuprof.session import history as run_history


class LivePanel:
    """The panel of a shell.

    One thread writes to the widgets, whoever changed something: it is woken by each change, start and end of a run.

    Attributes
    ----------
    view
        Its widgets.

    Parameters
    ----------
    shell
        The shell, to which npuprof has been added: its hooks end the runs of cells.
    controller
        Begins and ends the runs.
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
        """Listen to nothing more, and take the widgets away."""
        self._cells.unregister()
        self._end_listening()
        self._ticker.end()
        self.view.close()

    def _tick(self) -> None:
        try:
            self._panel.look()
            self.view.refresh()
        except Exception as error:  # noqa: BLE001 - must not end the thread; told the next time
            self._panel.note(f"the panel could not be shown: {type(error).__name__}: {error}")

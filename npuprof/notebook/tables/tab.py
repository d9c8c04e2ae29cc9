"""The tab of a table: a grid that asks its controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npuprof.notebook.grid.widget import GridWidget, Message
from npuprof.notebook.tables.controller import KINDS, Choose, Kind, Show, TableController

if TYPE_CHECKING:
    from npuprof.profiles import Profile


def kinds_in(run: Profile) -> list[Kind]:
    """Return the tables that a run has rows of."""
    return [kind for kind in KINDS if len(run.tables[kind.table])]


def build(run: Profile, kind: Kind, show: Show | None = None, choose: Choose | None = None) -> GridWidget:
    """Make the widget of one table of a run.

    Parameters
    ----------
    run
        The run.
    kind
        Which table.
    show
        Shows rows in a timeline, where there is one.
    choose
        Told which rows are chosen, where somebody wants to know.
    """
    origin_ns = _origin_ns(run)
    controller = TableController(kind, run.tables[kind.table], origin_ns, show, choose)

    def answer(question: Message) -> None:
        controller.answer(question)
        widget.show(controller.page())

    widget = GridWidget(controller.page(), answer)
    return widget


def _origin_ns(run: Profile) -> int:
    from npuprof.analysis.step_windows import run_window

    if run.info.started_ns is not None:
        return run.info.started_ns
    span = run_window(run.tables)
    return span[0] if span is not None else 0

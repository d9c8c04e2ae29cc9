"""The tab of a table: a grid and its controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npuprof.arrays import Int64
from npuprof.notebook.grid.widget import GridWidget, Message
from npuprof.notebook.tables.controller import KINDS, Choose, GridTable, Show, TableController

if TYPE_CHECKING:
    from npuprof.profiles import Profile


def kinds_in(run: Profile) -> list[GridTable]:
    """Return the kinds of tables in which a run has rows."""
    return [kind for kind in KINDS if len(run.tables[kind.table])]


def build(
    run: Profile, kind: GridTable, show: Show | None = None, choose: Choose | None = None, rows: Int64 | None = None
) -> GridWidget:
    """Return the grid widget of a table, or of some of its rows.

    Parameters
    ----------
    run, kind
        The run and the kind of table.
    show, choose
        Those of :class:`TableController`.
    rows
        The rows to list; by default all. `show` is called with the rows of the whole table.
    """
    origin_ns, frame = _origin_ns(run), run.tables[kind.table]
    if rows is not None:
        whole, listed = show, rows
        frame = frame.iloc[rows]
        show = None if whole is None else lambda table, numbers: whole(table, listed[numbers])
    controller = TableController(kind, frame, origin_ns, show, choose)

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

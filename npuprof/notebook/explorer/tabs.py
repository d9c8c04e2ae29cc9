"""The tabs of the explorer: what each is called, whether a run has something for it, and how it is made.

Another part of the notebook adds a tab of its own, or takes the place of one, with :func:`register`.
"""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import TYPE_CHECKING

import ipywidgets as widgets

from npuprof.figures.embed import mimebundle
from npuprof.notebook.explorer.explorer import Explorer, Tab
from npuprof.profiles import Profile

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import plotly.graph_objects as go


_Build = Callable[["Explorer"], widgets.Widget]

_MOST_ROWS = 200  # of a table that has no grid
_LONGEST_CELL = 200


def shown(figure: go.Figure) -> widgets.Widget:
    """Show a figure as data for the front end's own renderer: a live one would bring plotly.js along once more."""
    output = {"output_type": "display_data", "data": mimebundle(figure), "metadata": {}}
    # With a height of its own: JupyterLab may resize it while it is being drawn, and plotly would then find none.
    place = widgets.Output(outputs=(output,), layout={"width": "100%", "height": f"{figure.layout.height or 450}px"})
    place.add_class("npuprof-drawn")
    return place


def figure(method: str) -> _Build:
    """Show the figure that a method of the profile gives."""
    return lambda explorer: shown(getattr(explorer.run, method)())


def overview(explorer: Explorer) -> widgets.Widget:
    """Show the report's summary."""
    from npuprof.exports.html import report_html

    run = explorer.run
    return widgets.HTML(report_html(run.summary, run.info, run.notes))


def timeline(explorer: Explorer) -> widgets.Widget:
    """Show the live timeline."""
    from npuprof.notebook.explorer.timeline import TimelineView

    return TimelineView(explorer.timeline, explorer.kernel).widget


def flame_graph(explorer: Explorer) -> widgets.Widget:
    """Show the live flame graph."""
    from npuprof.flame.state import FlameGraph
    from npuprof.notebook.explorer.flame_graph import FlameGraphView

    return FlameGraphView(FlameGraph(explorer.run.tables, explorer.run.info)).widget


def table(name: str, choose: Callable[[Explorer, npt.NDArray[np.int64]], None] | None = None) -> _Build:
    """Show a table, in a grid where there is one for it, with rows that light up in the timeline.

    Parameters
    ----------
    name
        The table's.
    choose
        Called with the rows of the table that are chosen.
    """

    def build(explorer: Explorer) -> widgets.Widget:
        from npuprof.notebook.tables.tab import build as build_grid
        from npuprof.notebook.tables.tab import kinds_in

        kind = next((kind for kind in kinds_in(explorer.run) if kind.table == name), None)
        if kind is None:
            return rows_of(explorer, name)
        chosen = None if choose is None else lambda rows: choose(explorer, rows)
        return build_grid(explorer.run, kind, explorer.light_up, chosen)

    return build


def rows_of(explorer: Explorer, name: str) -> widgets.Widget:
    """Show the first rows of a table as they are."""
    frame = explorer.run.tables[name]
    first = frame.iloc[:_MOST_ROWS].dropna(axis="columns", how="all")
    head = "".join(f"<th>{escape(str(column))}</th>" for column in first.columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(str(value)[:_LONGEST_CELL])}</td>" for value in row) + "</tr>"
        for row in first.itertuples(index=False)
    )
    more = f"<div class='faint'>the first {_MOST_ROWS} of {len(frame):,} rows; run.{name} has them all</div>"
    said = more if len(frame) > _MOST_ROWS else ""
    return widgets.HTML(f"{said}<div style='overflow-x:auto'><table><tr>{head}</tr>{body}</table></div>")


def kernels(explorer: Explorer) -> widgets.Widget:
    """Show the kernels' table, the chosen kernel in detail, and the roofline, where the run has what they take."""
    rows = table("kernels", lambda explorer, rows: explorer.tell(rows, "Kernels"))(explorer)
    drawn = explorer.run.plot_roofline()
    return _column(rows, explorer.kernel.place("Kernels"), *([shown(drawn)] if drawn.data else []))


def memory(explorer: Explorer) -> widgets.Widget:
    """Show memory over time, and the blocks that were allocated."""
    shown_parts = [shown(explorer.run.plot_memory())] if len(explorer.run.memory) else []
    blocks = [table("allocations")(explorer)] if len(explorer.run.allocations) else []
    return _column(*shown_parts, *blocks)


def communication(explorer: Explorer) -> widgets.Widget:
    """Show the time of collectives, who sent how much to whom, and their table."""
    figures = [explorer.run.plot_communication(), explorer.run.plot_communication_matrix()]
    rows = [table("communication")(explorer)] if len(explorer.run.communication) else []
    return _column(*(shown(drawn) for drawn in figures if drawn.data), *rows)


def notes(explorer: Explorer) -> widgets.Widget:
    """Show what was repaired, skipped or could not be known."""
    rows = "".join(
        f"<tr><td>{escape(str(note.severity))}</td><td>{escape(str(note.source))}</td>"
        f"<td class='long'>{escape(str(note.message))}</td><td class='number'>{note.count}</td></tr>"
        for note in explorer.run.notes.itertuples(index=False)
    )
    head = "<tr><th>severity</th><th>source</th><th>message</th><th class='number'>times</th></tr>"
    return widgets.HTML(f"<table>{head}{rows}</table>")


def _column(*children: widgets.Widget) -> widgets.Widget:
    return widgets.VBox(list(children), layout={"width": "100%"})


def _rows(*tables: str) -> Callable[[Explorer], bool]:
    return lambda explorer: any(len(explorer.run.tables[name]) for name in tables)


def _always(_: Explorer) -> bool:
    return True


_SLICES = ("steps", "marks", "python", "operators", "api", "kernels", "tasks", "communication")

_TABS: list[Tab] = [
    Tab("Overview", _always, overview),
    Tab("Timeline", _rows(*_SLICES, "counters"), timeline),
    Tab("Flame graph", _rows("python", "operators", "api", "kernels"), flame_graph),
    Tab("Operators", _rows("operators"), table("operators")),
    Tab("Kernels", _rows("kernels"), kernels),
    Tab("API", _rows("api"), table("api")),
    Tab("Memory", _rows("memory", "allocations"), memory),
    Tab("Communication", _rows("communication", "communication_tasks"), communication),
    Tab("Steps", _rows("steps", "step_times"), figure("plot_steps")),
    Tab("Counters", _rows("counters"), figure("plot_counters")),
    Tab("Marks", _rows("marks"), table("marks")),
    Tab("Notes", lambda explorer: bool(len(explorer.run.notes)), notes),
]


def register(tab: Tab) -> None:
    """Add a tab behind the others, or in the place of the one of its title, to explorers that are made from now on."""
    for at, other in enumerate(_TABS):
        if other.title == tab.title:
            _TABS[at] = tab
            return
    _TABS.append(tab)


def explorer_of(run: Profile) -> Explorer:
    """Build the explorer of a run, with every tab for which it has data."""
    return Explorer(run, _TABS)

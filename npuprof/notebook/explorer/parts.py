"""What the tabs of the explorer hold: the run's figures, its tables, and the timeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape
from typing import TYPE_CHECKING, Any

import ipywidgets as widgets

from npuprof.figures.embed import CONFIG, mimebundle

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from npuprof.notebook.explorer.explore import Explorer

_Build = Callable[["Explorer"], widgets.Widget]

_WEIGHTS = (("host time", "host"), ("device time", "device"), ("count", "count"))
_MOST_ROWS = 200  # of a table that has no grid
_LONGEST_CELL = 200


def shown(figure: go.Figure) -> widgets.Widget:
    """Show a figure as data for the front end's own renderer: a live one would bring plotly.js along once more."""
    output = {"output_type": "display_data", "data": mimebundle(figure), "metadata": {}}
    return widgets.Output(outputs=(output,), layout={"width": "100%"})


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

    return TimelineView(explorer.timeline).widget


def flame_graph(explorer: Explorer) -> widgets.Widget:
    """Show the flame graph, weighed as chosen."""
    import plotly.graph_objects as go

    tables = explorer.run.tables
    host = any(len(tables[name]) for name in ("python", "operators", "api"))
    offered = [pair for pair in _WEIGHTS if host or pair[1] != "host"]
    offered = [pair for pair in offered if len(tables["kernels"]) or pair[1] != "device"]
    choice = widgets.ToggleButtons(options=offered, style={"button_width": "auto"})
    # A live figure, as the timeline's is: the front end's own renderer left the first one that it drew blank at times.
    live = go.FigureWidget(explorer.run.flamegraph(weight=choice.value).update_layout(autosize=True))
    live._config = {**CONFIG}
    # A block: in a flexible row the figure would be as wide as its frame was before it was drawn.
    place = widgets.Box([live], layout={"display": "block", "width": "100%"})

    def draw(change: Mapping[str, Any]) -> None:
        drawn = explorer.run.flamegraph(weight=change["new"]).update_layout(autosize=True)
        with live.batch_update():
            live.layout = drawn.layout
            for old, new in zip(live.data, drawn.data, strict=True):
                old.update(new.to_plotly_json(), overwrite=True)

    choice.observe(draw, "value")
    return _column(widgets.HBox([widgets.Label("Width by"), choice]), place)


def table(name: str) -> _Build:
    """Show a table, in a grid where there is one for it, with rows that light up in the timeline."""

    def build(explorer: Explorer) -> widgets.Widget:
        from npuprof.notebook.tables.tab import build as build_grid
        from npuprof.notebook.tables.tab import kinds_in

        kind = next((kind for kind in kinds_in(explorer.run) if kind.table == name), None)
        if kind is None:
            return rows_of(explorer, name)
        return build_grid(explorer.run, kind, explorer.light_up)

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
    """Show the kernels' table, and the roofline where the run has what it takes."""
    drawn = explorer.run.roofline()
    rows = table("kernels")(explorer)
    return _column(rows, shown(drawn)) if drawn.data else rows


def memory(explorer: Explorer) -> widgets.Widget:
    """Show memory over time, and the blocks that were allocated."""
    shown_parts = [shown(explorer.run.memory_plot())] if len(explorer.run.memory) else []
    blocks = [table("allocations")(explorer)] if len(explorer.run.allocations) else []
    return _column(*shown_parts, *blocks)


def communication(explorer: Explorer) -> widgets.Widget:
    """Show the time of collectives, who sent how much to whom, and their table."""
    figures = [explorer.run.communication_plot(), explorer.run.communication_matrix()]
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

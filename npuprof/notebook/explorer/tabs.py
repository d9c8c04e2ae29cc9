"""The tabs of the explorer: title, whether a run has data, and contents. :func:`register` adds or replaces one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from html import escape
from typing import TYPE_CHECKING

import ipywidgets as widgets

from npuprof.analysis.code_lines import has_lines
from npuprof.arrays import Int64
from npuprof.browser.tables import kind_of
from npuprof.figures.data_text import data_text
from npuprof.figures.embed import mimebundle
from npuprof.figures.memory import memory_axis
from npuprof.notebook.explorer.beside import above_each_other
from npuprof.notebook.explorer.browser_events import CLICKED_CLASS, Clicks
from npuprof.notebook.explorer.code import TITLE as CODE
from npuprof.notebook.explorer.code import LineButton
from npuprof.notebook.explorer.controls import button, side_by_side
from npuprof.notebook.explorer.explorer import Explorer, Tab, following
from npuprof.profiles.profile import Profile
from npuprof.words.quantities import printable
from npuprof.words.texts import AS_TEXT

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go


_Build = Callable[["Explorer"], widgets.Widget]

_MOST_ROWS = 200  # maximum number of rows of a table without a grid
_LONGEST_CELL = 200


def shown(figure: go.Figure) -> widgets.Widget:
    """Return a figure as output data for the front end's renderer, with its text folded below it.

    A live figure would load plotly.js again.
    """
    output = {"output_type": "display_data", "data": mimebundle(figure), "metadata": {}}
    # With an explicit height: plotly finds none if JupyterLab resizes the output while drawing.
    place = widgets.Output(outputs=(output,), layout={"width": "100%", "height": f"{figure.layout.height or 450}px"})
    place.add_class("npuprof-drawn")
    text = escape(data_text(figure, "figure"))
    folded = f"<details class='{AS_TEXT}'><summary>As text</summary><pre class='long'>{text}</pre></details>"
    return _column(place, widgets.HTML(folded))


def figure(method: str) -> _Build:
    """Return a function that builds a tab from a figure method of the profile."""
    return lambda explorer: shown(getattr(explorer.run, method)())


def overview(explorer: Explorer) -> widgets.Widget:
    """Return the summary of the report, with a button for the evidence of each finding."""
    from npuprof.report.html import report_html

    run, advice = explorer.run, explorer.run.advice()
    report = widgets.HTML(report_html(replace(run._whole_report(), codes=())))  # a tab of its own has the code
    links = [
        button(
            f"{number} {finding.rule.replace('_', ' ')}",
            f"{finding.title}: {finding.where}",
            partial(explorer.open_at, finding),
        )
        for number, finding in enumerate(advice, 1)
        if finding.where
    ]
    return _column(*([side_by_side([widgets.Label("Show the evidence of"), *links])] if links else []), report)


def timeline(explorer: Explorer) -> widgets.Widget:
    """Return the live timeline; with two runs, one above the other."""
    from npuprof.notebook.explorer.timeline import TimelineView

    if explorer.beside is not None:
        return above_each_other(explorer, explorer.beside)
    run = explorer.run
    if explorer.timeline.left_out:
        return widgets.HTML(escape(explorer.timeline.left_out))
    view = TimelineView(
        explorer.timeline,
        explorer.kernel,
        run.advice,
        run.critical_path,
        run,
        held=lambda: explorer.held,
        explorer=explorer.identifier,
    )
    explorer.on_held.append(view.send_run)
    if CODE not in explorer.titles:
        return view.widget
    return _column(view.widget, LineButton(explorer.run, explorer.timeline, explorer.show_line).widget)


def code(explorer: Explorer) -> widgets.Widget:
    """Return the user's code, whose lines choose their kernels."""
    return explorer.code.widget


def flame_graph(explorer: Explorer) -> widgets.Widget:
    """Return the live flame graph, of the selection of the run."""
    from npuprof.notebook.explorer.flame_graph import FlameGraphView

    run, timeline = explorer.run, explorer.timeline
    view = FlameGraphView(
        run.tables,
        run.info,
        origin_ns=timeline.origin,
        runtime=timeline.slices.runtime,
        selected=lambda: run._selection.selected,
        select=timeline.light_up,
        explorer=explorer.identifier,
    )
    run._selection.followers.append(view.follow)
    return _column(following(explorer, lambda selected: _note(explorer, is_part=not selected.is_all)), view.widget)


def _note(explorer: Explorer, *, is_part: bool) -> widgets.Widget:
    """Return the selection, if a view shows only that."""
    if not is_part:
        return widgets.HBox([])
    text = escape(printable(explorer.run._selection.selected.text or "a range of time", _LONGEST_CELL))
    note = widgets.HTML(f"<span class='faint'>Only what is selected: {text}</span>")
    return side_by_side([note, button("Show all", "Clear the selection in all views", explorer.run.select)])


def table(name: str, choose: Callable[[Explorer, Int64], None] | None = None) -> _Build:
    """Return a function that builds a table's grid, whose rows can be highlighted in the timeline.

    `choose` is called with the explorer and the chosen rows.
    """

    def build(explorer: Explorer) -> widgets.Widget:
        """Return the grid of the table, or its first rows."""
        from npuprof.notebook.explorer.table import TableView

        kind, run = kind_of(name), explorer.run
        if kind is None or not len(run.tables[name]):
            return rows_of(explorer, name)
        view = TableView(
            run,
            kind,
            origin_ns=explorer.origin_ns,
            show=explorer.light_up,
            choose=None if choose is None else partial(choose, explorer),
            selected=lambda: run._selection.selected,
            explorer=explorer.identifier,
        )
        run._selection.followers.append(view.follow)
        note = following(explorer, lambda selected: _note(explorer, is_part=selected.rows is not None))
        return _column(note, view.widget)

    return build


def rows_of(explorer: Explorer, name: str) -> widgets.Widget:
    """Return the first rows of a table without a grid."""
    frame = explorer.run.tables[name]
    first = frame.iloc[:_MOST_ROWS].dropna(axis="columns", how="all")
    head = "".join(f"<th>{escape(str(column))}</th>" for column in first.columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(str(value)[:_LONGEST_CELL])}</td>" for value in row) + "</tr>"
        for row in first.itertuples(index=False)
    )
    more = f"<div class='faint'>the first {_MOST_ROWS} of {len(frame):,} rows; run.{name} has them all</div>"
    note = more if len(frame) > _MOST_ROWS else ""
    return widgets.HTML(f"{note}<div style='overflow-x:auto'><table><tr>{head}</tr>{body}</table></div>")


def kernels(explorer: Explorer) -> widgets.Widget:
    """Return the table of kernels, the selected kernel, and the roofline if the run has the counters."""
    rows = table("kernels", lambda explorer, rows: explorer.show_longest(rows, "Kernels"))(explorer)
    drawn = explorer.run.plot_roofline()
    return _column(rows, explorer.kernel.place("Kernels"), *([shown(drawn)] if drawn.data else []))


def memory(explorer: Explorer) -> widgets.Widget:
    """Return memory over time, where a click moves the timeline, and the allocations."""
    shown_parts = [_clicked_view(explorer)] if len(explorer.run.memory) else []
    blocks = [table("allocations")(explorer)] if len(explorer.run.allocations) else []
    return _column(*shown_parts, *blocks)


def compared(explorer: Explorer) -> widgets.Widget:
    """Return the difference of the two runs: text and tables, a waterfall and a flame graph."""
    if explorer.beside is None:
        raise ValueError("there is no other run to compare with")
    minus = explorer.run - explorer.beside
    tables = widgets.HTML(f"<div style='overflow-x:auto'>{minus._repr_html_()}</div>")
    return _column(tables, shown(minus.plot_waterfall()), shown(minus.plot_flamegraph()))


def _clicked_view(explorer: Explorer) -> widgets.Widget:
    axis = memory_axis(explorer.run.tables)
    clicks = Clicks(lambda place: explorer.show_moment(axis.moment(place)))
    hint = widgets.HTML("<span class='faint'>Click a line or a dot: the timeline shows that moment.</span>")
    box = _column(hint, shown(explorer.run.plot_memory()), clicks)
    box.add_class(CLICKED_CLASS)
    return box


def communication(explorer: Explorer) -> widgets.Widget:
    """Return the time of collectives, the traffic matrix, and their table."""
    figures = [explorer.run.plot_communication(), explorer.run.plot_communication_matrix()]
    rows = [table("communication")(explorer)] if len(explorer.run.communication) else []
    return _column(*(shown(drawn) for drawn in figures if drawn.data), *rows)


def notes(explorer: Explorer) -> widgets.Widget:
    """Return the table of notes."""
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


_SLICES = ("steps", "marks", "python", "operators", "api", "kernels", "tasks", "communication")

_TABS: list[Tab] = [
    Tab("Overview", lambda _: True, overview),
    Tab("Timeline", _rows(*_SLICES, "counters"), timeline),
    Tab("Difference", lambda explorer: explorer.beside is not None, compared),
    Tab("Flame graph", _rows("python", "operators", "api", "kernels"), flame_graph),
    Tab(CODE, lambda explorer: has_lines(explorer.run.tables), code),
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
    """Add a tab, or replace the tab with its title, in explorers built from now on."""
    for at, other in enumerate(_TABS):
        if other.title == tab.title:
            _TABS[at] = tab
            return
    _TABS.append(tab)


def explorer_of(
    run: Profile,
    beside: Profile | None = None,
    saved_bytes: int = 0,
    tracks: Mapping[str, pd.DataFrame] | None = None,
) -> Explorer:
    """Return the explorer of a run, or of two of them; see :class:`Explorer`."""
    return Explorer(run, _TABS, beside, saved_bytes, tracks)

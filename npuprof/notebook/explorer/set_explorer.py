"""The explorer of a set of runs: a selected run, and views of all runs together."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any

import ipywidgets as widgets
import numpy as np
import pandas as pd

from npuprof.errors import NpuprofError
from npuprof.notebook.explorer.explorer import Explorer, LazyTabs
from npuprof.notebook.explorer.tabs import explorer_of, shown
from npuprof.notebook.explorer.timeline import TimelineView
from npuprof.notebook.widgets import LiveBox, answer_at_once, close_all
from npuprof.ranks.job import FEW
from npuprof.timeline.state import Timeline

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from npuprof.advice.finding import Finding
    from npuprof.ranks.profile_set import ProfileSet


_TIMELINE, _ALL, _RUNS = "Timeline", "All ranks", "Runs"
_MOST_LISTED = 60


class SetExplorer:
    """Shows a set of runs: at first the timeline of all; of many, what small files tell of them over time, or a list.

    A run is read when it is selected, all of them when a view of all runs is opened.

    Attributes
    ----------
    explorer
        The explorer of the selected run; None if it cannot be read.
    widget
        The widget to display.
    """

    def __init__(self, runs: ProfileSet) -> None:
        self._runs = runs
        self.explorer: Explorer | None = None
        self._chosen = widgets.VBox([], layout={"width": "100%"})
        self._choice = widgets.Dropdown(
            options=[(_title(row), number) for number, (_, row) in enumerate(runs.info.iterrows())],
            description="Run",
            style={"description_width": "initial"},
            layout={"width": "auto"},
        )
        self._tabs = LazyTabs(
            {
                _TIMELINE: self._add_failed(lambda: [self._timeline()]),
                _ALL: self._for_all_runs(runs.plot_ranks, runs.plot_overview, runs.plot_pipeline),
                _RUNS: lambda: widgets.HTML(f"<div style='overflow-x:auto'>{_listed(runs)}</div>"),
                "One run": self._chooser,
                "Flame graph": self._for_all_runs(runs.flamegraph),
                "Steps": self._for_all_runs(runs.plot_steps),
                "Memory": self._for_all_runs(runs.plot_memory),
                "Communication": self._for_all_runs(runs.plot_communication, runs.plot_communication_matrix),
                "Roofline": self._for_all_runs(runs.plot_roofline),
                "Counters": self._for_all_runs(runs.plot_counters),
            }
        )
        self._tabs.open(_TIMELINE if len(runs) <= FEW else _ALL if runs._is_seen_at_once() else _RUNS)
        again = f", or open the runs with npuprof.load({str(runs.root)!r}).explore()"
        self.widget = LiveBox(
            [self._tabs.widget], what="the explorer of many runs", again=again, layout={"width": "100%"}
        )

    def open(self, title: str) -> None:
        """Bring a tab to the front: Timeline, All ranks, Runs, One run, Steps or Communication."""
        self._tabs.open(title)

    def open_at(self, finding: Finding) -> None:
        """Show the evidence of a finding: in the run of its rank, or in a view of all ranks."""
        if finding.rank is None:
            self.open("Communication")
            return
        self.open("One run")
        self._choice.value = int(np.flatnonzero((self._runs.info["rank"] == finding.rank).fillna(value=False))[-1])
        if self.explorer is not None:
            self.explorer.open_at(finding)

    def choose(self, row: int) -> None:
        """Show the run in a row of the set's ``info``, or why it cannot be read."""
        former, self.explorer = self._chosen.children, None
        self._chosen.children = (widgets.HTML("<span class='faint'>reading …</span>"),)
        for widget in former:
            close_all(widget)
        try:
            self.explorer = explorer_of(self._runs.at(row))
        except NpuprofError as error:
            self._chosen.children = (widgets.HTML(f"<pre>npuprof: {escape(str(error))}</pre>"),)
        else:
            self._chosen.children = (self.explorer.widget,)
        answer_at_once(self._chosen)

    def _chooser(self) -> widgets.Widget:
        self._choice.observe(lambda change: self.choose(change["new"]), "value")
        self.choose(self._choice.value)
        return widgets.VBox([self._choice, self._chosen], layout={"width": "100%"})

    @cached_property
    def timeline(self) -> Timeline:
        """The state of the timeline of all ranks, above each other on aligned clocks."""
        runs = self._runs
        return Timeline(runs._merged_tables(), runs._merged_info(), stages=runs._stages())

    def _timeline(self) -> widgets.Widget:
        if self.timeline.left_out:
            return widgets.HTML(escape(self.timeline.left_out))
        return TimelineView(self.timeline).widget

    def _for_all_runs(self, *draws: Callable[[], go.Figure]) -> Callable[[], widgets.Widget]:
        """Return a function that builds figures of all runs."""
        return self._add_failed(lambda: [shown(draw()) for draw in draws])

    def _add_failed(self, views: Callable[[], list[widgets.Widget]]) -> Callable[[], widgets.Widget]:
        """Return a function that builds views of all runs, with a list of the unreadable ones."""

        def build() -> widgets.Widget:
            made = views()
            failed = "".join(
                f"<li>{escape(f'rank {which}' if isinstance(which, int) else which)}: {escape(reason)}</li>"
                for which, reason in self._runs.failed.items()
            )
            unread = [widgets.HTML(f"Without these runs, which cannot be read:<ul>{failed}</ul>")] if failed else []
            return widgets.VBox([*made, *unread], layout={"width": "100%"})

        return build


def _title(row: pd.Series[Any]) -> str:
    rank = "" if pd.isna(row["rank"]) else f"rank {row['rank']} · "
    failed = " (cannot be read)" if row["problem"] else ""
    return f"{rank}{row['path']}{failed}"


def _listed(runs: ProfileSet) -> str:
    """Return the runs as a table, without reading any of them."""
    shown: str = runs.info.head(_MOST_LISTED).to_html(index=False, border=0, escape=True)
    more = len(runs) - _MOST_LISTED
    return shown + (f"<p>{more:,} more in <code>runs.info</code></p>" if more > 0 else "")

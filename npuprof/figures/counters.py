"""Sampled counters over time, on the timeline's time axis: frequency, memory, caches, links and the host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from npuprof.advice.to_collect import missing
from npuprof.figures.chart import AXIS, chart, label, nothing, swatch
from npuprof.figures.colours import SERIES
from npuprof.figures.time_axis import TimeAxis, thinned, time_axis
from npuprof.options import lacks
from npuprof.tables.info import Info
from npuprof.words.quantities import counted

if TYPE_CHECKING:
    import plotly.graph_objects as go

_TITLE = "Counters"

# Prefixes of the counters drawn by default, in this order.
_SHOWN = (
    *("AI Core Freq", "AI Core Utilization", "AI Vector Core Utilization", "HBM", "DDR", "LLC", "NPU MEM", "PCIe"),
    *("HCCS", "NIC", "RoCE", "CPU Usage", "Memory Usage", "Disk Usage", "Network Usage"),
)
_SAMPLES = {
    "memory": "--memory",
    "host_sys": "--host-sys cpu,mem",
    "sys_io": "--sys-io",
    "sys_interconnection": "--sys-interconnection",
}
"""What samples counters, by option."""

_CLOCK = "AI Core Freq"
_HELD_UNIT = "MHz"  # a frequency is recorded when it changes, and holds until the next sample
_SIDE_VALUES = (" min", " max")  # recorded next to the average, which is drawn
_MOST_LINES = 8
_MOST_PANELS = 10
_PANEL_PIXELS = 130
_LONGEST_NAME = 40
_LEGEND_COLUMNS, _LEGEND_PIXELS = 56, 14  # of a line of a panel's legend


@dataclass(frozen=True)
class _Panel:
    """Counters with the same prefix and unit."""

    title: str
    unit: str
    lines: Sequence[tuple[str, pd.DataFrame]]
    folded: int


def plot_counters(
    tables: Mapping[str, pd.DataFrame],
    info: Info,
    *,
    counters: Sequence[str] | None = None,
    max_points: int = 500,
) -> go.Figure:
    """Draw the samples of the table ``counters``, in a panel for each part of the machine and unit.

    Parameters
    ----------
    counters
        Prefixes of counter names, such as ``["HBM", "PCIe post"]``, in the order of panels. By default, frequency and
        utilisation of the cores, memory, caches, links, and the host's CPU, memory, disk and network.

    Returns
    -------
    plotly.graph_objects.Figure
        Origin and unit of time are those of :func:`npuprof.timeline.figure.timeline`. A panel has at most the 8 lines
        with the highest mean and says so; a figure has at most 10 panels.
    """
    samples = tables["counters"]
    samples = samples[samples["value"].notna()]
    if not len(samples):
        return nothing(_TITLE, info, "this run has no sampled counters", _how(tables, info))
    panels = _panels(samples, _SHOWN if counters is None else counters, plain=counters is None)
    if not panels:
        names = ", ".join(label(name, _LONGEST_NAME) for name in samples["counter"].unique()[:8])
        return nothing(_TITLE, info, f"none of the requested counters was sampled<br>sampled counters: {names}")
    drawn = panels[:_MOST_PANELS]
    axis = time_axis(tables, np.concatenate([rows["time_ns"].to_numpy() for panel in drawn for _, rows in panel.lines]))
    titles = [_panel_title(panel) for panel in drawn]
    more = _LEGEND_PIXELS * max(title.count("<br>") for title in titles)
    height = 110 + (_PANEL_PIXELS + more) * max(len(drawn), 2)
    frame = chart(
        _TITLE, info, finding=_finding(drawn), subtitle=_subtitle(samples, panels, counters), height=height + more
    )
    frame.update_layout(margin_t=frame.layout.margin.t + more)
    figure = _grid(titles, frame, more)
    for row, panel in enumerate(drawn, 1):
        for number, (name, rows) in enumerate(panel.lines):
            figure.add_trace(_line(name, rows, panel.unit, number, axis, max_points), row=row, col=1)
        figure.update_yaxes(ticksuffix=f" {panel.unit}" * bool(panel.unit), rangemode="tozero", row=row, col=1)
    figure.update_annotations(font={"size": 12}, x=0, xanchor="left", align="left")
    figure.update_xaxes(**AXIS, **axis.look)
    figure.update_yaxes(**AXIS, nticks=4)
    return figure


def _finding(panels: Sequence[_Panel]) -> str:
    """Return the clock of the cores, as far as it was sampled; else an empty text."""
    rows = [rows["value"] for panel in panels if panel.title == _CLOCK for _, rows in panel.lines]
    if not rows:
        return ""
    low, high = min(float(each.min()) for each in rows), max(float(each.max()) for each in rows)
    return f"The AI cores run at {high:,.0f} MHz" + (f", and fall to {low:,.0f} MHz" if low < high else " throughout")


def _how(tables: Mapping[str, pd.DataFrame], info: Info) -> str:
    """Return the ways to have counters that were not collected."""
    asked = [option for option in _SAMPLES if not lacks(info.collector, option) and not info.options.get(option)]
    ways = [missing(tables, info, [_SAMPLES[option]]).removeprefix("collect with ") for option in asked]
    return f"collect with {', or '.join(ways)}" if ways else missing(tables, info, [])


def _grid(titles: Sequence[str], frame: go.Figure, more: int) -> go.Figure:
    """Make the axes of panels, with `more` pixels between them for legends of several lines."""
    from plotly.subplots import make_subplots

    count = max(len(titles), 2)
    return make_subplots(
        rows=len(titles),
        cols=1,
        shared_xaxes=True,
        vertical_spacing=(0.28 * _PANEL_PIXELS + more) / (_PANEL_PIXELS + more) / count,
        subplot_titles=titles,
        figure=frame,
    )


def _panels(samples: pd.DataFrame, wanted_names: Sequence[str], *, plain: bool) -> list[_Panel]:
    """Group the counters into panels; minima and maxima are left out of the default figure."""
    names = samples["counter"].astype(str)
    panels = []
    for beginning in dict.fromkeys(wanted_names):
        chosen = names.str.startswith(beginning).to_numpy()
        if plain:
            chosen = chosen & ~names.str.endswith(_SIDE_VALUES).to_numpy()
        some = samples[chosen]
        for unit, rows in some.groupby("unit", observed=True, dropna=False, sort=False):
            panels.append(_panel(beginning, unit if isinstance(unit, str) else "", rows))
    return panels


def _panel(title: str, unit: str, rows: pd.DataFrame) -> _Panel:
    rows = rows if "rank" in rows else rows.assign(rank=np.nan)
    keys = ["rank", "device_id", "counter", "instance"]
    groups = list(rows.groupby(keys, observed=True, dropna=False, sort=True))
    groups.sort(key=lambda group: -float(group[1]["value"].mean()))
    several = rows["device_id"].nunique() > 1
    lines = [
        (_name(key, several=several), some.sort_values("time_ns", kind="stable")) for key, some in groups[:_MOST_LINES]
    ]
    return _Panel(title, unit, sorted(lines, key=lambda line: line[0]), len(groups) - len(lines))


def _name(key: tuple[Any, ...], *, several: bool) -> str:
    rank, device, counter, instance = key
    of_rank = "" if pd.isna(rank) else f"rank {rank} "
    place = f"device {device} " if several and not pd.isna(device) else ""
    return label(f"{of_rank}{place}{counter}{f' {instance}' if isinstance(instance, str) else ''}", _LONGEST_NAME)


def _panel_title(panel: _Panel) -> str:
    """Return the title of a panel, with a coloured legend of its lines; in a narrow figure they are not cut off."""
    folded = f" · the {len(panel.lines)} highest of {len(panel.lines) + panel.folded}" if panel.folded else ""
    title = label(panel.title, _LONGEST_NAME)
    names = [name.removeprefix(title).strip() for name, _ in panel.lines]
    parts, before, written = [f"<b>{title}</b>{folded}"], "", len(title) + len(folded)
    for number, name in enumerate(names):
        first, _, last = name.rpartition(" ")
        if last:
            named = f"{first} " if first and first != before else ""  # once for all following instances
            mark = "■" if number < len(SERIES) else "▪"
            length = len(named) + len(last) + 3
            written = length if (is_next_line := written + length > _LEGEND_COLUMNS) else written + length
            parts.append(f"{'<br>' * is_next_line}{named}{swatch(last, _colour(number), mark)}")
            before = first
    return " ".join(parts)


def _colour(number: int) -> str:
    return SERIES[number % len(SERIES)]


def _line(name: str, rows: pd.DataFrame, unit: str, number: int, axis: TimeAxis, limit: int) -> Any:
    import plotly.graph_objects as go

    times, values = rows["time_ns"].to_numpy(np.int64), rows["value"].to_numpy(np.float64)
    is_held = unit == _HELD_UNIT
    if is_held and times[-1] < axis.last_ns:
        times, values = np.append(times, axis.last_ns), np.append(values, values[-1])
    points = thinned(values, limit)
    return go.Scatter(
        name=name,
        x=axis.places(times[points]),
        y=values[points],
        mode="lines+markers" if len(points) < 3 else "lines",
        line={
            "color": _colour(number),
            "width": 1.5,
            "dash": "solid" if number < len(SERIES) else "dot",
            "shape": "hv" if is_held else "linear",
        },
        hovertemplate=f"%{{y:,.4~g}} {unit} at %{{x:.6~f}} {axis.unit}<extra>%{{fullData.name}}</extra>",
    )


def _subtitle(samples: pd.DataFrame, panels: list[_Panel], asked: Sequence[str] | None) -> str:
    parts = [counted(len(samples), "sample")]
    if len(panels) > _MOST_PANELS:
        parts.append(f"the first {_MOST_PANELS} of {len(panels)} panels")
    if asked is None:
        first = {str(name).rpartition(" ")[0] or str(name) for name in samples["counter"].unique()}
        other = sorted(name for name in first if not name.startswith(_SHOWN))
        if other:
            more = f" and {len(other) - 2} more" if len(other) > 2 else ""
            named_name = ", ".join(label(name, 24) for name in other[:2])
            parts.append(f"not drawn: {named_name}{more} (counters=[…])")
    return " · ".join(parts)

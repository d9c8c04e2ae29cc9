"""The timeline as a plotly figure with a bounded number of bars."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from npuprof.errors import OptionsError
from npuprof.figures.chart import label, moment
from npuprof.figures.colours import FAINT, FAMILIES, FOREGROUND, MODEBAR, Family, family_label
from npuprof.figures.time_axis import unit_of
from npuprof.tables.info import Info
from npuprof.timeline.view import DrawnTimeline, Pictures
from npuprof.words.quantities import counted

if TYPE_CHECKING:
    import plotly.graph_objects as go

FEWEST_SLICES = 200
"""Smallest allowed `max_slices`: every lane needs a bar, and there are fewer lanes than this."""

_LANE_PIXELS = 20


def timeline(
    tables: Mapping[str, pd.DataFrame],
    info: Info,
    *,
    start_ns: int | None = None,
    end_ns: int | None = None,
    max_slices: int = 2000,
    longest_name: int = 60,
    pictures: Pictures | None = None,
) -> go.Figure:
    """Draw steps, marks, Python, operators, CANN calls, streams, collectives and device use over time.

    If there are more slices than bars, short adjacent slices share a bar, paler the less of its time is busy, and with
    the number of slices in its hover text; long slices keep their names.

    Parameters
    ----------
    start_ns, end_ns
        Window in epoch nanoseconds: only slices that touch it are drawn, in more detail.
    max_slices
        Maximum number of bars; at least :data:`FEWEST_SLICES`.
    longest_name
        Maximum length of a name; longer ones are shortened in the middle.
    pictures
        Those of the window, where something else draws it too.

    Returns
    -------
    plotly.graph_objects.Figure
        Times are relative to the first slice or `start_ns`; the title has that time in full. Without a window it opens
        on the steps, or the work of the device; a double click shows all.

    Raises
    ------
    OptionsError
        If `max_slices` is too small, or the window ends before it starts.
    """
    import plotly.graph_objects as go

    if max_slices < FEWEST_SLICES:
        raise OptionsError(f"max_slices is {max_slices}; it must be at least {FEWEST_SLICES}, one for every lane")
    if start_ns is not None and end_ns is not None and end_ns < start_ns:
        raise OptionsError(f"the window ends at {end_ns} ns, before it starts at {start_ns} ns")
    pictures = pictures or Pictures(tables, start_ns, end_ns)
    drawn = pictures.of(max_slices)
    return _empty(go, info, pictures.left_out) if drawn is None else _figure(go, drawn, info, longest_name)


def _figure(go: Any, picture: DrawnTimeline, info: Info, longest_name: int) -> go.Figure:
    first, last, bars, looks = picture.first_ns, picture.last_ns, picture.bars, picture.looks()
    unit_ns, unit = unit_of(last - first)
    columns = {
        "place": picture.places,
        "base": (bars.start_ns - first) / unit_ns,
        "width": (bars.end_ns - bars.start_ns) / unit_ns,
        "family": looks.families,
        "colour": looks.colours,
        "opacity": looks.opacity,
        "text": picture.labels(looks.names, longest_name),
        "hover": picture.hover(looks.names, longest_name),
    }
    frame = pd.DataFrame(columns)
    figure = go.Figure(layout={"template": go.layout.Template()})
    for family, look in FAMILIES.items():
        of_family = frame[frame["family"] == family]
        if len(of_family):
            figure.add_trace(_trace(go, look, family_label(family, picture.slices.runtime), of_family))
    for at in range(len(picture.tracks)):
        figure.add_trace(_track(go, picture, at, unit_ns))
    figure.update_layout(
        **_layout(info, _subtitle(picture), picture.height),
        xaxis={
            "range": [(edge - first) / unit_ns for edge in picture.opened],
            "side": "top",
            "ticksuffix": f" {unit}",
            "gridcolor": FAINT,
            "zeroline": False,
            "ticks": "outside",
            "tickcolor": FAINT,
            "exponentformat": "none",
        },
        yaxis=_lane_axis(picture),
    )
    return figure


def _lane_axis(picture: DrawnTimeline) -> dict[str, Any]:
    titled = [lane for lane in picture.lanes if lane.title]
    tracks = range(len(picture.tracks))
    titles = [*(lane.title for lane in titled), *(line.title for line in picture.tracks)]
    return {
        "range": [picture.height, -0.7],
        "tickvals": [*(lane.place for lane in titled), *(picture.track(at)[0] + 0.7 for at in tracks)],
        "ticktext": [label(title, 40) for title in titles],
        "fixedrange": True,
        "showgrid": False,
        "zeroline": False,
        "ticks": "outside",
        "ticklen": 5,
        "tickcolor": "rgba(0,0,0,0)",
        "automargin": True,
    }


def _trace(go: Any, look: Family, name: str, rows: pd.DataFrame) -> Any:
    return go.Bar(
        name=name,
        orientation="h",
        y=rows["place"].to_numpy(),
        base=rows["base"].to_numpy(),
        x=rows["width"].to_numpy(),
        width=0.9,
        marker={
            "color": rows["colour"].tolist(),
            "opacity": rows["opacity"].tolist(),
            "line": {"width": 0.5, "color": look.colour},
        },
        text=rows["text"].tolist(),
        hovertext=rows["hover"].tolist(),
        hovertemplate="%{hovertext}<extra></extra>",
        textposition="inside",
        insidetextfont={"size": 11, "color": look.ink},
        insidetextanchor="middle",
        textangle=0,
        constraintext="inside",
    )


def _track(go: Any, picture: DrawnTimeline, at: int, unit_ns: int) -> Any:
    """Return a counter track as a line of steps: each value holds until the next one."""
    _, times, places, values = picture.track(at)
    line = picture.tracks[at]
    return go.Scatter(
        x=(np.clip(times, picture.first_ns, picture.last_ns) - picture.first_ns) / unit_ns,
        y=places,
        mode="lines",
        line={"shape": "hv", "width": 1.2, "color": FOREGROUND},
        name=label(f"{line.title} (at most {line.top:,.0f})", 60),
        hovertext=[f"{value:,.0f} {line.unit} {line.title}" for value in values.tolist()],
        hovertemplate="%{hovertext}<extra></extra>",
    )


def _subtitle(picture: DrawnTimeline) -> str:
    begin = f"starts {moment(picture.first_ns)}"
    if picture.shared is None:
        return begin
    slices, bars = picture.shared
    return f"{begin} · {counted(slices, 'slice')} in {counted(bars, 'bar')}"


def _layout(info: Info, subtitle: str, lanes: float) -> dict[str, Any]:
    simulated = " · <b>simulated NPU</b>" if info.simulated else ""
    name = f" · {label(info.name, 60)}" if info.name else ""
    return {
        "title": {
            "text": f"Timeline{name}{simulated}<br><sup>{subtitle}</sup>",
            "font": {"size": 16},
            "x": 0,
            "xref": "paper",
        },
        "barmode": "overlay",
        "height": round(160 + _LANE_PIXELS * max(lanes, 6)),
        "margin": {"l": 10, "r": 10, "t": 90, "b": 20},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"color": FOREGROUND, "size": 11},
        "legend": {"orientation": "h", "x": 0, "xanchor": "left", "yref": "container", "y": 0, "yanchor": "bottom"},
        "hovermode": "closest",
        "dragmode": "zoom",
        "uniformtext": {"minsize": 8, "mode": "hide"},
        "modebar": dict(MODEBAR),
    }


def _empty(go: Any, info: Info, reason: str) -> go.Figure:
    note = {
        "text": reason.replace(": ", ":<br>").replace(". ", ".<br>") or "no slices in this part of the run",
        "showarrow": False,
        "x": 0.5,
        "y": 0.5,
    }
    figure = go.Figure(layout={"template": go.layout.Template()})
    figure.update_layout(
        **_layout(info, "", 6),
        annotations=[note | {"xref": "paper", "yref": "paper"}],
        xaxis={"visible": False},
        yaxis={"visible": False},
    )
    return figure

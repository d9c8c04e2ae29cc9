"""The timeline as a plotly figure with a bounded number of bars."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from npuprof.errors import OptionsError
from npuprof.figures.chart import chart, label, moment, nothing
from npuprof.figures.colours import FAMILIES, FOREGROUND, ON_DEVICE, Family, family_label
from npuprof.figures.time_axis import unit_of
from npuprof.tables.info import Info
from npuprof.timeline.view import DrawnTimeline, Pictures
from npuprof.words.quantities import counted

if TYPE_CHECKING:
    import plotly.graph_objects as go

FEWEST_SLICES = 200
"""Smallest allowed `max_slices`: every lane needs a bar, and there are fewer lanes than this."""

_TITLE = "Timeline"
_LANE_PIXELS = 20


def timeline(
    tables: Mapping[str, pd.DataFrame],
    info: Info,
    *,
    start_ns: int | None = None,
    end_ns: int | None = None,
    max_slices: int = 2000,
    longest_name: int = 60,
    finding: str = "",
    pictures: Pictures | None = None,
) -> go.Figure:
    """Draw steps, marks, Python, operators, CANN calls, streams, collectives and device use over time.

    If there are more slices than bars, short adjacent slices share a bar, paler the less of its time is busy, and with
    the number of slices in its hover text; long slices keep their names.

    Returns
    -------
    plotly.graph_objects.Figure
        Times are relative to the first slice or `start_ns`; the subtitle has that time in full. Without a window it
        opens on the steps, or the work of the device; a double click shows all.
    """
    if max_slices < FEWEST_SLICES:
        raise OptionsError(f"max_slices is {max_slices}; it must be at least {FEWEST_SLICES}, one for every lane")
    if start_ns is not None and end_ns is not None and end_ns < start_ns:
        raise OptionsError(f"the window ends at {end_ns} ns, before it starts at {start_ns} ns")
    pictures = pictures or Pictures(tables, start_ns, end_ns)
    drawn = pictures.of(max_slices)
    if drawn is None:
        reason = pictures.left_out.replace(": ", ":<br>").replace(". ", ".<br>")
        return nothing(_TITLE, info, reason or "no slices in this part of the run")
    return _figure(drawn, info, finding, longest_name)


def _figure(picture: DrawnTimeline, info: Info, finding: str, longest_name: int) -> go.Figure:
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
    drawn = {family: rows for family in FAMILIES if len(rows := frame[frame["family"] == family])}
    figure = chart(
        _TITLE,
        info,
        finding=finding,
        subtitle=_subtitle(picture),
        key=[(FAMILIES[family].label, FAMILIES[family].colour) for family in drawn if family in ON_DEVICE],
        height=round(116 + _LANE_PIXELS * max(picture.height, 4)),
    )
    for family, rows in drawn.items():
        figure.add_trace(_trace(FAMILIES[family], family_label(family, picture.slices.runtime), rows))
    for at in range(len(picture.tracks)):
        figure.add_trace(_track(picture, at, unit_ns))
    figure.update_xaxes(
        range=[(edge - first) / unit_ns for edge in picture.opened],
        side="top",
        ticksuffix=f" {unit}",
        exponentformat="none",
    )
    figure.update_yaxes(**_lane_axis(picture))
    return figure.update_layout(
        barmode="overlay", dragmode="zoom", margin_b=8, uniformtext={"minsize": 9, "mode": "hide"}
    )


def _lane_axis(picture: DrawnTimeline) -> dict[str, Any]:
    titled = [lane for lane in picture.lanes if lane.title]
    tracks = range(len(picture.tracks))
    names = [label(lane.title, 40) for lane in titled]
    names += [f"{label(line.title, 40)}<br>at most {line.top:,.0f}" for line in picture.tracks]
    return {
        "range": [picture.height, -0.7],
        "tickvals": [*(lane.place for lane in titled), *(picture.track(at)[0] + 0.7 for at in tracks)],
        "ticktext": names,
        "fixedrange": True,
        "showgrid": False,
        "ticks": "outside",
        "ticklen": 5,
        "tickcolor": "rgba(0,0,0,0)",
    }


def _trace(look: Family, name: str, rows: pd.DataFrame) -> Any:
    import plotly.graph_objects as go

    return go.Bar(
        name=name,
        meta="hover",  # which has the names of bars without text: see figures/labels.js
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


def _track(picture: DrawnTimeline, at: int, unit_ns: int) -> Any:
    """Return a counter track as a line of steps: each value holds until the next one."""
    import plotly.graph_objects as go

    _, times, places, values = picture.track(at)
    line = picture.tracks[at]
    return go.Scatter(
        x=(np.clip(times, picture.first_ns, picture.last_ns) - picture.first_ns) / unit_ns,
        y=places,
        mode="lines",
        line={"shape": "hv", "width": 1.2, "color": FOREGROUND},
        name=label(line.title, 60),
        hovertext=[f"{value:,.0f} {line.unit} {line.title}" for value in values.tolist()],
        hovertemplate="%{hovertext}<extra></extra>",
    )


def _subtitle(picture: DrawnTimeline) -> str:
    begin = f"starts {moment(picture.first_ns)}"
    if picture.shared is None:
        return begin
    slices, bars = picture.shared
    return f"{begin} · {counted(slices, 'slice')} in {counted(bars, 'bar')}"

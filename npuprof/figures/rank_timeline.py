"""All ranks on one time axis: what each rank did, the collectives with the longest waits, and who arrived last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from npuprof.analysis.intervals import Spans, covering, subtract, within
from npuprof.arrays import Bools
from npuprof.figures.chart import chart, label, moment, nothing, spread
from npuprof.figures.colours import FOREGROUND, MATCH, PARTS, UNKNOWN
from npuprof.figures.time_axis import unit_of
from npuprof.tables.info import Info
from npuprof.words.quantities import count, counted, duration, share

if TYPE_CHECKING:
    import plotly.graph_objects as go

_TITLE = "All ranks on one clock"
_WHY = "no two ranks have collectives in common"
_HOW = "collect communication (level 1 or higher) on the ranks of one job"
_COLLECTED = "load ranks that take part in the same collectives"
_STATES = (
    ("computing", PARTS["computing"]),
    ("waiting for other ranks", PARTS["waiting"]),
    ("moving data", PARTS["moving"]),
    ("outside collectives", UNKNOWN),
)
_MOST_CELLS = 200_000  # one byte each
_MOST_MOMENTS = 1600
_MOST_JOINED = 24
_MOST_MEMBERS = 64  # of a collective drawn with lines between its ranks; in a larger one, only the last rank is marked

_JOINED = f"lines join the {_MOST_JOINED} collectives with the longest waits, triangles mark the last rank to arrive"
_NONE = "no wait is longer than 0.1 ms and than what the clocks may be wrong by"


def plot_rank_timeline(
    rows: pd.DataFrame,
    info: Info,
    *,
    window: tuple[int, int],
    kernels: Mapping[int, Spans] | None = None,
    counted_ops: Bools | None = None,
    subtitle: str = "",
) -> go.Figure:
    """Draw the work of each rank over time, and join the collectives with the longest waits.

    The colour at a time is the state that took most of it. A line joins the starts of a collective on all its ranks; a
    triangle marks the last rank to arrive, for which the other ranks waited. Both are drawn where a wait counts.

    Parameters
    ----------
    kernels
        Intervals of kernels by rank, on the common clock; for ranks without, the time between collectives is
        ``outside collectives``.
    """
    if not len(rows):
        how = _COLLECTED if str(info.options.get("level")) in ("1", "2") else _HOW
        return nothing(_TITLE, info, _WHY, how, "load the ranks of one job")
    begin, end = window
    ranks = sorted(set(rows["rank"].tolist()))
    unit_ns, unit = unit_of(end - begin)
    states, edges = _states(rows, ranks, window, kernels or {})
    position = {rank: at for at, rank in enumerate(ranks)}
    inside = rows[rows["start_ns"].between(begin, end).to_numpy(bool)]
    if counted_ops is not None:
        inside = inside[counted_ops[inside["op"].to_numpy(np.int64)]]
    joined_tables = _longest_waits(inside, position)
    lines = " · ".join(filter(None, (f"starts {moment(begin)}", subtitle, _JOINED if joined_tables else _NONE)))
    used = set(np.unique(states).tolist())
    figure = chart(
        _TITLE,
        info,
        finding=_finding(inside),
        subtitle=lines,
        key=[state for at, state in enumerate(_STATES, 1) if at in used],
        height=120 + max(110, min(620, 30 * len(ranks))),
    )
    figure.add_trace(_heat(states, edges, unit_ns))
    figure.add_traces(_lines(joined_tables, begin, unit_ns))
    figure.update_xaxes(
        range=[0, (end - begin) / unit_ns], ticksuffix=f" {unit}", exponentformat="none", showgrid=False
    )
    figure.update_yaxes(**_axis_of(ranks), showgrid=False)
    return figure.update_layout(margin_b=36, dragmode="zoom")


def _finding(rows: pd.DataFrame) -> str:
    """Return the rank that the others wait for longest; empty if none waits."""
    caused = rows.groupby("last_rank")["wait_ns"].sum()
    if not len(caused) or not caused.max():
        return ""
    late, whole = caused.idxmax(), int(caused.sum())
    longest = int(caused.max())
    part = f", {share(longest, whole)} of all waiting" if longest < whole else ""
    return f"Ranks wait {duration(longest)} for rank {late}{part}"


def _axis_of(ranks: Sequence[int]) -> dict[str, object]:
    """Return the axis of ranks: the first at the top, with names of some."""
    ticks = spread(list(range(len(ranks))), 24)
    names = [f"rank {ranks[at]}" for at in ticks]
    return {"range": [len(ranks) - 0.5, -0.5], "tickvals": ticks, "ticktext": names}


def _heat(states: npt.NDArray[np.uint8], edges: npt.NDArray[np.int64], unit_ns: int) -> Any:
    import plotly.graph_objects as go

    return go.Heatmap(
        x0=float((edges[0] + edges[1]) / 2 / unit_ns),
        dx=float((edges[1] - edges[0]) / unit_ns),
        y0=0,
        dy=1,
        z=states,
        zmin=0,
        zmax=len(_STATES),
        colorscale=_scale(),
        showscale=False,
        ygap=1 if len(states) <= 128 else 0,
        hoverinfo="skip",
    )


def _scale() -> list[list[object]]:
    """Return the colour scale of the states; 0, outside the first and last collective, is transparent."""
    colours = ["rgba(0,0,0,0)", *(colour for _, colour in _STATES)]
    steps = np.linspace(0, 1, len(colours) + 1).tolist()
    return [[edge, colour] for at, colour in enumerate(colours) for edge in (steps[at], steps[at + 1])]


def _states(
    rows: pd.DataFrame, ranks: Sequence[int], window: tuple[int, int], kernels: Mapping[int, Spans]
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Return the state that took most of each interval, by rank and interval, and the edges of the intervals."""
    begin, end = window
    moments = max(60, min(_MOST_MOMENTS, _MOST_CELLS // max(1, len(ranks))))
    edges = np.linspace(0, max(end - begin, moments), moments + 1).astype(np.int64)
    low, high = edges[:-1] + begin, edges[1:] + begin
    states = np.zeros((len(ranks), moments), np.uint8)
    of_rank = rows["rank"].to_numpy(np.int64)
    order = np.argsort(of_rank, kind="stable")
    bounds = np.searchsorted(of_rank[order], ranks)
    start, wait, moving = (rows[name].to_numpy(np.int64) for name in ("start_ns", "wait_ns", "moving_ns"))
    for at, rank in enumerate(ranks):
        members = order[bounds[at] : bounds[at + 1] if at + 1 < len(ranks) else len(order)]
        move = covering(start[members] + wait[members], moving[members])
        still = subtract(covering(start[members], wait[members]), move)
        busy = kernels.get(rank, (low[:0], low[:0]))
        times = np.stack([within(spans, low, high) for spans in (subtract(subtract(busy, move), still), still, move)])
        first, last = int(start[members].min()), int((start + wait + moving)[members].max())
        there = np.clip(np.minimum(high, last) - np.maximum(low, first if rank not in kernels else begin), 0, None)
        remainder = np.maximum(there - times.sum(axis=0), 0)
        if rank in kernels:  # the rest is idle
            remainder = np.zeros_like(remainder)
        every = np.vstack([times, remainder])
        idle = (high - low) - every.sum(axis=0)
        states[at] = np.where(every.max(axis=0) > idle, every.argmax(axis=0) + 1, 0)
    return states, edges


def _longest_waits(rows: pd.DataFrame, place: Mapping[int, int]) -> list[pd.DataFrame]:
    """Return the collectives with the longest waits, each as rows ordered by rank."""
    waited = rows.groupby("op")["wait_ns"].sum()
    costly = waited[waited > 0].sort_values(ascending=False, kind="stable").index[:_MOST_JOINED]
    collectives = []
    for op in costly:
        collective = rows[(rows["op"] == op).to_numpy(bool)]
        collective = collective.assign(place=collective["rank"].map(place)).sort_values("place")
        collectives.append(collective)
    return collectives


def _lines(joined_tables: Sequence[pd.DataFrame], begin: int, unit_ns: int) -> list[Any]:
    import plotly.graph_objects as go

    x: list[float | None] = []
    y: list[float | None] = []
    last: list[tuple[float, int, str]] = []
    for collective in joined_tables:
        times = ((collective["start_ns"].to_numpy(np.int64) - begin) / unit_ns).tolist()
        places = collective["place"].tolist()
        if len(times) <= _MOST_MEMBERS:
            x += [*times, None]
            y += [*places, None]
        row = collective.iloc[0]
        late = int(row["last_rank"])
        at = collective["rank"].tolist().index(late)
        text = (
            f"<b>rank {late} arrives last</b><br>{label(row['op_type'], 40)} {count(int(row['k']))} of group "
            f"{label(row['group'], 20)}<br>{counted(len(collective), 'rank')}: "
            f"{duration(int(collective['wait_ns'].sum()))} of waiting in all"
        )
        last.append((times[at], places[at], text))
    line = {"width": 1, "color": FOREGROUND}
    drawn = go.Scatter(x=x, y=y, mode="lines", line=line, opacity=0.8, hoverinfo="skip", name="one collective")
    marks = go.Scatter(
        x=[at for at, _, _ in last],
        y=[at for _, at, _ in last],
        mode="markers",
        name="arrives last",
        marker={
            "symbol": "triangle-right",
            "size": 9,
            "color": MATCH,
            "line": {"width": 1, "color": FOREGROUND},
        },
        hovertext=[text for _, _, text in last],
        hovertemplate="%{hovertext}<extra></extra>",
    )
    return [drawn, marks] if joined_tables else []

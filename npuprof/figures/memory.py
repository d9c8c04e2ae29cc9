"""Memory over time: allocated, reserved and active, with peaks, fragmentation and leaks."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from npuprof.advice.to_collect import missing
from npuprof.analysis.memory_life import alive_at
from npuprof.analysis.memory_peak import leaked_blocks
from npuprof.arrays import Float64, Int64
from npuprof.figures.chart import AXIS, chart, label, name_ends, nothing
from npuprof.figures.colours import FOREGROUND, MEMORY, SLOWER
from npuprof.figures.time_axis import TimeAxis, thinned, time_axis
from npuprof.tables.info import Info
from npuprof.words.quantities import count, counted, size

if TYPE_CHECKING:
    import plotly.graph_objects as go

_TITLE = "Memory"
_MIB = 1 << 20
_SIZES = {
    "reserved_bytes": ("reserved", FOREGROUND, 1.5),
    "allocated_bytes": ("allocated", MEMORY, 2.5),
    "active_bytes": ("active", FOREGROUND, 1.0),
}
"""Name, colour and width of each line; active memory mostly equals allocated memory and is drawn on top of it."""

_UNUSED = FOREGROUND
_UNRELEASED = SLOWER
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
MODULE = " (module)"
"""Suffix of components that are driver modules: there are many, and they are rarely of interest."""

_WHOLE = ("APP", "Device")  # totals of the program or device, so large that allocators would look flat next to them
_MOST_SERIES, _MOST_HIDDEN = 12, 4
_MOST_NAMED = 8
_LONGEST_NAME = 40
_PLOT_PIXELS = 400


@dataclass(frozen=True)
class _Series:
    """The samples of a component on a device, ordered by time."""

    rank: int | None
    device: int | None
    component: str
    rows: pd.DataFrame
    number: int
    peak: int
    hidden: bool

    @property
    def title(self) -> str:
        rank = "" if self.rank is None else f"rank {self.rank} "
        place = "" if self.device is None else f"device {self.device} "
        return label(f"{rank}{place}{self.component}".strip(), _LONGEST_NAME)

    @property
    def dash(self) -> str:
        return _DASHES[self.number % len(_DASHES)]


def plot_memory(tables: Mapping[str, pd.DataFrame], info: Info, *, max_points: int = 1_000) -> go.Figure:
    """Draw the samples of the table ``memory`` as step lines, with their peaks, and fragmentation.

    Returns
    -------
    plotly.graph_objects.Figure
        Above, a line for each device, component and sampled size, in MiB over the timeline's time, named at its end; a
        dot marks the highest allocation, with the operators of its blocks. A history without times is drawn over the
        numbers of its entries. If memory leaks, another line is the sum of the blocks that stay allocated
        (:func:`npuprof.analysis.memory_peak.memory_leaks`). Below, if there is any, fragmentation: reserved memory
        that is not allocated. Beyond 12 components the largest are drawn. Totals of driver modules, the program and the
        device are hidden until clicked in the legend: allocators would look flat next to them.
    """
    from plotly.subplots import make_subplots

    memory = _placed(tables["memory"])
    if not len(memory):
        how = missing(tables, info, ["--memory"])
        return nothing(_TITLE, info, "this run has no memory samples", how, how)
    every = _series(memory)
    drawn = _series_to_draw(every)
    blocks = leaked_blocks(tables)
    axis = memory_axis(tables)
    gaps = [trace for series in drawn for trace in _fragmentation(series, axis, max_points)]
    heights = [0.7, 0.3] if any(np.any(trace.y) for trace in gaps) else [1.0]
    figure = make_subplots(
        rows=len(heights),
        cols=1,
        shared_xaxes=True,
        row_heights=heights,
        vertical_spacing=0.13 if gaps else 0,
        subplot_titles=["", "fragmentation: reserved and not allocated"][: len(heights)],
        figure=_frame(info, drawn, len(every), int(blocks["size_bytes"].sum())),
    )
    for series in drawn:
        for trace in (*_lines(series, axis, max_points), *_peak(series, tables["allocations"], axis)):
            figure.add_trace(trace, row=1, col=1)
    if len(heights) > 1:
        figure.add_traces(gaps, rows=[2] * len(gaps), cols=[1] * len(gaps))
    if len(blocks):
        figure.add_trace(_leaked_line(blocks, axis, max_points), row=1, col=1)
    figure.update_xaxes(**AXIS, **axis.look)
    figure.update_yaxes(**AXIS, ticksuffix=" MiB", rangemode="tozero", exponentformat="none")
    figure.update_annotations(font={"size": 12}, x=0, xanchor="left")
    name_ends(figure, *_ends(drawn, blocks, axis), heights[0] * _PLOT_PIXELS)
    return figure


def memory_axis(tables: Mapping[str, pd.DataFrame]) -> TimeAxis:
    """Return the axis of :func:`plot_memory`: time, or in a history without times the number of its entry."""
    if (memory := tables["memory"])["time_ns"].isna().any():
        return TimeAxis(0, int(memory["sequence"].max()), 1, "entries")
    allocated = leaked_blocks(tables)["allocated_ns"].to_numpy(np.int64)
    return time_axis(tables, np.concatenate([tables["memory"]["time_ns"].to_numpy(np.int64), allocated]))


def _placed(memory: pd.DataFrame) -> pd.DataFrame:
    """Return samples with their place on the axis in ``time_ns``."""
    return memory.assign(time_ns=memory["sequence"]) if memory["time_ns"].isna().any() else memory


def _series_to_draw(every: list[_Series]) -> list[_Series]:
    """Return the series to draw: the largest, and a few that the legend hides."""
    shown = [series for series in every if not series.hidden][:_MOST_SERIES]
    return shown + [series for series in every if series.hidden][: min(_MOST_HIDDEN, _MOST_SERIES - len(shown))]


def _frame(info: Info, drawn: list[_Series], number: int, leaked_bytes: int) -> go.Figure:
    folded = "" if len(drawn) == number else f"the {len(drawn)} largest of {number} components"
    legend = 50 if any(series.hidden for series in drawn) else 0
    figure = chart(
        _TITLE, info, finding=_finding(drawn, leaked_bytes), subtitle=folded, height=110 + _PLOT_PIXELS + legend
    )
    figure.update_layout(
        margin_b=34 + legend,
        showlegend=bool(legend),
        legend={
            "orientation": "h",
            "x": 0,
            "yref": "container",
            "y": 0,
            "yanchor": "bottom",
            "title": {"text": "click to show: ", "side": "left"},
        },
    )
    return figure


def _finding(drawn: list[_Series], leaked_bytes: int) -> str:
    """Return the highest allocation, and what leaks; empty if nothing is known to be allocated."""
    peaks = [
        (int(series.rows["allocated_bytes"].max()), series.title)
        for series in drawn
        if not series.hidden and series.rows["allocated_bytes"].notna().any()
    ]
    if not peaks:
        return ""
    most, name = max(peaks)
    where = f" ({html.unescape(name)})" if len(peaks) > 1 else ""
    leak = f", and {size(leaked_bytes)} leak" if leaked_bytes else ""
    return f"Allocated memory peaks at {size(most)}{where}{leak}"


def _ends(
    drawn: list[_Series], blocks: pd.DataFrame, axis: TimeAxis
) -> tuple[list[tuple[str, str, float, float]], float]:
    """Return name, colour and end of each visible line, and the highest value."""
    shown = [series for series in drawn if not series.hidden]
    ends, top = [], 0.0
    if len(blocks):
        leaked = int(blocks["size_bytes"].sum()) / _MIB
        last = blocks["allocated_ns"].to_numpy(np.int64)[-1:]
        ends.append(("leaked", _UNRELEASED, _place(axis, last), leaked))
        top = leaked
    for series in shown:
        for column, (name, colour, _) in _SIZES.items():
            sampled = series.rows[series.rows[column].notna()]
            if len(sampled):
                times, sizes = _columns(sampled, column)
                named = f"{series.title} {name}" if len(shown) > 1 else name
                ends.append((named, colour, _place(axis, times[-1:]), float(sizes[-1] / _MIB)))
                top = max(top, float(sizes.max() / _MIB))
    return ends, 1.05 * top


def _place(axis: TimeAxis, time_ns: Int64) -> float:
    """Return a time's place on the axis, at most its end: plotly drops text beyond it."""
    return float(axis.places(np.minimum(time_ns, axis.last_ns))[0])


def _series(memory: pd.DataFrame) -> list[_Series]:
    """Return the series of every device and rank, largest first, hidden ones last."""
    ranked = memory if "rank" in memory else memory.assign(rank=np.nan)
    groups: Any = ranked.groupby(["rank", "device_id", "component"], observed=True, dropna=False, sort=True)
    sampled = []
    for (rank, device, component), rows in groups:
        peaks = [int(rows[name].max()) for name in _SIZES if rows[name].notna().any()]
        name = component if isinstance(component, str) else ""
        if peaks:
            ordered = rows.sort_values("time_ns", kind="stable")
            sampled.append((_number(rank), _number(device), name, ordered, max(peaks)))
    allocators = any(each[3]["allocated_bytes"].notna().any() for each in sampled)
    sampled.sort(key=lambda each: (each[2].endswith(MODULE), allocators and each[2] in _WHOLE, -each[4]))
    return [
        _Series(rank, device, name, rows, at, peak, name.endswith(MODULE) or (allocators and name in _WHOLE))
        for at, (rank, device, name, rows, peak) in enumerate(sampled)
    ]


def _number(value: Any) -> int | None:
    return None if pd.isna(value) else int(value)


def _lines(series: _Series, axis: TimeAxis, max_points: int) -> Iterator[Any]:
    for column, (name, colour, width) in _SIZES.items():
        sampled = series.rows[series.rows[column].notna()]
        if len(sampled):
            times, sizes = _columns(sampled, column)
            yield _line(f"{series.title}, {name}", times, sizes, axis, max_points, _line_style(series, colour, width))


def _line_style(series: _Series, colour: str, width: float) -> dict[str, Any]:
    hidden = {"visible": "legendonly"} if series.hidden else {"showlegend": False}
    return {"line": {"shape": "hv", "color": colour, "width": width, "dash": series.dash}, **hidden}


def _columns(rows: pd.DataFrame, column: str) -> tuple[Int64, Int64]:
    return rows["time_ns"].to_numpy(np.int64), rows[column].to_numpy(dtype=np.int64)


def _line(name: str, times: Int64, sizes: Int64, axis: TimeAxis, limit: int, look: Mapping[str, Any]) -> Any:
    import plotly.graph_objects as go

    points = thinned(sizes.astype(np.float64), limit)
    return go.Scatter(
        name=name,
        x=axis.places(times[points]),
        y=sizes[points] / _MIB,
        mode="lines",
        hovertemplate=f"%{{y:,.1f}} MiB at %{{x:.6~f}} {axis.unit}<extra>%{{fullData.name}}</extra>",
        **look,
    )


def _peak(series: _Series, allocations: pd.DataFrame, axis: TimeAxis) -> Iterator[Any]:
    """Mark the highest allocation, with the operators of its blocks."""
    import plotly.graph_objects as go

    sampled = series.rows[series.rows["allocated_bytes"].notna()]
    if not len(sampled) or series.hidden:
        return
    times, sizes = _columns(sampled, "allocated_bytes")
    top = int(sizes.argmax())
    lines = [
        f"<b>{series.title}: peak {size(int(sizes[top]))}</b>",
        *_live_blocks(allocations, int(sampled["sequence" if "sequence" in sampled else "time_ns"].iloc[top]), series),
    ]
    yield go.Scatter(
        name=f"{series.title}, peak",
        x=axis.places(times[top : top + 1]),
        y=sizes[top : top + 1] / _MIB,
        mode="markers",
        marker={"size": 10, "color": _SIZES["allocated_bytes"][1]},
        hovertext=["<br>".join(lines)],
        hovertemplate="%{hovertext}<extra></extra>",
        showlegend=False,
    )


def _live_blocks(allocations: pd.DataFrame, time_ns: int, series: _Series) -> Iterator[str]:
    if not len(allocations):
        yield "no allocations were recorded: the operators that held this memory are not known"
        return
    held_rows = (
        allocations if series.rank is None else allocations[(allocations["rank"] == series.rank).fillna(value=False)]
    )
    alive = alive_at(held_rows, time_ns, series.device)
    yield f"blocks of this run in use then: {size(int(alive['size_bytes'].sum()))}"
    for row in alive.head(_MOST_NAMED).itertuples(index=False):
        yield f"{label(row.name, _LONGEST_NAME)}: {size(int(row.size_bytes))} in {count(int(row.blocks))}"
    if len(alive) > _MOST_NAMED:
        remainder = int(alive["size_bytes"].iloc[_MOST_NAMED:].sum())
        yield f"{counted(len(alive) - _MOST_NAMED, 'other operator')}: {size(remainder)}"


def _fragmentation(series: _Series, axis: TimeAxis, max_points: int) -> Iterator[Any]:
    both = series.rows[series.rows["reserved_bytes"].notna() & series.rows["allocated_bytes"].notna()]
    if not len(both):
        return
    times, reserved = _columns(both, "reserved_bytes")
    unused = reserved - _columns(both, "allocated_bytes")[1]
    yield _line(
        f"{series.title}, reserved − allocated", times, unused, axis, max_points, _line_style(series, _UNUSED, 1.5)
    )


def _leaked_line(blocks: pd.DataFrame, axis: TimeAxis, max_points: int) -> Any:
    """Draw the running sum of leaked blocks over their allocation times, with block names in the hover text."""
    times = blocks["allocated_ns"].to_numpy(np.int64)
    total = np.cumsum(blocks["size_bytes"].to_numpy(np.int64))
    heights: Float64 = total / _MIB
    line = _line("leaked, total", times, total, axis, max_points, _LEAKED)
    points = thinned(heights, max_points)
    names, sizes = blocks["name"].to_numpy(object)[points], blocks["size_bytes"].to_numpy()[points]
    line.hovertext = [
        f"{label(name, _LONGEST_NAME)}, {size(int(size_bytes))}" for name, size_bytes in zip(names, sizes, strict=True)
    ]
    line.hovertemplate = "%{hovertext}<br>%{y:,.1f} MiB leaked by now<extra></extra>"
    return line


_LEAKED: Mapping[str, Any] = {"line": {"shape": "hv", "color": _UNRELEASED, "width": 2}, "showlegend": False}

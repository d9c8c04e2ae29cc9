"""Figures of communication: traffic between ranks, time of collectives, bandwidth of links by packet size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np
import pandas as pd

from npuprof.analysis.device_words import by_front_end
from npuprof.errors import OptionsError
from npuprof.figures.chart import AXIS, chart, label, nothing, spread
from npuprof.figures.colours import FAINT, PARTS, SERIES, UNKNOWN
from npuprof.figures.time_axis import thinned, unit_of
from npuprof.tables.info import Info
from npuprof.words.quantities import counted, duration, printable, share, size

if TYPE_CHECKING:
    import plotly.graph_objects as go

Value: TypeAlias = Literal["size", "time", "bandwidth"]

_STYLES = {
    "transit_ns": ("moving data", PARTS["moving"]),
    "wait_ns": ("waiting", PARTS["waiting"]),
    "other_ns": ("neither", UNKNOWN),
}
_SYMBOLS = ("circle", "square", "diamond", "cross", "triangle-up", "x")
_SCALE = ((0, "#93a9bf"), (1, "#1f5c99"))  # both ends are visible on light and dark
_MOST_WRITTEN = 12  # ranks of a matrix whose cells have their values written in them
_VALUES: Mapping[str, tuple[str, str]] = {
    "size": ("bytes sent", "MB"),
    "time": ("time of transfers, summed up", "ms"),
    "bandwidth": ("bandwidth", "GB/s"),
}
_EMPTY = "rgba(128,128,128,.16)"  # differs from the colour of zero on light and dark backgrounds
_MATRIX_HOW = "collect several ranks at level 1 or higher, or load a result with communication_matrix.json"
_PLOT_HOW = "collect several ranks; level 1 or higher records waiting and links"
_MOST_GROUPS = 24
_MOST_LINKS = 6
_LONGEST_NAME = 32


def plot_traffic(traffic: pd.DataFrame, info: Info, *, value: Value = "size", max_ranks: int = 64) -> go.Figure:
    """Draw the traffic from each rank (rows) to each other rank (columns) as a heat map.

    Parameters
    ----------
    value
        The quantity shown as colour: ``size`` (10**6 bytes), ``time`` (the sum over all transfers, which may overlap)
        or ``bandwidth`` (bytes divided by that time).
    max_ranks
        Maximum number of ranks on each axis; the title says so if only the ranks with the most traffic are drawn.
    """
    if value not in get_args(Value):
        raise OptionsError(f"value is {value!r}; it must be one of {', '.join(get_args(Value))}")
    if max_ranks < 1:
        raise OptionsError(f"max_ranks is {max_ranks}; it must be at least 1")
    if not len(traffic):
        return nothing("Communication matrix", info, "this run has no record of which ranks sent to which", _MATRIX_HOW)
    ranks = _ranks(traffic, max_ranks)
    subject, unit = _VALUES[value]
    cells, hover = _cells(traffic, ranks, value)
    empty = " · grey where nothing was recorded" if any(cell is None for row in cells for cell in row) else ""
    subject += f" in {unit}" if len(ranks) <= _MOST_WRITTEN else ""
    subtitle = f"{subject}, from rank to rank{_basis(traffic, len(ranks))}{empty}"
    figure = chart(
        "Communication matrix",
        info,
        finding=_largest(traffic, value),
        subtitle=subtitle,
        height=130 + (40 if len(ranks) <= _MOST_WRITTEN else 24) * min(max(len(ranks), 4), 26),
    )
    names = [label(rank, 12) for rank in ranks]
    figure.add_trace(_heat(names, cells, hover, unit))
    figure.update_layout(plot_bgcolor=_EMPTY)
    ticks = spread(names, 32)
    figure.update_xaxes(type="category", title_text="to rank", side="bottom", tickvals=ticks, showgrid=False)
    figure.update_yaxes(type="category", title_text="from rank", autorange="reversed", tickvals=ticks, showgrid=False)
    return figure


def _largest(traffic: pd.DataFrame, value: Value) -> str:
    """Return the pair of ranks with the most traffic, or the slowest one; empty if there are no pairs."""
    pairs = traffic[(traffic["src_rank"] != traffic["dst_rank"]).to_numpy(bool)]
    pairs = pairs[(pairs["duration_ns"] > 0).to_numpy(bool)] if value == "bandwidth" else pairs
    if not len(pairs):
        return ""
    moved, times = pairs["size_bytes"].to_numpy(np.float64), pairs["duration_ns"].to_numpy(np.float64)
    amounts = {"size": moved, "time": times, "bandwidth": -moved / np.maximum(times, 1)}[value]
    at = int(amounts.argmax())
    unit_of_cell = {"size": 1e6, "time": 1e6, "bandwidth": -1}[value]
    written = f"{_written(amounts[at] / unit_of_cell)} {_VALUES[value][1]}"
    if len(pairs) > 1 and amounts.min() == amounts.max():
        return f"Every pair of ranks has the same {_SAME[value]}: {written}"
    said = {"size": "sends the most", "time": "sends longest", "bandwidth": "sends slowest"}[value]
    return f"Rank {pairs['src_rank'].iloc[at]} {said} to rank {pairs['dst_rank'].iloc[at]}: {written}"


def _written(cell: float | None) -> str:
    if cell is None:
        return ""
    return f"{cell:,.0f}" if cell >= 100 else f"{cell:.3g}" if cell >= 0.01 or not cell else "< 0.01"


_SAME: Mapping[Value, str] = {"size": "traffic", "time": "time of transfers", "bandwidth": "bandwidth"}


def _heat(names: list[str], cells: list[list[float | None]], hover: list[list[str]], unit: str) -> Any:
    import plotly.graph_objects as go

    largest = max((cell for row in cells for cell in row if cell is not None), default=0)
    return go.Heatmap(
        x=names,
        y=names,
        z=cells,
        zmin=0,
        zmax=largest or 1,  # plotly ignores zmin without it
        hovertext=hover,
        text=[[_written(cell) for cell in row] for row in cells] if len(names) <= _MOST_WRITTEN else None,
        texttemplate="%{text}" if len(names) <= _MOST_WRITTEN else None,
        showscale=len(names) > _MOST_WRITTEN,
        colorscale=_SCALE,
        xgap=1,
        ygap=1,
        hoverongaps=False,
        colorbar={"title": {"text": unit}, "thickness": 14, "outlinewidth": 0},
        hovertemplate="%{hovertext}<extra></extra>",
    )


def _basis(traffic: pd.DataFrame, drawn: int) -> str:
    every = len(set(traffic["src_rank"]) | set(traffic["dst_rank"]))
    folded = "" if drawn == every else f" · the {drawn} busiest of {every} ranks"
    return ("" if (traffic["tasks"] > 0).all() else " · sums of the vendor's tool") + folded


def _ranks(traffic: pd.DataFrame, limit: int) -> list[str]:
    moved = (
        traffic.groupby("src_rank")["size_bytes"]
        .sum()
        .add(traffic.groupby("dst_rank")["size_bytes"].sum(), fill_value=0)
    )
    kept = moved.sort_values(ascending=False, kind="stable").index[:limit]
    return sorted(map(str, kept), key=lambda rank: (not rank.isdecimal(), int(rank) if rank.isdecimal() else 0, rank))


def _cells(traffic: pd.DataFrame, ranks: list[str], value: Value) -> tuple[list[list[float | None]], list[list[str]]]:
    place = {rank: number for number, rank in enumerate(ranks)}
    cells: list[list[float | None]] = [[None] * len(ranks) for _ in ranks]
    hover = [[""] * len(ranks) for _ in ranks]
    columns = ("src_rank", "dst_rank", "size_bytes", "duration_ns", "links", "tasks")
    rows: Any = zip(*(traffic[name].tolist() for name in columns), strict=True)
    for source, target, moved, time, links, tasks in rows:
        if source not in place or target not in place:
            continue
        down, across = place[source], place[target]
        speed = moved / time if time else None
        cells[down][across] = {"size": moved / 1e6, "time": time / 1e6, "bandwidth": speed}[value]
        lines = [
            f"<b>{label(source, 12)} to {label(target, 12)}</b>",
            f"{size(round(moved))} in {duration(round(time))}",
            "" if speed is None else f"{speed:,.2f} GB/s",
            label(links, 60),
            counted(tasks, "transfer") if tasks else "",
        ]
        hover[down][across] = "<br>".join(filter(None, lines))
    return cells, hover


def plot_collectives(times: pd.DataFrame, packets: pd.DataFrame, info: Info, *, max_points: int = 600) -> go.Figure:
    """Draw the time of collectives by group and operator, and below it the bandwidth of links by packet size.

    Parameters
    ----------
    times, packets
        The results of ``operator_times`` and ``link_packets`` of :mod:`npuprof.analysis.traffic`.

    Returns
    -------
    plotly.graph_objects.Figure
        The parts of each bar add up to the time of its operators: ``moving data``; ``waiting`` for a notification while
        no data moves; ``neither``. Beyond 24 operators, one bar has the sum of the rest.
    """
    from plotly.subplots import make_subplots

    if not len(times) and not len(packets):
        return nothing("Communication", info, "this run has no communication", _PLOT_HOW, "record several ranks")
    bars = _fold(times)
    heights = [max(60.0, 32.0 * len(bars)), 260.0 if len(packets) else 60.0]
    frame = chart(
        "Communication",
        info,
        finding=_most_time(times),
        subtitle=_subtitle(times, packets, info),
        key=_STYLES.values() if len(bars) and bars["known"].all() else (),
        height=round(200 + sum(heights)),
    )
    titles = ["time by group and operator", _packets_title(packets, info)]
    figure = make_subplots(
        rows=2,
        cols=1,
        row_heights=heights,
        vertical_spacing=90 / (130 + sum(heights)),
        subplot_titles=titles,
        figure=frame,
    )
    unit_ns, unit = unit_of(int(bars["total_ns"].max()) if len(bars) else 0)
    for trace in _bars(bars, unit_ns):
        figure.add_trace(trace, row=1, col=1)
    for trace in _points(packets, max_points):
        figure.add_trace(trace, row=2, col=1)
    figure.update_layout(barmode="stack", bargap=0.25, margin={"b": 40})
    figure.update_annotations(font={"size": 12}, x=0, xanchor="left")
    figure.update_xaxes(**AXIS)
    figure.update_yaxes(**AXIS)
    figure.update_xaxes(ticksuffix=f" {unit}", exponentformat="none", row=1, col=1)
    figure.update_yaxes(type="category", autorange="reversed", showgrid=False, row=1, col=1)
    figure.update_xaxes(type="log", title_text="size, bytes", exponentformat="SI", dtick=1, row=2, col=1)
    figure.update_yaxes(type="log", ticksuffix=" GB/s", exponentformat="none", nticks=5, row=2, col=1)
    return figure


def _most_time(times: pd.DataFrame) -> str:
    """Return what collectives do most of their time, or which takes most; empty without any."""
    whole = int(times["total_ns"].sum()) if len(times) else 0
    if not whole:
        return ""
    if times["known"].all():
        sums = {name: int(times[name].sum()) for name in _STYLES}
        for name, said in (("wait_ns", "Ranks wait for each other"), ("transit_ns", "Data moves")):
            if 2 * sums[name] >= whole:
                return f"{said} {share(sums[name], whole)} of the time of collectives"
    kinds = times.groupby("op_type", sort=False)["total_ns"].sum()
    if len(kinds) == 1:
        return ""
    return f"{printable(str(kinds.idxmax()), _LONGEST_NAME)} takes {share(int(kinds.max()), whole)} of communication"


def _fold(times: pd.DataFrame) -> pd.DataFrame:
    """Keep the longest operators and sum the others up in one row."""
    if len(times) <= _MOST_GROUPS:
        return times
    remainder = times.iloc[_MOST_GROUPS - 1 :]
    sums = remainder[["count", "transit_ns", "wait_ns", "other_ns", "total_ns"]].sum()
    rest_row = pd.DataFrame([{"group": "", "op_type": f"({len(remainder):,} more)", "known": True, **sums.to_dict()}])
    return pd.concat([times.iloc[: _MOST_GROUPS - 1], rest_row], ignore_index=True)


def _bars(bars: pd.DataFrame, unit_ns: int) -> list[Any]:
    import plotly.graph_objects as go

    if not len(bars):
        return []
    names = _bar_names(bars)
    is_split = bool(bars["known"].all())
    styles = _STYLES if is_split else {"other_ns": ("time", PARTS["communication"])}
    traces = []
    for column, (name, colour) in styles.items():
        rows = bars[[column, "total_ns", "count"]].itertuples(index=False)
        hover = [
            f"<b>{title}</b><br>{name}: {duration(int(part))}"
            f"{f' ({share(int(part), int(whole))} of its time)' if is_split else ''}<br>"
            f"{counted(int(number), 'operator')}, {duration(int(whole))} in all"
            for title, (part, whole, number) in zip(names, rows, strict=True)
        ]
        traces.append(
            go.Bar(
                name=name,
                orientation="h",
                y=names,
                x=bars[column].to_numpy(np.float64) / unit_ns,
                marker={"color": colour, "line": {"width": 0}},
                hovertext=hover,
                hovertemplate="%{hovertext}<extra></extra>",
            )
        )
    return traces


def _bar_names(bars: pd.DataFrame) -> list[str]:
    """Return distinct names of bars: plotly would draw bars of equal names as one."""
    names: list[str] = []
    for row in bars.itertuples(index=False):
        group = f"<br>{label(row.group, 14)}" if row.group else ""  # on a line of its own, to leave room for the bars
        name = f"{label(row.op_type, _LONGEST_NAME)}{group}"
        again = sum(other == name or other.startswith(f"{name} #") for other in names)
        names.append(f"{name} #{again + 1}" if again else name)
    return names


def _points(packets: pd.DataFrame, max_points: int) -> list[Any]:
    import plotly.graph_objects as go

    groups = [(str(link), rows) for link, rows in packets.groupby("link", sort=True)]
    groups.sort(key=lambda group: -float((group[1]["size_bytes"] * group[1]["count"]).sum()))
    traces = []
    for number, (link, rows) in enumerate(groups[:_MOST_LINKS]):
        some = rows.iloc[thinned(rows["gb_per_s"].to_numpy(np.float64), max_points)]
        values = zip(some["size_bytes"].tolist(), some["gb_per_s"].tolist(), some["count"].tolist(), strict=True)
        texts = [""] * len(some)
        texts[int(some["size_bytes"].to_numpy(np.float64).argmax())] = label(link, _LONGEST_NAME)
        traces.append(
            go.Scatter(
                name=label(link, _LONGEST_NAME),
                x=some["size_bytes"].to_numpy(),
                y=some["gb_per_s"].to_numpy(),
                mode="markers+text",
                text=texts,
                textposition="top center",
                textfont={"color": SERIES[number]},
                cliponaxis=False,
                marker={
                    "color": SERIES[number],
                    "symbol": _SYMBOLS[number],
                    "size": 7,
                    "line": {"width": 0.5, "color": FAINT},
                },
                hovertext=[
                    f"{size(round(packet))}: {speed:,.2f} GB/s, {counted(round(times), 'time')}"
                    for packet, speed, times in values
                ],
                hovertemplate="%{hovertext}<extra>%{fullData.name}</extra>",
            )
        )
    return traces


def _how(info: Info) -> str:
    """Return what to do so that waiting and links are known."""
    is_collected = str(info.options.get("level")) in ("1", "2")
    return "load the whole result" if is_collected else "collect at level 1 or higher"


def _packets_title(packets: pd.DataFrame, info: Info) -> str:
    if not len(packets):
        return f"bandwidth by link: not recorded{by_front_end(info, f' ({_how(info)})', '')}"
    if packets["whole"].all():
        return "bandwidth by link and size of operators (packet sizes are not known)"
    return "bandwidth by link and packet size"


def _subtitle(times: pd.DataFrame, packets: pd.DataFrame, info: Info) -> str:
    parts = [counted(int(times["count"].sum()), "operator")]
    if len(times) and not times["known"].all():
        parts.append(f"waiting is not known: {by_front_end(info, _how(info), 'load all ranks together')}")
    links = packets["link"].nunique()
    if links > _MOST_LINKS:
        parts.append(f"the {_MOST_LINKS} busiest of {links} links")
    return " · ".join(parts)

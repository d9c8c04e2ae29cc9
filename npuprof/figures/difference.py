"""The difference of two runs: a waterfall of the parts of a step, and a differential flame graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from npuprof.arrays import Int64
from npuprof.figures.chart import chart, label, nothing
from npuprof.figures.colours import FAINT, FASTER, FOREGROUND, SLOWER, UNKNOWN
from npuprof.figures.time_axis import unit_of
from npuprof.tables.info import Info
from npuprof.words.quantities import duration, signed

if TYPE_CHECKING:
    import plotly.graph_objects as go

_TITLE = "Difference"
_KEY = (("faster", FASTER), ("slower", SLOWER))
_LONGEST_NAME = 48
_MOST_FRAMES = 600
_ROWS = {"autorange": "reversed", "showgrid": False, "type": "category"}
_TEXT_PIXELS = 72  # for the text to the right of the longest bar


def plot_waterfall(
    bars: pd.DataFrame,
    ends: tuple[int, int],
    names: tuple[str, str],
    info: Info,
    *,
    finding: str = "",
    subtitle: str = "",
) -> go.Figure:
    """Draw the change from a step of `b` to a step of `a` as a waterfall: a bar for each row, and one for the rest.

    Parameters
    ----------
    bars
        ``title``, ``delta_ns``, ``low_ns`` and ``high_ns`` (absent without noise) and ``why``, in drawing order.
    ends
        Durations of the step of `b`, where the waterfall begins, and of `a`, where it ends, in nanoseconds.
    """
    import plotly.graph_objects as go

    figure = chart(_TITLE, info, finding=finding, subtitle=subtitle, key=_KEY, height=120 + 30 * (len(bars) + 3))
    unit_ns, unit = unit_of(max(ends))
    remainder = ends[1] - ends[0] - int(bars["delta_ns"].sum())
    deltas = [*map(int, bars["delta_ns"]), remainder]
    begins = (ends[0] + np.cumsum([0, *deltas])[:-1]).tolist()
    lengths = [ends[0], *deltas, ends[1]]
    titles, texts, hover = _waterfall_texts(bars, deltas, ends, names)
    figure.add_trace(
        go.Bar(
            orientation="h",
            x=[length / unit_ns for length in lengths],
            base=[0, *(begin / unit_ns for begin in begins), 0],
            marker={
                "color": [FOREGROUND, *(SLOWER if delta > 0 else FASTER for delta in deltas), FOREGROUND],
                "line": {"width": 0},
            },
            error_x=_whiskers(bars, unit_ns),
            hovertemplate="%{hovertext}<extra></extra>",
            showlegend=False,
            y=titles,
            hovertext=hover,
        )
    )
    lows, highs = _reach(bars, begins, ends)
    figure.add_trace(_texts_beside(titles, texts, [high / unit_ns for high in highs]))
    margin = max(max(highs) - min(lows), 1) * 0.15
    shown = [max(min(lows) - margin, 0) / unit_ns, (max(highs) + margin) / unit_ns]
    figure.update_xaxes(ticksuffix=f" {unit}", range=shown, exponentformat="none")
    figure.update_layout(bargap=0.25, margin_r=_TEXT_PIXELS, yaxis=_ROWS)
    if shown[0] > 0:
        _mark_break(figure, shown[0], round(shown[0] * unit_ns), (titles[0], titles[-1]))
    return figure


def _mark_break(figure: go.Figure, left: float, begin_ns: int, titles: tuple[str, str]) -> None:
    """Write that the axis does not begin at 0, and break the bars that do."""
    for title in titles:
        figure.add_annotation(
            x=left, y=title, text="<b>//</b>", showarrow=False, xanchor="left", xshift=6, font={"color": "#ffffff"}
        )
    figure.add_annotation(
        text=f"// the axis begins at {duration(begin_ns)}",
        xref="paper",
        x=0,
        yref="paper",
        y=0,
        yshift=-34,
        xanchor="left",
        showarrow=False,
        font={"size": 11},
    )
    figure.update_layout(margin={"b": 48})


def _texts_beside(titles: list[str], texts: list[str], x: list[float]) -> Any:
    """Return the texts of the bars, drawn to the right of the whiskers, which would otherwise cross them."""
    import plotly.graph_objects as go

    return go.Scatter(
        x=x,
        y=titles,
        text=[f"  {text}" for text in texts],
        mode="text",
        textposition="middle right",
        cliponaxis=False,
        hoverinfo="skip",
        showlegend=False,
    )


def _reach(bars: pd.DataFrame, begins: list[int], ends: tuple[int, int]) -> tuple[list[int], list[int]]:
    """Return the lowest and highest position of each bar and its whiskers, and the ends of the first and last bar."""
    stops = [*begins[1:], ends[1]]
    whiskers = [
        (begin, begin) if pd.isna(low) else (begin + int(low), begin + int(high))
        for begin, low, high in zip(begins, bars["low_ns"], bars["high_ns"], strict=False)
    ] + [(ends[1], ends[1])]  # the rest has none
    rows = list(zip(begins, stops, *zip(*whiskers, strict=True), strict=True))
    return [ends[0], *map(min, rows), ends[1]], [ends[0], *map(max, rows), ends[1]]


def _waterfall_texts(
    bars: pd.DataFrame, deltas: list[int], ends: tuple[int, int], names: tuple[str, str]
) -> tuple[list[str], list[str], list[str]]:
    """Return titles, texts and hover texts of the bars: the step of `b`, the differences, the step of `a`."""
    titles = [names[1], *bars["title"], "the rest", names[0]]
    titles = _distinct([label(title, _LONGEST_NAME) for title in titles])
    texts = [duration(ends[0]), *map(signed, deltas), duration(ends[1])]
    whys = ["", *bars["why"], "", ""]
    hover = [f"<b>{name}</b><br>{text} {reason}" for name, text, reason in zip(titles, texts, whys, strict=True)]
    return titles, texts, hover


def _whiskers(bars: pd.DataFrame, unit_ns: int) -> dict[str, object]:
    """Return the intervals of the bars as plotly error bars; the first, the rest and the last have none."""
    spread: list[tuple[float, float]] = [
        (0, 0) if pd.isna(low) else (max(high - delta, 0) / unit_ns, max(delta - low, 0) / unit_ns)
        for low, high, delta in zip(bars["low_ns"], bars["high_ns"], bars["delta_ns"], strict=True)
    ]
    spread = [(0, 0), *spread, (0, 0), (0, 0)]
    return {
        "type": "data",
        "array": [above for above, _ in spread],
        "arrayminus": [below for _, below in spread],
        "color": FOREGROUND,
        "thickness": 1,
        "visible": any(map(any, spread)),
    }


def plot_flame_difference(
    rows: pd.DataFrame, names: tuple[str, str], info: Info, *, finding: str = "", subtitle: str = ""
) -> go.Figure:
    """Draw the parts of a step and their contents, as wide as their time in both runs, red where `a` is slower."""
    import plotly.graph_objects as go

    weight = (rows["a_ns"] + rows["b_ns"]).to_numpy(np.int64)
    kept = _widest_rows(rows["parent"].to_numpy(np.int64), weight)
    if not len(kept):
        return nothing(_TITLE, info, "neither side has device time")
    visible_rows = _add_step_row(rows, kept)
    largest = max(int(visible_rows["delta_ns"].abs().max()), 1)
    height = 110 + 28 * (int(visible_rows["depth"].max()) + 2)
    kind = "Differential flame graph"
    figure = chart(kind, info, finding=finding, subtitle=subtitle, key=_KEY, height=height)
    figure.add_trace(
        go.Icicle(
            ids=visible_rows["id"].tolist(),
            parents=visible_rows["above"].tolist(),
            labels=[label(title, 60) for title in visible_rows["title"]],
            values=(visible_rows["a_ns"] + visible_rows["b_ns"]).tolist(),
            branchvalues="total",
            hovertext=_flame_hover(visible_rows, names),
            hovertemplate="%{hovertext}<extra></extra>",
            marker={
                "colors": [_colour(int(delta), largest) for delta in visible_rows["delta_ns"]],
                "line": {"width": 0.5, "color": FAINT},
            },
            leaf={"opacity": 1},  # a transparent fill would make the text illegible on a dark background
            tiling={"orientation": "v", "pad": 1},
            textfont={"size": 11, "color": "#000000"},
            pathbar={"visible": False},
        )
    )
    return figure.update_layout(uniformtext={"minsize": 9, "mode": "hide"}, margin_b=10)


def _flame_hover(visible_rows: pd.DataFrame, names: tuple[str, str]) -> list[str]:
    columns = zip(*(visible_rows[name].tolist() for name in ("title", "a_ns", "b_ns", "delta_ns", "why")), strict=True)
    return [
        f"<b>{label(title, 200)}</b><br>{signed(delta)}: {duration(a_ns)} in {label(names[0], 40)}, "
        f"{duration(b_ns)} in {label(names[1], 40)}<br>{reason}"
        for title, a_ns, b_ns, delta, reason in columns
    ]


def _add_step_row(rows: pd.DataFrame, kept: Int64) -> pd.DataFrame:
    """Return the rows to draw, below a row of the step, with ``id``, ``above`` (the parent's id) and ``title``."""
    selected_rows = rows.iloc[kept]
    times = ["a_ns", "b_ns", "delta_ns"]
    sums = selected_rows.loc[(selected_rows["depth"] == 0).to_numpy(bool), times].sum()
    step = pd.DataFrame([{**sums, "title": f"step {signed(sums['delta_ns'])}", "id": "step", "above": ""}])
    above = [str(parent) if parent >= 0 else "step" for parent in selected_rows["parent"].tolist()]
    below = selected_rows[[*times, "why", "depth"]].assign(
        title=selected_rows["name"], id=list(map(str, kept.tolist())), above=above
    )
    return pd.concat([step.assign(why="", depth=-1), below], ignore_index=True)


def _widest_rows(parents: Int64, weight: Int64) -> Int64:
    """Return the widest rows with a positive weight, leaving out rows whose parent is left out."""
    widest = set(np.argsort(-weight, kind="stable")[:_MOST_FRAMES].tolist())
    kept: set[int] = set()
    for row in np.flatnonzero(weight > 0).tolist():
        if row in widest and (parents[row] < 0 or int(parents[row]) in kept):
            kept.add(row)
    return np.array(sorted(kept), np.int64)


def _colour(delta: int, largest: int) -> str:
    """Return the colour of a difference: red if `a` is slower, blue if it is faster, grey if it is small."""
    base, part = SLOWER if delta > 0 else FASTER, min(abs(delta) / largest, 1) ** 0.5
    channels = ((int(base[at : at + 2], 16), int(UNKNOWN[at : at + 2], 16)) for at in (1, 3, 5))
    return "#" + "".join(f"{round(grey + (hue - grey) * part):02x}" for hue, grey in channels)


def _distinct(titles: list[str]) -> list[str]:
    """Return the titles with repeated ones numbered: bars of one title would be drawn on top of each other."""
    seen: dict[str, int] = {}
    named_names = []
    for title in titles:
        seen[title] = seen.get(title, 0) + 1
        named_names.append(title if seen[title] == 1 else f"{title} ({seen[title]})")
    return named_names

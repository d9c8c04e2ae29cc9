"""Steps of all ranks as heat maps: the deviation of each part of each step from its median."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from npuprof.arrays import Float64
from npuprof.figures.chart import AXIS, chart, nothing, spread
from npuprof.figures.colours import FASTER, PARTS, SLOWER
from npuprof.figures.steps import how_to_mark
from npuprof.figures.time_axis import unit_of
from npuprof.tables.info import Info
from npuprof.words.quantities import count, duration

if TYPE_CHECKING:
    import plotly.graph_objects as go

_TITLE = "Steps of all ranks"
_WHY = "no rank has steps with device time"
_PANELS = {
    "duration_ns": "step",
    "computing_ns": "computing",
    "waiting_ns": "waiting",
    "moving_ns": "moving data",
    "communication_ns": "communication",
    "copy_ns": "copies",
    "idle_ns": "idle",
    "between_steps_ns": "between steps",
    "not_recorded_ns": "not recorded",
}
_MOST_CELLS = 44_000  # over all panels; beyond that, a cell shows the furthest of several values
_LEAST_SPAN = 0.02  # of a step: noise of a healthy job stays pale
_SCALE = [[0, FASTER], [0.5, "rgba(128,128,128,.14)"], [1, SLOWER]]


def plot_rank_steps(
    steps: pd.DataFrame,
    caused: pd.Series[int],
    info: Info,
    *,
    finding: str = "",
    absent: Sequence[int] = (),
    subtitle: str = "",
) -> go.Figure:
    """Draw a heat map of ranks and steps for each part of steps, and the waiting that each rank causes.

    The colour is the difference from the median of all cells of the part: red is longer, blue is shorter.

    Parameters
    ----------
    caused
        Time per step that other ranks wait for each rank, in nanoseconds by rank; may be empty.
    """
    from plotly.subplots import make_subplots

    if not len(steps):
        return nothing(_TITLE, info, _WHY, *how_to_mark(info))
    panels = [name for name in _PANELS if name == "duration_ns" or steps[name].any()]
    ranks = sorted({*steps["rank"].tolist(), *absent})
    numbers = sorted(set(steps["step"].tolist()))
    cells = {name: _cells(steps, name, ranks, numbers) for name in panels}
    span = max(_LEAST_SPAN * float(steps["duration_ns"].median()), *map(_furthest, cells.values()))
    unit_ns, unit = unit_of(round(span))
    down, across = _folds(len(ranks), len(numbers), _MOST_CELLS // len(panels))
    folded = f"each cell shows the furthest from the median of {count(down * across)}" if down * across > 1 else ""
    lines = " · ".join(filter(None, (folded, subtitle)))
    key = [("longer than the median of the part", SLOWER), ("shorter", FASTER)]
    height = 170 + max(140, min(560, 13 * len(ranks)))
    frame = chart(_TITLE, info, finding=finding, subtitle=lines, key=key, height=height)
    widths = [max(1.0, min(3.0, len(numbers) / 6))] * len(panels) + ([1.3] if len(caused) else [])
    titles = [_title(steps, name) for name in panels]
    titles += [f"waits it causes<br>{_unit(caused)[1]}"] if len(caused) else []
    figure = make_subplots(
        cols=len(widths),
        shared_yaxes=True,
        horizontal_spacing=0.012,
        column_widths=widths,
        subplot_titles=titles,
        figure=frame,
    )
    names, columns = [*map(str, ranks[::down])], [*map(str, numbers[::across])]
    for at, name in enumerate(panels, 1):
        figure.add_trace(_heat(cells[name], names, columns, (down, across), (unit_ns, unit)), row=1, col=at)
    if len(caused):
        figure.add_trace(_bars(caused, names, down, ranks), row=1, col=len(widths))
    _dress(figure, names, columns, len(widths))
    figure.update_layout(coloraxis=_coloraxis(span / unit_ns, unit), bargap=0.3)
    figure.update_layout(margin={"t": figure.layout.margin.t + 36, "b": 78})
    return figure


def _title(steps: pd.DataFrame, name: str) -> str:
    return f"{_PANELS[name]}<br>{duration(int(steps[name].median()))}"


def _cells(steps: pd.DataFrame, name: str, ranks: Sequence[int], numbers: Sequence[int]) -> Float64:
    """Return the times of a part by rank and step; NaN where a rank lacks the step."""
    values = np.full((len(ranks), len(numbers)), np.nan)
    row = np.searchsorted(ranks, steps["rank"].to_numpy(np.int64))
    column = np.searchsorted(numbers, steps["step"].to_numpy(np.int64))
    values[row, column] = steps[name].to_numpy(np.float64)
    return values


def _furthest(cells: Float64) -> float:
    return float(np.nanmax(np.abs(cells - np.nanmedian(cells))))


def _folds(ranks: int, steps: int, limit: int) -> tuple[int, int]:
    """Return the number of ranks and of steps that share a cell."""
    across = min(steps, max(1, -(-ranks * steps // limit)))
    return max(1, -(-ranks * -(-steps // across) // limit)), across


def _fold(cells: Float64, folds: tuple[int, int]) -> Float64:
    """Keep the value furthest from the median where ranks or steps share a cell."""
    down, across = folds
    if down * across == 1:
        return cells
    rows, columns = -(-cells.shape[0] // down), -(-cells.shape[1] // across)
    padded = np.full((rows * down, columns * across), np.nan)
    padded[: cells.shape[0], : cells.shape[1]] = cells
    blocks = padded.reshape(rows, down, columns, across).transpose(0, 2, 1, 3).reshape(rows, columns, -1)
    distance = np.nan_to_num(np.abs(blocks - np.nanmedian(cells)), nan=-1)
    return np.take_along_axis(blocks, distance.argmax(axis=2)[..., None], axis=2)[..., 0]


def _heat(cells: Float64, ranks: list[str], steps: list[str], folds: tuple[int, int], scale: tuple[int, str]) -> Any:
    import plotly.graph_objects as go

    unit_ns, unit = scale
    values = _fold(cells, folds)
    more = values - np.nanmedian(cells)
    return go.Heatmap(
        x=steps,
        y=ranks,
        z=(more / unit_ns).astype(np.float32),
        customdata=(values / unit_ns).astype(np.float32),
        coloraxis="coloraxis",
        xgap=1 if len(steps) <= 40 else 0,
        ygap=1 if len(ranks) <= 64 else 0,
        hoverongaps=False,
        hovertemplate=f"<b>rank %{{y}}, step %{{x}}</b><br>%{{customdata:.3g}} {unit}, %{{z:+.3g}} {unit} "
        "from the median<extra></extra>",
    )


def _bars(caused: pd.Series[int], names: list[str], down: int, ranks: Sequence[int]) -> Any:
    import plotly.graph_objects as go

    times = caused.reindex(list(ranks)).fillna(0).to_numpy(np.float64)
    largest = np.array([times[at : at + down].max() for at in range(0, len(times), down)])
    unit_ns, unit = _unit(caused)
    return go.Bar(
        x=(largest / unit_ns).astype(np.float32),
        y=names,
        orientation="h",
        marker={"color": PARTS["waiting"], "line": {"width": 0}},
        hovertemplate=f"<b>rank %{{y}}</b><br>others wait %{{x:.3g}} {unit} per step for it, in total<extra></extra>",
        showlegend=False,
    )


def _unit(caused: pd.Series[int]) -> tuple[int, str]:
    return unit_of(int(caused.max()))


def _dress(figure: go.Figure, ranks: list[str], steps: list[str], columns: int) -> None:
    figure.update_xaxes(**AXIS)
    figure.update_yaxes(**AXIS)
    figure.update_xaxes(type="category", showgrid=False, tickvals=spread(steps, 5))
    figure.update_yaxes(type="category", autorange="reversed", showgrid=False, tickvals=spread(ranks, 16))
    figure.update_yaxes(title_text="rank", row=1, col=1)
    if figure.data[-1].type == "bar":
        figure.update_xaxes(type="linear", tickvals=None, nticks=3, rangemode="tozero", row=1, col=columns)
    figure.update_annotations(font={"size": 12})


def _coloraxis(span: float, unit: str) -> dict[str, Any]:
    place = {"orientation": "h", "x": 0.5, "xanchor": "center", "y": 0, "yref": "container", "yanchor": "bottom"}
    look = {"thickness": 9, "outlinewidth": 0, "len": 0.5, "ticksuffix": f" {unit}", "tickformat": "+.3g"}
    return {"colorscale": _SCALE, "cmin": -span, "cmax": span, "colorbar": place | look}

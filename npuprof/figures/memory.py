"""Memory over time: what was allocated, reserved and active, for each device and component."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from npuprof.figures.colours import FAINT, FAMILIES, FOREGROUND, MODEBAR
from npuprof.figures.labels import label
from npuprof.info import Info

if TYPE_CHECKING:
    import plotly.graph_objects as go

Ints: TypeAlias = npt.NDArray[np.int64]

_MIB = 1 << 20
_SIZES = {
    "reserved_bytes": ("reserved", FAMILIES["step"].colour),
    "allocated_bytes": ("allocated", FAMILIES["matrix"].colour),
    "active_bytes": ("active", FAMILIES["operator"].colour),
}
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")


def thinned(values: npt.NDArray[np.float64], most: int) -> Ints:
    """Choose at most so many points of a line, keeping the least and the greatest of each stretch.

    Parameters
    ----------
    values
        The line's values, in the order of time.
    most
        The most points; at least 4.

    Returns
    -------
    Positions, ascending; all of them where they are few enough.
    """
    count = len(values)
    if count <= most:
        return np.arange(count)
    edges = np.linspace(0, count, most // 2 + 1).astype(np.int64)
    kept = [0, count - 1]
    for low, high in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        stretch = values[low:high]
        kept += [low + int(stretch.argmin()), low + int(stretch.argmax())]
    return np.unique(np.array(kept, np.int64))[: most + 2]


def memory_plot(tables: Mapping[str, pd.DataFrame], info: Info, *, max_points: int = 1_000) -> go.Figure:
    """Draw the samples of the table ``memory`` as steps.

    Parameters
    ----------
    tables, info
        What to draw.
    max_points
        The most points of one line; its peaks and troughs are kept.

    Returns
    -------
    plotly.graph_objects.Figure
        A line for each device, component and size that was sampled, in MiB over seconds since the first sample.
    """
    import plotly.graph_objects as go

    memory = tables["memory"]
    figure = go.Figure(layout={"template": go.layout.Template()})
    first = int(memory["time_ns"].min()) if len(memory) else 0
    groups = memory.groupby(["device_id", "component"], observed=True, dropna=False, sort=True)
    for number, ((device, component), rows) in enumerate(groups):
        title = str(component) if device is pd.NA else f"NPU {device} {component}"
        for column, (size, colour) in _SIZES.items():
            sampled = rows[rows[column].notna()]
            if len(sampled):
                figure.add_trace(
                    _line(go, sampled, column, f"{label(title, 40)}, {size}", colour, number, first, max_points)
                )
    figure.update_layout(**_layout(info, empty=not figure.data))
    return figure


def _line(
    go: Any, rows: pd.DataFrame, column: str, name: str, colour: str, number: int, first: int, max_points: int
) -> Any:
    sizes = rows[column].to_numpy(dtype=np.int64)
    points = thinned(sizes.astype(np.float64), max_points)
    return go.Scatter(
        name=name,
        x=(rows["time_ns"].to_numpy()[points] - first) / 1e9,
        y=sizes[points] / _MIB,
        mode="lines",
        line={"shape": "hv", "color": colour, "width": 1.5, "dash": _DASHES[number % len(_DASHES)]},
        hovertemplate="%{y:,.1f} MiB at %{x:.6f} s<extra>%{fullData.name}</extra>",
    )


def _layout(info: Info, *, empty: bool) -> dict[str, Any]:
    simulated = " · <b>simulated NPU</b>" if info.simulated else ""
    note = {"text": "this run has no memory samples", "showarrow": False, "x": 0.5, "y": 0.5}
    return {
        "title": {"text": f"Memory{simulated}", "font": {"size": 15}, "x": 0, "xref": "paper"},
        "annotations": [note | {"xref": "paper", "yref": "paper"}] if empty else [],
        "xaxis": {"ticksuffix": " s", "gridcolor": FAINT, "zeroline": False, "visible": not empty},
        "yaxis": {"ticksuffix": " MiB", "gridcolor": FAINT, "rangemode": "tozero", "visible": not empty},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"color": FOREGROUND, "size": 11},
        "hovermode": "closest",
        "legend": {"orientation": "h", "x": 0, "y": -0.15},
        "margin": {"l": 10, "r": 10, "t": 60, "b": 20},
        "modebar": dict(MODEBAR),
    }

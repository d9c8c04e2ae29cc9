"""The roofline: kernels against the limits of compute and of memory bandwidth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pandas as pd

from npuprof.advice.to_collect import missing
from npuprof.analysis.chip_limits import ChipLimits, measured_limits
from npuprof.analysis.kernel_work import COUNTED, work_of_run
from npuprof.arrays import Float64
from npuprof.errors import OptionsError
from npuprof.figures.chart import chart, label, nothing
from npuprof.figures.colours import FAINT, FAMILIES, FOREGROUND, device_family, shade
from npuprof.tables.info import Info
from npuprof.words.quantities import counted, duration, printable, share, size

if TYPE_CHECKING:
    import plotly.graph_objects as go

_TITLE = "Roofline"
_WHY = "the operations and bytes of this run's kernels are unknown"
_ON_CUBE = ("AI_CORE", "MIX_AIC", "AICORE", "AIC")
_LONGEST_NAME = 40
_LONGEST_SHAPES = 80
_MOST_NAMED = 8
_LEAST, _MOST = 8.0, 26.0  # marker diameters in pixels
_SPACE_PIXELS = 3.5
_GIGA = 1e9

_Text: TypeAlias = tuple[str, float, float, str, str]
"""A name on the figure, where it stands, its colour, and on which side of that place it is."""

_SCALE: Mapping[str, Any] = {"type": "log", "exponentformat": "power", "dtick": 1}
X_AXIS: Mapping[str, Any] = {**_SCALE, "title_text": "operations per byte"}
Y_AXIS: Mapping[str, Any] = {**_SCALE, "title_text": "operations per second"}
"""Options of the axes."""


def plot_roofline(
    tables: Mapping[str, pd.DataFrame], info: Info, *, limits: ChipLimits | None = None, max_points: int = 300
) -> go.Figure:
    """Draw operations per second over operations per byte, one point per operator type and shapes.

    Parameters
    ----------
    limits
        The limits of the chip; by default, limits from the kernels' counters and ``info.chip``
        (:func:`npuprof.analysis.chip_limits.measured_limits`). Without known limits, no roof is drawn.
    max_points
        Maximum number of points, those with the most time. The title has their share of all kernel time.

    Returns
    -------
    plotly.graph_objects.Figure
        Both axes are logarithmic; a point's area is its total time. Filled markers come from counters; hollow markers
        are estimates from shapes: operations by the operator's definition, and every operand moved once. Kernels
        without operations, such as copies, are left out.
    """
    if max_points < 1:
        raise OptionsError(f"max_points is {max_points}; it must be at least 1")
    if not len(tables["kernels"]):
        how = missing(tables, info, ["--activities cpu,npu", "--aic-metrics ArithmeticUtilization"], "kernels")
        return nothing(_TITLE, info, "this run has no kernels", how, of_torch="")
    points = placeable(work_of_run(tables, 4 * max_points)[0]).head(max_points)
    if not len(points):
        return nothing(_TITLE, info, _WHY, missing(tables, info, ["--aic-metrics ArithmeticUtilization"], "shapes"))
    known = limits if limits is not None else measured_limits(tables["kernels"], info.chip, tables["counters"])[0]
    whole = int(tables["kernels"]["duration_ns"].sum())
    figure = chart(
        _TITLE,
        info,
        finding=_finding(points, whole, known),
        subtitle=_subtitle(points, whole, known, info),
        key=[(FAMILIES[family].label, FAMILIES[family].colour) for family in FAMILIES if family in _families(points)],
        height=540,
    )
    for trace in placed(points, whole, known, named=_MOST_NAMED):
        figure.add_trace(trace)
    figure.update_xaxes(**X_AXIS)
    figure.update_yaxes(**Y_AXIS)
    return figure.update_layout(margin_b=50)


def _finding(points: pd.DataFrame, whole: int, limits: ChipLimits | None) -> str:
    """Return how close the kind of kernels with the most time comes to its roof; empty if that is not known."""
    first = points.iloc[0]
    if limits is None or not isinstance(first["op_type"], str):
        return ""
    each, fast = _position(points.iloc[:1])
    roof, bound = _roof(limits, first["core"], float(each[0]))
    if fast[0] > roof:  # an estimate, or a limit, is wrong
        return ""
    name = f"{printable(first['op_type'], _LONGEST_NAME)}, {share(int(first['total_ns']), whole)} of kernel time,"
    return f"{name} reaches {100 * float(fast[0]) / roof:.0f} % of its {bound} roof"


def _position(points: pd.DataFrame) -> tuple[Float64, Float64]:
    """Return operations per byte, and per second, of each point."""
    flops = points["flops"].to_numpy(np.float64)
    return flops / points["bytes"].to_numpy(np.float64), flops / points["mean_ns"].to_numpy(np.float64) * _GIGA


def _roof(limits: ChipLimits, core: object, intensity: float) -> tuple[float, str]:
    """Return the highest speed at so many operations per byte, and what limits it."""
    peak = limits.cube_flops_per_s if isinstance(core, str) and core in _ON_CUBE else limits.vector_flops_per_s
    roof = min(peak, intensity * limits.memory_bytes_per_s)
    return roof, "memory" if roof < peak else "compute"


def _op_types(points: pd.DataFrame) -> list[str]:
    return [op_type if isinstance(op_type, str) else "" for op_type in points["op_type"].to_numpy(object)]


def _families(points: pd.DataFrame) -> list[str]:
    return [device_family(op_type, "", op_type) for op_type in _op_types(points)]


def placeable(work: pd.DataFrame) -> pd.DataFrame:
    """Return the kernels whose operations, bytes and time are known and positive."""
    return work[((work["flops"] > 0) & (work["bytes"] > 0) & (work["mean_ns"] > 0)).to_numpy(bool)]


def placed(points: pd.DataFrame, whole: int, limits: ChipLimits | None, named: int = 0) -> list[Any]:
    """Return the traces of the kernels, at least one, and of the chip's limits; `whole` is the time of all kernels.

    Limits have names, and the points of the `named` kernels with the most time, where these do not cover each other.
    """
    intensity, speed = _position(points)
    roofs = _roofs(limits, float(intensity.min()), float(intensity.max())) if limits is not None else []
    texts = [(roof.name.removeprefix("limit of the "), roof.x[2], roof.y[2], FOREGROUND, "top left") for roof in roofs]
    texts += _names(points, intensity, speed, named)
    return [*roofs, *_traces(points, intensity, speed, whole, limits), *([_written(texts)] if texts else [])]


def _widths(points: pd.DataFrame) -> Float64:
    """Return the diameter of each marker in pixels: its area is the time."""
    total = points["total_ns"].to_numpy(np.float64)
    return _LEAST + (_MOST - _LEAST) * np.sqrt(total / max(total.max(), 1.0))


def _names(points: pd.DataFrame, intensity: Float64, speed: Float64, most: int) -> list[_Text]:
    """Return the names of the first points, each once, and only where it does not cover another."""
    x, y = (_ratios(np.log10(values)) for values in (intensity, speed))
    texts: dict[str, tuple[int, _Text]] = {}
    families = _families(points)
    widths = _widths(points)
    for at, op_type in enumerate(_op_types(points)):
        name = label(op_type, 24)
        is_free = all(abs(x[at] - x[one]) > 0.16 or abs(y[at] - y[one]) > 0.05 for one, _ in texts.values())
        if op_type and is_free and name not in texts and len(texts) < most:
            colour = FAMILIES[families[at]].colour
            beside = "\N{NO-BREAK SPACE}" * round(widths[at] / 2 / _SPACE_PIXELS + 1)  # of the marker
            texts[name] = at, (beside + name, float(intensity[at]), float(speed[at]), colour, "middle right")
    return [text for _, text in texts.values()]


def _written(texts: Sequence[_Text]) -> Any:
    import plotly.graph_objects as go

    names, x, y, colours, places = map(list, zip(*texts, strict=True))
    return go.Scatter(
        mode="text", text=names, x=x, y=y, textfont={"color": colours}, textposition=places, hoverinfo="skip"
    )


def _ratios(values: Float64) -> Float64:
    """Return values as parts of their range."""
    return (values - values.min()) / max(float(np.ptp(values)), 1e-9)


def _roofs(limits: ChipLimits, least: float, most: float) -> list[Any]:
    """Return the roofs: memory bandwidth up to the peak of cube cores, and of vector cores."""
    import plotly.graph_objects as go

    roofs = []
    for name, peak, dash in (
        ("cube cores", limits.cube_flops_per_s, "solid"),
        ("vector cores", limits.vector_flops_per_s, "dash"),
    ):
        knee = peak / limits.memory_bytes_per_s
        x = [min(least, knee) / 3, knee, max(most, knee) * 3]
        memory = f"memory: {limits.memory_bytes_per_s / 1e12:,.2f} TB/s"
        text = f"{name}, half precision: {peak / 1e12:,.1f} T operations/s<br>{memory}"
        roofs.append(
            go.Scatter(
                name=f"limit of the {name}",
                x=x,
                y=[x[0] * limits.memory_bytes_per_s, peak, peak],
                mode="lines",
                line={"color": FOREGROUND, "width": 1.5, "dash": dash},
                hovertext=[f"<b>{label(limits.name, 40)}</b><br>{text}<br>{label(limits.source, 160)}"] * 3,
                hovertemplate="%{hovertext}<extra></extra>",
            )
        )
    return roofs


def _traces(
    points: pd.DataFrame,
    intensity: Float64,
    speed: Float64,
    whole: int,
    limits: ChipLimits | None,
) -> list[Any]:
    import plotly.graph_objects as go

    op_types, families = _op_types(points), np.array(_families(points))
    is_counted = ((points["flops_from"] == COUNTED) & (points["bytes_from"] == COUNTED)).to_numpy(bool)
    width = _widths(points)
    hover = _hover(points, intensity, speed, whole, limits)
    traces = []
    for family in dict.fromkeys(FAMILIES):
        of_family = np.flatnonzero(families == family)
        if not len(of_family):
            continue
        traces.append(
            go.Scatter(
                name=FAMILIES[family].label,
                x=intensity[of_family],
                y=speed[of_family],
                mode="markers",
                marker={
                    "size": width[of_family].round(1),
                    "color": [shade(family, op_types[at]) for at in of_family],
                    "symbol": ["circle" if is_counted[at] else "circle-open" for at in of_family],
                    "line": {
                        "width": [0.5 if is_counted[at] else 2 for at in of_family],
                        "color": [FAINT if is_counted[at] else shade(family, op_types[at]) for at in of_family],
                    },
                },
                hovertext=[hover[at] for at in of_family],
                hovertemplate="%{hovertext}<extra></extra>",
            )
        )
    return traces


def _hover(
    points: pd.DataFrame, intensity: Float64, speed: Float64, whole: int, limits: ChipLimits | None
) -> list[str]:
    columns = ["op_type", "core", "input_shapes", "launches", "total_ns", "mean_ns", "flops", "flops_from", "bytes"]
    rows: Any = zip(*(points[name].tolist() for name in [*columns, "bytes_from"]), intensity, speed, strict=True)
    texts = []
    for op_type, core, shapes, launches, total, mean, flops, flops_from, moved, moved_from, each, fast in rows:
        time = f"{counted(launches, 'time')} {duration(round(mean))}, {share(total, whole)} of the time of all kernels"
        lines = [
            f"<b>{label(op_type, _LONGEST_NAME)}</b> on {label(core, 20)}",
            label(shapes, _LONGEST_SHAPES),
            time,
            f"{_scale(flops)} operations ({flops_from}), {size(round(moved))} ({moved_from})",
            f"{fast / 1e12:,.3g} T operations/s at {each:,.3g} operations per byte",
        ]
        if limits is not None:
            roof, bound = _roof(limits, core, each)
            lines.append(f"{100 * fast / roof:,.1f} % of the {bound} roof at half precision")
        texts.append("<br>".join(lines))
    return texts


def _subtitle(points: pd.DataFrame, whole: int, limits: ChipLimits | None, info: Info) -> str:
    drawn = share(int(points["total_ns"].sum()), whole)
    parts = [f"{counted(len(points), 'kind')} of kernels with {drawn} of the time of all kernels"]
    if limits is None:
        chip = label(info.chip, 30) if info.chip else "the unnamed chip"
        parts.append(f"the limits of {chip} cannot be told: limits=npuprof.chip(...) draws them")
    else:
        parts.append(f"limits: {label(limits.name, 60)}")
    if ((points["flops_from"] != COUNTED) | (points["bytes_from"] != COUNTED)).any():
        parts.append("hollow: estimated from shapes")
    return " · ".join(parts)


def _scale(number: float) -> str:
    for least, sign in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= least:
            return f"{number / least:,.3g} {sign}"
    return f"{number:,.3g}"

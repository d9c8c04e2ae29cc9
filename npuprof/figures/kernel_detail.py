"""A kernel in detail: utilisation of its pipes, and its point on the roofline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from npuprof.advice.to_collect import missing
from npuprof.analysis.chip_limits import ChipLimits, measured_limits
from npuprof.analysis.kernel_work import kernel_work
from npuprof.errors import NpuprofError
from npuprof.figures import roofline
from npuprof.figures.chart import AXIS, chart, label, nothing
from npuprof.figures.colours import FAMILIES
from npuprof.tables.info import Info
from npuprof.words.quantities import counted, duration, printable

if TYPE_CHECKING:
    import plotly.graph_objects as go

_TITLE = "Kernel"
_CORES = {
    "aic_": ("cube core", FAMILIES["matrix"].colour),
    "aiv_": ("vector core", FAMILIES["vector"].colour),
    "": ("AI core", FAMILIES["matrix"].colour),  # of a chip with one kind: its counters have no prefix
}
_PIPES = ("mac", "vec", "scalar", "mte1", "mte2", "mte3", "fixpipe")
_MEANINGS = {
    "mac": "matrix unit",
    "vec": "vector unit",
    "scalar": "scalar unit",
    "mte1": "L1 to L0",
    "mte2": "memory to the core",
    "mte3": "core to memory",
    "fixpipe": "results of the cube",
}
_RATIO = "_ratio"
_PIPE_PIXELS, _ROOFLINE_PIXELS = 24, 210
_POINT_PIXELS = 13


def plot_kernel(
    tables: Mapping[str, pd.DataFrame], info: Info, row: int, *, limits: ChipLimits | None = None
) -> go.Figure:
    """Draw the utilisation of each pipe of a kernel, and its point on the roofline.

    Returns
    -------
    plotly.graph_objects.Figure
        A bar per pipe and kind of core, in percent of the core's cycles; without pipe metrics, a bar per recorded
        ratio. Pipes work concurrently, so bars do not add up. The roofline is drawn if operations and bytes are known.
    """
    kernels = tables["kernels"]
    if not 0 <= row < len(kernels):
        raise NpuprofError(f"there is no kernel {row}: run.kernels has {counted(len(kernels), 'row')}, counted from 0")
    kernel = kernels.iloc[row]
    shares = _shares(kernel)
    if not shares:
        return nothing(_TITLE, info, f"{_facts(kernel)}<br>no counters of this kernel", _how(tables, info))
    known = limits if limits is not None else measured_limits(kernels, info.chip, tables["counters"])[0]
    work = roofline.placeable(kernel_work(kernels.iloc[[row]], 1))
    points = roofline.placed(work, int(kernels["duration_ns"].sum()), known) if len(work) else []
    figure = _frame(kernel, info, shares, with_point=bool(points))
    for trace in _bars(shares, kernel):
        figure.add_trace(trace, row=1, col=1)
    for trace in points:
        named = {"name": "this kernel", "marker": {"size": _POINT_PIXELS}} if trace.mode == "markers" else {}
        figure.add_trace(trace.update(**named), row=2, col=1)
    figure.update_xaxes(AXIS)
    figure.update_yaxes(AXIS)
    figure.update_xaxes(range=[0, 1.12 * max(100.0, *shares.values())], ticksuffix=" %", row=1, col=1)
    figure.update_yaxes(type="category", autorange="reversed", showgrid=False, row=1, col=1)
    if points:
        figure.update_xaxes(roofline.X_AXIS, row=2, col=1)
        figure.update_yaxes(roofline.Y_AXIS, row=2, col=1)
    return figure.update_layout(barmode="group", bargap=0.25, margin_b=50).update_annotations(
        font={"size": 12}, x=0, xanchor="left"
    )


def _finding(kernel: pd.Series, shares: Mapping[tuple[str, str], float]) -> str:
    """Return the busiest pipe; empty if no pipes were counted."""
    core, pipe = max(shares, key=lambda key: shares[key])
    if pipe not in _MEANINGS:
        return ""
    kind = kernel["op_type"] if isinstance(kernel["op_type"], str) else str(kernel["name"])
    most = f"{shares[core, pipe]:.0f} %"
    return f"{printable(kind, 40)} keeps {pipe} ({_MEANINGS[pipe]}) busy {most} of its cycles"


def _frame(kernel: pd.Series, info: Info, shares: Mapping[tuple[str, str], float], *, with_point: bool) -> go.Figure:
    """Make a figure for the bars, and for the roofline if the kernel has a point on it."""
    from plotly.subplots import make_subplots

    pipes, cores = len({pipe for _, pipe in shares}), {core for core, _ in shares}
    heights = [_PIPE_PIXELS * max(pipes * len(cores), 4), *([_ROOFLINE_PIXELS] if with_point else [])]
    titles = ["busy share of the core's cycles", "operations per second over operations per byte"][: len(heights)]
    frame = chart(
        _TITLE,
        info,
        finding=_finding(kernel, shares),
        subtitle=_facts(kernel),
        key=[_CORES[core] for core in _CORES if core in cores],
        height=160 + sum(heights) + 60 * with_point,
    )
    return make_subplots(
        rows=len(heights),
        cols=1,
        row_heights=heights,
        vertical_spacing=60 / (60 + sum(heights)) if with_point else 0.0,
        subplot_titles=titles,
        figure=frame,
    )


def _how(tables: Mapping[str, pd.DataFrame], info: Info) -> str:
    """Return what to collect so that kernels have counters; empty if others of the run have some."""
    kernels = tables["kernels"]
    if any(column.endswith(_RATIO) and kernels[column].notna().any() for column in map(str, kernels)):
        return ""
    return missing(tables, info, ["--aic-metrics PipeUtilization"], "counters")


def _shares(kernel: pd.Series) -> dict[tuple[str, str], float]:
    """Return the busy percentage by core and pipe, or all recorded ratios if there are no pipes."""
    ratios: dict[tuple[str, str], float] = {}
    for column in (name for name in map(str, kernel.index) if name.endswith(_RATIO)):
        core = next(prefix for prefix in _CORES if column.startswith(prefix))
        cycles = kernel.get(f"{core}total_cycles")
        if cycles is not None and not pd.isna(cycles) and not int(cycles):
            continue  # a core that was not used
        value = kernel[column]
        if not pd.isna(value) and np.isfinite(float(value)):
            ratios[core, column.removeprefix(core).removesuffix(_RATIO)] = 100 * float(value)
    pipes = {key: value for key, value in ratios.items() if key[1] in _PIPES}
    chosen = pipes or ratios
    return dict(sorted(chosen.items(), key=lambda item: _order(item[0][1])))


def _order(pipe: str) -> tuple[int, str]:
    return (_PIPES.index(pipe) if pipe in _PIPES else len(_PIPES), pipe)


def _bars(shares: Mapping[tuple[str, str], float], kernel: pd.Series) -> list[Any]:
    import plotly.graph_objects as go

    bars = []
    for core, (name, colour) in _CORES.items():
        of_core = {pipe: value for (which, pipe), value in shares.items() if which == core}
        if not of_core:
            continue
        hover = [
            f"<b>{label(pipe, 40)}</b> {_MEANINGS.get(pipe, '')}<br>{value:.1f} % of the {name}'s cycles"
            f"{_time(kernel, core, pipe)}"
            for pipe, value in of_core.items()
        ]
        bars.append(
            go.Bar(
                name=name,
                orientation="h",
                y=[_place(pipe) for pipe in of_core],
                x=list(of_core.values()),
                text=[f"{value:.1f} %" for value in of_core.values()],
                textposition="outside",
                cliponaxis=False,
                marker={"color": colour, "line": {"width": 0}},
                hovertext=hover,
                hovertemplate="%{hovertext}<extra></extra>",
            )
        )
    return bars


def _place(pipe: str) -> str:
    meaning = _MEANINGS.get(pipe)
    return f"{pipe} · {meaning}" if meaning else label(pipe, 40)


def _time(kernel: pd.Series, core: str, pipe: str) -> str:
    value = kernel.get(f"{core}{pipe}_time_ns")
    return "" if value is None or pd.isna(value) else f"<br>{duration(int(value))}"


def _facts(kernel: pd.Series) -> str:
    """Return a kernel's name, type, duration, blocks and shapes on one line."""
    blocks = kernel.get("block_num")
    parts = [
        label(kernel["name"], 48),
        label(kernel["op_type"], 30) if isinstance(kernel["op_type"], str) else "",
        duration(int(kernel["duration_ns"])),
        "" if blocks is None or pd.isna(blocks) else counted(int(blocks), "block"),
        label(kernel["input_shapes"], 48) if isinstance(kernel["input_shapes"], str) else "",
    ]
    return " · ".join(filter(None, parts))

"""The breakdown of steps: computing, waiting, moving data, copies and idle time, for every rank."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from npuprof.analysis.accounting import IDLE
from npuprof.figures.chart import chart, nothing
from npuprof.figures.colours import FAINT, PARTS
from npuprof.figures.time_axis import thinned, unit_of
from npuprof.info import Info
from npuprof.quantities import count, duration, share

if TYPE_CHECKING:
    import plotly.graph_objects as go

_TITLE = "Steps"
NAMES = {
    "computing": "computing",
    "waiting": "waiting for other ranks",
    "moving": "moving data",
    "communication": "communication",
    "copy": "copies",
    "idle": "idle",
}
"""Names of the bars by part; the three idle parts share one bar."""
_WHY = (
    "this run has no steps with device time<br>"
    "mark them with prof.step() or a schedule, or load a result with step_trace_time.csv, to have them"
)


def plot_step_parts(parts: pd.DataFrame, info: Info, *, max_bars: int = 240) -> go.Figure:
    """Draw the breakdown of steps, one stacked bar per step and device or rank.

    Parameters
    ----------
    parts
        Steps of one run or of several ranks, from :meth:`npuprof.analysis.accounting.Accounting.by_part`.
    max_bars
        Maximum number of bars, at least 4; beyond that, the first and last step and the longest and shortest of each
        interval are drawn.

    Returns
    -------
    plotly.graph_objects.Figure
        The parts of each bar add up to the step. The title says whether they come from the vendor's step trace.
    """
    import plotly.graph_objects as go

    parts = parts[parts["basis"] != "run"] if len(parts) else parts
    if not len(parts):
        return nothing(_TITLE, info, _WHY)
    drawn = _chosen(parts, max_bars)
    drawn = drawn.assign(idle=drawn[list(IDLE)].sum(axis=1))
    figure = chart(_TITLE, info, subtitle=_subtitle(parts, drawn))
    unit_ns, unit = unit_of(int(drawn["duration_ns"].max()))
    places = _places(drawn)
    for part, name in NAMES.items():
        values = drawn[part].to_numpy(np.int64)
        if part not in ("computing", "idle") and not values.any():
            continue
        rows = zip(places["hover"], values.tolist(), drawn["duration_ns"].tolist(), strict=True)
        figure.add_trace(
            go.Bar(
                name=name,
                x=[places["step"], places["place"]] if places["several"] else places["step"],
                y=values / unit_ns,
                marker={"color": PARTS[part], "line": {"width": 0}},
                hovertext=[
                    f"<b>{where}</b><br>{name}: {duration(part)} ({share(part, whole)} of the step)"
                    for where, part, whole in rows
                ],
                hovertemplate="%{hovertext}<extra></extra>",
            )
        )
    gap = max(0.15, 1 - len(drawn) / 8)  # keeps a few bars narrower than the figure
    figure.update_layout(barmode="stack", bargap=gap, margin={"b": 80}, legend={"traceorder": "normal"})
    figure.update_yaxes(ticksuffix=f" {unit}", rangemode="tozero", exponentformat="none")
    kind = "multicategory" if places["several"] else "category"
    figure.update_xaxes(type=kind, showgrid=False, dividercolor=FAINT)
    return figure


def _chosen(parts: pd.DataFrame, max_bars: int) -> pd.DataFrame:
    """Order the rows by step, then by rank or device, and select the rows to draw."""
    keys = ["rank", "device_id"]
    ordered = parts.reset_index(drop=True)
    ordered = ordered.assign(at=ordered.groupby(keys, dropna=False).cumcount())
    ordered = ordered.sort_values(["step", "at", *keys], kind="stable", na_position="last")
    groups = [group for _, group in ordered.groupby(keys, dropna=False, sort=True)]
    most = max(4, max_bars // len(groups))
    kept = [group.iloc[thinned(group["duration_ns"].to_numpy(np.float64), most)].index for group in groups]
    chosen = set(np.concatenate(kept[: max(1, max_bars // 4)]).tolist())
    drawn: pd.DataFrame = ordered[[row in chosen for row in ordered.index]]
    return drawn


def _places(drawn: pd.DataFrame) -> dict[str, Any]:
    steps = ["no step" if pd.isna(step) else f"step {step}" for step in drawn["step"]]
    places = [
        f"rank {rank}" if not pd.isna(rank) else "" if pd.isna(device) else f"NPU {device}"
        for rank, device in zip(drawn["rank"], drawn["device_id"], strict=True)
    ]
    hover = [f"{step}, {who}" if who else step for step, who in zip(steps, places, strict=True)]
    if drawn.duplicated(["step", "rank", "device_id"]).any():  # rows in the same place would be stacked on each other
        places = [f"{who} · {at + 1}" for who, at in zip(places, drawn["at"], strict=True)]
    return {"step": steps, "place": places, "hover": hover, "several": len(set(places)) > 1}


def _subtitle(parts: pd.DataFrame, drawn: pd.DataFrame) -> str:
    vendor = parts["basis"] == "step_times"
    words = ["from the vendor's step trace" if vendor.any() else "computed from the device's tasks in each step"]
    if vendor.any() and not vendor.all():
        words = ["partly from the vendor's step trace, partly computed"]
    if "joined" in parts and parts["joined"].any():
        words.append("waiting and moving from when the ranks came to their collectives")
    if len(drawn) < len(parts):
        words.append(f"{count(len(drawn))} of {count(len(parts))} bars: the longest and shortest of each range")
    return " · ".join(words)

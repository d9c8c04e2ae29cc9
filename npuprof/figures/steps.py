"""The breakdown of steps: computing, waiting, moving data, copies and idle time, for every rank."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from npuprof.analysis.accounting import IDLE
from npuprof.analysis.host_accounting import HOST
from npuprof.figures.chart import chart, nothing
from npuprof.figures.colours import FAINT, PARTS, PATTERNS
from npuprof.figures.time_axis import thinned, unit_of
from npuprof.tables.info import Info
from npuprof.words.quantities import count, duration, share

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
    "between_steps": "between steps",
    "not_recorded": "not recorded",
    "host": "host, without a device",
}
"""Names of the bars by part; the three idle parts share one bar."""
_WHY = "this run has no steps with device time"


def how_to_mark(info: Info) -> tuple[str, str]:
    """Return what to do so that a run, or a set, has steps, and that for a run of torch's own profiler."""
    if "npuprof" in info.versions:
        return ("mark them with npuprof.step()",) * 2
    how = "mark them with prof.step() or a schedule"
    return f"{how}, or load results with step_trace_time.csv", how


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
        return nothing(_TITLE, info, _WHY, *how_to_mark(info))
    visible_rows = _rows_to_draw(parts, max_bars)
    visible_rows = visible_rows.assign(idle=visible_rows[list(IDLE)].sum(axis=1))
    figure = chart(_TITLE, info, subtitle=_subtitle(parts, visible_rows))
    unit_ns, unit = unit_of(int(visible_rows["duration_ns"].max()))
    places = _places(visible_rows)
    for part, name in NAMES.items():
        values = visible_rows[part].to_numpy(np.int64)
        if not values.any() and (part not in ("computing", "idle") or visible_rows[HOST].any()):
            continue
        rows = zip(places["hover"], values.tolist(), visible_rows["duration_ns"].tolist(), strict=True)
        figure.add_trace(
            go.Bar(
                name=name,
                x=[places["step"], places["place"]] if places["several"] else places["step"],
                y=values / unit_ns,
                marker=_look(part),
                hovertext=[
                    f"<b>{where}</b><br>{name}: {duration(part)} ({share(part, whole)} of the step)"
                    for where, part, whole in rows
                ],
                hovertemplate="%{hovertext}<extra></extra>",
            )
        )
    gap = max(0.15, 1 - len(visible_rows) / 8)  # keeps a few bars narrower than the figure
    figure.update_layout(barmode="stack", bargap=gap, margin={"b": 80}, legend={"traceorder": "normal"})
    figure.update_yaxes(ticksuffix=f" {unit}", rangemode="tozero", exponentformat="none")
    kind = "multicategory" if places["several"] else "category"
    figure.update_xaxes(type=kind, showgrid=False, dividercolor=FAINT)
    return figure


def _look(part: str) -> dict[str, Any]:
    pattern = {"shape": PATTERNS.get(part, ""), "size": 6, "solidity": 0.2}
    return {"color": PARTS[part], "line": {"width": 0}, "pattern": pattern}


def _rows_to_draw(parts: pd.DataFrame, max_bars: int) -> pd.DataFrame:
    """Order the rows by step, then by rank or device, and select the rows to draw."""
    keys = ["rank", "device_id"]
    ordered = parts.reset_index(drop=True)
    ordered = ordered.assign(at=ordered.groupby(keys, dropna=False).cumcount())
    ordered = ordered.sort_values(["step", "at", *keys], kind="stable", na_position="last")
    groups = [group for _, group in ordered.groupby(keys, dropna=False, sort=True)]
    limit = max(4, max_bars // len(groups))
    kept = [group.iloc[thinned(group["duration_ns"].to_numpy(np.float64), limit)].index for group in groups]
    chosen = set(np.concatenate(kept[: max(1, max_bars // 4)]).tolist())
    visible_rows: pd.DataFrame = ordered[[row in chosen for row in ordered.index]]
    return visible_rows


def _places(visible_rows: pd.DataFrame) -> dict[str, Any]:
    steps = ["no step" if pd.isna(step) else f"step {step}" for step in visible_rows["step"]]
    places = [
        f"rank {rank}" if not pd.isna(rank) else "" if pd.isna(device) else f"device {device}"
        for rank, device in zip(visible_rows["rank"], visible_rows["device_id"], strict=True)
    ]
    hover = [f"{step}, {who}" if who else step for step, who in zip(steps, places, strict=True)]
    if visible_rows.duplicated(
        ["step", "rank", "device_id"]
    ).any():  # rows in the same place would be stacked on each other
        places = [f"{who} · {at + 1}" for who, at in zip(places, visible_rows["at"], strict=True)]
    return {"step": steps, "place": places, "hover": hover, "several": len(set(places)) > 1}


def _subtitle(parts: pd.DataFrame, visible_rows: pd.DataFrame) -> str:
    vendor = parts["basis"] == "step_times"
    words = ["from the vendor's step trace" if vendor.any() else "computed from the device's tasks in each step"]
    if vendor.any() and not vendor.all():
        words = ["partly from the vendor's step trace, partly computed"]
    if visible_rows[HOST].any():
        words = ["no device was recorded: breakdown() divides the steps by what the host did"]
    if "joined" in parts and parts["joined"].any():
        words.append("waiting and moving from when the ranks came to their collectives")
    if len(visible_rows) < len(parts):
        words.append(f"{count(len(visible_rows))} of {count(len(parts))} bars: the longest and shortest of each range")
    return " · ".join(words)

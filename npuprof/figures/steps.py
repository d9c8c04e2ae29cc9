"""The breakdown of steps: computing, waiting, moving data, copies and idle time, for every rank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from npuprof.analysis.accounting import IDLE
from npuprof.analysis.basis import basis_of
from npuprof.analysis.host_accounting import HOST
from npuprof.figures.chart import chart, nothing, spread
from npuprof.figures.colours import FAINT, PARTS, ink
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
_MOST_FLAT = 8  # bars that lie, with their times inside
_MOST_TICKS = 24
_MOST_APART = 60  # bars with gaps between them


def how_to_mark(info: Info) -> tuple[str, str]:
    """Return what to do so that a run, or a set, has steps, and that for a run of torch's own profiler."""
    if "npuprof" in info.versions:
        return ("mark them with npuprof.step()",) * 2
    how = "mark them with prof.step() or a schedule"
    return f"{how}, or load results with step_trace_time.csv", how


def plot_step_parts(parts: pd.DataFrame, info: Info, *, finding: str = "", max_bars: int = 240) -> go.Figure:
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
        The parts of each bar add up to the step. Below the title are their shares of the steps that count for figures
        per step, and whether they come from the vendor's step trace.
    """
    import plotly.graph_objects as go

    parts = parts[parts["basis"] != "run"] if len(parts) else parts
    if not len(parts):
        return nothing(_TITLE, info, _WHY, *how_to_mark(info))
    parts = parts.assign(idle=parts[list(IDLE)].sum(axis=1))
    visible_rows = _rows_to_draw(parts, max_bars)
    is_flat = len(visible_rows) <= _MOST_FLAT
    drawn = [part for part in NAMES if visible_rows[part].any()]
    figure = chart(
        _TITLE,
        info,
        finding=finding,
        subtitle=_subtitle(parts, visible_rows),
        key=_key(parts, drawn),
        height=116 + 36 * len(visible_rows) if is_flat else 400,
    )
    unit_ns, unit = unit_of(int(visible_rows["duration_ns"].max()))
    places = _places(visible_rows)
    where = [places["step"], places["place"]] if places["several"] else places["step"]
    for part in drawn:
        values = visible_rows[part].to_numpy(np.int64)
        rows = zip(places["hover"], values.tolist(), visible_rows["duration_ns"].tolist(), strict=True)
        figure.add_trace(
            go.Bar(
                name=NAMES[part],
                orientation="h" if is_flat else "v",
                x=values / unit_ns if is_flat else where,
                y=where if is_flat else values / unit_ns,
                marker={"color": PARTS[part], "line": {"width": 0}},
                text=[duration(value) if value else "" for value in values.tolist()] if is_flat else None,
                textposition="inside" if is_flat else "none",
                insidetextanchor="middle",
                insidetextfont={"color": ink(PARTS[part])},
                textangle=0,
                hovertext=[
                    f"<b>{at}</b><br>{NAMES[part]}: {duration(value)} ({share(value, whole)} of the step)"
                    for at, value, whole in rows
                ],
                hovertemplate="%{hovertext}<extra></extra>",
            )
        )
    times = {"ticksuffix": f" {unit}", "rangemode": "tozero", "exponentformat": "none"}
    names: dict[str, Any] = {
        "type": "multicategory" if places["several"] else "category",
        "showgrid": False,
        "dividercolor": FAINT,
    }
    if is_flat:
        names |= {"autorange": "reversed"}
    elif not places["several"] and not visible_rows["step"].isna().any():
        kept = spread(list(range(len(where))), _MOST_TICKS)
        names |= {"tickvals": [where[at] for at in kept], "ticktext": [where[at].removeprefix("step ") for at in kept]}
        names |= {"title_text": "step"}
    figure.update_layout(
        barmode="stack",
        bargap=0.2 if len(visible_rows) <= _MOST_APART else 0,
        margin_b=36,
        uniformtext={"minsize": 9, "mode": "hide"},
    )
    figure.update_xaxes(times if is_flat else names)
    figure.update_yaxes(names if is_flat else times)
    return figure


def _key(parts: pd.DataFrame, drawn: Sequence[str]) -> list[tuple[str, str]]:
    """Return name, share and colour of each part, with the report's shares."""
    counted = parts.iloc[basis_of(parts).rows]
    whole = int(counted["duration_ns"].sum())
    return [(f"{NAMES[part]} {share(int(counted[part].sum()), whole)}", PARTS[part]) for part in drawn]


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
    return ordered[[row in chosen for row in ordered.index]]


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

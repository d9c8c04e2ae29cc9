"""A pipeline's stages over time: the microbatch that each stage works on, and where it waits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from npuprof.figures.chart import chart, nothing
from npuprof.figures.colours import ACTIVITIES, FAINT, PARTS, ink
from npuprof.figures.time_axis import unit_of
from npuprof.tables.info import Info
from npuprof.words.quantities import duration, share

if TYPE_CHECKING:
    import plotly.graph_objects as go

_TITLE = "Pipeline"
_HOW = "load the ranks of all stages of a pipeline"
_KINDS = {
    "forward": ("forward pass", ACTIVITIES["forward"]),
    "backward": ("backward pass", ACTIVITIES["backward"]),
    "forward and backward": ("forward and backward pass", ACTIVITIES["other_operators"]),
    "work": ("work", PARTS["computing"]),
    "waiting": ("waiting for another stage", PARTS["waiting"]),
    "moving": ("moving data", PARTS["moving"]),
}
_MOST_BARS = 4000


def plot_stages(work: pd.DataFrame, info: Info, *, subtitle: str = "") -> go.Figure:
    """Draw the stages of a pipeline over a step, with the number of the microbatch on each bar."""
    if not len(work):
        return nothing(_TITLE, info, "no ranks send to each other", f"{_HOW}, collected at level 1 or higher", _HOW)
    begin = int(work["start_ns"].min())
    unit_ns, unit = unit_of(int((work["start_ns"] + work["duration_ns"]).max()) - begin)
    shown = work.nlargest(_MOST_BARS, "duration_ns").sort_values(["stage", "start_ns"])
    stages = work[["stage", "rank"]].drop_duplicates().sort_values("stage")
    unnumbered = "no schedule fits the sends and receives: microbatches are not numbered"
    lines = " · ".join(filter(None, (subtitle, "" if work["microbatch"].notna().any() else unnumbered)))
    idle = work[(work["kind"] == "waiting").to_numpy(bool)].groupby("stage")["duration_ns"].sum()
    whole = work.groupby("stage")["duration_ns"].sum()
    waits = {stage: share(int(idle.get(stage, 0)), int(whole[stage])) for stage in stages["stage"]}
    figure = chart(
        _TITLE,
        info,
        finding=_finding(idle / whole, waits),
        subtitle=lines,
        key=[_KINDS[kind] for kind in _KINDS if (shown["kind"] == kind).any()],
        height=120 + max(90, min(520, 44 * len(stages))),
    )
    for kind in _KINDS:
        bars = shown[(shown["kind"] == kind).to_numpy(bool)]
        if len(bars):
            figure.add_trace(_bars(kind, bars, begin, unit_ns))
    figure.update_yaxes(
        range=[len(stages) - 0.5, -0.5],
        tickvals=stages["stage"].tolist(),
        ticktext=[
            f"stage {stage} · rank {rank}<br>waits {waits[stage]}"
            for stage, rank in zip(stages["stage"], stages["rank"], strict=True)
        ],
        showgrid=False,
    )
    figure.update_xaxes(ticksuffix=f" {unit}", exponentformat="none", rangemode="tozero")
    return figure.update_layout(barmode="overlay", margin_b=36, uniformtext={"minsize": 9, "mode": "hide"})


def _finding(parts: pd.Series[float], waits: Mapping[int, str]) -> str:
    """Return how much of their time the stages wait; empty if none does."""
    parts = parts.fillna(0)
    if not len(parts) or not parts.max():
        return ""
    if len(parts) == 2:
        (first, share_of_first), (second, share_of_second) = waits.items()
        return f"Stage {first} waits {share_of_first} of its time, stage {second} {share_of_second}"
    longest = int(parts.to_numpy().argmax())
    stage, waited = list(waits.items())[longest]
    return f"Stage {stage} waits longest: {waited} of its time"


def _bars(kind: str, bars: pd.DataFrame, begin: int, unit_ns: int) -> Any:
    """Return the bars of one kind of work, with their microbatch numbers."""
    import plotly.graph_objects as go

    name, colour = _KINDS[kind]
    numbers = ["" if pd.isna(number) else str(number) for number in bars["microbatch"]]
    rows = zip(bars["stage"], bars["rank"], numbers, bars["duration_ns"], strict=True)
    hover = [
        f"<b>stage {stage}, rank {rank}</b><br>{name}{f', microbatch {number}' if number else ''}: "
        f"{duration(int(duration_ns))}"
        for stage, rank, number, duration_ns in rows
    ]
    return go.Bar(
        name=name,
        orientation="h",
        base=((bars["start_ns"].to_numpy(np.int64) - begin) / unit_ns).astype(np.float32),
        x=(bars["duration_ns"].to_numpy(np.int64) / unit_ns).astype(np.float32),
        y=bars["stage"].to_numpy(np.int16),
        width=0.8,
        marker={"color": colour, "line": {"width": 0.5, "color": FAINT}},
        text=numbers,
        textposition="inside",
        insidetextanchor="middle",
        insidetextfont={"size": 10, "color": ink(colour)},
        textangle=0,
        constraintext="inside",
        hovertext=hover,
        hovertemplate="%{hovertext}<extra></extra>",
    )

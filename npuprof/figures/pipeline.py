"""A pipeline's stages over time: the microbatch that each works on, and where it waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from npuprof.figures.chart import chart, nothing
from npuprof.figures.colours import FAMILIES, PARTS
from npuprof.figures.time_axis import unit_of
from npuprof.info import Info
from npuprof.quantities import duration, share

if TYPE_CHECKING:
    import plotly.graph_objects as go

_TITLE = "Pipeline"
_WHY = "no ranks send to each other<br>load the ranks of all stages of a pipeline, collected at level 1 or higher"
_KINDS = {
    "forward": ("forward pass", FAMILIES["matrix"].colour, "#ffffff"),
    "backward": ("backward pass", FAMILIES["operator"].colour, "#111111"),
    "forward and backward": ("forward and backward pass", FAMILIES["python"].colour, "#111111"),
    "work": ("work", FAMILIES["computing"].colour, "#111111"),
    "waiting": ("waiting for another stage", PARTS["waiting"], "#111111"),
    "moving": ("moving data", PARTS["moving"], "#111111"),
}
_MOST_BARS = 4000


def plot_stages(work: pd.DataFrame, info: Info, *, subtitle: str = "") -> go.Figure:
    """Draw the stages of a pipeline over a step, with the number of the microbatch on each bar.

    Parameters
    ----------
    work
        As :func:`npuprof.analysis.rank_pipeline.pipeline_work` returns them.
    """
    import plotly.graph_objects as go

    if not len(work):
        return nothing(_TITLE, info, _WHY)
    begin = int(work["start_ns"].min())
    unit_ns, unit = unit_of(int((work["start_ns"] + work["duration_ns"]).max()) - begin)
    shown = work.nlargest(_MOST_BARS, "duration_ns").sort_values(["stage", "start_ns"])
    stages = work[["stage", "rank"]].drop_duplicates().sort_values("stage")
    told = "" if work["microbatch"].notna().any() else "no schedule fits the sends and receives: microbatches not told"
    lines = " · ".join(filter(None, (subtitle, told)))
    figure = chart(_TITLE, info, subtitle=lines, height=170 + max(100, min(520, 34 * len(stages))))
    for kind, (name, colour, ink) in _KINDS.items():
        own = shown[(shown["kind"] == kind).to_numpy(bool)]
        if not len(own):
            continue
        numbers = ["" if pd.isna(one) else str(one) for one in own["microbatch"]]
        figure.add_trace(
            go.Bar(
                name=name,
                orientation="h",
                base=((own["start_ns"].to_numpy(np.int64) - begin) / unit_ns).astype(np.float32),
                x=(own["duration_ns"].to_numpy(np.int64) / unit_ns).astype(np.float32),
                y=own["stage"].to_numpy(np.int16),
                width=0.8,
                marker={"color": colour, "line": {"width": 0.5, "color": "rgba(255,255,255,.5)"}},
                text=numbers,
                textposition="inside",
                insidetextanchor="middle",
                insidetextfont={"size": 10, "color": ink},
                textangle=0,
                constraintext="inside",
                hovertext=[
                    f"<b>stage {stage}, rank {rank}</b><br>{name}{f', microbatch {number}' if number else ''}: "
                    f"{duration(int(time))}"
                    for stage, rank, number, time in zip(
                        own["stage"], own["rank"], numbers, own["duration_ns"], strict=True
                    )
                ],
                hovertemplate="%{hovertext}<extra></extra>",
            )
        )
    idle = work[(work["kind"] == "waiting").to_numpy(bool)].groupby("stage")["duration_ns"].sum()
    whole = work.groupby("stage")["duration_ns"].sum()
    figure.update_yaxes(
        range=[len(stages) - 0.5, -0.5],
        tickvals=stages["stage"].tolist(),
        ticktext=[
            f"stage {stage} · rank {rank}<br>waits {share(int(idle.get(stage, 0)), int(whole[stage]))}"
            for stage, rank in zip(stages["stage"], stages["rank"], strict=True)
        ],
        showgrid=False,
    )
    figure.update_xaxes(ticksuffix=f" {unit}", exponentformat="none", rangemode="tozero")
    figure.update_layout(barmode="overlay", margin={"b": 84}, uniformtext={"minsize": 8, "mode": "hide"})
    return figure

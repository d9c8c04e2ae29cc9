"""The layout that all charts share, and text from a recording on them."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

import numpy as np

from npuprof.analysis.device_words import by_front_end
from npuprof.figures.colours import FAINT, FOREGROUND, MODEBAR
from npuprof.tables.info import Info
from npuprof.words.quantities import printable

if TYPE_CHECKING:
    import plotly.graph_objects as go


UNNAMED = "(unnamed)"
"""Text for an absent name."""


def label(name: object, longest: int) -> str:
    """Return a name as text for a figure: at most `longest` characters, no control characters, escaped.

    Plotly reads a subset of HTML in every text, and formulas between dollar signs where MathJax is loaded.
    """
    if not isinstance(name, str):
        return UNNAMED
    return html.escape(printable(name, longest), quote=False).replace("$", "&#36;")


def moment(epoch_ns: int) -> str:
    """Format a UTC time to the nanosecond, in integer arithmetic."""
    return f"{np.datetime64(epoch_ns, 'ns')}".replace("T", " ") + " UTC"


AXIS = {"gridcolor": FAINT, "zeroline": False, "linecolor": FAINT, "automargin": True}
"""Options of every axis."""

_HEIGHT = 420
_LONGEST_LINE = 52  # characters that fit in half the width of a notebook
_LINE_PIXELS = 14


def chart(title: str, info: Info, *, subtitle: str = "", height: int = _HEIGHT) -> go.Figure:
    """Make a figure without traces: title, margins and colours for light and dark themes.

    Text from a recording must have passed :func:`label`. Long subtitles are broken into lines at their dots.
    """
    import plotly.graph_objects as go

    figure = go.Figure(layout={"template": go.layout.Template()})
    simulated = " · <b>simulated NPU</b>" if info.simulated else ""
    name = f" · {label(info.name, 60)}" if info.name else ""
    lines = _lines(subtitle)
    figure.update_layout(
        title={
            "text": f"{title}{name}{simulated}" + "".join(f"<br><sup>{line}</sup>" for line in lines),
            "font": {"size": 15},
            "x": 0.01,  # of the figure: relative to the plot, long axis labels would cut it
            "xref": "container",
            "y": 1,
            "yref": "container",
            "yanchor": "top",
            "pad": {"t": 22},
        },
        height=height + _LINE_PIXELS * max(len(lines) - 1, 0),
        margin={"l": 10, "r": 10, "t": 80 + _LINE_PIXELS * max(len(lines) - 1, 0), "b": 20},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"color": FOREGROUND, "size": 11},
        legend={"orientation": "h", "x": 0, "xanchor": "left", "yref": "container", "y": 0, "yanchor": "bottom"},
        hovermode="closest",
        modebar=dict(MODEBAR),
    )
    figure.update_xaxes(**AXIS)
    figure.update_yaxes(**AXIS)
    return figure


NOT_OF_TORCH = "torch.profiler does not record them"


def nothing(title: str, info: Info, missing: str, how: str = "", of_torch: str = NOT_OF_TORCH) -> go.Figure:
    """Make the figure of a run without data, which says what is missing; ``<br>`` is between lines.

    `how` says how to have it, and `of_torch` replaces that for a run that torch's own profiler recorded.
    """
    figure = chart(title, info, height=200)
    reason = "<br>".join(filter(None, [missing, how and by_front_end(info, how, of_torch)]))
    figure.add_annotation(text=reason, showarrow=False, x=0.5, y=0.5, xref="paper", yref="paper", font={"size": 13})
    figure.update_layout(xaxis={"visible": False}, yaxis={"visible": False})
    return figure


def _lines(subtitle: str) -> list[str]:
    lines: list[str] = []
    for part in filter(None, subtitle.split(" · ")):
        if lines and len(lines[-1]) + len(part) < _LONGEST_LINE:
            lines[-1] += f" · {part}"
        else:
            lines.append(part)
    return lines


def spread(values: list[Any], limit: int) -> list[Any]:
    """Return at most `limit` evenly spaced elements, including the first and the last."""
    if len(values) <= limit:
        return values
    return [values[place * (len(values) - 1) // (limit - 1)] for place in range(limit)]

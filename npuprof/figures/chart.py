"""The layout that all figures share, and text from a recording on them."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from textwrap import wrap
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
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"
_TITLE_PIXELS, _TEXT_PIXELS, _LINE_PIXELS = 16, 12, 17
_LONGEST_TITLE, _LONGEST_LINE = 60, 80  # about 520 pixels, as wide as narrow outputs are
_TAG = re.compile(r"<[^>]*>")


def chart(
    kind: str,
    info: Info,
    *,
    finding: str = "",
    subtitle: str = "",
    key: Iterable[tuple[str, str]] = (),
    height: int = _HEIGHT,
) -> go.Figure:
    """Make a figure without traces: title, margins and colours for light and dark themes.

    Text from a recording must have passed :func:`label`, but for the finding.
    """
    import plotly.graph_objects as go

    large = _wrapped(finding, _LONGEST_TITLE) or [kind]
    about = [kind if finding else "", label(info.name, 60) if info.name else ""]
    about += ["<b>simulated NPU</b>" if info.simulated else "", *subtitle.split(" · ")]
    small = _joined(filter(None, about), " · ")
    small += _joined((swatch(*entry) for entry in key), "   ")
    title = [f'<span style="font-size:{_TITLE_PIXELS}px"><b>{line}</b></span>' for line in large]
    more = _LINE_PIXELS * max(len(large) + len(small) - 2, 0)
    layout = {
        "template": go.layout.Template(),
        "title": {
            "text": "<br>".join([*title, *small]),
            "font": {"size": _TEXT_PIXELS + 1, "weight": "normal"},
            "x": 0,  # of the figure: relative to the plot, long axis labels would cut it
            "xref": "container",
            "y": 1,
            "yref": "container",
            "yanchor": "top",
            "pad": {"t": 20, "l": 10},
        },
        "height": height + more,
        "margin": {"l": 10, "r": 16, "t": 76 + more, "b": 20},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": _FONT, "color": FOREGROUND, "size": _TEXT_PIXELS},
        "showlegend": False,
        "hovermode": "closest",
        "modebar": dict(MODEBAR),
        "xaxis": AXIS,
        "yaxis": AXIS,
    }
    return go.Figure(layout=layout)


NOT_OF_TORCH = "torch.profiler does not record them"


def nothing(kind: str, info: Info, missing: str, how: str = "", of_torch: str = NOT_OF_TORCH) -> go.Figure:
    """Make the figure of a run without data; it states the missing data, with ``<br>`` between lines.

    `how` says how to have it, and `of_torch` replaces that for a run that torch's own profiler recorded.
    """
    figure = chart(kind, info, height=200)
    reason = "<br>".join(filter(None, [missing, how and by_front_end(info, how, of_torch)]))
    figure.add_annotation(text=reason, showarrow=False, x=0.5, y=0.5, xref="paper", yref="paper", font={"size": 13})
    figure.update_layout(xaxis={"visible": False}, yaxis={"visible": False})
    return figure


def swatch(name: str, colour: str, mark: str = "■") -> str:
    """Return a name behind a square of its colour."""
    return f'<span style="color:{colour}">{mark}</span> {name}'


def _wrapped(text: str, longest: int) -> list[str]:
    """Return the lines of a text, escaped, about equally long and broken at spaces."""
    lines = wrap(text, longest)
    if len(lines) > 1:
        lines = wrap(text, min(longest, len(text) // len(lines) + 8))
    return [html.escape(line, quote=False).replace("$", "&#36;") for line in lines]


def _joined(parts: Iterable[str], between: str) -> list[str]:
    """Return parts as few lines."""
    lines: list[str] = []
    length = 0
    for part in parts:
        wide = len(html.unescape(_TAG.sub("", part))) + len(between)
        if lines and length + wide <= _LONGEST_LINE:
            lines[-1] += between + part
            length += wide
        else:
            lines.append(part)
            length = wide
    return lines


def name_ends(figure: go.Figure, ends: Sequence[tuple[str, str, float, float]], top: float, pixels: float) -> None:
    """Write names in their colours beside the ends of the lines of the first plot, none upon another.

    Parameters
    ----------
    ends
        Name, colour, and x and y of the end of each line; only as many as there is room for are named.
    """
    least = 14 * top / max(pixels, 1)
    places: list[float] = []
    ordered = sorted(ends[: int(pixels // 14)], key=lambda end: end[3])
    for *_, value in ordered:
        places.append(max(value, places[-1] + least) if places else value)
    over = max(places[-1] - top, 0) if places else 0
    for (name, colour, x, _), y in zip(ordered, places, strict=True):
        figure.add_annotation(
            text=name, x=x, xref="x", xanchor="left", xshift=6, y=y - over, yref="y", yanchor="middle",
            showarrow=False, align="left", font={"color": colour},
        )  # fmt: skip
    longest = max((len(html.unescape(name)) for name, *_ in ends), default=0)
    figure.update_layout(margin_r=16 + 7 * longest)


def spread(values: list[Any], limit: int) -> list[Any]:
    """Return at most `limit` evenly spaced elements, including the first and the last."""
    if len(values) <= limit:
        return values
    return [values[place * (len(values) - 1) // (limit - 1)] for place in range(limit)]

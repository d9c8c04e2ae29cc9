"""Figures as JSON for a notebook's output or a self-contained page, and their size there."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import plotly.graph_objects as go

MIMETYPE = "application/vnd.plotly.v1+json"

CONFIG: Mapping[str, Any] = {
    "displaylogo": False,
    "showSendToCloud": False,  # profiling data stays on this machine
}
"""Options of plotly.js for every figure.

They leave out `responsive`: JupyterLab resizes figures itself, and plotly.js would take the height of its output's
padding for that of the figure.
"""


def mimebundle(figure: go.Figure) -> dict[str, Any]:
    """Return a figure in the MIME type that Jupyter front ends draw with plotly.js."""
    drawn = json.loads(figure.to_json())
    drawn["layout"]["meta"] = {"npuprof": True}  # by which notebook/keys.js knows it on a page
    return {MIMETYPE: {**drawn, "config": dict(CONFIG)}}


def saved_bytes(figure: go.Figure) -> int:
    """Return the size of a figure in a saved notebook, where each JSON element is on its own line."""
    notebook = {"cells": [{"outputs": [{"data": mimebundle(figure)}]}]}
    return len(json.dumps(notebook, indent=1, ensure_ascii=False).encode("utf-8", "surrogatepass"))


def label_script() -> str:
    """Return ``keepLabels`` of ``labels.js``, which keeps the names of bars in view while a figure is zoomed."""
    return (Path(__file__).parent / "labels.js").read_text(encoding="utf-8")


def library() -> str:
    """Return a script element with plotly.js and :func:`label_script`."""
    from plotly.offline import get_plotlyjs

    return f"<script>{get_plotlyjs()}\n{label_script()}</script>"


def element(figure: go.Figure, element_id: str, title: str) -> str:
    """Return the elements that draw a figure on a page that has :func:`library`.

    No text in the figure can end the script element: ``<``, ``>`` and ``&`` are written as JSON escapes.
    """
    config = _in_script(json.dumps({**CONFIG, "responsive": True}))
    height = figure.layout.height  # of the element too: a figure that is resized fills it
    style = f' style="height:{height:.0f}px"' if height else ""
    target = html.escape(element_id)
    return (
        f'<div id="{target}" role="img" aria-label="{html.escape(title)}"{style}></div>'
        f"<script>(function () {{ var figure = {_in_script(figure.to_json())};"
        f" Plotly.newPlot({_in_script(json.dumps(element_id))}, figure.data, figure.layout, {config})"
        ".then(keepLabels); })();</script>"
    )


def _in_script(text: str) -> str:
    return text.translate({ord(character): f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"})

"""Exports of the timeline's window: an interactive page without a kernel, a trace, a line of code."""

from __future__ import annotations

import io
import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy.typing as npt

from npuprof.errors import OptionsError
from npuprof.exports import chrome_trace
from npuprof.notebook.explorer.canvas import CanvasWidget, as_bytes, script
from npuprof.quantities import count
from npuprof.ranks.together import separated
from npuprof.sources.slicing import within
from npuprof.timeline.state import Timeline

PAGE_BARS = 100_000
"""Maximum number of bars of a page."""

_MOST_ROWS = 300_000  # maximum for a trace that is sent through the browser; about 60 MB
_ALONE = (Path(__file__).parent / "canvas" / "alone.js").read_text(encoding="utf-8")
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>:root {{ color-scheme: light dark; }} body {{ margin: 8px; font: 12px system-ui, sans-serif; }}
{style}</style></head>
<body><h1 style="font-size:14px;margin:4px 2px">{title}</h1><div id="place"></div>
<script type="application/json" id="data">{data}</script>
<script type="module">
{script}
</script></body></html>
"""


def code(timeline: Timeline) -> str:
    """Return the line of code that opens the explorer at the window."""
    start, end = timeline.window
    return f"{subject(timeline)}.explore(window=({start}, {end}))"


def subject(timeline: Timeline) -> str:
    """Return the variable name in a line of code: ``run``, or ``runs`` for many ranks."""
    return "runs" if "rank" in timeline.tables["kernels"] else "run"


def trace(timeline: Timeline) -> str:
    """Return the window as a Chrome trace.

    Raises
    ------
    OptionsError
        If the window has too many rows for a browser.
    """
    tables = within(timeline.tables, *timeline.window)
    rows = sum(len(tables[name]) for name in chrome_trace.TABLES)
    if rows > _MOST_ROWS:
        raise OptionsError(
            f"the window has {count(rows)} slices and samples, a trace from here at most {count(_MOST_ROWS)}: "
            f"zoom in, or write the whole run with {subject(timeline)}.to_chrome_trace(path)"
        )
    out = io.StringIO()
    chrome_trace.write(out, separated(tables, timeline.info))
    return out.getvalue()


def page(
    timeline: Timeline,
    setup: Mapping[str, object],
    content: Mapping[str, object],
    arrays: Sequence[npt.NDArray[Any]],
) -> str:
    """Return a self-contained HTML page of the window.

    Parameters
    ----------
    timeline
        The timeline.
    setup, content, arrays
        The first messages to a page, limited to the window.
    """
    start, end = timeline.window
    strip = timeline.overview(start, end)
    data = {
        "setup": {
            **setup,
            "start": start - timeline.origin,
            "end": end - timeline.origin,
            "window": [start - timeline.origin, end - timeline.origin],
            "alone": True,
            "link": None,
        },
        "first": {"content": content, "buffers": [_text(array) for array in arrays]},
        "overview": {"devices": strip.devices, "columns": strip.shares.shape[1], "shares": _text(strip.shares)},
    }
    return _PAGE.format(
        title=escape(f"{timeline.info.name or 'npuprof'}: timeline"),
        style=CanvasWidget._css,
        # "</script" in a name would end the element early.
        data=json.dumps(data).replace("<", "\\u003c"),
        script=script().replace("export default", "const makeWidget =") + _ALONE,
    )


def _text(array: npt.NDArray[Any]) -> str:
    return b64encode(as_bytes(array)).decode()

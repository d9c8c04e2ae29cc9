"""Exports of the timeline's window: an interactive page without a kernel, a trace, a line of code."""

from __future__ import annotations

import io
from html import escape

from npuprof.errors import OptionsError
from npuprof.exports.explorer import saved_explorer
from npuprof.exports.html import page_of
from npuprof.sources.slicing import within
from npuprof.timeline.state import Timeline
from npuprof.words.quantities import count, printable

_LONGEST_TITLE = 400
_MOST_ROWS = 300_000  # maximum for a trace that is sent through the browser; about 60 MB


def code(timeline: Timeline) -> str:
    """Return the line of code that opens the explorer at the window."""
    start, end = timeline.window
    return f"{subject(timeline)}.explore(window=({start}, {end}))"


def subject(timeline: Timeline) -> str:
    """Return the variable name in a line of code: ``run``, or ``runs`` for many ranks."""
    return "runs" if "rank" in timeline.tables["kernels"] else "run"


def trace(timeline: Timeline) -> str:
    """Return the window as a Chrome trace."""
    from npuprof.exports import chrome_trace  # with the readers of what it writes, which drawing does not need
    from npuprof.ranks.together import separated

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


def page(timeline: Timeline) -> str:
    """Return a self-contained HTML page with the explorer of the window; it needs no kernel."""
    tables = within(timeline.tables, *timeline.window)
    part = Timeline(tables, timeline.info)
    part.origin = timeline.origin
    title = f"{timeline.info.name or 'npuprof'}: timeline"
    head = f'<h1 style="font-size:14px">{escape(printable(title, _LONGEST_TITLE))}</h1>'
    return page_of(title, head + saved_explorer(part, None).html, {})

"""The explorer of a run as HTML that needs no kernel, for a page or an output of a notebook."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd

from npuprof.advice.findings import Advice
from npuprof.analysis.code_lines import has_lines
from npuprof.arrays import Int64
from npuprof.browser.findings import drawn_findings, drawn_notes, drawn_path
from npuprof.browser.page import fragment, fragment_bytes
from npuprof.browser.saved_run import save_run
from npuprof.frames import cell_text
from npuprof.info import Info
from npuprof.quantities import printable
from npuprof.timeline.state import Timeline
from npuprof.timeline.svg import timeline_svg

PAGE_BYTES, PAGE_BYTES_A_SLICE = 1_000_000, 8
"""The size of a page: so much for up to 125,000 slices, and so much more for each further one."""

_REPORT_BYTES = 60_000  # of a page: a report of usual size
_MOST_KERNELS = 20_000  # of a run whose critical path is saved: it takes a replay
_LINED = ("python", "operators", "api", "kernels")


def saved_explorer(
    tables: Mapping[str, pd.DataFrame],
    info: Info,
    aligned: Mapping[str, pd.DataFrame],
    advice: Advice,
    critical_path: Callable[[], pd.DataFrame],
    limit_bytes: int | None = None,
    annotations: pd.DataFrame | None = None,
) -> str:
    """Return the explorer of a run as an HTML fragment, with the notes on it; see :func:`explorer_of_timeline`.

    The critical path of a large run is left out.
    """
    timeline = Timeline(tables, info, aligned)
    path = drawn_path(timeline, critical_path) if len(tables["kernels"]) <= _MOST_KERNELS else []
    return explorer_of_timeline(timeline, advice, path, limit_bytes, annotations)


def explorer_of_timeline(
    timeline: Timeline,
    advice: Advice | None,
    path: Sequence[Sequence[int]] = (),
    limit_bytes: int | None = None,
    annotations: pd.DataFrame | None = None,
) -> str:
    """Return the explorer of a timeline's run as an HTML fragment; empty if there is nothing to draw.

    Parameters
    ----------
    timeline, advice, path
        The run, its findings, and its critical path as :func:`npuprof.browser.findings.drawn_path` returns it.
    limit_bytes
        The size of the page or output that it is for; by default :data:`PAGE_BYTES` and :data:`PAGE_BYTES_A_SLICE`.
    annotations
        Notes on the run, as :attr:`npuprof.profiles.Profile.annotations` has them.
    """
    if timeline.empty:
        return ""
    if limit_bytes is None:
        limit_bytes = max(PAGE_BYTES, PAGE_BYTES_A_SLICE * timeline.slices.count)
    picture = timeline_svg(timeline.tables, timeline.info)
    room = (limit_bytes - _REPORT_BYTES - fragment_bytes(picture)) * 3 // 4
    findings = [] if advice is None else drawn_findings(timeline, advice)
    lines = {} if advice is None else _lines(timeline, advice)
    notes = [] if annotations is None else drawn_notes(timeline, annotations)
    run = save_run(timeline, limit_bytes=max(room, 1), findings=findings, lines=lines, path=path, notes=notes)
    return fragment(run, picture)


def _lines(timeline: Timeline, advice: Advice) -> dict[str, tuple[Int64, list[str]]]:
    """Return the line of each call and kernel, by its row among the costs of lines, and what these lines are called."""
    if not has_lines(timeline.tables):
        return {}
    lines = advice.facts.code_lines
    places = [lines.place(row) for row in range(len(lines.table()) - 1)]
    texts = [f"{printable(cell_text(file) or file, 200)}:{line}" for file, line in places]
    return {
        name: (lines.of_rows(name, np.arange(len(timeline.tables[name]), dtype=np.int64)), texts)
        for name in _LINED
        if len(timeline.tables[name])
    }

"""The explorer of a run as HTML that needs no kernel, for a page or an output of a notebook."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from npuprof.advice.findings import Advice, gain
from npuprof.analysis.code_lines import has_lines
from npuprof.arrays import Int64
from npuprof.browser.page import fragment, fragment_bytes
from npuprof.browser.saved_run import SavedRun, save_run
from npuprof.frames import cell_text
from npuprof.info import Info
from npuprof.quantities import duration, printable
from npuprof.timeline.state import Timeline
from npuprof.timeline.svg import timeline_svg

PAGE_BYTES, PAGE_BYTES_A_SLICE = 1_000_000, 8
"""The size of a page: so much for up to 125,000 slices, and so much more for each further one."""

_REPORT_BYTES = 60_000  # of a page: a report of usual size
_MOST_ROWS = 2_000  # of a finding's evidence, the costliest
_LONGEST_TEXT = 1_200
_LINED = ("python", "operators", "api", "kernels")


def saved_explorer(
    tables: Mapping[str, pd.DataFrame],
    info: Info,
    aligned: Mapping[str, pd.DataFrame],
    advice: Advice,
    limit_bytes: int | None = None,
) -> str:
    """Return the explorer of a run as an HTML fragment; see :func:`explorer_of_timeline`."""
    return explorer_of_timeline(Timeline(tables, info, aligned), advice, limit_bytes)


def explorer_of_timeline(timeline: Timeline, advice: Advice | None, limit_bytes: int | None = None) -> str:
    """Return the explorer of a timeline's run as an HTML fragment; empty if there is nothing to draw.

    Parameters
    ----------
    timeline, advice
        The run, and its findings.
    limit_bytes
        The size of the page or output that it is for; by default :data:`PAGE_BYTES` and :data:`PAGE_BYTES_A_SLICE`.
    """
    if timeline.empty:
        return ""
    if limit_bytes is None:
        limit_bytes = max(PAGE_BYTES, PAGE_BYTES_A_SLICE * timeline.slices.count)
    picture = timeline_svg(timeline.tables, timeline.info)
    room = (limit_bytes - _REPORT_BYTES - fragment_bytes(picture)) * 3 // 4
    return fragment(saved_run(timeline, advice, max(room, 1)), picture)


def saved_run(timeline: Timeline, advice: Advice | None = None, limit_bytes: int | None = None) -> SavedRun:
    """Return the data of a run's explorer with its findings and lines, in at most `limit_bytes` where possible."""
    if advice is None:
        return save_run(timeline, limit_bytes=limit_bytes)
    return save_run(
        timeline, limit_bytes=limit_bytes, findings=_findings(timeline, advice), lines=_lines(timeline, advice)
    )


def _findings(timeline: Timeline, advice: Advice) -> list[dict[str, Any]]:
    """Return the findings with the numbers of the slices that are their evidence, the costliest first."""
    first = timeline.slices.first
    shown = []
    for finding in advice.fired:
        rows = finding.rows.index.to_numpy(np.int64)[np.argsort(-finding.costs(), kind="stable")]
        shown.append(
            {
                "rule": finding.rule,
                "title": printable(finding.title, _LONGEST_TEXT),
                "detail": printable(finding.detail, _LONGEST_TEXT),
                "action": printable(finding.action, _LONGEST_TEXT),
                "cost": duration(finding.cost_ns),
                "gain": gain(finding),
                "where": finding.where,
                "slices": (rows[:_MOST_ROWS] + first[finding.table]).tolist() if finding.table in first else [],
            }
        )
    return shown


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

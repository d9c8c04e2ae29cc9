"""The explorer of a run as HTML that needs no kernel, for a page or an output of a notebook."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from html import escape
from typing import Protocol

import numpy as np
import pandas as pd

from npuprof.advice.findings import Advice
from npuprof.analysis.code_lines import has_lines
from npuprof.arrays import Int64
from npuprof.browser.findings import drawn_findings, drawn_notes, drawn_path
from npuprof.browser.page import fragment, fragment_bytes, opening_script
from npuprof.browser.saved_run import SavedRun, save_run
from npuprof.flame.tree import MergedCalls
from npuprof.lines.frames import line_text
from npuprof.tables.info import Info
from npuprof.timeline.linking import Link, align, linked
from npuprof.timeline.state import Timeline
from npuprof.timeline.svg import SMALL_BYTES, timeline_svg
from npuprof.words.quantities import printable

PAGE_BYTES, PAGE_BYTES_A_SLICE = 1_000_000, 8
"""The size of a page: so much for up to 125,000 slices, and so much more for each further one."""

_REPORT_BYTES = 60_000  # of a page: a report of usual size
_LEAST_BYTES = 5_000  # of a run: below that nothing of it can be explored
_LONGEST_NAME = 300
_LINED = ("python", "operators", "api", "kernels")


@dataclass(frozen=True)
class SavedExplorer:
    """The explorer of a run without a kernel."""

    run: SavedRun | None  # the data; None where there is nothing to draw, or no room for it
    body: str  # A fragment of HTML with the data, and the pictures for where no scripts run

    @property
    def script(self) -> str:
        """The script that draws the run, for any place below it; empty without one."""
        return "" if self.run is None else opening_script()

    @property
    def html(self) -> str:
        """The fragment with its script."""
        return self.body + self.script


def saved_explorer(
    timeline: Timeline,
    advice: Advice | None,
    critical_path: Callable[[], pd.DataFrame] | None = None,
    *,
    limit_bytes: int | None = None,
    annotations: pd.DataFrame | None = None,
    pictures: Mapping[str, str] | None = None,
    link: Link | None = None,
    calls: MergedCalls | None = None,
) -> SavedExplorer:
    """Return the explorer of a timeline's run for a page or an output.

    Parameters
    ----------
    limit_bytes
        The size of the page or output that it is for; by default :data:`PAGE_BYTES` and :data:`PAGE_BYTES_A_SLICE`.
    """
    if timeline.empty:
        reason = f"<p>{escape(timeline.left_out)}</p>" if timeline.left_out else ""
        return SavedExplorer(None, reason + fragment(None, pictures) if pictures else reason)
    if limit_bytes is None:
        limit_bytes = max(PAGE_BYTES, PAGE_BYTES_A_SLICE * timeline.slices.count)
    if pictures is None:
        pictures = {"Timeline": timeline_svg(timeline.tables, timeline.info, limit_bytes=SMALL_BYTES)}
    room = (limit_bytes - _REPORT_BYTES - fragment_bytes(pictures)) * 4 // 5
    if room < _LEAST_BYTES:
        return SavedExplorer(None, fragment(None, pictures))
    run = save_run(
        timeline,
        limit_bytes=room,
        findings=[] if advice is None else drawn_findings(timeline, advice),
        lines={} if advice is None or advice.left_out else _lines(timeline, advice),
        path=None if critical_path is None else drawn_path(timeline, critical_path),
        notes=[] if annotations is None else drawn_notes(timeline, annotations),
        link=None if link is None else asdict(link),
        calls=calls,
    )
    return SavedExplorer(run, fragment(run, pictures))


class ExploredRun(Protocol):
    """What of a run its explorer shows."""

    @property
    def tables(self) -> Mapping[str, pd.DataFrame]:
        """The tables."""

    @property
    def aligned(self) -> Mapping[str, pd.DataFrame]:
        """The tables on the host's clock."""

    @property
    def info(self) -> Info:
        """The facts."""

    @property
    def annotations(self) -> pd.DataFrame:
        """The notes of the user."""

    def advice(self) -> Advice:
        """Return the findings."""

    def critical_path(self) -> pd.DataFrame:
        """Return the critical path."""


def explorers(*runs: ExploredRun, limit_bytes: int | None = None, timeline: Timeline | None = None) -> str:
    """Return the explorers of one run, or of two below each other, whose timelines are aligned and move together.

    `limit_bytes` is the size of all of them, by default that of a page for each; `timeline` is that of the first run,
    if there is one already.
    """
    others = runs if timeline is None else runs[1:]
    timelines = [Timeline(run.tables, run.info, run.aligned, is_saved=True) for run in others]
    if timeline is not None:
        timelines.insert(0, timeline)
    link, heads = None, [""] * len(runs)
    if len(runs) > 1 and not any(timeline.left_out for timeline in timelines):
        reason, link = align(timelines[0], timelines[1]), linked(*timelines)
        heads = [f"<p><b>{escape(printable(run.info.name, _LONGEST_NAME))}</b></p>" for run in runs]
        heads[0] = f"<p>{reason}; drag or zoom either of them.</p>{heads[0]}"
    parts = [
        saved_explorer(
            timeline,
            run.advice(),
            run.critical_path,
            limit_bytes=None if limit_bytes is None else limit_bytes // len(runs),
            annotations=run.annotations,
            link=link,
        ).html
        for run, timeline in zip(runs, timelines, strict=True)
    ]
    return "".join(head + part for head, part in zip(heads, parts, strict=True))


def _lines(timeline: Timeline, advice: Advice) -> dict[str, tuple[Int64, list[str]]]:
    """Return the line of each call and kernel, by its row among the costs of lines, and what these lines are called."""
    if not has_lines(timeline.tables):
        return {}
    lines = advice.facts.code_lines
    texts = [printable(line_text(*lines.place(row)), 200) for row in range(len(lines.table()) - 1)]
    return {
        name: (lines.of_rows(name, np.arange(len(timeline.tables[name]), dtype=np.int64)), texts)
        for name in _LINED
        if len(timeline.tables[name])
    }

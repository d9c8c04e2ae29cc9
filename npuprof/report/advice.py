"""All findings of a run or a job as an HTML fragment: what ``advice()`` shows in a notebook."""

from __future__ import annotations

from npuprof.advice.findings import Advice
from npuprof.report.html import report_html
from npuprof.report.model import Report, plain
from npuprof.report.run import bar_parts, headline_of, origin_of, problem_of
from npuprof.words.texts import cell_classes


def advice_html(advice: Advice) -> str:
    """Return the time of a step, its parts and all findings as a fragment for a notebook."""
    info = advice.facts.info
    if not advice.step_ns:
        return report_html(Report(info.name or "run", "", sentence=plain(advice.headline())))
    said = [plain(text) for text in (*advice.first_lines(), advice.explained(), advice.rest()) if text]
    return report_html(
        Report(
            info.name or "run",
            headline_of(advice),
            origin_of(advice),
            info.simulated,
            sentence=" ".join(said),
            parts=bar_parts(advice),
            problems=[problem_of(finding, advice) for finding in advice],
            cells=cell_classes(info.cells),
        )
    )

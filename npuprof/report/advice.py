"""All findings of a run or a job, as HTML for a notebook and as text for a terminal: what ``advice()`` shows."""

from __future__ import annotations

import textwrap
from typing import Literal

from npuprof.advice.findings import Advice
from npuprof.advice.job import JobFacts
from npuprof.report.code import texts_of
from npuprof.report.html import report_html
from npuprof.report.lines import UserCode
from npuprof.report.model import Fold, Markup, Report, Warned, plain
from npuprof.report.ranks import main_cause
from npuprof.report.run import (
    aside_of,
    bar_parts,
    headline_of,
    join_sentences,
    origin_of,
    problem_of,
    run_name,
    sentence_of,
)
from npuprof.report.text import report_text
from npuprof.words.quantities import counted
from npuprof.words.texts import cell_classes

_WIDTH = 80


def render_advice(advice: Advice, form: Literal["html", "text"]) -> str:
    """Return the time of a step, its parts, and all findings, as a fragment for a notebook or as text."""
    report = report_of_advice(advice)
    if form == "html":
        return report_html(report)
    lines = [report_text(report, detailed=True)]
    for fold in report.folds:
        texts = [line for text in fold.texts for line in textwrap.wrap(text, _WIDTH - 3)]
        lines += ["", f"{fold.title}:", *(f"   {line}" for line in texts)]
    return "\n".join(lines)


def report_of_advice(advice: Advice) -> Report:
    """Return the time of a step, its parts and all findings as data."""
    facts, info = advice.facts, advice.facts.info
    if not advice.step_ns:
        return Report(run_name(info), "", sentence=plain(advice.headline()))
    doubts = [Warned("warning", plain(f"Incomplete: {text}")) for text in advice.doubts]
    ranks = len(facts.members) if isinstance(facts, JobFacts) else 0
    return Report(
        counted(ranks, "rank") if ranks else run_name(info),
        headline_of(advice),
        origin_of(advice),
        info.simulated,
        [*doubts, *(Warned("warning", plain(text)) for text in (*advice.lateness(), *filter(None, [advice.unjudged])))],
        *aside_of(advice),
        sentence=_sentence(advice),
        parts=bar_parts(advice),
        problems=[problem_of(finding, advice) for finding in advice],
        since=join_sentences(plain(advice.explained()), *(plain(text) for text in advice.remarks())),
        folds=_folds(advice),
        cells=cell_classes(info.cells),
    )


def _sentence(advice: Advice) -> Markup:
    facts = advice.facts
    if isinstance(facts, JobFacts):
        known = len(facts.members)
        return main_cause(facts, advice, advice.parts(), runs=known, ranked=known)
    lines = None if advice.left_out or not facts.has_lines else UserCode(facts, texts_of(facts.info))
    return join_sentences(sentence_of(advice, lines), advice.outside_steps())


def _folds(advice: Advice) -> list[Fold]:
    risks = [f"{plain(finding.title)} ({plain(finding.detail)})." for finding in advice.risks]
    return [
        fold
        for fold in (
            Fold("Where idle time goes", [plain(text) for text in advice.idle_lines()]),
            Fold("Worth knowing", risks),
            Fold(f"Not checked ({len(advice.cannot_tell)})", [plain(text) for text in advice.to_collect()]),
        )
        if fold.texts
    ]

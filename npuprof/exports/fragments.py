"""Fragments of HTML for sets and differences, until they are reports too."""

from __future__ import annotations

import html
from collections.abc import Sequence

import numpy as np
import pandas as pd

from npuprof.advice.finding import Finding
from npuprof.advice.findings import Advice
from npuprof.figures.colours import BADGE, SEVERITIES
from npuprof.report.facts import clock_lines, note_rows, origin, overhead_text
from npuprof.report.model import Table
from npuprof.tables.info import Info
from npuprof.tables.notes import Severity
from npuprof.words.glossary import with_meanings
from npuprof.words.quantities import duration, printable
from npuprof.words.texts import AS_TEXT, KEYS, cell_classes

SIMULATED = "SIMULATED NPU"
MOST_FINDINGS = 3
_LONGEST_CELL = 160
_LONGEST_WORD = 40
_LONGEST_LINE = 400
_LONGEST_SENTENCE = 1_200
_MOST_EVIDENCE = 5
_MOST_NOTES, _MOST_OF_INFORMATION = 20, 5
_LINE = "var(--jp-border-color2,rgba(128,128,128,.35))"
FAINT_TEXT = "var(--jp-ui-font-color2,inherit)"
_FONT = "var(--jp-ui-font-family,system-ui,sans-serif)"
REPORT = "npuprof-report"


def framed(content: str, info: Info | None = None) -> str:
    """Return a fragment in the style of a report; `info` is of the run whose cells it names."""
    cells = "".join(f" {name}" for name in cell_classes(info.cells)) if info is not None else ""
    style = f"font-family:{_FONT};font-size:13px;line-height:1.45;color:var(--jp-ui-font-color1,inherit);max-width:100%"
    return f'<div class="{REPORT} {KEYS} {AS_TEXT}{cells}" style="{style}">{content}</div>' if content else ""


def findings_html(advice: Advice, limit: int | None = MOST_FINDINGS) -> str:
    """Return the first `limit` findings, or all: problem, cost, possible gain, explanation, advice and evidence."""
    items = "".join(
        f'<li class="npuprof-finding" style="margin:4px 0;overflow-wrap:anywhere">'
        f"<strong>{text(finding.title, _LONGEST_CELL)}</strong> "
        f'<span style="white-space:nowrap">{text(duration(finding.cost_ns), 40)}</span> '
        f'<span style="color:{FAINT_TEXT};white-space:nowrap">{text(finding.gain, 60)}</span>'
        f"<div>{text(finding.detail, _LONGEST_SENTENCE)}</div>"
        f'<div style="color:{FAINT_TEXT}">→ {text(finding.action, _LONGEST_SENTENCE)}</div>{_evidence(finding)}</li>'
        for finding in advice.fired[:limit]
    )
    listed = f'<ol style="margin:6px 0 0;padding-left:22px">{items}</ol>' if items else ""
    idle = [
        f'<div style="margin-top:4px;overflow-wrap:anywhere">{text(said, _LONGEST_SENTENCE)}</div>'
        for said in advice.first_lines()
    ]
    rest = [
        f'<div style="color:{FAINT_TEXT};margin-top:4px;overflow-wrap:anywhere">{text(said, _LONGEST_SENTENCE)}</div>'
        for said in (advice.explained(), advice.rest(limit))
        if said
    ]
    return "".join([*idle, with_meanings(listed), *rest])


def _evidence(finding: Finding) -> str:
    """Return the costliest rows of a finding's evidence, and the call that opens them in the explorer.

    It is not folded: an element to fold it would take the focus, and with it the keys of a notebook.
    """
    if not finding.where:
        return ""
    costs, rows = finding.costs(), finding.rows
    order = np.argsort(-costs, kind="stable")[:_MOST_EVIDENCE]
    name = next((name for name in ("name", "task_type", "op_type") if name in rows), None)
    named = ["" if name is None or pd.isna(rows[name].iloc[at]) else f"{rows[name].iloc[at]} " for at in order]
    figures = [
        f"{text(word, _LONGEST_WORD)} {duration(int(costs[at]))} (row {rows.index[at]})"
        for word, at in zip(named, order, strict=True)
    ]
    head = f"; the {len(figures)} costliest: " if len(rows) > len(figures) else ": "
    call = f"advice()[{finding.rule!r}].show()"
    return (
        f'<div class="npuprof-evidence" style="color:{FAINT_TEXT};overflow-wrap:anywhere">'
        f"evidence: {text(finding.where, 120)}{(head + ', '.join(figures)) if figures else ''}. "
        f"<code>{text(call, 120)}</code> opens it in the explorer</div>"
    )


def text(content: str, longest: int) -> str:
    """Return recorded, untrusted text for HTML: one line, shortened and escaped."""
    return html.escape(printable(content, longest))


def head_html(info: Info) -> str:
    """Return name, origin, cost of profiling, exception of the profiled code and corrections of clocks."""
    badge = (
        f'<span style="{BADGE};font-weight:700;padding:1px 8px;white-space:nowrap">{SIMULATED}</span>'
        if info.simulated
        else ""
    )
    name = f'<span style="overflow-wrap:anywhere">{text(info.name, _LONGEST_LINE)}</span>' if info.name else ""
    known = text(" · ".join(origin(info)), _LONGEST_LINE)
    cost = (
        f'<div style="color:{FAINT_TEXT}">{text(said, _LONGEST_SENTENCE)}</div>'
        if (said := overhead_text(info))
        else ""
    )
    failed = _marked(f"The profiled code raised {info.failed}", "error") if info.failed else ""
    clocks = "".join(_marked(line, "warning") for line in clock_lines(info))
    return (
        '<div style="display:flex;flex-wrap:wrap;gap:2px 10px;align-items:baseline;margin-top:4px">'
        f'<strong style="font-size:15px">npuprof</strong> {name} {badge}</div>'
        f'<div style="color:{FAINT_TEXT};overflow-wrap:anywhere">{known}</div>{cost}{failed}{clocks}'
    )


def _marked(line: str, severity: Severity) -> str:
    """Return a line on what failed, is missing or was corrected, to show below the title."""
    style = f"border-left:3px solid {SEVERITIES[severity]};padding-left:8px;margin-top:4px;overflow-wrap:anywhere"
    role = ' role="alert"' if severity == "error" else ""
    return f'<div{role} style="{style}">{text(line, _LONGEST_SENTENCE)}</div>'


def grid_html(grid: Table) -> str:
    """Return a table of texts."""
    first_numeric = len(grid.headings) - grid.numeric

    def cells(row: Sequence[str], tag: str, style: str) -> str:
        return "".join(
            f'<{tag} style="padding:2px 10px 2px 0;border:0;vertical-align:top;'
            f'{_NUMBER if column >= first_numeric else _NAME if not column or _is_long(cell) else _WORD}{style}">'
            f"{text(cell, _LONGEST_CELL if not column else _LONGEST_WORD)}</{tag}>"
            for column, cell in enumerate(row)
        )

    line = f"border:0;border-bottom:1px solid {_LINE};background:transparent"
    head = f'<tr style="{line}">{cells(grid.headings, "th", f"font-weight:600;color:{FAINT_TEXT}")}</tr>'
    body = "".join(f'<tr style="{line}">{cells(row, "td", "")}</tr>' for row in grid.rows)
    return (
        f'<div style="overflow-x:auto;margin-top:12px"><div style="font-weight:600">{text(grid.title, 80)}</div>'
        f'<table style="border-collapse:collapse;border:0;margin:2px 0;font-size:12px"><thead>{head}</thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _is_long(cell: str) -> bool:
    """Return whether a text has a word that must be broken in a narrow table."""
    return max(map(len, cell.split()), default=0) > _LONGEST_WHOLE


_LONGEST_WHOLE = 16
_NAME = "text-align:left;overflow-wrap:anywhere;min-width:84px;"
_WORD = "text-align:left;overflow-wrap:normal;"
_NUMBER = "text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums;"


def notes_html(notes: pd.DataFrame) -> str:
    """Return the most severe notes: fewer of them if all are only information."""
    if not len(notes):
        return ""
    most = _MOST_NOTES if (notes["severity"] != "info").any() else _MOST_OF_INFORMATION
    rows = "".join(
        f'<div style="border-left:3px solid {SEVERITIES.get(severity, _LINE)};padding-left:8px;margin:3px 0;'
        f'overflow-wrap:anywhere">{text(severity, 20)}: {text(source, _LONGEST_CELL)}: '
        f"{text(message, _LONGEST_LINE)}</div>"
        for severity, source, message in note_rows(notes, most)
    )
    more = f"<div>and {len(notes) - most:,} more in <code>run.notes</code></div>" if len(notes) > most else ""
    return f'<div style="margin-top:12px"><div style="font-weight:600">Notes ({len(notes):,})</div>{rows}{more}</div>'

"""A report as HTML: a fragment for the output of a notebook cell, and a self-contained page with figures."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from npuprof.advice.finding import Finding
from npuprof.advice.findings import Advice, gain
from npuprof.analysis.host_times import HOST_LABELS
from npuprof.analysis.summary import Summary
from npuprof.browser.page import policy
from npuprof.exports.code import AnnotatedCode
from npuprof.exports.damage import damage_lines, damaged_tables, headline_mark
from npuprof.exports.grid import Grid
from npuprof.exports.host_text import HOST_TIME
from npuprof.exports.text import (
    DEVICE_TIME,
    MOST_FINDINGS,
    PART_LABELS,
    SIMULATED,
    children_text,
    clock_lines,
    error_lines,
    grids,
    known_figures,
    note_rows,
    nothing_text,
    origin,
    overhead_text,
    shown_parts,
)
from npuprof.figures.colours import ACTIVITIES, BADGE, PARTS, SEVERITIES
from npuprof.figures.embed import element, library
from npuprof.tables.info import Info
from npuprof.tables.notes import Severity
from npuprof.words.glossary import with_meanings
from npuprof.words.quantities import duration, printable, share
from npuprof.words.texts import AS_TEXT, KEYS, cell_classes

if TYPE_CHECKING:
    import plotly.graph_objects as go


_LONGEST_CELL = 160
_LONGEST_WORD = 40
_LONGEST_LINE = 400
_LONGEST_SENTENCE = 1_200
_MOST_BARS = 16
_MOST_EVIDENCE = 5
_MOST_NOTES, _MOST_OF_INFORMATION = 20, 5

# Colours come from the notebook's theme if it defines them, else from the surrounding text.
_LINE = "var(--jp-border-color2,rgba(128,128,128,.35))"
FAINT_TEXT = "var(--jp-ui-font-color2,inherit)"
"""Colour of text of less weight."""

_FONT = "var(--jp-ui-font-family,system-ui,sans-serif)"

REPORT = "npuprof-report"
"""The class of each part of a report."""


def report_html(
    summary: Summary,
    info: Info,
    notes: pd.DataFrame,
    advice: Advice,
    code: AnnotatedCode | None = None,
    *,
    since: str = "",
) -> str:
    """Return origin, verdict, key figures, tables and notes as a fragment for a notebook.

    Styles are inline, with the colours of the notebook's theme; there is no script. Every text from the recording is
    escaped and shortened, so the fragment stays below 100 kB, and the code in it below another 100 kB. The first
    findings of the advice are shown. `since` is a fragment about a run before, which comes after the verdict.
    """
    return framed(_overview(summary, info, notes, advice, code, since) + notes_html(notes), info)


def page_html(
    summary: Summary,
    info: Info,
    notes: pd.DataFrame,
    advice: Advice,
    figures: Mapping[str, go.Figure],
    *,
    explorer: str = "",
    code: AnnotatedCode | None = None,
) -> str:
    """Return a self-contained page with the report, the explorer, and figures by title.

    The page refers to nothing outside itself, which its content security policy enforces. `explorer` is an HTML
    fragment of :func:`npuprof.browser.page.fragment`. Only figures need plotly.js, about 5 MB.
    """
    title = f"npuprof · {info.name}" if info.name else "npuprof"
    head = framed(_overview(summary, info, notes, advice, code))
    return page_of(title, head + explorer, figures, framed(notes_html(notes)))


def set_page_html(head: str, runs: str, info: Info, notes: pd.DataFrame, figures: Mapping[str, go.Figure]) -> str:
    """Return the page of a set of runs, as :func:`page_html` of a run: an overview, figures, table of runs, notes."""
    title = f"npuprof · {info.name}" if info.name else "npuprof"
    return page_of(title, head or framed(head_html(info)), figures, tail=runs + framed(notes_html(notes)))


def page_of(title: str, head: str, figures: Mapping[str, go.Figure], tail: str = "") -> str:
    """Return a self-contained page of HTML fragments, with figures by title between them, and then plotly.js."""
    unscripted = "<p>The interactive figures need JavaScript; nothing is loaded from elsewhere.</p>"
    drawn = "".join(
        f"<section>{element(figure, f'figure-{index}', name)}</section>"
        for index, (name, figure) in enumerate(figures.items())
    )
    content = (
        f"<title>{text(title, _LONGEST_LINE)}</title><style>{_PAGE_STYLE}</style>{library() if figures else ''}</head>"
        f'<body><main class="npuprof-page">{head}{drawn}<noscript>{unscripted}</noscript>{tail}</main></body></html>'
    )
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy(content)}">'
        f'<meta name="viewport" content="width=device-width,initial-scale=1">{content}'
    )


_PAGE_STYLE = (
    ":root{color-scheme:light dark}"
    "body{margin:0;font-family:system-ui,sans-serif;background:#fff;color:#1c1e21}"
    "main{padding:16px}main>*{max-width:1500px;margin-left:auto;margin-right:auto}section{margin-top:12px}"
    "main>.npuprof-report{max-width:1500px!important}main>.npuprof-saved{max-width:none}"
    "@media (prefers-color-scheme:dark){body{background:#111;color:#e4e6e8}}"
)


def framed(content: str, info: Info | None = None) -> str:
    """Return a fragment in the style of a report; `info` is of the run whose cells it names."""
    cells = "".join(f" {name}" for name in cell_classes(info.cells)) if info is not None else ""
    style = f"font-family:{_FONT};font-size:13px;line-height:1.45;color:var(--jp-ui-font-color1,inherit);max-width:100%"
    return f'<div class="{REPORT} {KEYS} {AS_TEXT}{cells}" style="{style}">{content}</div>' if content else ""


def _overview(
    summary: Summary,
    info: Info,
    notes: pd.DataFrame,
    advice: Advice,
    code: AnnotatedCode | None = None,
    since: str = "",
) -> str:
    # With one device, the bar of the verdict shows everything that the table would.
    several = len(summary.devices) > 1
    barred = () if several else (DEVICE_TIME, HOST_TIME)
    shown = [grid for grid in grids(summary) if not grid.title.startswith(barred)]
    bars = "".join(
        _bar(f"{device.label}, {device.where}, {duration(device.span_ns)}: ", dict(shown_parts(device)))
        for device in summary.devices[:_MOST_BARS]
    )
    return (
        head_html(info)
        + "".join(_marked(line, "error") for line in [*error_lines(notes), *damage_lines(notes)])
        + "".join(_marked(line, "warning") for line in [nothing_text(summary, info) or children_text(info)] if line)
        + _verdict(advice, headline_mark(damaged_tables(notes)))
        + since
        + (bars if several else "")
        + ("" if nothing_text(summary, info) else findings_html(advice))
        + ("" if code is None else code.html())
        + _figures(summary, info, notes)
        + "".join(map(grid_html, shown))
    )


def _verdict(advice: Advice, mark: str = "") -> str:
    if not advice.step_ns:
        return ""
    line = text(advice.headline() + mark, _LONGEST_LINE)
    return f'<div style="font-size:15px;font-weight:600;margin:8px 0 2px">{line}</div>' + _bar("", advice.parts())


def advice_html(advice: Advice) -> str:
    """Return the verdict and all findings as a fragment for a notebook."""
    return framed(head_html(advice.facts.info) + _verdict(advice) + findings_html(advice, None), advice.facts.info)


def findings_html(advice: Advice, limit: int | None = MOST_FINDINGS) -> str:
    """Return the first `limit` findings, or all: problem, cost, possible gain, explanation, advice and evidence."""
    items = "".join(
        f'<li class="npuprof-finding" style="margin:4px 0;overflow-wrap:anywhere">'
        f"<strong>{text(finding.title, _LONGEST_CELL)}</strong> "
        f'<span style="white-space:nowrap">{text(duration(finding.cost_ns), 40)}</span> '
        f'<span style="color:{FAINT_TEXT};white-space:nowrap">{text(gain(finding), 60)}</span>'
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


def _figures(summary: Summary, info: Info, notes: pd.DataFrame) -> str:
    cells = "".join(
        f'<div style="min-width:90px"><div style="font-size:11px;color:{FAINT_TEXT}">{text(name, 40)}</div>'
        f'<div style="font-size:16px;font-weight:600;white-space:nowrap">{text(value, 40)}</div></div>'
        for name, value in known_figures(summary, info, notes)
    )
    return f'<div style="display:flex;flex-wrap:wrap;gap:8px 26px;margin:10px 0">{cells}</div>'


def _bar(label: str, parts: Mapping[str, int]) -> str:
    """Return times by key of :data:`PART_LABELS`, or else :data:`HOST_LABELS`, as a bar with a legend."""
    whole = sum(parts.values())
    labels, colours = PART_LABELS, PARTS
    if not parts.keys() <= PART_LABELS.keys():  # of a host without a device
        labels, colours = HOST_LABELS, {**ACTIVITIES, **PARTS}
    shares = [(labels[part], parts[part], colours[part]) for part in labels if parts.get(part)]
    bar = "".join(
        f'<div style="width:{100 * time / whole:.2f}%;background:{colour}"></div>' for _, time, colour in shares
    )
    # Spaces separate the entries in viewers that strip all styles.
    legend = " ".join(
        f'<span style="white-space:nowrap"><span style="display:inline-block;width:9px;height:9px;'
        f'background:{colour};margin-right:4px"></span>{name} {text(share(time, whole), 10)}</span>'
        for name, time, colour in shares
    )
    if not whole:
        return ""
    return (
        f'<div style="display:flex;height:10px;max-width:900px;margin-top:4px;overflow:hidden">{bar}</div>'
        f'<div style="display:flex;flex-wrap:wrap;gap:0 16px;font-size:11px;color:{FAINT_TEXT}">'
        f"{f'<span>{label}</span>' if label else ''}{legend}</div>"
    )


def grid_html(grid: Grid) -> str:
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

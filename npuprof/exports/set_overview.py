"""The overview of a job as HTML."""

from __future__ import annotations

from collections.abc import Sequence

from npuprof.advice.findings import Advice
from npuprof.exports.fragments import findings_html, framed, grid_html, head_html, text
from npuprof.figures.colours import SEVERITIES
from npuprof.report.model import Table
from npuprof.tables.info import Info

_LONGEST = 400
_MOST_KINDS = 8
_COSTS = ("operators", "waiting", "moving")


def overview_html(
    verdict: str,
    advice: Advice | None,
    kinds: Sequence[tuple[str, ...]],
    absent: str,
    info: Info,
    *,
    warned: str = "",
) -> str:
    """Return verdict, absent ranks, findings, warnings and groups of a job as an HTML fragment."""
    line = f'<div style="font-size:15px;font-weight:600;margin:8px 0 2px">{text(verdict, _LONGEST)}</div>'
    missing = _marked(f"absent ranks: {absent}") if absent else ""
    findings = "" if advice is None else findings_html(advice)
    heads = ["groups of kind", "basis", "groups", "ranks in each", *(f"{what} a step" for what in _COSTS)]
    groups = grid_html(Table("Groups of ranks", heads, kinds[:_MOST_KINDS], 5)) if kinds else ""
    return framed(head_html(info) + line + missing + findings + (_marked(warned) if warned else "") + groups, info)


def _marked(line: str) -> str:
    style = f"border-left:3px solid {SEVERITIES['warning']};padding-left:8px;margin:4px 0;overflow-wrap:anywhere"
    return f'<div style="{style}">{text(line, _LONGEST)}</div>'

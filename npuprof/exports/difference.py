"""The difference of two runs as HTML and as a self-contained page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from npuprof.difference.difference import Difference
from npuprof.exports.fragments import SIMULATED, framed, grid_html, text
from npuprof.figures.colours import BADGE, SEVERITIES
from npuprof.report.model import Table
from npuprof.tables.info import Info, common_cells
from npuprof.words.quantities import duration, signed

if TYPE_CHECKING:
    import plotly.graph_objects as go

_LONGEST = 400
_MOST_ROWS = 10
_FAINT = "var(--jp-ui-font-color2,inherit)"


def difference_html(difference: Difference) -> str:
    """Return the summary, the parts of a step and the largest rows as an HTML fragment without scripts."""
    badge = f'<span style="{BADGE};font-weight:700;padding:1px 8px">{SIMULATED}</span>' if difference.simulated else ""
    guards = "".join(
        f'<div style="border-left:3px solid {SEVERITIES["warning"]};padding-left:8px;margin:3px 0">'
        f"{text(guard, _LONGEST)}</div>"
        for guard in difference.guards
    )
    common = "".join(f"<div>{text(sentence, _LONGEST)}</div>" for sentence in difference.common())
    return framed(
        f'<div style="margin-top:4px"><strong style="font-size:15px">npuprof</strong> {badge}</div>{guards}'
        f'<div style="font-size:15px;font-weight:600;margin:6px 0 2px">{text(difference.sentence(), _LONGEST)}</div>'
        f"{common}"
        f'<div style="color:{_FAINT}">{text(difference.basis, _LONGEST)}</div>'
        f"{grid_html(_parts(difference))}{grid_html(_largest(difference))}",
        Info(cells=common_cells(run.info.cells for side in (difference.a, difference.b) for run in side.runs)),
    )


def difference_page(difference: Difference, figures: Mapping[str, go.Figure]) -> str:
    """Return a self-contained page of the difference with its figures, plotly.js included (about 5 MB)."""
    from npuprof.exports.html import page_of

    title = f"npuprof · {difference.names[0]} - {difference.names[1]}"
    return page_of(title, difference_html(difference), figures)


def _parts(difference: Difference) -> Table:
    rows = difference.rows
    top = rows[(rows["depth"] == 0).to_numpy(bool)]
    times = duration(difference.a_ns), duration(difference.b_ns), signed(difference.delta_ns)
    lines = [("step", *times, difference.step_interval())]
    lines += [(str(row["name"]), *_times(row), difference.interval(row)) for _, row in top.iterrows()]
    return _grid("Parts of a step", ("", *difference.names, "difference"), lines)


def _largest(difference: Difference) -> Table:
    lines = []
    for _, row in difference.largest(_MOST_ROWS).iterrows():
        counted = row["a_count"] or row["b_count"]
        counts = f"{_mean(row['a_count'])} / {_mean(row['b_count'])}" if counted else ""
        named_names = (difference.title(row), str(row["why"]), str(row["place"]))
        lines.append((*named_names, counts, *_times(row), difference.interval(row)))
    return _grid("Largest differences", ("Row", "why", "line", "count", *difference.names, "difference"), lines)


def _mean(count: float) -> str:
    """Return a count per step as text."""
    return f"{count:,.0f}" if count >= 100 or count == int(count) else f"{count:.3g}"


def _grid(title: str, headings: Sequence[str], lines: Sequence[Sequence[str]]) -> Table:
    """Return a table without the columns that no row has: counts, and the intervals, which are the last."""
    counts = headings.index("count") if "count" in headings else 0
    if counts and not any(line[counts] for line in lines):
        headings, *lines = ([*row[:counts], *row[counts + 1 :]] for row in (headings, *lines))
    if any(line[-1] for line in lines):
        return Table(title, (*headings, "interval"), lines, 4)
    return Table(title, headings, [line[:-1] for line in lines], 3)


def _times(row: pd.Series[Any]) -> tuple[str, str, str]:
    return duration(int(row["a_ns"])), duration(int(row["b_ns"])), signed(int(row["delta_ns"]))

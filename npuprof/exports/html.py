"""Reports as self-contained pages: the report, the explorer, and figures with plotly.js between them."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING

from npuprof.browser.page import policy
from npuprof.figures.embed import element, library
from npuprof.report.html import report_html
from npuprof.report.model import Report
from npuprof.words.quantities import printable

if TYPE_CHECKING:
    import plotly.graph_objects as go

_LONGEST_LINE = 400


def page_html(report: Report, figures: Mapping[str, go.Figure], *, explorer: str = "") -> str:
    """Return a self-contained page with a report, an explorer, and figures by title.

    The page refers to nothing outside itself, which its content security policy enforces. `explorer` is an HTML
    fragment of :func:`npuprof.browser.page.fragment`. Only figures need plotly.js, about 5 MB.
    """
    title = f"npuprof · {report.name}" if report.name else "npuprof"
    return page_of(title, report_html(report) + explorer, figures)


def page_of(title: str, head: str, figures: Mapping[str, go.Figure]) -> str:
    """Return a self-contained page of an HTML fragment, with figures by title below it, and then plotly.js."""
    unscripted = "<p>The interactive figures need JavaScript; nothing is loaded from elsewhere.</p>"
    drawn = "".join(
        f"<section>{element(figure, f'figure-{index}', name)}</section>"
        for index, (name, figure) in enumerate(figures.items())
    )
    content = (
        f"<title>{escape(printable(title, _LONGEST_LINE))}</title><style>{_PAGE_STYLE}</style>"
        f"{library() if figures else ''}</head>"
        f'<body><main class="npuprof-page">{head}{drawn}<noscript>{unscripted}</noscript></main></body></html>'
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
    "main>.npuprof-saved{max-width:none}"
    "@media (prefers-color-scheme:dark){body{background:#111;color:#e4e6e8}}"
)

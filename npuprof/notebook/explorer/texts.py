"""The style of the explorer, and texts of its timeline."""

from __future__ import annotations

from npuprof.timeline.state import Timeline
from npuprof.words.quantities import count, counted, duration

STYLE = """<style>
.npuprof-explorer, .npuprof-explorer table { color: var(--jp-ui-font-color1, inherit); font-size: 12px; }
.npuprof-explorer .widget-html-content { line-height: 1.45; min-width: 0; width: 100%; overflow-x: auto; }
.npuprof-explorer table { border-collapse: collapse; border: none; }
.npuprof-explorer th, .npuprof-explorer td { padding: 1px 10px 1px 0; text-align: left; vertical-align: top;
  border: none; background: none; }
.npuprof-explorer td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.npuprof-explorer td.long { overflow-wrap: anywhere; white-space: pre-wrap; }
.npuprof-explorer th { font-weight: 600; white-space: nowrap; }
.npuprof-explorer .widget-tab-contents > .widget-vbox:empty::before { content: "one moment …";
  color: var(--jp-ui-font-color2, #7d838a); }
.npuprof-explorer .swatch { display: inline-block; width: 10px; height: 10px; margin: 0 4px 0 10px;
  border: 1px solid #7d838a; }
.npuprof-explorer .widget-tab-contents > [tabindex="-1"]:focus-visible { outline-offset: 5px; }
.npuprof-explorer .faint { color: var(--jp-ui-font-color2, #7d838a); }
.npuprof-explorer .lm-TabBar { height: auto !important; max-height: none !important; overflow: visible !important; }
.npuprof-explorer .lm-TabBar-content { flex-wrap: wrap !important; }
.npuprof-explorer .lm-TabBar-tab { flex: 0 0 auto !important; min-width: 0 !important; max-width: none !important; }
.npuprof-explorer .swatches span { white-space: nowrap; }
.npuprof-explorer .npuprof-drawn :is(.jp-OutputArea, .jp-OutputArea-child, .jp-RenderedPlotly) { height: 100%; }
</style>"""
"""Uses the variables of the front end's theme, with the page's colours as fallback."""


def matches_text(timeline: Timeline, place: int | None) -> str:
    """Return the number of matches, and the number of the selected one."""
    if timeline.matches is None:
        return ""
    matches = len(timeline.matches)
    if not matches:
        return "no match"
    label = f"{count(place + 1)} of " if place is not None else ""
    return f"{label}{counted(matches, 'match', 'matches')}, {duration(timeline.matches.total_ns)}"

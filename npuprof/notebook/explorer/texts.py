"""HTML texts of the timeline: range summary, selection and legend. Every name is escaped."""

from __future__ import annotations

from html import escape

from npuprof.figures.colours import FAMILIES
from npuprof.quantities import count, duration, printable, share
from npuprof.timeline.range_summary import Readout
from npuprof.timeline.state import Timeline

STYLE = """<style>
.npuprof-explorer, .npuprof-explorer table { color: var(--jp-ui-font-color1, inherit); font-size: 12px; }
.npuprof-explorer .widget-html-content { line-height: 1.45; }
.npuprof-explorer table { border-collapse: collapse; border: none; }
.npuprof-explorer th, .npuprof-explorer td { padding: 1px 10px 1px 0; text-align: left; vertical-align: top;
  border: none; background: none; }
.npuprof-explorer td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.npuprof-explorer td.long { overflow-wrap: anywhere; white-space: pre-wrap; }
.npuprof-explorer th { font-weight: 600; white-space: nowrap; }
.npuprof-explorer .swatch { display: inline-block; width: 10px; height: 10px; margin: 0 4px 0 10px;
  border: 1px solid #7d838a; }
.npuprof-explorer .faint { color: var(--jp-ui-font-color2, #7d838a); }
.npuprof-explorer .lm-TabBar { height: auto !important; max-height: none !important; overflow: visible !important; }
.npuprof-explorer .lm-TabBar-content { flex-wrap: wrap !important; }
.npuprof-explorer .lm-TabBar-tab { flex: 0 0 auto !important; min-width: 0 !important; max-width: none !important; }
.npuprof-explorer .swatches span { white-space: nowrap; }
.npuprof-explorer .npuprof-drawn :is(.jp-OutputArea, .jp-OutputArea-child, .jp-RenderedPlotly) { height: 100%; }
.npuprof-timeline:focus-visible { outline: 2px solid var(--jp-brand-color1, #0072b2); outline-offset: 2px; }
.npuprof-timeline .npuprof-scrolled { overflow-y: auto; overflow-x: hidden; max-height: 640px; }
.npuprof-explorer .npuprof-axis { position: sticky; top: 0; z-index: 2; width: 100%; height: 30px; margin: 0 0 -30px;
  overflow: hidden; pointer-events: none; visibility: hidden; border-bottom: 1px solid #7d838a;
  background: var(--jp-layout-color1, var(--vscode-editor-background, Canvas)); }
.npuprof-explorer .npuprof-axis.npuprof-needed { visibility: visible; }
.npuprof-explorer .npuprof-axis svg { display: block; overflow: visible; }
</style>"""
"""Uses the variables of the front end's theme, with the page's colours as fallback."""

_LONGEST = 120


def legend_html() -> str:
    """Return the legend of the colours."""
    swatches = " ".join(
        f'<span><span class="swatch" style="background:{look.colour}"></span>{escape(look.label)}</span>'
        for look in FAMILIES.values()
    )
    return f'<div class="swatches">{swatches}</div>'


def readout_html(told: Readout, *, marked: bool) -> str:
    """Return the span, how busy the devices were, and the kernels with the most time."""
    busy = "".join(
        f"<tr><td>NPU {device} busy</td><td class='number'>{duration(busy_ns)}</td>"
        f"<td class='number'>{share(busy_ns, told.span_ns)}</td></tr>"
        for device, busy_ns in told.busy_ns.items()
    )
    top = "".join(
        f"<tr><td class='long'>{_name(one.name)}</td><td class='number'>{duration(one.total_ns)}</td>"
        f"<td class='number'>{count(one.count)} ×</td></tr>"
        for one in told.top
    )
    return (
        f"<table><tr><th>{'Marked range' if marked else 'Visible range'}</th>"
        f"<th class='number'>{duration(told.span_ns)}</th><th></th></tr>{busy}"
        f"<tr><td>kernels</td><td class='number'>{count(told.kernels)}</td><td></td></tr>{top}</table>"
    )


def selection_html(timeline: Timeline) -> str:
    """Return all facts about the selected slice, with its causes and effects."""
    number = timeline.selected
    if number is None:
        return "<div class='faint'>Click a slice to see all that is known of it, its causes and its effects.</div>"
    arrows = timeline.arrows()[1]
    before = [arrow.cause for arrow in arrows.arrows if arrow.effect == number]
    after = [arrow.effect for arrow in arrows.arrows if arrow.cause == number]
    related = [("caused by", before), ("causes", after)]
    told = [
        *(
            (word, ", ".join(timeline.slices.name(one) or "(unnamed)" for one in some[:5]))
            for word, some in related
            if some
        ),
        *timeline.slices.details(number),
    ]
    rows = "".join(f"<tr><td>{escape(key)}</td><td class='long'>{_text(value)}</td></tr>" for key, value in told)
    more = "<div class='faint'>There are more effects than arrows.</div>" if arrows.more else ""
    return f"<table><tr><th colspan='2'>{_name(timeline.slices.name(number))}</th></tr>{rows}</table>{more}"


def matches_text(timeline: Timeline, place: int | None) -> str:
    """Return the number of matches, and which one is selected."""
    if timeline.matches is None:
        return ""
    found = len(timeline.matches)
    if not found:
        return "no match"
    which = f"{count(place + 1)} of " if place is not None else ""
    return f"{which}{count(found)} match{'es' if found != 1 else ''}, {duration(timeline.matches.total_ns)}"


def _name(name: str) -> str:
    return escape(printable(name, _LONGEST) or "(unnamed)")


def _text(value: str) -> str:
    lines = value[:4000].replace(";", "\n").split("\n") if "\n" in value or value.count(";") > 3 else [value]
    return "<br>".join(escape(printable(line, 400)) for line in lines[:60])

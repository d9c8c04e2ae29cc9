"""The constant state of a timeline's view: its lanes, counters and colours."""

from __future__ import annotations

from typing import Any

from npuprof.figures.chart import moment
from npuprof.figures.colours import FAMILIES, PARTS, family_label, shades
from npuprof.tables.info import Info
from npuprof.timeline.labels import FAMILY_KEYS
from npuprof.timeline.overview import OVERVIEW_PARTS
from npuprof.timeline.state import Timeline

_FOLDED = ("Python",)  # groups that are folded at first


def families(runtime: str) -> list[dict[str, Any]]:
    """Return names and colours of the families of slices, in a run whose host calls a runtime such as ``CUDA``."""
    return [
        {"key": key, "label": family_label(key, runtime), "ink": look.ink, "shades": shades(key)}
        for key, look in FAMILIES.items()
    ]


def timeline_setup(timeline: Timeline) -> dict[str, Any]:
    """Return the data that a page needs before it draws a timeline; times are nanoseconds from the origin."""
    start, end = timeline.whole
    return {
        "view": "timeline",
        "origin": moment(timeline.origin),
        "start": start - timeline.origin,
        "end": end - timeline.origin,
        "window": [moment_ns - timeline.origin for moment_ns in timeline.window],
        "families": families(timeline.slices.runtime),
        "simulated": simulated_mark(timeline.info),
        "groups": [
            {"title": group.title, "lanes": [[row.lane, row.title] for row in rows], "folded": group.title in _FOLDED}
            for group, rows in zip(timeline.groups, timeline.rows, strict=True)
        ],
        "steps": next((at for at, key in enumerate(FAMILY_KEYS) if key == "step"), 0),
        "lines": [
            {"title": line.title, "unit": line.unit, "top": line.top, "kind": line.kind, "total": line.total}
            for line in timeline.lines
        ],
        "parts": [[part, PARTS[part]] for part in OVERVIEW_PARTS],
        "layout": {},
        "link": None,
    }


def simulated_mark(info: Info) -> str:
    """Return what stands before figures of a simulated run; empty for others, whose pages do not name an NPU."""
    return "simulated NPU · " if info.simulated else ""

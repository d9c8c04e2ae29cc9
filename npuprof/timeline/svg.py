"""The timeline as a plain SVG without scripts, for viewers without plotly such as nbviewer.

It refers to no other file; its colours are legible on white and on black.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import compress

import pandas as pd

from npuprof.figures.chart import label, moment
from npuprof.figures.colours import FAMILIES, FOREGROUND, family_label
from npuprof.figures.time_axis import thinned, unit_of
from npuprof.tables.info import Info
from npuprof.timeline.slices import TABLES
from npuprof.timeline.view import DrawnTimeline, Pictures
from npuprof.words.quantities import counted

LIMIT_BYTES = 100_000
"""Maximum size of the SVG."""

SMALL_BYTES = 6_000
"""Maximum size of the SVG in a report, which the live views replace where scripts run."""

# Number of bars, length of names, and whether bars have hover texts: from the finest to the level that always fits.
_DETAILS = ((400, 40, True), (250, 24, True), (200, 12, False), (120, 12, False), (60, 12, False))
_FEW_SAMPLES = 80  # of a counter track, in a small picture
_WIDTH, _LEFT, _RIGHT, _TOP = 1000, 160, 12, 62
_LANE = 16
_CHARACTER = 5.6  # approximate width of a character at 10 pixels
_LONGEST_TITLE, _LONGEST_REASON = 28, 400
_STEPS = (1, 2, 5, 10)
_NO_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class _Scale:
    """Maps times since the first to pixels, clipped at the edges of the picture, which begins at `begin_ns`."""

    first_ns: int
    begin_ns: int
    span_ns: int

    def x(self, since_ns: int) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * min(max((since_ns - self.begin_ns) / self.span_ns, 0.0), 1.0)


def timeline_svg(
    tables: Mapping[str, pd.DataFrame],
    info: Info,
    *,
    start_ns: int | None = None,
    end_ns: int | None = None,
    finding: str = "",
    pictures: Pictures | None = None,
    limit_bytes: int = LIMIT_BYTES,
) -> str:
    """Draw the timeline of a run as an SVG document.

    Lanes and colours are those of :func:`npuprof.timeline.figure.timeline`. The SVG has at most `limit_bytes` as
    UTF-8, as far as the lanes allow: runs with long names get fewer bars, shorter names and no hover texts. Slices
    outside the window are left out. `finding` is the title, and `pictures` are those of the window, where something
    else draws it too.
    """
    text = ""
    pictures = pictures or Pictures(tables, start_ns, end_ns)
    for bars, longest_name, hover in _DETAILS if limit_bytes == LIMIT_BYTES else _DETAILS[2:]:
        drawn = pictures.of(bars)
        if drawn is None:
            part = "part of the run" if any(len(tables[name]) for name in TABLES) else "run"
            reason = label(pictures.left_out, _LONGEST_REASON) or f"no slices in this {part}"
            empty = f'<text x="{_WIDTH / 2:.0f}" y="60" text-anchor="middle">{reason}</text>'
            return _document(info, _TOP + 2 * _LANE + 22, empty, "")
        legend = _TOP + math.ceil(drawn.height * _LANE) + 22
        text = _document(info, legend, "".join(_body(drawn, legend, longest_name, hover=hover)), finding)
        if len(text.encode("utf-8", "replace")) <= limit_bytes:
            break
    return text


def _document(info: Info, legend: int, body: str, finding: str) -> str:
    height = legend + 40
    said = f'<text x="8" y="18" font-size="15" font-weight="bold">{label(finding, 120)}</text>' if finding else ""
    title = "Timeline" + (f" · {label(info.name, 60)}" if info.name else "")
    simulated = '<tspan font-weight="bold"> · simulated NPU</tspan>' if info.simulated else ""
    document = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" '
        f'height="{height}" style="max-width:100%;height:auto" role="img" '
        f'aria-label="Timeline" font-family="system-ui,sans-serif" font-size="10" fill="{FOREGROUND}">'
        f'{said}<text x="8" y="{34 if said else 18}" font-size="{11 if said else 14}">{title}{simulated}</text>'
        f"{body}</svg>"
    )
    return _NO_XML.sub(" ", document)


def _body(picture: DrawnTimeline, legend: int, longest_name: int, *, hover: bool) -> Iterator[str]:
    start, end = picture.opened
    scale = _Scale(picture.first_ns, start - picture.first_ns, max(end - start, 1))
    bars, looks = picture.bars, picture.looks()
    shared = ""
    if picture.shared is not None:
        shared = f" · {counted(picture.shared[0], 'slice')} in {counted(picture.shared[1], 'bar')}"
    begins = f"starts {moment(scale.first_ns)}{shared}"
    yield f'<text x="{_WIDTH - _RIGHT}" y="34" text-anchor="end">{begins}</text>'
    yield from _axis(scale, legend - 18)
    for lane in picture.lanes:
        if lane.title:
            y = _TOP + lane.place * _LANE + 11
            yield f'<text x="{_LEFT - 6}" y="{y:.0f}" text-anchor="end">{label(lane.title, _LONGEST_TITLE)}</text>'
    columns = (
        picture.places,
        (bars.start_ns - scale.first_ns).tolist(),
        (bars.end_ns - bars.start_ns).tolist(),
        looks.families,
        looks.colours,
        looks.opacity.tolist(),
        picture.labels(looks.names, longest_name),
        picture.hover(looks.names, longest_name) if hover else [""] * len(bars),
    )
    is_shown = (bars.end_ns >= start) & (bars.start_ns <= end)
    fills: dict[tuple[str, float], list[str]] = {}
    texts = []
    for place, start_ns, length_ns, family, colour, opacity, name, about in compress(
        zip(*columns, strict=True), is_shown.tolist()
    ):
        x, y = scale.x(start_ns), _TOP + place * _LANE
        width = max(scale.x(start_ns + length_ns) - x, 0.6)
        if hover:
            faint = "" if opacity == 1 else f' opacity="{opacity:.2f}"'
            said = re.sub(r"</?b>", "", about).replace("<br>", ", ")  # markup of this module: the rest was escaped
            yield (
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="14" fill="{colour}"{faint}>'
                f"<title>{said}</title></rect>"
            )
        else:  # all bars of a look at once, which takes a fifth of the bytes
            fills.setdefault((colour, round(opacity, 1)), []).append(f"M{x:.1f} {y + 7:.0f}h{width:.1f}")
        # An escape such as &lt; is one character on the screen.
        if name and len(re.sub(r"&[^;]+;", "x", name)) * _CHARACTER <= width - 4:
            texts.append(
                f'<text x="{x + width / 2:.1f}" y="{y + 10.5:.1f}" fill="{FAMILIES[family].ink}">{name}</text>'
            )
    for (colour, opacity), outlines in fills.items():
        outline = "".join(outlines)
        yield f'<path d="{outline}" stroke="{colour}" stroke-width="14" opacity="{opacity:g}"/>'
    named = "".join(texts)
    yield f'<g text-anchor="middle" pointer-events="none">{named}</g>'
    for at, line in enumerate(picture.tracks):
        yield _track(scale, picture, at, label(line.title, _LONGEST_TITLE), None if hover else _FEW_SAMPLES)
    names = {key: family_label(key, picture.slices.runtime) for key in FAMILIES if key in looks.families}
    yield from _legend(names, legend)


def _track(scale: _Scale, picture: DrawnTimeline, at: int, title: str, most: int | None) -> str:
    """Draw a counter track as a step line of at most so many samples, with its maximum."""
    top, times, places, values = picture.track(at)
    if most is not None:
        kept = thinned(values, most)
        times, places = times[kept], places[kept]
    corners = [
        (scale.x(time - scale.first_ns), _TOP + place * _LANE)
        for time, place in zip(times.tolist(), places.tolist(), strict=True)
    ]
    steps = "".join(f"H{x:.1f}V{y:.1f}" for x, y in corners[1:])
    return (
        f'<path d="M{corners[0][0]:.1f} {corners[0][1]:.1f}{steps}" fill="none" stroke="{FOREGROUND}"/>'
        f'<text x="{_LEFT - 6}" y="{_TOP + top * _LANE + 14:.0f}" text-anchor="end">{title}</text>'
        f'<text x="{_WIDTH - 10}" y="{_TOP + top * _LANE + 8:.0f}" text-anchor="end">'
        f"{picture.tracks[at].top:,.0f} at most</text>"
    )


def _axis(scale: _Scale, bottom: int) -> Iterator[str]:
    unit_ns, unit = unit_of(scale.span_ns)
    rough = scale.span_ns / unit_ns / 10
    power = 10.0 ** math.floor(math.log10(rough))
    step = next((factor * power for factor in _STEPS if factor * power >= rough), 10 * power)
    decimals = max(0, -math.floor(math.log10(step)))
    first = math.ceil(scale.begin_ns / unit_ns / step)
    for number in range(first, int((scale.begin_ns + scale.span_ns) / unit_ns / step) + 1):
        x = scale.x(round(number * step * unit_ns))
        yield f'<path d="M{x:.1f} {_TOP - 6}V{bottom}" stroke="#808080" stroke-opacity=".25"/>'
        yield f'<text x="{x:.1f}" y="{_TOP - 10}" text-anchor="middle">{number * step:,.{decimals}f} {unit}</text>'


def _legend(names: Mapping[str, str], y: int) -> Iterator[str]:
    x = float(_LEFT)
    for key, name in names.items():
        if x + 30 + _CHARACTER * len(name) > _WIDTH:
            x, y = float(_LEFT), y + 16
        yield f'<rect x="{x:.0f}" y="{y}" width="9" height="9" fill="{FAMILIES[key].colour}"/>'
        yield f'<text x="{x + 13:.0f}" y="{y + 8}">{label(name, 40)}</text>'
        x += 30 + _CHARACTER * len(name)

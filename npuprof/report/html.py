"""A report as HTML for the output of a cell: complete without scripts, and readable without styles."""

from __future__ import annotations

import io
import keyword
import re
import tokenize
from collections.abc import Iterator, Sequence
from functools import cache
from html import escape
from pathlib import Path
from typing import Literal

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from npuprof.report import pictures
from npuprof.report.model import Bar, Changes, Code, CodeLine, Lane, Part, Report, Steps, Strip
from npuprof.words import quantities
from npuprof.words.quantities import duration, printable, unbroken
from npuprof.words.texts import AS_TEXT, KEYS, plain_line

CLASS = "npuprof-report"
"""The class of each part of a report."""

_TEMPLATES = Path(__file__).with_name("templates")
_CLASSES = re.compile(r'class="([^"]*)"')
_CLASS_NAMES = re.compile(r"\.[\w-]+")
_QUOTED = re.compile(r"`([^`]*)`")
_LONGEST = 1_200  # characters of a sentence
_LONGEST_CODE = 160
_BAR_PERCENT = 90  # of its room, for the longest bar
_GAP = "⋮"
_MOST_TICKS = 5.5
_UNITS = ((10**9, "s"), (10**6, "ms"), (10**3, "µs"), (1, "ns"))
_TICK_ROOM = 0.1  # of an axis, for its last label


def report_html(report: Report, part: Literal["all", "top", "folds"] = "all", above: str = "") -> str:
    """Return a report as an HTML fragment.

    Every text is escaped and shortened. There is no script, unless a fold brings its own.

    Parameters
    ----------
    part
        ``top`` for all that is not folded, ``folds`` for the row of folded parts, which an output of its own may hold.
    """
    classes = " ".join([CLASS, KEYS, AS_TEXT, *report.cells, *(["npuprof-folds"] if part == "folds" else [])])
    shown = compile_template().render(report=report, part=part, classes=classes)
    return shown if report.is_brief else f"<style>{_style(shown, above)}</style>{shown}"


def _style(shown: str, above: str) -> str:
    """Return the rules of the style that apply to a fragment: each line of the file is a rule."""
    used = {f".{name}" for names in _CLASSES.findall(shown) for name in names.split()}
    return "".join(
        rule
        for selectors, rule in _rules()
        if rule not in above and any(used.issuperset(_CLASS_NAMES.findall(selector)) for selector in selectors)
    )


@cache
def _rules() -> list[tuple[list[str], str]]:
    lines = _TEMPLATES.joinpath("report.css").read_text().splitlines()
    return [(line.partition("{")[0].split(","), line) for line in lines]


@cache
def compile_template() -> Template:
    """Return the template of all reports, compiled once."""
    loader = FileSystemLoader(_TEMPLATES)
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    environment.filters |= {"markup": _markup, "line": _line, "head": _head, "rows": _rows, "changed": _changed}
    environment.globals |= {
        "bar": _bar,
        "bars": _bars,
        "axis": _axis,
        "drawing": _drawing,
        "steps": _steps,
        "track": _track,
        "ticks": ticks,
        "colour": pictures.LOOKS.__getitem__,
        "share": lambda part, parts: quantities.share(part.time_ns, sum(each.time_ns for each in parts)),
    }
    return environment.get_template("report.html.jinja")


def _line(text: str, longest: int) -> str:
    return unbroken(printable(text, longest))


def _markup(text: str) -> Markup:
    """Return a text with what stands in backticks as code."""
    return Markup(_QUOTED.sub(r'<code class="npuprof-quoted">\1</code>', escape(unbroken(printable(text, _LONGEST)))))  # noqa: S704


def _image(svg: str, alt: str, height: int, width: str = "100%") -> Markup:
    shown = width if width == "100%" else f"{width}px"
    return Markup('<img class="npuprof-picture" src="{}" alt="{}" height="{}" width="{}" style="width:{}">').format(
        pictures.picture(svg), alt, height, width, shown
    )


def _bar(parts: Sequence[Part]) -> Markup:
    whole = sum(part.time_ns for part in parts)
    alt = ", ".join(f"{part.label} {quantities.share(part.time_ns, whole)}" for part in parts)
    return _image(pictures.parts_svg(parts), alt, pictures.BAR_PX)


def _steps(steps: Steps) -> Markup:
    svg, width = pictures.steps_svg(steps)
    times = steps.times_ns
    alt = f"time of each of {len(times):,} steps: {duration(min(times))} to {duration(max(times))}"
    return _image(svg, alt, pictures.STEPS_PX, str(width))


def _track(lane: Lane, strip: Strip) -> Markup:
    shown = [segment.label for segment in lane.segments if segment.label][:12]
    return _image(pictures.lane_svg(lane, strip.length_ns), f"{lane.label}: {', '.join(shown)}", pictures.LANE_PX)


def _bars(bars: Sequence[Bar]) -> Iterator[tuple[Bar, Markup]]:
    begin, end = pictures.reach(bars)
    for bar in bars:
        yield bar, _image(pictures.waterfall_svg(bar, begin, end), bar.figure, pictures.WATERFALL_PX)


def _axis(bars: Sequence[Bar]) -> str:
    """Return where the axis of a waterfall begins; empty if at 0."""
    begin, _ = pictures.reach(bars)
    return f"// the bars begin at {duration(begin)}" if begin else ""


def _drawing(alt: str, svg: str) -> Markup:
    """Return a drawing as wide as the report, as high as it comes."""
    return Markup('<img class="npuprof-picture" src="{}" alt="{}" style="width:100%;height:auto">').format(
        pictures.picture(svg), alt
    )


def _changed(changes: Changes) -> Iterator[Markup]:
    """Yield the lines of a change: those before pale, those after on a ground, each with its time."""
    numbers = max(len(str(line.number)) for line in changes.lines)
    times = [_figure(line.time_ns) for line in changes.lines]
    width = max(len(changes.per), *map(len, times))
    yield Markup('<span class="npuprof-faint">{}</span>').format(changes.per.rjust(width))
    texts = _highlighted([line.text for line in changes.lines])
    for line, time, text in zip(changes.lines, times, texts, strict=True):
        look = "npuprof-added" if line.sign == "+" else "npuprof-faint"
        sign = "+" if line.sign == "+" else "\u2212"
        yield Markup('{}  <span class="{}">{} {}  {}</span>').format(
            time.rjust(width), look, sign, str(line.number).rjust(numbers), text
        )
    if changes.more:
        yield Markup('<span class="npuprof-faint">{}</span>').format(changes.more)


def ticks(length_ns: int) -> list[tuple[str, float]]:
    """Return the labels of an axis from 0, each with the share of the axis that it takes in percent."""
    if length_ns <= 0:
        return []
    steps = (10**power * factor for power in range(19) for factor in (1, 2, 5))
    step = next((step for step in steps if length_ns <= _MOST_TICKS * step), length_ns)
    count = length_ns // step
    if length_ns - count * step < _TICK_ROOM * length_ns:
        count -= 1  # the last label would be cut off
    width = round(100 * step / length_ns, 2)
    scale, unit = next(((size, unit) for size, unit in _UNITS if step * count >= size), _UNITS[-1])
    labels = [f"{number * step / scale:,.4g}" for number in range(count + 1)]
    return [(f"{label} {unit}" if number == count else label, width) for number, label in enumerate(labels)]


def _figure(time_ns: int) -> str:
    return duration(time_ns) if time_ns else ""


def _widths(code: Code) -> tuple[list[int], int, int]:
    """Return the widths of the columns of figures, of the marks and of the numbers."""
    rows = [
        [_figure(line.device_ns), _figure(line.idle_ns), *line.others] for line in code.lines if line.number is not None
    ]
    headings = [*code.columns, *code.others]
    used = [max([len(heading), *(len(row[at]) for row in rows)]) for at, heading in enumerate(headings)]
    used = [width if any(row[at] for row in rows) else 0 for at, width in enumerate(used)]
    marks = max((len(line.marks) for line in code.lines), default=0)
    return used, marks, max((len(str(line.number)) for line in code.lines if line.number is not None), default=1)


def _head(code: Code) -> Markup:
    widths, marks, numbers = _widths(code)
    figures = _figures([*code.columns, *code.others], widths)
    bar = Markup('<span class="npuprof-bars"></span>')
    return Markup("{} {}{}  {}").format(figures, bar, " " * (2 * marks + numbers + 2), code.per)


def _figures(cells: Sequence[str], widths: Sequence[int]) -> Markup:
    """Return figures in columns: those that no bar shows are left out where there is little room."""
    padded = [cell.rjust(width) if width else "" for cell, width in zip(cells, widths, strict=True)]
    drawn, others = " ".join(filter(None, padded[:2])), "".join(f" {cell}" for cell in padded[2:] if cell)
    return Markup('{}<span class="npuprof-others">{}</span>').format(drawn, others) if others else Markup.escape(drawn)


def _rows(code: Code) -> Iterator[Markup]:
    widths, marks, numbers = _widths(code)
    longest = max((line.device_ns + line.idle_ns for line in code.lines), default=0) or 1
    texts = _highlighted([line.text for line in code.lines])
    for line, text in zip(code.lines, texts, strict=True):
        if line.number is None:
            blank = _figures([""] * len(widths), widths)
            yield Markup('{} <span class="npuprof-bars"></span> {}<span class="npuprof-faint">{}</span>').format(
                blank, " " * (2 * marks + 1), _GAP.rjust(numbers)
            )
            continue
        cells = [_figure(line.device_ns), _figure(line.idle_ns), *line.others]
        figures = _figures(cells, widths)
        # notebook/cells.js makes a link of it.
        place = Markup(' title="{}, line {}"').format(code.cell, line.number) if code.cell else ""
        hot = "npuprof-hot" if line.marks else ""
        shown = Markup('{} {} {} <span class="npuprof-faint"{}>{}</span>  <span class="{}">{}</span>').format(
            figures, _code_bar(line, longest), _marks(line, marks), place, str(line.number).rjust(numbers), hot, text
        )
        yield shown if line.row is None else Markup('<span data-row="{}">{}</span>').format(line.row, shown)


def _code_bar(line: CodeLine, longest: int) -> Markup:
    fills = [
        (_BAR_PERCENT * time_ns / longest, pictures.LOOKS[look])
        for time_ns, look in ((line.device_ns, "computing"), (line.idle_ns, "line"))
        if time_ns > 0
    ]
    drawn = "".join(
        f'<span class="npuprof-fill" style="width:{percent:.1f}%;background:{colour}"></span>'
        for percent, colour in fills
    )
    return Markup(f'<span class="npuprof-bars">{drawn}</span>')  # noqa: S704


def _marks(line: CodeLine, most: int) -> Markup:
    # Without styles a number is narrower than its disc by a space.
    one = Markup('<span class="npuprof-mark">{}</span><span class="npuprof-unseen"> </span>')
    shown = Markup("").join(map(one.format, line.marks))
    return Markup(" " * (2 * (most - len(line.marks)))) + shown  # noqa: S704


def _highlighted(lines: Sequence[str]) -> list[Markup]:
    """Return lines of Python with keywords and comments in a colour; plain where they are no Python."""
    shown = [plain_line(line.expandtabs(4))[:_LONGEST_CODE] for line in lines]
    spans: list[list[tuple[int, int, str]]] = [[] for _ in shown]
    reader = io.StringIO("\n".join(shown) + "\n").readline
    try:
        for token in tokenize.generate_tokens(reader):
            if token.type == tokenize.COMMENT or (token.type == tokenize.NAME and keyword.iskeyword(token.string)):
                look = "npuprof-faint" if token.type == tokenize.COMMENT else "npuprof-word-kept"
                spans[token.start[0] - 1].append((token.start[1], token.end[1], look))
    except (tokenize.TokenError, SyntaxError, IndexError):
        pass  # lines that were left out, or that are no Python: what was found so far is right
    return [_spanned(line, of_line) for line, of_line in zip(shown, spans, strict=True)]


def _spanned(line: str, spans: Sequence[tuple[int, int, str]]) -> Markup:
    pieces, at = Markup(""), 0
    for begin, end, look in spans:
        pieces += Markup('{}<span class="{}">{}</span>').format(line[at:begin], look, line[begin:end])
        at = end
    return pieces + line[at:]

"""A report as text for a terminal: about thirty lines, in the order of the HTML."""

from __future__ import annotations

import itertools
import textwrap
import unicodedata
from collections.abc import Sequence

from npuprof.report.model import Bar, Changes, Code, CodeLine, Report, Strip, Table
from npuprof.report.pictures import reach
from npuprof.words.quantities import NO_BREAK, duration, printable, share, unbroken

_WIDTH = 80
_LONGEST = 1_200
_LONGEST_CODE = 100
_LONGEST_CELL = 48
_BAR = 10
_MOST_LINES = 12
_GAP = "⋮"


def report_text(report: Report, *, most_lines: int = _MOST_LINES, detailed: bool = False) -> str:
    """Return a report as text without a trailing newline: at most `most_lines` lines of code, the costliest.

    `detailed` has each finding followed by what its time consists of.
    """
    simulated = ["simulated NPU"] if report.is_simulated else []
    lines = [printable(" · ".join(filter(None, [report.name, *simulated, *report.origin])), 200)]
    for warning in report.warnings:
        lines += _wrapped(warning.text)
        most = max((width(amount) for amount, _ in warning.rows), default=0)
        for amount, what in warning.rows:
            lines.append(f"  {' ' * (most - width(amount))}{amount}  {printable(what, _LONGEST_CODE)}")
    if report.headline:
        lines += ["", f"{report.headline}  {report.aside}".rstrip()]
    lines += _wrapped(": ".join(filter(None, [report.verdict, report.sentence])))
    if report.parts:
        whole = sum(part.time_ns for part in report.parts)
        lines += _wrapped("   ".join(f"{part.label} {share(part.time_ns, whole)}" for part in report.parts))
    for strip in report.strips:
        lines += ["", *_strip_lines(strip)] if strip.in_text else []
    for number, problem in enumerate(report.problems, 1):
        gain = "   ".join(filter(None, [problem.gain, problem.share]))
        lines += ["", *_beside(f"{number}  {printable(problem.title, _LONGEST)}", gain)]
        lines += _wrapped(f"-> {problem.action}", "   ") if problem.action else []
        lines += _wrapped(problem.detail, "   ") if detailed else []
    for code in report.codes:
        lines += ["", *([code.title] if code.title else []), *code_lines(code, most_lines)]
    lines += ["", *_waterfall_lines(report.waterfall)] if report.waterfall else []
    lines += ["", *changed_lines(report.changes)] if report.changes else []
    for table in report.tables:
        lines += ["", *table_text(table)]
    lines += ["", *_wrapped(report.since)] if report.since else []
    if last := [text for text in (report.unknown, report.noted) if text]:
        lines += ["", " · ".join(last)]
    lines += ["", *_wrapped(report.kept.replace("`", ""))] if report.kept else []
    return "\n".join(line.rstrip() for line in lines).strip("\n")


_LANE = 56
_OF_LOOK = {"computing": "█", "waiting": "░", "moving": "▒", "communication": "▒", "copy": "▒", "rest": "·"}
_WORDS = {
    "computing": "computing",
    "waiting": "waiting",
    "moving": "moving data",
    "communication": "communication",
    "rest": "between collectives",
}
_BAR_OF_CHANGE = 34


def _strip_lines(strip: Strip) -> list[str]:
    """Return the lanes of a strip as lines: each column has the look that takes most."""
    edges = [strip.length_ns * at // _LANE for at in range(_LANE + 1)]
    names, lines = max((width(lane.label) for lane in strip.lanes), default=0), []
    for lane in strip.lanes:
        drawn, owed = [], {" ": 0}
        for begin, end in itertools.pairwise(edges):
            owed[" "] += end - begin
            for piece in lane.segments:
                inside = max(min(piece.end_ns, end) - max(piece.start_ns, begin), 0)
                mark = _OF_LOOK.get(piece.look, " ")
                owed[" "] -= inside
                owed[mark] = owed.get(mark, 0) + inside
            drawn.append(max(owed, key=lambda mark: owed[mark]))
            owed[drawn[-1]] -= end - begin  # what a column does not show is carried on to the next one
        label = lane.label + " " * (names - width(lane.label))
        lines.append(f"{label} {'*' if lane.is_marked else ' '} {''.join(drawn)}")
    looks = {piece.look for lane in strip.lanes for piece in lane.segments}
    key = [f"{_OF_LOOK[look]} {word}" for look, word in _WORDS.items() if look in looks]
    return [*lines, f"{' ' * (names + 3)}{'   '.join([*key, duration(strip.length_ns)])}"]


def _waterfall_lines(bars: Sequence[Bar]) -> list[str]:
    """Return the rows of a waterfall with bars of characters."""
    labels = [printable(bar.label, _LONGEST_CELL) for bar in bars]
    names, figures = max(map(width, labels)), max(len(bar.figure) for bar in bars)
    first, last = reach(bars)
    lines = []
    for bar, label in zip(bars, labels, strict=True):
        low, high = sorted(
            round(_BAR_OF_CHANGE * (max(time, first) - first) / (last - first)) for time in (bar.start_ns, bar.end_ns)
        )
        drawn = " " * low + ("█" if bar.is_whole else "▒") * max(high - low, 1)
        lines.append(f"{label}{' ' * (names - width(label))}  {bar.figure:>{figures}}  {drawn}")
    return [*lines, *([f"(the bars begin at {duration(first)})"] if first else [])]


def changed_lines(changes: Changes) -> list[str]:
    """Return changed lines of code with their times as lines of text."""
    numbers = max(len(str(line.number)) for line in changes.lines)
    times = [_time(line.time_ns) for line in changes.lines]
    room = max(len(changes.per), *map(len, times))
    lines = [changes.per.rjust(room)]
    for line, time in zip(changes.lines, times, strict=True):
        lines.append(f"{time:>{room}}  {line.sign} {line.number:>{numbers}}  {_code_text(line.text)}")
    return [*lines, *([changes.more] if changes.more else [])]


def _code_text(text: str) -> str:
    """Return a line of code on one line, with its indent."""
    expanded = text.expandtabs(4).rstrip()
    indent = len(expanded) - len(expanded.lstrip())
    return (" " * indent + printable(expanded, 10**6).lstrip())[:_LONGEST_CODE] if expanded else ""


def _wrapped(text: str, indent: str = "") -> list[str]:
    whole = unbroken(printable(text, _LONGEST))
    lines = textwrap.wrap(whole, _WIDTH, initial_indent=indent, subsequent_indent=indent)
    return [line.replace(NO_BREAK, " ") for line in lines]


def _beside(text: str, right: str) -> list[str]:
    room = _WIDTH - width(right) - 2
    first, *rest = textwrap.wrap(unbroken(text), room, subsequent_indent="   ") or [""]
    first, *rest = (line.replace(NO_BREAK, " ") for line in (first, *rest))
    return [f"{first}{' ' * max(room - width(first) + 2, 2)}{right}", *rest]


def code_lines(code: Code, most: int) -> list[str]:
    """Return code with its times as lines of text: at most `most`, those that take longest, in their order."""
    known = [line for line in code.lines if line.number is not None]
    kept = {
        id(line) for line in sorted(known, key=lambda line: (not line.marks, -line.device_ns - line.idle_ns))[:most]
    }
    shown: list[CodeLine] = []
    for line in code.lines:
        if id(line) in kept:
            shown.append(line)
        elif shown and shown[-1].number is not None:
            shown.append(CodeLine(None))
    while shown and shown[-1].number is None:
        shown.pop()
    cells = [[_time(line.device_ns), _time(line.idle_ns), *line.others] for line in shown]
    headings = [*code.columns, *code.others]
    cells = [[*row, *[""] * (len(headings) - len(row))] for row in cells]
    widths = [
        max([len(heading), *(len(row[at]) for row in cells)]) if any(row[at] for row in cells) else 0
        for at, heading in enumerate(headings)
    ]
    longest = max((line.device_ns + line.idle_ns for line in shown), default=0) or 1
    numbers = max((len(str(line.number)) for line in shown), default=1)
    marks = max((len(_mark(line)) for line in shown), default=0)
    lead = sum(size + 1 for size in widths if size)
    figures = " ".join(heading.rjust(size) for heading, size in zip(headings, widths, strict=True) if size)
    lines = [f"{figures}{' ' * (_BAR + marks + numbers + 5)}{code.per}"]
    for line, row in zip(shown, cells, strict=True):
        if line.number is None:
            lines.append(" " * (lead + _BAR + marks + 2) + _GAP.rjust(numbers))
            continue
        first, second = (round(_BAR * time_ns / longest) for time_ns in (line.device_ns, line.idle_ns))
        bar = f"{'█' * first + '░' * second:{_BAR}}"[:_BAR]
        figures = " ".join(cell.rjust(size) for cell, size in zip(row, widths, strict=True) if size)
        mark = f"{_mark(line):>{marks}} {line.number:>{numbers}}"
        lines.append(f"{figures} {bar} {mark}  {_code_text(line.text)}")
    return lines


def _mark(line: CodeLine) -> str:
    return ",".join(map(str, line.marks))


def _time(time_ns: int) -> str:
    return duration(time_ns) if time_ns else ""


def table_text(table: Table) -> list[str]:
    """Return a table as lines of text, its columns aligned by the width of their characters in a terminal."""
    cells = [[printable(cell, _LONGEST_CELL) for cell in row] for row in [table.headings, *table.rows]]
    widths = [max(map(width, column)) for column in zip(*cells, strict=True)]
    first = len(widths) - table.numeric
    rows = [
        "  ".join(
            " " * (size - width(cell)) + cell if at >= first else cell + " " * (size - width(cell))
            for at, (cell, size) in enumerate(zip(row, widths, strict=True))
        )
        for row in cells
    ]
    return [table.title, rows[0], "─" * max(map(width, rows)), *rows[1:]]


def width(text: str) -> int:
    """Return the number of terminal columns of a text."""
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    marks = sum(unicodedata.combining(character) > 0 for character in text)
    return len(text) + wide - marks


__all__: Sequence[str] = ("changed_lines", "code_lines", "report_text", "table_text", "width")

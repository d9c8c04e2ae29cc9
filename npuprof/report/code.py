"""The user's code with the costs of each line: as a table, as HTML for a notebook, and as text."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from npuprof import interactive
from npuprof.advice.findings import Advice
from npuprof.advice.to_collect import missing
from npuprof.analysis.code_lines import CodeLines
from npuprof.arrays import Bools, Float64
from npuprof.figures.colours import BADGE, PARTS
from npuprof.lines.frames import cell_text, line_text
from npuprof.options import NO_OPERATORS
from npuprof.report.code_figures import MEASURES, FigureColumns
from npuprof.report.code_texts import CodeTexts, head_of, is_head_alone
from npuprof.tables.info import Info
from npuprof.words.quantities import counted, duration, printable, share
from npuprof.words.texts import AS_TEXT, KEYS, LongText, cell_classes, plain_line

_MATTERS, _AROUND = 0.01, 2  # share of a cost, and lines above and below one that has it
_MOST_FILES = 12
_LONGEST_LINE, _LONGEST_NAME = 160, 120
_BAR_CELLS, _BAR_PX = 10, 56
_GAP = "⋮"
_LIMIT_BYTES = 90_000
_MOST_LINES = (400, 200, 80, 20)  # of a cell, and of all other files together: from all detail to what always fits
_MOST_IN_TERMINAL = 60
_FAINT = "var(--jp-ui-font-color2,inherit)"
_PRE = (
    "margin:4px 0 0;padding:0;border:0;background:none;color:inherit;overflow-x:auto;white-space:pre;"
    "font-family:var(--jp-code-font-family,ui-monospace,monospace);font-size:11px;line-height:1.5"
)


@dataclass(frozen=True)
class Section:
    """The lines of a file that are shown.

    Attributes
    ----------
    title
        The name of the file or cell.
    rows
        Rows of the table, -1 for lines left out.
    is_folded
        Whether the lines are shown only when they are asked for.
    """

    title: str
    rows: list[int]
    is_folded: bool


class AnnotatedCode(LongText):
    """The user's code with the costs of each line.

    Parameters
    ----------
    lines
        The costs of the lines of a run.
    advice
        The findings of the run; lines of their evidence are marked with their numbers.
    texts
        The text of the code.

    Attributes
    ----------
    notes
        What the lines and their text rest on.
    """

    def __init__(self, lines: CodeLines, advice: Advice, texts: CodeTexts) -> None:
        self._costs = lines.table()
        self._advice = advice
        self._texts = texts
        self._marks = _marks(lines, advice)
        self._guessed_ns = lines.guessed_ns
        self._frame = self._framed()
        self.notes = self._noted()

    def __len__(self) -> int:
        """Return the number of lines of code with a cost."""
        return len(self._costs) - 1

    def to_frame(self) -> pd.DataFrame:
        """Return the table of lines.

        Returns
        -------
        pandas.DataFrame
            ``file``, ``line`` and ``text`` (absent if unknown); ``device_ns``, ``idle_ns``, ``host_ns``, ``launches``
            and ``peak_bytes``; of a run without a device also ``operators``, and device columns are absent. First all
            lines of the profiled cell, then those of other files that have a cost. The last row has no line: with it,
            the columns add up to the run. See :class:`npuprof.analysis.code_lines.CodeLines`.
        """
        has_cost = (self._frame[list(MEASURES)].fillna(0) > 0).any(axis=1).to_numpy(bool)
        is_kept = has_cost | (self._frame["file"].isin([self._texts.cell]) | self._frame["line"].isna()).to_numpy(bool)
        unused = [] if self._of_host else ["operators"]
        frame: pd.DataFrame = self._frame[is_kept].drop(columns=["marks", "cost_row", *unused]).reset_index(drop=True)
        return frame

    def cost_row(self, row: int) -> int:
        """Return the row of :meth:`npuprof.analysis.code_lines.CodeLines.table` for a shown row, -1 for none."""
        return int(self._frame["cost_row"].iloc[row]) if 0 <= row < len(self._frame) - 1 else -1

    def shown_row(self, cost_row: int) -> int:
        """Return the shown row of a row of costs, -1 if it is not shown."""
        rows = np.flatnonzero((self._frame["cost_row"] == cost_row).to_numpy(bool))
        return int(rows[0]) if len(rows) and cost_row >= 0 else -1

    # -- the table -------------------------------------------------------------------------------------------------

    @cached_property
    def _of_host(self) -> bool:
        return bool(self._costs["launches"].isna().all())

    def _framed(self) -> pd.DataFrame:
        """Return the lines by file, all of them where their text is known, and last what has no line."""
        costs = self._costs.assign(marks=[*self._marks, ""], cost_row=[*range(len(self)), -1])
        last, costs = costs.iloc[-1:], costs.iloc[:-1]
        costs = costs[(costs[list(MEASURES)].fillna(0) > 0).any(axis=1).to_numpy(bool)]
        cell = self._texts.cell
        weight = costs[["device_ns", "idle_ns"] if not self._of_host else ["host_ns"]].fillna(0).sum(axis=1)
        order = weight.groupby(costs["file"]).sum().sort_values(ascending=False, kind="stable")
        files = [cell] * bool(cell) + [str(file) for file in order.index if file != cell]
        parts = [
            self._lines_of(file, costs[(costs["file"] == file).to_numpy(bool)], whole=at < _MOST_FILES)
            for at, file in enumerate(files)
        ]
        parts.append(last.assign(**dict.fromkeys(("file", "text"), pd.array([pd.NA], "string"))))
        ordered: pd.DataFrame = pd.concat(parts, ignore_index=True)[
            ["file", "line", "text", *MEASURES, "marks", "cost_row"]
        ]
        return ordered

    def _lines_of(self, file: str, costs: pd.DataFrame, *, whole: bool) -> pd.DataFrame:
        """Return the lines of a file that have a cost, or all whose text is known, with their text."""
        texts = self._texts.lines(file)
        lines = sorted({*(range(1, len(texts) + 1) if whole else ()), *costs["line"].tolist()})
        costs = costs.set_index("line").reindex(pd.Index(lines, dtype="Int64", name="line")).reset_index()
        known = [name for name in MEASURES if self._costs[name].notna().any()]
        within = [texts[line - 1] if line <= len(texts) else None for line in lines]
        every_line: pd.DataFrame = costs.assign(
            file=file,
            text=pd.array(within, "string"),
            marks=costs["marks"].fillna(""),
            cost_row=costs["cost_row"].fillna(-1).astype("int64"),
            **{name: costs[name].fillna(0) for name in known},
        )
        return every_line

    def _noted(self) -> list[str]:
        notes = list(self._texts.notes)
        files = self._frame[self._frame["file"].notna().to_numpy(bool)].groupby("file", sort=False)
        unread, short = [], []
        for file, rows in files:
            if not self._texts.lines(str(file)):
                unread.append(_title(str(file)))
            elif rows["text"].isna().any():
                short.append(_title(str(file)))
        launched = (self._frame[["launches", "operators"]].fillna(0) > 0).any(axis=1).to_numpy(bool)
        if any(is_head_alone(text) for text in self._frame["text"][launched].dropna()):
            notes.append("the time of a function may stand at its first line: the stacks of the run name no other")
        if short:
            notes.append(f"{', '.join(short[:3])}: has fewer lines than the run names, so it is not what ran")
        if unread:
            more = f" and {len(unread) - 3} more" if len(unread) > 3 else ""
            notes.append(
                f"the run does not have the text of {', '.join(unread[:3])}{more}: "
                "npuprof.load(path, code_root=...) looks for files below a folder"
            )
        if guessed_ns := self._guessed_ns:
            of = share(guessed_ns, int(self._costs["device_ns"].fillna(0).sum()))
            notes.append(
                f"which lines launched {of} of the device time is known from samples, or from what ran meanwhile: "
                'their times are about right, and run.by("line") has the errors of shares'
            )
        return notes

    # -- what is shown ---------------------------------------------------------------------------------------------

    def _sections(self, most: int, *, whole: bool = True) -> list[Section]:
        """Return what is shown of each file; `most` limits the lines of the cell, and of all others together."""
        sections, left = [], most
        files = self._frame["file"].iloc[:-1]
        for file in list(dict.fromkeys(files.tolist()))[:_MOST_FILES]:
            rows = np.flatnonzero((files == file).to_numpy(bool)).tolist()
            near = self._around(rows, most if file == self._texts.cell else left)
            if file == self._texts.cell:
                chosen = rows if whole and len(rows) <= most else near
                sections.append(Section(_title(file), chosen, is_folded=False))
            elif chosen := near:
                left -= len(chosen)
                sections.append(Section(_title(file), chosen, is_folded=bool(self._texts.cell) or bool(sections)))
        return sections

    @cached_property
    def _matters(self) -> Bools:
        """Whether each row has at least 1 % of a cost of the run."""
        costs = self._frame[list(MEASURES)].fillna(0).to_numpy(np.float64)
        matters: Bools = (costs >= _MATTERS * np.maximum(costs.sum(axis=0), 1)).any(axis=1)
        matters[-1] = False
        return matters

    def _around(self, rows: Sequence[int], most: int) -> list[int]:
        """Return the rows of a file that matter, those around them, and the head of their function; -1 for a gap."""
        important = [at for at, row in enumerate(rows) if self._matters[row]]
        texts = self._frame["text"].iloc[list(rows)].fillna("").tolist()
        reach = _AROUND if any(texts) else 0
        near: set[int] = set()
        for place in important[:most]:
            near |= {*range(max(place - reach, 0), min(place + reach + 1, len(rows))), head_of(texts, place)}
        chosen: list[int] = []
        for at in sorted(near):
            if chosen and rows[at] != chosen[-1] + 1:
                chosen.append(-1)
            chosen.append(rows[at])
        return chosen[:most]

    @cached_property
    def _columns(self) -> FigureColumns:
        return FigureColumns(self._frame, ("host_ns",) if self._of_host else ("device_ns", "idle_ns"))

    def headline(self) -> str:
        """Return what the lines add up to, in one sentence."""
        sums = {name: int(self._frame[name].fillna(0).sum()) for name in MEASURES}
        if self._of_host:
            return (
                f"no device was recorded: {duration(sums['host_ns'])} of host time, "
                f"{counted(sums['operators'], 'operator')} in the whole run"
            )
        return (
            f"{duration(sums['device_ns'])} of device time, {duration(sums['idle_ns'])} of idle device, "
            f"{counted(sums['launches'], 'launch', 'launches')} in the whole run"
        )

    def _legend(self) -> list[str]:
        """Return the findings with which lines are marked."""
        marked = sorted({int(mark) for marks in self._frame["marks"] for mark in str(marks).split(",") if mark})
        return [f"{mark} {printable(self._advice.fired[mark - 1].title, _LONGEST_NAME)}" for mark in marked]

    def _rest(self, sections: Sequence[Section]) -> Iterator[tuple[str, pd.Series[Any]]]:
        """Yield the sums of what is not shown: other lines, and what has no line; then those of the run."""
        costs = self._frame[list(MEASURES)]
        shown = [row for section in sections for row in section.rows if row >= 0]
        others = costs.iloc[:-1].drop(index=shown).sum()
        if (others > 0).any():
            yield "(other lines)", others
        if (costs.iloc[-1].fillna(0) > 0).any():
            yield "(no line)", costs.iloc[-1]
        yield "(the run)", costs.sum()

    def _one_line(self) -> str:
        return self.headline() if len(self) else "of no line"

    def __str__(self) -> str:
        return self.text()

    def text(self, *, whole: bool = True) -> str:
        """Return the code as text for a terminal: the whole cell, or only the lines that matter."""
        if not len(self):
            facts = self._advice.facts
            option = "--activities cpu,npu" if facts.info.collector in NO_OPERATORS else "--stacks"
            how = missing(facts.tables, facts.info, [option])
            return f"Your code: the run knows no line of it ({how}, or profile a cell with %%npuprof)"
        sections = self._sections(_MOST_LINES[0] if whole else _MOST_IN_TERMINAL, whole=whole)
        lines = [f"Your code: {self.headline()}"]
        for section in sections:
            lines += ["", section.title, self._columns.text()]
            lines += [self._text_line(row) for row in section.rows]
        lines += ["", *(f"{self._columns.text(costs)}  {label}" for label, costs in self._rest(sections))]
        lines += self._legend() + self.notes
        return "\n".join(line.rstrip() for line in lines)

    def _text_line(self, row: int) -> str:
        if row < 0:
            width = len(self._columns.text()) + _BAR_CELLS + self._mark_width + 4
            return " " * width + _GAP.rjust(self._number_width)
        first, second = (round(_BAR_CELLS * part) for part in self._bar(row))
        number, mark, text = self._code_of(row)
        bar = f"{'█' * first + '░' * second:{_BAR_CELLS}}"
        start = f"{self._columns.text(self._frame.iloc[row])}  {bar} {mark:>{self._mark_width}}"
        return f"{start} {number:>{self._number_width}}  {text}"

    def _code_of(self, row: int) -> tuple[str, str, str]:
        """Return line number, marks and text of a row."""
        line, text, mark = (self._frame[name].iloc[row] for name in ("line", "text", "marks"))
        shown = "" if pd.isna(text) else plain_line(str(text).expandtabs(4)).rstrip()
        return str(line), str(mark), shown if len(shown) <= _LONGEST_LINE else f"{shown[:_LONGEST_LINE]}…"

    @cached_property
    def _mark_width(self) -> int:
        return max(map(len, self._frame["marks"].tolist()))

    @cached_property
    def _number_width(self) -> int:
        return len(str(self._frame["line"].max() if len(self) else 0))

    @cached_property
    def _bars(self) -> tuple[Float64, Float64]:
        """The lengths of both parts of each bar, of the longest one: device and idle, or host alone."""
        names = ("host_ns",) if self._of_host else ("device_ns", "idle_ns")
        costs = [self._frame[name].iloc[:-1].fillna(0).to_numpy(np.float64) for name in names]
        costs += [0 * costs[0]] * (2 - len(costs))
        longest = max(float((costs[0] + costs[1]).max(initial=0)), 1.0)
        return costs[0] / longest, costs[1] / longest

    def _bar(self, row: int) -> tuple[float, float]:
        return float(self._bars[0][row]), float(self._bars[1][row])

    # -- HTML ------------------------------------------------------------------------------------------------------

    def _repr_html_(self) -> str:
        interactive.keep_keys()
        classes = " ".join([KEYS, AS_TEXT, *cell_classes(self._advice.facts.info.cells)])
        return (
            f'<div class="{classes}" style="font-family:var(--jp-ui-font-family,system-ui,sans-serif);'
            f'font-size:13px;color:var(--jp-ui-font-color1,inherit);max-width:100%">{self.html()}</div>'
        )

    def html(self, *, clickable: bool = False) -> str:
        """Return the code as HTML with inline styles, which is complete without any: at most 100 kB.

        Parameters
        ----------
        clickable
            Whether each line has an attribute ``data-row``, for :meth:`cost_row`.
        """
        if not len(self):
            return f"<div>{html.escape(self.text())}</div>"
        for most in _MOST_LINES:
            content = self._html(most, clickable=clickable)
            if len(content.encode()) <= _LIMIT_BYTES:
                break
        return content

    def _html(self, most: int, *, clickable: bool) -> str:
        sections = self._sections(most)
        parts = [f'<div style="margin-top:12px"><strong>Your code</strong> {html.escape(self.headline())}</div>']
        parts.append(self._html_legend())
        opened = f'<pre class="npuprof-lines" style="{_PRE};{self._room(sections)}">'
        head = f'<span style="color:{_FAINT}">{self._columns.html()}</span>'
        for section in sections:
            body = "\n".join([head, *(self._html_line(row, clickable=clickable) for row in section.rows)])
            shown, title = f"{opened}{body}\n</pre>", html.escape(section.title)
            if section.is_folded:
                parts.append(f'<details><summary style="cursor:pointer">{title}</summary>{shown}</details>')
            else:
                parts.append(f'<div style="margin-top:4px">{title}</div>{shown}')
        sums = "\n".join(
            f'{self._columns.html(costs)}<span class="npuprof-rest">  {label}</span>'
            for label, costs in self._rest(sections)
        )
        parts.append(f'{opened}<span style="color:{_FAINT}">{sums}</span>\n</pre>')
        parts += [f'<div style="color:{_FAINT}">{html.escape(printable(note, 400))}</div>' for note in self.notes]
        return "".join(parts)

    def _html_legend(self) -> str:
        parts = [("host", "host time")] if self._of_host else [("computing", "device time"), ("idle", "idle device")]
        entries = [
            f'<span style="white-space:nowrap"><span style="display:inline-block;width:9px;height:9px;'
            f'background:{PARTS[part]};margin-right:4px"></span>{label}</span>'
            for part, label in parts
        ]
        entries += [
            f'<span style="{BADGE};padding:0 4px">{line.partition(" ")[0]}</span> {html.escape(line.partition(" ")[2])}'
            for line in self._legend()
        ]
        return f'<div style="font-size:11px;color:{_FAINT}">{" &nbsp; ".join(entries)}</div>'

    def _room(self, sections: Sequence[Section]) -> str:
        rows = [row for section in sections for row in section.rows if row >= 0]
        lengths = ((self._frame.iloc[row], len(self._code_of(row)[2])) for row in rows)
        return self._columns.room(lengths, self._mark_width + self._number_width + 5, _BAR_PX + 4)

    def _html_line(self, row: int, *, clickable: bool) -> str:
        if row < 0:
            bar = f'<span style="display:inline-block;width:{_BAR_PX + 4}px"></span>'
            rest = f"{' ' * (self._mark_width + 3)}{bar}{_GAP:>{self._number_width}}"
            return f'{" " * len(self._columns.text())}<span class="npuprof-rest">{rest}</span>'
        number, mark, text = self._code_of(row)
        parts, colours = self._bar(row), (PARTS["host"] if self._of_host else PARTS["computing"], PARTS["idle"])
        pixels = [round(_BAR_PX * part) or int(part > 0) for part in parts]
        bar = "".join(
            f'<span style="display:inline-block;width:{width}px;height:9px;background:{colour}"></span>'
            for width, colour in zip(pixels, colours, strict=True)
            if width
        )
        bar = f'<span style="display:inline-block;width:{_BAR_PX + 4}px">{bar}</span>'
        badge = " " * (self._mark_width - len(mark)) + (f'<span style="{BADGE}">{mark}</span>' if mark else "")
        attribute = f' data-row="{row}"' if clickable else ""
        file = str(self._frame["file"].iloc[row])  # notebook/cells.js makes links of lines of cells
        title = f' title="{line_text(file, int(number))}"' if cell_text(file) and not clickable else ""
        faint = f'<span style="color:{_FAINT}"{title}>{number:>{self._number_width}}</span>'
        rest = f'<span class="npuprof-rest">  {bar}{badge} {faint}  {html.escape(text)}</span>'
        line = self._columns.html(self._frame.iloc[row]) + rest
        return f"<span{attribute}>{line}</span>" if clickable else line


def annotate(advice: Advice, root: Path | None = None) -> AnnotatedCode:
    """Return the code of the run that findings are of; its text is looked for below `root` if it was not recorded."""
    return AnnotatedCode(advice.facts.code_lines, advice, texts_of(advice.facts.info, root))


def texts_of(info: Info, root: Path | None = None) -> CodeTexts:
    """Return the texts of the user's files, from the recording or else from below a folder."""
    return CodeTexts(info.code, root, info.started_ns, of_cell=not info.executed)


def _marks(lines: CodeLines, advice: Advice) -> list[str]:
    """Return for each line the numbers of the findings that concern it."""
    table = lines.table().iloc[:-1]
    places = zip(table["file"].tolist(), table["line"].tolist(), strict=True)
    numbers: dict[tuple[str, int], list[str]] = {}
    for number, finding in enumerate(advice.fired, 1):
        for place in finding.lines:
            numbers.setdefault(place, []).append(str(number))
    return [",".join(numbers.get((str(file), int(line)), [])) for file, line in places]


def _title(file: str) -> str:
    """Return the name of a file as people read it."""
    return printable(cell_text(file) or file, _LONGEST_NAME)

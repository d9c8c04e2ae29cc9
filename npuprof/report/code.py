"""The user's code with the costs of each line: as a table, as HTML for a notebook, and as text."""

from __future__ import annotations

from collections.abc import Sequence
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
from npuprof.arrays import Bools
from npuprof.lines.frames import cell_text
from npuprof.options import NO_OPERATORS
from npuprof.report.code_texts import CodeTexts, head_of, is_head_alone
from npuprof.report.html import report_html
from npuprof.report.model import Code, CodeLine, Fold, Report, plain
from npuprof.report.text import code_lines, report_text
from npuprof.tables.info import Info
from npuprof.words.quantities import count, counted, duration, printable, share, size
from npuprof.words.texts import LongText, cell_classes, plain_lines

_MATTERS, _AROUND = 0.01, 2  # share of a cost, and lines above and below one that has it
_MOST_FILES = 12
_LONGEST_NAME = 120
_LIMIT_BYTES = 90_000
_MOST_LINES = (400, 200, 80, 20)  # of a cell, and of all other files together: from all detail to what always fits
_MOST_IN_TERMINAL = 60
MEASURES = ("device_ns", "idle_ns", "host_ns", "launches", "operators", "peak_bytes")
"""The costs of a line, in the order of their columns."""
_HEADINGS = {"host_ns": "host", "launches": "launches", "operators": "operators", "peak_bytes": "memory"}
_NOUNS = {"device_ns": "device time", "idle_ns": "idle device", **_HEADINGS, "host_ns": "host time"}


@dataclass(frozen=True)
class Section:
    """The lines of a file that are shown."""

    title: str  # the name of the file or cell
    rows: list[int]  # rows of the table, -1 for lines left out
    is_folded: bool  # whether the lines are shown only when they are asked for


class AnnotatedCode(LongText):
    """The user's code with the costs of each line.

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
        return self._frame[is_kept].drop(columns=["marks", "cost_row", *unused]).reset_index(drop=True)

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
        return pd.concat(parts, ignore_index=True)[["file", "line", "text", *MEASURES, "marks", "cost_row"]]

    def _lines_of(self, file: str, costs: pd.DataFrame, *, whole: bool) -> pd.DataFrame:
        """Return the lines of a file that have a cost, or all whose text is known, with their text."""
        texts = self._texts.lines(file)
        lines = sorted({*(range(1, len(texts) + 1) if whole else ()), *costs["line"].tolist()})
        costs = costs.set_index("line").reindex(pd.Index(lines, dtype="Int64", name="line")).reset_index()
        known = [name for name in MEASURES if self._costs[name].notna().any()]
        within = [texts[line - 1] if line <= len(texts) else None for line in lines]
        return costs.assign(
            file=file,
            text=pd.array(within, "string"),
            marks=costs["marks"].fillna(""),
            cost_row=costs["cost_row"].fillna(-1).astype("int64"),
            **{name: costs[name].fillna(0) for name in known},
        )

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
        """Return the shown lines of each file; `most` limits the lines of the cell, and of all others together."""
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

    def headline(self) -> str:
        """Return the sum of the lines, in one sentence."""
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

    def report(self, most: int = _MOST_LINES[0], *, whole: bool = True, clickable: bool = False) -> Report:
        """Return the cell, or the file with the most time, and the other files folded."""
        if not len(self):
            facts = self._advice.facts
            option = "--activities cpu,npu" if facts.info.collector in NO_OPERATORS else "--stacks"
            how = missing(facts.tables, facts.info, [option])
            return Report(
                "Your code", "", sentence=f"The run knows no line of it: {how}, or profile a cell with %%npuprof."
            )
        sections = self._sections(most, whole=whole)
        codes = [(section, self._section_code(section, clickable=clickable)) for section in sections]
        folds = [Fold(section.title, codes=[code]) for section, code in codes if section.is_folded]
        marked = sorted({int(mark) for marks in self._frame["marks"] for mark in str(marks).split(",") if mark})
        titles = [f"{mark}  {self._advice.fired[mark - 1].title}" for mark in marked]
        folds += [Fold("Findings", titles)] if titles else []
        folds += [Fold(f"Notes ({len(self.notes)})", [plain(note) for note in self.notes])] if self.notes else []
        return Report(
            "Your code",
            "",
            sentence=self._sentence(sections),
            codes=[code for section, code in codes if not section.is_folded],
            folds=folds,
            cells=cell_classes(self._advice.facts.info.cells),
        )

    def _section_code(self, section: Section, *, clickable: bool) -> Code:
        costs = self._frame[list(MEASURES)]
        first, second = ("device_ns", "host_ns") if self._of_host else ("device_ns", "idle_ns")
        others = [
            name
            for name in MEASURES[2:]
            if name != second and (name != "operators" or self._of_host) and int(costs[name].fillna(0).sum())
        ]
        lines = []
        for row in section.rows:
            if row < 0:
                lines.append(CodeLine(None))
                continue
            of_row = self._frame.iloc[row]
            marks = [int(mark) for mark in str(of_row["marks"]).split(",") if mark]
            figures = [_figure(name, of_row[name]) for name in others]
            text = "" if pd.isna(of_row["text"]) else str(of_row["text"])
            times = _whole(of_row[first]), _whole(of_row[second])
            lines.append(CodeLine(int(of_row["line"]), text, marks, *times, figures, row if clickable else None))
        file = str(self._frame["file"].iloc[next(row for row in section.rows if row >= 0)])
        columns = self._advice.facts.device or "device", "time" if self._of_host else "waits"
        return Code(section.title, columns, "in all", lines, [_HEADINGS[name] for name in others], cell_text(file))

    def _sentence(self, sections: Sequence[Section]) -> str:
        """Return the sum of the lines, and the part of it that no shown line has."""
        costs = self._frame[list(MEASURES)].fillna(0)
        shown = [row for section in sections for row in section.rows if row >= 0]
        rest = (("on other lines", costs.iloc[:-1].drop(index=shown).sum()), ("on no line", costs.iloc[-1]))
        texts = [f"{self.headline()}."]
        for where, sums in rest:
            figures = [f"{_NOUNS[name]} {_figure(name, sums[name])}" for name in MEASURES if _figure(name, sums[name])]
            texts += [f"Of it {where}: {', '.join(figures)}."] if figures else []
        return " ".join([texts[0][:1].upper() + texts[0][1:], *texts[1:]])

    def _one_line(self) -> str:
        return self.headline() if len(self) else "of no line"

    def __str__(self) -> str:
        return self.text()

    def text(self, *, whole: bool = True) -> str:
        """Return the code as text for a terminal: the whole cell, or only the lines that matter."""
        most = _MOST_LINES[0] if whole else _MOST_IN_TERMINAL
        report = self.report(most, whole=whole)
        lines = [report_text(report, most_lines=most)]
        for fold in report.folds:
            lines += ["", f"{fold.title}:", *fold.texts]
            lines += [line for code in fold.codes for line in code_lines(code, most)]
        return plain_lines("\n".join(lines))

    # -- HTML ------------------------------------------------------------------------------------------------------

    def _repr_html_(self) -> str:
        interactive.keep_keys()
        return self.html()

    def html(self, *, clickable: bool = False) -> str:
        """Return the code as HTML, which is complete without its style: at most 100 kB."""
        for most in _MOST_LINES:
            content = report_html(self.report(most, clickable=clickable))
            if len(content.encode()) <= _LIMIT_BYTES:
                break
        return content


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


def _whole(value: Any) -> int:
    return 0 if pd.isna(value) else int(value)


def _figure(name: str, value: Any) -> str:
    number = _whole(value)
    if not number:
        return ""
    return duration(number) if name.endswith("_ns") else size(number) if name.endswith("_bytes") else count(number)

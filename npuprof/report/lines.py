"""The user's code in a report: the lines of the cell with their cost per step, and the functions that they call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pandas as pd

from npuprof.advice.facts import Facts
from npuprof.lines.frames import cell_text, line_text
from npuprof.report.code_texts import CodeTexts
from npuprof.report.model import Code, CodeLine
from npuprof.words.quantities import count, duration, printable

_WORTH = 0.01  # of the step: other lines are left out of a long cell
_MOST_LINES = 40  # of a cell that is shown whole
_LEAST_CHOSEN, _MOST_CHOSEN = 6, 12  # lines that matter, of a longer one
_MOST_OTHERS = 8  # lines of files without a cell, and of each function
_MOST_FILES = 6
_LONGEST_NAME = 120

Marks = Mapping[tuple[str, int], Sequence[int]]
"""The numbers of the findings that concern a line, by file and line."""


class Costliest(NamedTuple):
    """The line that takes most: its name in a sentence, text and time per step; `is_most` if it takes half of all."""

    name: str
    text: str
    time_ns: int
    is_most: bool


class UserCode:
    """The user's lines in a run, as its report shows them."""

    def __init__(self, facts: Facts, texts: CodeTexts) -> None:
        self._texts = texts
        self._of_host = facts.accounting.of_host
        self._device = facts.device or "device"
        self._step_ns = facts.step_ns
        self._has_steps = facts.accounting.has_steps
        cell_lines = facts.cell_lines
        self._is_inclusive = cell_lines.is_inclusive
        self._parts = cell_lines.per_step()
        self._lines = cell_lines.lines(self._parts)
        self._callees = cell_lines.callees(self._parts)

    def lines_of(self, file: str) -> list[str]:
        """Return the lines of a file; none if its text is not known."""
        return self._texts.lines(file)

    def costliest(self) -> Costliest | None:
        """Return the line that the device waits for most; without a device, the line that takes longest."""
        measure = "host_ns" if self._of_host else "idle_ns"
        known = self._lines[self._lines["line"].notna().to_numpy(bool)]
        if not len(known) or not known[measure].fillna(0).max():
            return None
        row = known.loc[known[measure].fillna(0).idxmax()]
        time_ns = int(row[measure])
        is_most = 2 * time_ns >= int(self._lines[measure].fillna(0).sum())
        return Costliest(*self.place(str(row["file"]), int(row["line"])), time_ns, is_most)

    def place(self, file: str, line: int) -> tuple[str, str]:
        """Return the name of a line in a sentence, and its text, which may be empty."""
        name = f"line {line}" if file == self._texts.cell else line_text(file, line)
        return name, self._text(file, line).strip()

    def shown(self, marks: Marks) -> list[Code]:
        """Return the lines of the profiled cell, or else of the file with the most time, with their costs per step."""
        known, file = self._lines[self._lines["line"].notna().to_numpy(bool)], self._main_file()
        code = self._of_file(file, known[(known["file"] == file).to_numpy(bool)], marks) if file else None
        return [code] if code is not None and any(line.number for line in code.lines) else []

    def called(self, marks: Marks) -> tuple[int, list[Code]]:
        """Return how many functions the lines of the cell call, and their lines, by function, the costliest first."""
        rows = self._callees
        sums = rows.assign(weight=self._weight(rows)).groupby(["file", "function"], observed=True, dropna=False)
        ordered = sums["weight"].sum().sort_values(ascending=False)
        codes = []
        for file, function in ordered.index[:_MOST_FILES]:
            chosen = rows[((rows["file"] == file) & (rows["function"] == function)).to_numpy(bool)]
            lines = chosen.groupby(["file", "line"], as_index=False, observed=True)[_COSTS].sum()
            name = printable(
                f"{_title(str(file))}, {function}" if isinstance(function, str) else str(file), _LONGEST_NAME
            )
            if code := self._of_file(str(file), lines, marks, title=name):
                codes.append(code)
        return len(ordered), codes

    def whole(self, marks: Marks) -> list[Code]:
        """Return the lines of the cell with all that is known of them: host time and launches too."""
        file, codes = self._main_file(), self.shown(marks)
        known = self._lines[self._lines["line"].notna().to_numpy(bool)].set_index(["file", "line"])
        names = [name for name in ("host_ns", "launches") if not (self._of_host and name == "host_ns")]
        headings = [{"host_ns": "host", "launches": "launches"}[name] for name in names]

        def others(line: CodeLine) -> list[str]:
            key = (file, line.number)
            if key not in known.index:
                return [""] * len(names)
            row = known.loc[key]
            return [_figure(name, row[name]) for name in names]

        return [
            replace(code, lines=[_with(line, others(line)) for line in code.lines], others=headings)
            for code in codes[:1]
        ]

    def _main_file(self) -> str:
        """Return the cell, or else the file whose lines take most; empty if none takes any time."""
        known = self._lines[self._lines["line"].notna().to_numpy(bool)]
        sums = self._weight(known).groupby(known["file"].astype(str)).sum().sort_values(ascending=False)
        files = [str(file) for file in sums.index if sums[file] > 0]
        return self._texts.cell if self._texts.cell in files else files[0] if files else ""

    def _weight(self, rows: pd.DataFrame) -> pd.Series[Any]:
        names = ["host_ns"] if self._of_host else ["device_ns", "idle_ns"]
        return rows[names].fillna(0).sum(axis=1).astype("int64")

    def _text(self, file: str, line: int) -> str:
        lines = self._texts.lines(file)
        return lines[line - 1] if 0 < line <= len(lines) else ""

    def _of_file(self, file: str, rows: pd.DataFrame, marks: Marks, title: str = "") -> Code | None:
        texts = self._texts.lines(file)
        first, second = ("device_ns", "host_ns") if self._of_host else ("device_ns", "idle_ns")
        own = rows["line"].tolist()
        costs = dict(zip(own, zip(rows[first].tolist(), rows[second].tolist(), strict=True), strict=True))
        weights = dict(zip(own, self._weight(rows).tolist(), strict=True))
        measured = sorted(line for line, weight in weights.items() if weight > 0)
        if not measured:
            return None
        functions = self._functions(file) if not texts else {}
        if title or not texts:
            most = sorted(sorted(measured, key=lambda line: -weights[line])[:_MOST_OTHERS])
            numbers: list[int | None] = [*most]
        else:
            numbers = self._chosen(texts, measured, weights, [line for of, line in marks if of == file])
        lines = []
        for number in numbers:
            if number is None:
                lines.append(CodeLine(None))
                continue
            text = self._text(file, number) if texts else functions.get(number, "")
            device, other = map(_whole, costs.get(number, (0, 0)))
            lines.append(CodeLine(number, text, marks.get((file, number), ()), device, other))
        per = "per step" if self._has_steps else "in all"
        title = title or ("" if file == self._texts.cell else _title(file))
        columns = (self._device, "time" if self._of_host else "waits")
        return Code(title, columns, per, lines, cell=cell_text(file))

    def _functions(self, file: str) -> dict[int, str]:
        """Return the functions of lines whose text is not known."""
        rows = self._parts[(self._parts["file"] == file).to_numpy(bool) & self._parts["line"].notna().to_numpy(bool)]
        pairs = zip(rows["line"].tolist(), rows["function"].tolist(), strict=True)
        return {int(line): f"in {function}" for line, function in pairs if isinstance(function, str) and function}

    def _chosen(
        self, texts: Sequence[str], measured: Sequence[int], weights: Mapping[int, int], marked: Sequence[int]
    ) -> list[int | None]:
        """Return the lines of a cell to show, None where some are left out: all that was measured and is between.

        The line of the magic and what was not measured at either end are left out; of a long cell, all but the lines
        that matter, and the heads of the blocks that they are in.
        """
        first, last = measured[0], measured[-1]
        if last - first < _MOST_LINES:
            kept = set(range(first, last + 1))
        else:
            ordered = sorted(measured, key=lambda line: (line not in marked, -weights[line]))
            worth = sum(line in marked or weights[line] >= _WORTH * self._step_ns for line in ordered)
            kept = set(ordered[: min(max(worth, _LEAST_CHOSEN), _MOST_CHOSEN)])
            for line in sorted(kept):
                kept |= set(_heads(texts, line))
        kept = {line for line in kept if line <= len(texts) and not texts[line - 1].lstrip().startswith("%%")}
        shown: list[int | None] = [None] if kept and _has_code(texts, 0, min(kept)) else []
        before = min(kept, default=1) - 1
        for line in sorted(kept):
            if line - before > 1 and shown and shown[-1] is not None:
                shown.append(None)
            shown.append(line)
            before = line
        return [*shown, None] if kept and _has_code(texts, before, len(texts) + 1) else shown


_COSTS = ["device_ns", "idle_ns", "host_ns", "launches"]


def _has_code(texts: Sequence[str], after: int, before: int) -> bool:
    """Return whether lines between two others have code other than magics."""
    return any(text.strip() and not text.lstrip().startswith("%%") for text in texts[after : before - 1])


def _heads(texts: Sequence[str], line: int) -> list[int]:
    """Return the first lines of the blocks around a line, so that a loop stands above its body."""
    heads, indent = [], len(texts[line - 1]) - len(texts[line - 1].lstrip())
    for at in range(line - 1, 0, -1):
        text = texts[at - 1]
        own = len(text) - len(text.lstrip())
        if text.strip() and own < indent:
            heads.append(at)
            indent = own
        if not indent:
            break
    return heads


def _with(line: CodeLine, others: Sequence[str]) -> CodeLine:
    return CodeLine(line.number, line.text, line.marks, line.device_ns, line.idle_ns, others)


def _figure(name: str, value: Any) -> str:
    number = _whole(value)
    return "" if not number else duration(number) if name.endswith("_ns") else count(number)


def _whole(value: Any) -> int:
    return 0 if pd.isna(value) else int(value)


def _title(file: str) -> str:
    return printable(cell_text(file) or file, _LONGEST_NAME)

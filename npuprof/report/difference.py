"""The report on a difference: how much faster a step is and why, where the time went, and the changed lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from npuprof.advice.facts import Facts
from npuprof.advice.host_causes import LABELS
from npuprof.analysis.device_words import device_of
from npuprof.difference.difference import OUTLIERS, Difference, steps_text
from npuprof.difference.side import WITHOUT_WORK, Side
from npuprof.lines.changed_texts import changed_lines, matched_lines
from npuprof.report.code_texts import CodeTexts
from npuprof.report.facts import PART_LABELS
from npuprof.report.model import Bar, ChangedLine, Changes, Fold, Look, Markup, Report, Table, Warned, code, plain
from npuprof.report.strip import typical_strip
from npuprof.tables.info import common_cells
from npuprof.words.quantities import counted, duration, printable, signed, signed_share
from npuprof.words.texts import cell_classes

_WORTH = 0.05  # of all changes: smaller ones have no bar of their own
_MOST_SPLIT = 3  # bars of a part
_MOST_BARS = 8
_MOST_LINES, _MOST_FOLDED = 12, 80
_MOST_ROWS = 40
_LEAST_ALIKE = 1 / 3  # of the lines of the shorter code: below that, lines at the same place have nothing in common
_HARDLY = 0.1  # of the time before
_COUNTERS = 0.5  # of the largest change of a part: one the other way that is as large is named beside it
_HOST = "host"
_ROWS = "Every row, tested for noise"
_SAME_CODE = "the code is the same"
_LONGEST_NAME = 60
_MINUS = "\N{MINUS SIGN}"

_LESS = {
    "computing": "computing takes {} time",
    "copy": "copies take {} time",
    "waiting": "ranks wait {} for each other",
    "moving": "moving data takes {} time",
    "communication": "communication takes {} time",
    "between_steps": "{} time passes between steps",
    "not_recorded": "{} time is not recorded",
    "outliers": "outliers cost {} time",
    "idle": "the {device} is idle for {} time",
    "host": "the host takes {} time",
}
"""What a part does when it takes less, or more."""


@dataclass(frozen=True)
class _Change:
    """A bar of the waterfall before it has a place, and why a step is shorter, or longer, by it."""

    label: Markup
    delta_ns: int
    reason: str
    is_sure: bool = True


class _UserCode:
    """The code of both sides, its matched lines, and their cost per step; `is_alike` if it is one program."""

    def __init__(self, difference: Difference) -> None:
        sides = [_lines_of(side) for side in (difference.a, difference.b)]
        (self.now, self._costs), (self.before, self._costs_before) = sides
        self.is_known = bool(self.now and self.before)
        self.pairs = list(matched_lines(self.now, self.before)) if self.is_known else []
        self.changed = changed_lines(self.now, self.before) if self.is_known else []
        shorter = min(sum(bool(line.strip()) for line in lines) for lines in (self.now, self.before))
        same = sum(
            bool(new and old and self.now[new - 1] == self.before[old - 1] and self.now[new - 1].strip())
            for new, old in self.pairs
        )
        self.is_alike = self.is_known and same >= _LEAST_ALIKE * shorter

    def waits(self) -> list[tuple[int | None, int | None, int, int]]:
        """Return the lines of a pair and for how long the device waits for each per step, or they take on the host."""
        return [
            (new, old, self._costs.get(new or 0, (0, 0))[1], self._costs_before.get(old or 0, (0, 0))[1])
            for new, old in self.pairs
        ]

    def changes(self, per: str, most: int) -> Changes | None:
        """Return at most `most` changed lines, those with the most time on either side."""
        if not self.is_alike or not self.changed:
            return None

        def lines(pair: tuple[int | None, int | None]) -> list[ChangedLine]:
            sides = (
                ("-", pair[1], self.before, self._costs_before),
                ("+", pair[0], self.now, self._costs),
            )
            return [
                ChangedLine("-" if sign == "-" else "+", number, texts[number - 1], sum(costs.get(number, (0, 0))))
                for sign, number, texts, costs in sides
                if number is not None and texts[number - 1].strip()
            ]

        every = [(at, lines(pair)) for at, pair in enumerate(self.changed)]
        kept = sorted(every, key=lambda each: -sum(line.time_ns for line in each[1]))
        chosen, room = [], most
        for at, of_pair in kept:
            if len(of_pair) <= room:
                chosen.append((at, of_pair))
                room -= len(of_pair)
        left = sum(len(of_pair) for _, of_pair in every) - (most - room)
        more = f"{counted(left, 'more changed line')}" if left else ""
        return Changes(per, [line for _, of_pair in sorted(chosen, key=lambda each: each[0]) for line in of_pair], more)


def _lines_of(side: Side) -> tuple[list[str], Mapping[int, tuple[int, int]]]:
    """Return the lines of a side's cell, or of its costliest file, and of each the time of the device and the wait."""
    if len(side.runs) != 1:
        return [], {}
    run = side.runs[0]
    facts = Facts(run.tables, run.info, run.accounting)
    texts = CodeTexts(run.info.code, of_cell=not run.info.executed)
    usual = facts.basis.with_limit(side.basis.limit).usual_rows  # outliers have a row of their own
    cell_lines = facts.cell_lines_over(usual)
    rows = cell_lines.lines(cell_lines.per_step())
    measures = [_HOST + "_ns"] if run.accounting.of_host else ["device_ns", "idle_ns"]
    rows = rows[rows["line"].notna().to_numpy(bool)]
    weight = rows[measures].fillna(0).sum(axis=1).groupby(rows["file"].astype(str)).sum()
    files = [str(file) for file in weight.sort_values(ascending=False).index if texts.lines(str(file))]
    file = texts.cell or next(iter(files), "")
    lines = ["" if line.lstrip().startswith("%%npuprof") else line.rstrip() for line in texts.lines(file)]
    times = rows[(rows["file"] == file).to_numpy(bool)]
    first = np.zeros(len(times), np.int64) if len(measures) == 1 else times["device_ns"].fillna(0).to_numpy(np.int64)
    pairs = zip(first.tolist(), times[measures[-1]].fillna(0).astype("int64").tolist(), strict=True)
    return lines, dict(zip(times["line"].astype("int64").tolist(), pairs, strict=True))


def changed_numbers(difference: Difference) -> list[int]:
    """Return the numbers that changed and added lines have in the new code."""
    return [new for new, _ in _UserCode(difference).changed if new is not None]


def report_of_difference(difference: Difference, *, unlike: Sequence[str] = ()) -> Report:
    """Return the report on a difference."""
    name, labels = _names(difference)
    user_code = _UserCode(difference)
    changes = _changes(difference, user_code)
    has_steps = any(run.accounting.has_steps for run in difference.a.runs)
    verdict, sentence = _verdict(difference, changes)
    guards = [
        guard for guard in difference.guards if not (unlike and guard.startswith(("the level", "the kind of device")))
    ]
    told = [f"recorded with other options: {'; '.join(unlike)}"] if unlike else []
    same = [_SAME_CODE] if user_code.is_known and not user_code.changed else []
    counts = [steps_text(side) for side in (difference.a, difference.b)]
    each = counts[0] if " each " in counts[0] else f"{counts[0]} each"
    steps = each if counts[0] == counts[1] else f"{counts[0]} against {counts[1]}"
    per = "per step" if has_steps else "in all"
    shown = user_code.changes(per, _MOST_LINES)
    folded = user_code.changes(per, _MOST_FOLDED) if shown and shown.more else None
    return Report(
        name,
        f"{duration(difference.a_ns)}{' a step' if has_steps else ''}",
        [f"{labels[0]} against {labels[1]}" if name != labels[0] else f"against {labels[1]}", steps, *same],
        difference.simulated,
        [Warned("warning", plain(f"{text[:1].upper()}{text[1:]}.")) for text in [*told, *guards]],
        f"was {duration(difference.b_ns)}",
        verdict=verdict,
        sentence=sentence,
        waterfall=_waterfall(difference, labels, changes),
        changes=shown,
        folds=[
            *([Fold("All changed lines", reports=[Report("", "", changes=folded)])] if folded else []),
            Fold(_ROWS, _noise_texts(difference), tables=[_largest(difference, labels)]),
            *_timelines(difference, labels),
            Fold("All numbers", tables=[_parts(difference, labels)]),
        ],
        cells=cell_classes(common_cells(run.info.cells for side in (difference.a, difference.b) for run in side.runs)),
    )


def _timelines(difference: Difference, labels: tuple[str, str]) -> list[Fold]:
    """Return a usual step of each side, on one scale; nothing where a side has several runs."""
    if len(difference.a.runs) + len(difference.b.runs) > 2:
        return []
    strips = []
    for side, label in ((difference.b, labels[1]), (difference.a, labels[0])):
        run = side.runs[0]
        facts = Facts(run.tables, run.info, run.accounting)
        texts = CodeTexts(run.info.code, of_cell=not run.info.executed)
        strips.append(typical_strip(facts, facts.basis.with_limit(side.basis.limit), label, texts.lines))
    known = [strip for strip in strips if strip is not None]
    if len(known) < 2:
        return []
    length_ns = max(strip.length_ns for strip in known)
    scaled = [replace(strip, length_ns=length_ns) for strip in known]
    return [Fold("Both timelines", reports=[Report("", "", strips=scaled)])]


def with_drawing(report: Report, drawing: str) -> Report:
    """Return a report with the flame graph of the difference, an SVG, below the rows."""
    fold = Fold("Flame graph of the difference", drawings=[("Flame graph of the difference", drawing)])
    at = next(at for at, each in enumerate(report.folds, 1) if each.title == _ROWS)
    return replace(report, folds=[*report.folds[:at], fold, *report.folds[at:]]) if drawing else report


def since_text(difference: Difference, report: Report) -> Markup:
    """Return one line on the run before: its step time, the cause of the change, and doubts."""
    said = ": ".join(filter(None, [plain(report.verdict), report.sentence]))
    same = f"{_SAME_CODE[:1].upper()}{_SAME_CODE[1:]}." if _SAME_CODE in report.origin else ""
    doubts = [warning.text for warning in report.warnings]
    return " ".join(filter(None, [f"was {duration(difference.b_ns)}: {said}", same, *doubts]))


def _names(difference: Difference) -> tuple[str, tuple[str, str]]:
    """Return what both sides are called together, and what tells them apart."""
    first, second = difference.names
    heads = [text.rpartition(", ") for text in (first, second)]
    if heads[0][0] and heads[0][0] == heads[1][0]:
        return heads[0][0], (heads[0][2], heads[1][2])
    return first, (first, second)


def _minus(text: str) -> str:
    return text.replace("-", _MINUS)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.1f} %"


def _size(now: int, before: int) -> str:
    """Return how much faster or slower a step is, in two or three words."""
    if not before or not now:
        return "slower" if now > before else "faster"
    change = now / before - 1
    if abs(change) < 0.0005:
        return "less than 0.1 % slower" if change > 0 else "less than 0.1 % faster"
    if change < 0:
        return f"{_percent(-change)} faster" if change > -0.995 else f"{before / now:,.0f} times as fast"
    return f"{_percent(change)} slower" if change < 1 else f"{now / before:,.1f} times as long"


def _verdict(difference: Difference, changes: Sequence[_Change]) -> tuple[str, Markup]:
    """Return the outcome in a few words, and its cause and certainty in two short sentences."""
    now, before, delta = difference.a_ns, difference.b_ns, difference.delta_ns
    if not delta:
        return "As long as before", ""
    size = _size(now, before)
    alike = [change for change in changes if (change.delta_ns < 0) == (delta < 0)]
    most = max(alike, key=lambda change: abs(change.delta_ns), default=None)
    reason = f"{most.reason}." if most is not None and most.reason else ""
    reason = _both_ways(difference) or reason
    if not difference.noise.is_known:
        return size, f"{reason} Too few steps tell whether it is noise.".strip()
    judged = [round(float(side.judged["duration_ns"].mean())) for side in (difference.a, difference.b)]
    bounds = [float(bound[0]) / max(judged[1], 1) for bound in difference.noise.total.bounds()]
    low, high = (max(bound, -1.0) for bound in bounds)  # no step takes less than 0
    interval, usual = f"95 % interval {_interval(low, high)}", _size(*judged)
    is_single = any(len(side.judged) < len(side.every) for side in (difference.a, difference.b))
    if is_single:  # which are not judged
        interval = (
            f"{interval} without single outliers" if usual == size else f"Without single outliers {usual}, {interval}"
        )
    interval += "."
    if is_single and (2 * abs(judged[0] - judged[1]) < abs(delta) or (judged[0] - judged[1]) * delta < 0):
        if low > 0 or high < 0:  # whatever the outliers hide
            return (
                f"The usual step is {usual}",
                f"95 % interval {_interval(low, high)}. With single outliers a step is {size}.",
            )
        return ("No clear difference", f"{size}, but by single outliers. {interval}")
    if low > 0 or high < 0:
        of_runs = "" if difference.noise.of_runs else " Variation between runs is unknown."
        return size, f"{reason} {interval}{of_runs}".strip()
    if most is not None and most.is_sure and (most.label == OUTLIERS or _is_significant(difference)):
        return f"{size}, which may be noise", f"{reason} {interval}".strip()
    return "No clear difference", f"{size}, but the steps vary as much. {interval}"


def _both_ways(difference: Difference) -> str:
    """Return what takes more time and what takes less where both are large; empty if the step changes mostly one way.

    Then the difference of the step is much smaller than what it is made of, and one of both alone would mislead.
    """
    top = difference.rows[(difference.rows["depth"] == 0).to_numpy(bool)]
    deltas = dict(zip(top["part"].astype(str), top["delta_ns"].tolist(), strict=True))
    along, against = (
        max(deltas, key=lambda part: sign * deltas[part], default="")
        for sign in (difference.delta_ns, -difference.delta_ns)
    )
    sizes = [abs(deltas.get(part, 0)) for part in (along, against)]
    if deltas.get(along, 0) * deltas.get(against, 0) >= 0 or _COUNTERS * max(sizes) > min(sizes):
        return ""
    device = device_of(difference.a.runs[0].info, difference.a.runs[0].tables) or "device"
    words = [
        _LESS[part].format(f"{duration(size)} {'more' if deltas[part] > 0 else 'less'}", device=device)
        for part, size in zip((along, against), sizes, strict=True)
        if part in _LESS
    ]
    return f"{', but '.join(words)}." if len(words) == len(sizes) else ""


def _is_significant(difference: Difference) -> bool:
    top = difference.rows[(difference.rows["depth"] == 0).to_numpy(bool)]
    return bool(top["significant"].fillna(False).any())


def _interval(low: float, high: float) -> str:
    if low >= 1:  # `_size` counts in times from twice as long on
        return f"{1 + low:,.1f} to {1 + high:,.1f} times"
    first, second = signed_share(low), signed_share(high)
    return _minus(f"{first.removesuffix(' %')} to {second}")


def _changes(difference: Difference, user_code: _UserCode) -> list[_Change]:
    """Return the parts of the difference, the largest first; their sum is the difference."""
    rows = difference.rows
    top = rows[(rows["depth"] == 0).to_numpy(bool)]
    least = max(int(_WORTH * int(top["delta_ns"].abs().sum())), 1)
    device = device_of(difference.a.runs[0].info, difference.a.runs[0].tables) or "device"
    changes: list[_Change] = []
    waited = top[top["part"].isin([*WITHOUT_WORK, _HOST]).to_numpy(bool)]
    of_lines = _of_lines(user_code, least, device, is_host=(waited["part"] == _HOST).all()) if len(waited) else []
    if of_lines:
        delta = int(waited["delta_ns"].sum())
        rest = delta - sum(change.delta_ns for change in of_lines)
        word = "less" if rest < 0 else "more"
        label = "other lines" if (waited["part"] == _HOST).all() else "waiting, other lines"
        changes += [*of_lines, _Change(label, rest, f"the {device} waits {word} for the host")]
    for row, each in top.iterrows():
        if of_lines and each["part"] in (*WITHOUT_WORK, _HOST):
            continue
        changes += _of_part(difference, int(str(row)), each, least, device)
    changes = [change for change in changes if change.delta_ns]
    changes.sort(key=lambda change: -abs(change.delta_ns))
    if others := changes[_MOST_BARS:]:
        changes = [*changes[:_MOST_BARS], _Change("the rest", sum(change.delta_ns for change in others), "")]
    return changes


def _of_lines(user_code: _UserCode, least: int, device: str, *, is_host: bool) -> list[_Change]:
    """Return the lines for which the device waits less or more than before."""
    if not user_code.is_alike:
        return []
    every = [(abs(now - before), new, old, now, before) for new, old, now, before in user_code.waits()]
    most = sorted(every, key=lambda each: -each[0])[:_MOST_SPLIT]
    changes = []
    for size, new, old, now, before in most:
        if size < least:
            break
        line = f"line {new}" if new is not None else f"line {old}, removed"
        changes.append(
            _Change(line if is_host else f"waiting for {line}", now - before, _why(line, now, before, device, is_host))
        )
    return changes


def _why(line: str, now: int, before: int, device: str, is_host: bool) -> str:
    if is_host:
        return f"{line} takes {'less' if now < before else 'more'} time"
    if now < before:
        return f"the {device} {'no longer waits' if now < _HARDLY * before else 'waits less'} for {line}"
    return f"the {device} {'now waits' if before < _HARDLY * now else 'waits longer'} for {line}"


def _of_part(difference: Difference, row: int, part: pd.Series[Any], least: int, device: str) -> list[_Change]:
    """Return the change of a part, its largest components apart."""
    rows, name, delta = difference.rows, str(part["part"]), int(part["delta_ns"])
    is_sure = not difference.noise.is_known or name == OUTLIERS or part["significant"] is True
    label = PART_LABELS.get(name, "the host" if name == _HOST else name)
    inside: list[_Change] = []
    if name in ("computing", *WITHOUT_WORK, _HOST):
        direct = rows[(rows["parent"] == row).to_numpy(bool)]
        loose = direct[(direct["name"] == "(no call path)").to_numpy(bool)].index
        groups = pd.concat([direct.drop(loose), rows[rows["parent"].isin(loose).to_numpy(bool)]])
        ordered = groups.iloc[np.argsort(-groups["delta_ns"].abs().to_numpy(), kind="stable")][:_MOST_SPLIT]
        largest = (group for _, group in ordered.iterrows() if abs(int(group["delta_ns"])) >= least)
        inside = [_component(difference, group, name, device) for group in largest]
    rest = delta - sum(change.delta_ns for change in inside)
    if not inside or rest:
        word = "less" if rest < 0 else "more"
        reason = _LESS.get(name, "").format(word, device=device)
        inside.append(_Change(f"{label}, the rest" if inside else label, rest, reason))
    return (
        inside
        if is_sure
        else [_Change(f"{each.label}, may be noise", each.delta_ns, each.reason, False) for each in inside]
    )


def _component(difference: Difference, group: pd.Series[Any], part: str, device: str) -> _Change:
    """Return the change of kernels, or of a cause of idle time."""
    name, delta = str(group["name"]), int(group["delta_ns"])
    if part != "computing":
        cause = LABELS.get(name, name.replace("_", " "))
        verb = "less" if delta < 0 else "more"
        subject = "" if part == _HOST else "idle: "
        return _Change(f"{subject}{plain(cause)}", delta, f"the {device} is idle for {verb} time: {plain(cause)}")
    now, arrow, before = name.partition(" <- ")
    if arrow:
        return _Change(f"{code(now)} for {code(before)}", delta, f"{code(now)} replaces {code(before)}")
    shown = code(printable(difference.title(group), _LONGEST_NAME))
    if not group["b_ns"]:
        return _Change(shown, delta, f"{shown} is new")
    if not group["a_ns"]:
        return _Change(shown, delta, f"{shown} is gone")
    return _Change(shown, delta, f"{shown} takes {'less' if delta < 0 else 'more'} time")


def _waterfall(difference: Difference, labels: tuple[str, str], changes: Sequence[_Change]) -> list[Bar]:
    names = [plain(printable(label, _LONGEST_NAME)) for label in labels]
    bars = [Bar(names[1], duration(difference.b_ns), 0, difference.b_ns, "line", True)]
    at = difference.b_ns
    for change in changes:
        look: Look = "slower" if change.delta_ns > 0 else "faster"
        figure = _minus(signed(change.delta_ns))
        bars.append(Bar(change.label, figure, at, at + change.delta_ns, look if change.is_sure else "idle"))
        at += change.delta_ns
    return [*bars, Bar(names[0], duration(difference.a_ns), 0, difference.a_ns, "line", True)]


def _noise_texts(difference: Difference) -> list[Markup]:
    texts = [*difference.common(), difference.basis]
    return [plain(f"{text[:1].upper()}{text[1:]}{'' if text.endswith(('?', '.')) else '.'}") for text in texts]


def _parts(difference: Difference, labels: tuple[str, str]) -> Table:
    rows = difference.rows
    top = rows[(rows["depth"] == 0).to_numpy(bool)]
    step = duration(difference.a_ns), duration(difference.b_ns), _minus(signed(difference.delta_ns))
    lines = [("step", *step, _minus(difference.step_interval()))]
    lines += [
        (PART_LABELS.get(str(row["part"]), str(row["name"])), *_times(row), _minus(difference.interval(row)))
        for _, row in top.iterrows()
    ]
    return _table("Parts of a step", ("", *labels, "difference"), lines)


def _largest(difference: Difference, labels: tuple[str, str]) -> Table:
    lines = []
    for _, row in difference.largest(_MOST_ROWS).iterrows():
        counts = f"{_mean(row['a_count'])} / {_mean(row['b_count'])}" if row["a_count"] or row["b_count"] else ""
        named = (difference.title(row), str(row["why"]), str(row["place"]))
        lines.append((*named, counts, *_times(row), _minus(difference.interval(row))))
    title = "Largest differences" + ("; .rows has all of them" if len(lines) == _MOST_ROWS else "")
    return _table(title, ("row", "why", "line", "count", *labels, "difference"), lines)


def _table(title: str, headings: Sequence[str], lines: Sequence[Sequence[str]]) -> Table:
    """Return a table without the columns that no row has: counts, and the intervals, which are the last."""
    counts = headings.index("count") if "count" in headings else 0
    if counts and not any(line[counts] for line in lines):
        headings, *lines = ([*row[:counts], *row[counts + 1 :]] for row in (headings, *lines))
    if any(line[-1] for line in lines):
        return Table(title, (*headings, "interval"), lines, 4)
    return Table(title, headings, [line[:-1] for line in lines], 3)


def _times(row: pd.Series[Any]) -> tuple[str, str, str]:
    return duration(int(row["a_ns"])), duration(int(row["b_ns"])), _minus(signed(int(row["delta_ns"])))


def _mean(count: float) -> str:
    """Return a count per step as text."""
    return f"{count:,.0f}" if count >= 100 or count == int(count) else f"{count:.3g}"

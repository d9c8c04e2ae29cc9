"""The report on one run: the main cause, a typical step, findings, the user's lines, and the folded rest."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from pathlib import Path
from typing import Protocol, TypeAlias

import numpy as np
import pandas as pd

from npuprof.advice.budget import first_line
from npuprof.advice.causes import NOTEBOOK
from npuprof.advice.finding import Finding
from npuprof.advice.findings import Advice
from npuprof.advice.wording import behind
from npuprof.analysis.accounting import BETWEEN_STEPS, NOT_RECORDED
from npuprof.analysis.host_times import HOST_LABELS
from npuprof.analysis.idle_causes import UNEXPLAINED, UNKNOWN
from npuprof.analysis.step_windows import of_counted_kind
from npuprof.analysis.summary import Summary
from npuprof.lines.frames import cell_text, line_text
from npuprof.report.damage import damage_lines, damaged_tables, headline_mark
from npuprof.report.facts import (
    PART_LABELS,
    children_text,
    clock_lines,
    error_lines,
    known_figures,
    note_rows,
    nothing_text,
    origin,
    overhead_text,
    repeat_text,
    tables_of,
)
from npuprof.report.lines import Costliest, UserCode
from npuprof.report.model import Fold, Markup, Part, Problem, Report, Steps, Strip, Warned, code, plain
from npuprof.report.out_of_memory import failed_allocation, out_of_memory
from npuprof.report.strip import same_step, strip_of, typical_strip
from npuprof.tables.info import AFTER_CELL, Info
from npuprof.words.quantities import counted, duration, printable, share
from npuprof.words.texts import cell_classes

MOST_FINDINGS = 3
"""Findings in a report; ``run.advice()`` has all of them."""

_MOST_NOTES = 20
_MOST_EVIDENCE = 5
_SIGMA = 1.4826  # ratio of standard deviation to median absolute deviation of a normal distribution
_LONGEST_LINE = 80
_LEAST_HOST_NS = 100_000_000  # of a run without a device, below which nothing is drawn
_LEAST_AFTER_NS, _AFTER_SHARE = 100_000_000, 0.1  # after the code, below which nothing is said; and of its time
_TRIVIAL_NS = 1_000_000  # of a run of the host alone, below which lines say nothing


class ReportedRun(Protocol):
    """The attributes of a run that its report reads."""

    tables: MutableMapping[str, pd.DataFrame]

    @property
    def info(self) -> Info:
        """The facts."""

    @property
    def notes(self) -> pd.DataFrame:
        """The notes."""

    @property
    def summary(self) -> Summary:
        """The key figures."""

    def advice(self) -> Advice:
        """Return the findings."""


Lines: TypeAlias = Callable[[], UserCode | None]
"""Returns the user's lines with their costs; None if the run knows no line."""


def report_of_run(run: ReportedRun, user_code: Lines) -> Report:
    """Return the unfolded report on a run; :func:`folds_of_run` has the rest."""
    info, notes = run.info, run.notes
    nothing = nothing_text(run.summary, info, notes)
    cells = cell_classes(info.cells)
    warnings = _warnings(run, user_code)
    name = run_name(info)
    if nothing or not run.advice().step_ns:
        said = plain(nothing or run.advice().headline())
        wall = duration(run.summary.wall_ns) if run.summary.wall_ns else ""
        took_ns = int(run.tables["statements"]["duration_ns"].sum())
        lines = user_code() if took_ns >= _TRIVIAL_NS else None
        codes = [] if lines is None else lines.shown({})
        is_large = bool(codes or warnings)
        origin = [info.chip] if info.chip and not nothing else []
        return Report(
            name,
            wall if is_large else "",
            origin if is_large or not wall else [wall, *origin],
            info.simulated and not nothing,
            warnings,
            sentence=join_sentences(said, _after_text(run), plain(repeat_text(info))),
            codes=codes,
            cells=cells,
            noted=_noted(notes),
        )
    advice = run.advice()
    facts = advice.facts
    if advice.left_out:
        warnings.append(Warned("warning", _capital(plain(advice.left_out))))
    is_trivial = facts.accounting.of_host and advice.step_ns < _TRIVIAL_NS
    if facts.backlog is not None:
        warnings.append(Warned("warning", plain(behind(facts.backlog))))
    lines = None if is_trivial else user_code()
    parts = [] if is_trivial else bar_parts(advice)
    return Report(
        name,
        headline_of(advice) + headline_mark(damaged_tables(notes)),
        origin_of(advice),
        info.simulated,
        warnings,
        *aside_of(advice),
        sentence=join_sentences(
            sentence_of(advice, lines), advice.outside_steps(), _after_text(run), plain(repeat_text(info))
        ),
        parts=parts,
        steps=_steps(advice),
        strips=[] if is_trivial else _strips(advice, lines),
        problems=[problem_of(finding, advice) for finding in advice.fired[:MOST_FINDINGS]],
        codes=[] if lines is None else lines.shown(_marks(advice)),
        cells=cells,
        unknown=advice.needing_data(),
        noted=_noted(notes),
    )


def folds_of_run(run: ReportedRun, user_code: Lines, explorer: str = "") -> list[Fold]:
    """Return the folded parts: functions, explorer, kernels, memory, all numbers, all findings, notes, provenance."""
    info, notes, summary, advice = run.info, run.notes, run.summary, run.advice()
    tables = tables_of(summary)
    kernels = [table for table in tables if "kernel" in table.title]
    folds: list[Fold] = []
    lines = user_code()
    if lines is not None:
        number, codes = lines.called(_marks(advice))
        if codes:
            folds.append(Fold(f"Functions it calls ({number})", codes=codes))
    if explorer:
        folds.append(Fold("Timeline, flame graph", html=explorer))
    if kernels:
        folds.append(Fold(f"Kernels ({summary.counts['kernels']:,})", tables=kernels))
    more = advice.fired[MOST_FINDINGS:]
    undecided = [f"{finding.rule.replace('_', ' ')}: {plain(finding.collect)}" for finding in advice.cannot_tell]
    explained = [plain(advice.explained())] if advice.explained() else []
    if more or undecided or explained:
        texts = [f"{finding.title} {finding.gain}. {finding.action}" for finding in more]
        folds.append(Fold("More findings", [*texts, *explained, *(f"Not checked: {text}" for text in undecided)]))
    folds.append(
        Fold(
            "All numbers",
            figures=[*known_figures(summary, info, notes), *_afterwards(info)],
            tables=[table for table in tables if table not in kernels],
            codes=() if lines is None else lines.whole(_marks(advice)),
        )
    )
    provenance = [plain(" · ".join(origin(info))), plain(overhead_text(info)), *map(plain, clock_lines(info))]
    if info.recording is not None:
        opened = code(f"npuprof.load({_relative(info.recording)!r})")
        provenance.append(f"Recording: {opened} opens it in any kernel.")
    folds.append(Fold("Details", [text for text in provenance if text]))
    if len(notes):
        rows = note_rows(notes, _MOST_NOTES)
        more_notes = [f"{len(notes) - _MOST_NOTES:,} more in `run.notes`."] if len(notes) > _MOST_NOTES else []
        folds.append(
            Fold(
                f"Notes ({len(notes):,})",
                [*(plain(f"{severity}: {source}: {message}") for severity, source, message in rows), *more_notes],
            )
        )
    return folds


def run_name(info: Info) -> str:
    """Return the name that the user gave a run, else the cell that it is of, else the name of its files."""
    cell = cell_text(next(iter(info.code), ""))
    return cell if cell and not info.options.get("name") and not info.executed else info.name or "run"


def _afterwards(info: Info) -> list[tuple[str, str]]:
    """Return how long IPython worked after the code of the cells, which is in no other figure."""
    return [(AFTER_CELL, duration(_after_ns(info)))] if _after_ns(info) else []


def _after_ns(info: Info) -> int:
    return sum(each.end_ns - each.start_ns for each in info.afterwards)


def _after_text(run: ReportedRun) -> Markup:
    """Return how long IPython worked after the code, if users notice that; empty otherwise."""
    is_not_said = run.info.selection or run.info.failed  # of a cell that failed, it is the traceback
    after_ns = 0 if is_not_said else _after_ns(run.info)
    if after_ns < _LEAST_AFTER_NS or after_ns <= _AFTER_SHARE * (run.summary.wall_ns or 0):
        return ""
    return f"IPython took another {duration(after_ns)} after the code."


def _relative(path: Path) -> str:
    """Return a path below the working directory without it, so that no saved notebook names the user's folders."""
    try:
        return str(path.relative_to(Path.cwd()))
    except (OSError, ValueError):  # the working directory may be gone
        return path.name


def _warnings(run: ReportedRun, user_code: Lines) -> list[Warned]:
    """Return why the figures cannot be trusted, or why there are none."""
    info, notes = run.info, run.notes
    failed = [Warned("error", plain(f"The cell raised {info.failed}"))] if info.failed else []
    if allocation := failed_allocation(info.failed):
        lines = user_code()
        place = (lambda file, line: (line_text(file, line), "")) if lines is None else lines.place
        failed = [out_of_memory(allocation, run.advice().facts, place)]
    errors = [Warned("error", plain(line)) for line in error_lines(notes)]
    missing = [Warned("warning", plain(line)) for line in damage_lines(notes)]
    kinds = ("overrun", "out_of_order", "after_wait")
    wrong = [Warned("warning", plain(each.message)) for each in info.examination if each.kind in kinds]
    children = [Warned("warning", plain(children_text(info)))] if info.unprofiled_children else []
    return [*failed, *errors, *missing, *wrong, *children]


def join_sentences(*given: Markup) -> Markup:
    """Join sentences; code at the end of one has no period of its own."""
    told = [text for text in given if text]
    return " ".join([*(text if text.endswith(".") else f"{text}." for text in told[:-1]), *told[-1:]])


def _noted(notes: pd.DataFrame) -> str:
    number = int((notes["severity"] == "warning").sum())
    return f"{counted(number, 'warning')} about the data: run.notes" if number else ""


def origin_of(advice: Advice) -> list[str]:
    """Return chip, rank, and the number and kind of steps."""
    facts = advice.facts
    rank = [] if facts.info.rank is None else [f"rank {facts.info.rank}"]
    return [text for text in [facts.info.chip, *rank, _steps_text(advice)] if text]


def _steps_text(advice: Advice) -> str:
    """Return how many steps the figures are of, and where they come from."""
    facts = advice.facts
    steps = facts.accounting.steps
    if not facts.accounting.has_steps:
        return "no steps"
    devices = max(len(steps[["rank", "device_id"]].drop_duplicates()), 1)
    used, every = facts.basis.count, len(steps) // devices
    number = counted(every, "step") if used == every else f"{used:,} of {counted(every, 'step')}"
    marks = facts.tables["steps"]
    kinds = marks["kind"][of_counted_kind(marks)].dropna().unique().tolist() if "kind" in marks else []
    return f"{number}, the {kinds[0]}" if len(kinds) == 1 else number


def headline_of(advice: Advice) -> str:
    """Return the time of a step, or of a run without steps."""
    has_steps = advice.facts.accounting.has_steps
    return f"{duration(advice.step_ns)} a step" if has_steps else duration(advice.step_ns)


def aside_of(advice: Advice) -> tuple[str, str]:
    """Return what stands beside the time of a step, and what that is: the usual step, or the spread."""
    facts = advice.facts
    if facts.basis.outliers:
        single = [each for each in advice.findings if each.of_outliers and each.state == "fires" and not each.gain]
        also = f"; {single[0].title[0].lower()}{single[0].title[1:]}" if single else ""
        return f"usually {duration(advice.usual_ns)}{also}", "usually: the mean of the steps that are no outliers"
    times = facts.basis.duration_ns  # of each rank and device
    if len(np.unique(facts.basis.number)) < 3:
        return "", ""
    spread = round(_SIGMA * float(np.median(np.abs(times - np.median(times)))))
    return f"± {duration(spread)}", "spread of the steps: 1.4826 times their median absolute deviation"


def _steps(advice: Advice) -> Steps | None:
    facts = advice.facts
    steps = facts.accounting.steps
    if not facts.accounting.has_steps or len(facts.basis.rows) < 2:
        return None
    basis = facts.basis
    devices = steps["device_id"].iloc[basis.rows].fillna(-1).to_numpy(np.int64)
    of_first = devices == devices[0]
    return Steps(basis.duration_ns[of_first].tolist(), basis.outlier[of_first].tolist())


def bar_parts(advice: Advice) -> list[Part]:
    """Return the parts of a mean step."""
    parts = advice.parts()
    if advice.facts.accounting.of_host:
        from npuprof.figures.colours import ACTIVITIES

        looks = {name: name for name in (*ACTIVITIES, BETWEEN_STEPS)}
        return [
            Part(HOST_LABELS[name], time, looks[name]) for name, time in parts.items() if time and name in HOST_LABELS
        ]
    return [Part(PART_LABELS[name], parts[name], name) for name in PART_LABELS if parts.get(name)]


def sentence_of(advice: Advice, lines: UserCode | None) -> Markup:
    """Return the main cause in one sentence, with its line."""
    facts = advice.facts
    whole = max(advice.step_ns, 1)
    device = facts.device or "device"
    if facts.accounting.of_host:
        line = None if lines is None else lines.costliest()
        alone = "No device was recorded."
        if line is None:
            return alone
        return f"{alone} {_capital(line.name)} takes {share(line.time_ns, whole)} of it{_quoted(line)}"
    times = _times(advice)
    most = max(times, key=lambda name: times[name])
    if (lost := advice.parts().get(NOT_RECORDED, 0)) > times[most]:
        return f"The recording lacks what the {device} ran for {share(lost, whole)} of it."
    worked = share(whole - times["idle"] - times["waiting"] - lost, whole)
    if most == "idle":
        said = f"The {device} works {worked} of it. For the rest it waits"
        if advice.fired and advice.fired[0].cause == NOTEBOOK:
            return f"{said}, mostly while IPython compiles the cell's statements."
        line = None if lines is None else lines.costliest()
        if line is not None:
            return f"{said}, {'mostly' if line.is_most else 'longest'} for {line.name}{_quoted(line)}"
        if unknown := first_line(advice.budget(), advice.step_ns):
            return f"The {device} works {worked} of it. {plain(unknown)}."
        cause = next(iter(facts.idle_causes), UNEXPLAINED)
        known = cause not in (UNEXPLAINED, UNKNOWN)
        return f"{said}, mostly for {_cause(cause)}." if known else f"{said}; why was not recorded."
    if most == "computing":
        top = _top_kernels(advice)
        kind = f", mostly {code(top)}" if top else ""
        return f"The {device} computes {share(times[most], whole)} of it{kind}."
    said = {
        "waiting": "waits {} of it for other ranks.",
        "moving": "moves data between ranks {} of it while nothing computes.",
        "communication": "communicates {} of it while nothing computes.",
        "copy": "copies {} of it while nothing computes.",
    }[most]
    return f"The {device} {said.format(share(times[most], whole))}"


def finding_of(advice: Advice, lines: UserCode | None) -> str:
    """Return the main cause as the title of a figure: "The NPU idles 41 % of a step: mostly line 4"; may be empty."""
    if not advice.step_ns or advice.left_out:
        return ""
    facts = advice.facts
    whole = max(advice.step_ns, 1)
    of = "the run" if not facts.accounting.has_steps else "a step"
    line = None if lines is None else lines.costliest()
    if facts.accounting.of_host:
        return "" if line is None else f"{_capital(line.name)} takes {share(line.time_ns, whole)} of {of}"
    times = _times(advice)
    most = max(times, key=lambda name: times[name])
    words = {
        "idle": "idles {}",
        "computing": "computes {}",
        "waiting": "waits {} for other ranks",
        "moving": "moves data between ranks {} while nothing computes",
        "communication": "communicates {} while nothing computes",
        "copy": "copies {} while nothing computes",
    }[most]
    said = f"The {facts.device or 'device'} {words.format(f'{share(times[most], whole)} of {of}')}"
    if most == "idle" and line is not None:
        return f"{said}: mostly {line.name}" if line.is_most else f"{said}: {line.name} most of all"
    top = _top_kernels(advice) if most == "computing" else ""
    return f"{said}: mostly {top}" if top else said


def _times(advice: Advice) -> dict[str, int]:
    """Return the time of each part of a mean step that may be its main cause, by name."""
    parts = advice.parts()
    times = {name: parts.get(name, 0) for name in ("idle", "computing", "waiting", "moving", "communication", "copy")}
    times["idle"] += parts.get(BETWEEN_STEPS, 0)
    return times


def _top_kernels(advice: Advice) -> str:
    """Return the kind of kernels with the most time; empty if there are none."""
    times = advice.facts.tables["kernels"].groupby("op_type", observed=True)["duration_ns"].sum()
    return printable(str(times.idxmax()), 60) if len(times) else ""


def _quoted(line: Costliest) -> Markup:
    return f": {code(printable(line.text, _LONGEST_LINE))}" if line.text else "."


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _cause(name: str) -> str:
    from npuprof.advice.host_causes import LABELS

    return LABELS.get(name, name)


def _strips(advice: Advice, lines: UserCode | None) -> list[Strip]:
    """Return the usual step closest to the mean of the usual ones, and an outlier where these cost more."""
    facts = advice.facts
    steps = facts.accounting.steps
    if facts.accounting.of_host and advice.step_ns < _LEAST_HOST_NS:
        return []
    lines_of = _no_lines if lines is None else lines.lines_of
    basis = facts.basis
    if not basis.outliers or basis.excess_ns <= basis.usual_ns:
        strips = [typical_strip(facts, basis, "", lines_of)]
    else:
        longest = int(basis.outlier_rows[np.argmax(steps["duration_ns"].to_numpy(np.int64)[basis.outlier_rows])])
        title = f"step {steps['step'].iloc[longest]}, an outlier"
        strips = [
            typical_strip(facts, basis, "a usual step", lines_of),
            strip_of(facts, same_step(steps, longest), title, lines_of),
        ]
    return [strip for strip in strips if strip is not None]


def _no_lines(file: str) -> Sequence[str]:
    del file
    return ()


def _key(finding: Finding, advice: Advice) -> str:
    """Return what finds a finding again: its number in the report, or its rule."""
    numbers = [number for number, each in enumerate(advice.fired, 1) if each is finding]
    return str(numbers[0]) if numbers else repr(finding.rule)


def problem_of(finding: Finding, advice: Advice) -> Problem:
    """Return a finding in two lines, and the answer to its question."""
    why = []
    if finding.where:
        call = code(f"advice()[{_key(finding, advice)}].show()")
        why.append(f"Evidence: {finding.where}; {call} opens it in the explorer.")
    why += [finding.method] if finding.method else []
    return Problem(finding.title, finding.action, finding.gain, advice.share(finding), why, plain(finding.detail))


def _marks(advice: Advice) -> dict[tuple[str, int], list[int]]:
    """Return the numbers of the findings that concern each line."""
    marks: dict[tuple[str, int], list[int]] = {}
    for number, finding in enumerate(advice.fired[:MOST_FINDINGS], 1):
        for place in finding.lines:
            marks.setdefault(place, []).append(number)
    return marks

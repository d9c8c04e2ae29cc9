"""All findings of a run, in the order of their expected gain."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np
import pandas as pd

from npuprof.advice.actions import for_framework
from npuprof.advice.budget import budget, first_line, idle_text, unexplained_host_ns, unknown_ns
from npuprof.advice.causes import LAUNCHES
from npuprof.advice.explained import explained_ns
from npuprof.advice.facts import Facts
from npuprof.advice.finding import Finding, Rule, State
from npuprof.advice.gains import Confidence, gain_of
from npuprof.advice.outliers import judged_rows
from npuprof.advice.outside_steps import outside_steps
from npuprof.advice.rules_of_packages import rules
from npuprof.advice.wording import behind, lines_called
from npuprof.analysis.accounting import BETWEEN_STEPS, IDLE, NOT_RECORDED, Accounting
from npuprof.analysis.detected_steps import detected_steps
from npuprof.analysis.device_words import NPU
from npuprof.analysis.examination import incomplete
from npuprof.analysis.replay import Replay
from npuprof.analysis.step_windows import of_counted_kind
from npuprof.arrays import Int64
from npuprof.errors import NpuprofError
from npuprof.tables.info import Info
from npuprof.words.quantities import counted, duration, share
from npuprof.words.texts import LongText, encodable

if TYPE_CHECKING:
    from ipywidgets import Widget

_TEXTS = ("title", "detail", "action", "place", "table", "collect")
_TIMES = ("cost_ns", "gain_lo_ns", "gain_hi_ns")
_LONGEST_NS = 1 << 62
FAILED = "the rule failed"
_MOST_NAMED = 3  # lines in a title
_COLUMNS = (
    "rule",
    "state",
    "title",
    "cost_ns",
    "gain_lo_ns",
    "gain_hi_ns",
    "confidence",
    "place",
    "detail",
    "action",
    "collect",
    "rank",
)
_SHOWN = 0.01  # share of the step: findings that may gain less are not listed
PARTS_OF_NAMES = {
    "computing": ("computing",),
    "waiting": ("waiting",),
    "moving": ("moving",),
    "communication": ("communication",),
    "copy": ("copy",),
    "idle": IDLE,
    BETWEEN_STEPS: (BETWEEN_STEPS,),
    NOT_RECORDED: (NOT_RECORDED,),
}
"""The parts of a step that each name of the JSON, the headline and the gates stands for."""

_OF_LAUNCHES = ("small_kernels", "fusible_repeats")
_VERSION = 5

Scope: TypeAlias = Literal["run", "job", "ranks"]
Render: TypeAlias = Callable[["Advice", Literal["html", "text"]], str]
"""Writes findings as HTML for a notebook, or as text for a terminal."""


class Advice(LongText):
    """The findings of a run: iterate over those that fire, the greatest gain first, or take one by its rule's name.

    Attributes
    ----------
    facts
        What the rules saw of the run.
    findings
        The finding of every rule.
    step_ns
        Mean duration of a step in nanoseconds, or the duration of a run without steps.
    usual_ns
        Mean duration of the steps that are no outliers: costs and gains of findings are of it.
    excess_ns
        What outliers add: ``step_ns`` is ``usual_ns`` and this, exactly.
    together_ns
        The time that a step of a job would gain without all findings of its ranks; None for a single run.
    scope
        Whether these are findings of a run, of a job and its single ranks, or only of a job's ranks together.
    render
        Writes the findings as HTML or text; without it, ``str()`` has their titles alone.
    left_out
        Why there are no findings, and how to have them, where memory does not suffice; empty otherwise.
    """

    def __init__(
        self,
        facts: Facts,
        findings: list[Finding],
        explore: Callable[[Finding], Widget] | None = None,
        together_ns: int | None = None,
        scope: Scope = "run",
        render: Render | None = None,
        left_out: str = "",
    ) -> None:
        self.left_out = left_out
        self.facts = facts
        self.scope = scope
        self.render = render
        self.findings = [replace(finding, explore=explore) for finding in findings]
        self.step_ns, self.usual_ns, self.excess_ns = facts.step_ns, facts.usual_ns, facts.excess_ns
        self.together_ns = together_ns

    @cached_property
    def fired(self) -> list[Finding]:
        """The findings that fire and may gain at least 1 % of a step: the greatest expected gain first."""
        worth = [
            finding
            for finding in self.findings
            if finding.state == "fires" and finding.gain_hi_ns >= _SHOWN * self.judged_ns
        ]
        launches = [finding for finding in worth if finding.cause == LAUNCHES]
        worth = [finding for finding in worth if not any(_is_within(finding, each) for each in launches)]
        return sorted(worth, key=lambda finding: (-finding.expected_ns, -finding.gain_lo_ns))

    @cached_property
    def judged_rows(self) -> Int64:
        """The steps that gates judge: the basis without outliers that have nothing in common with another."""
        return judged_rows(self.facts)

    @property
    def judged_ns(self) -> int:
        """The mean of the steps that gates judge, rounded down."""
        return sum(time for _, _, time in self.facts.means(self.judged_rows))

    @cached_property
    def explained_ns(self) -> int:
        """Nanoseconds of a step that the findings explain together; for a job, the gain of a step without them."""
        of_usual = [finding for finding in self.fired if not finding.of_outliers]
        together = explained_ns(self.facts, of_usual) if self.together_ns is None else self.together_ns
        return together + sum(finding.cost_ns for finding in self.fired if finding.of_outliers)

    @property
    def cannot_tell(self) -> list[Finding]:
        """The findings of rules that lack data; ``collect`` says what to record."""
        return [finding for finding in self.findings if finding.state == "cannot tell"]

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.fired)

    def __len__(self) -> int:
        return len(self.fired)

    def share(self, finding: Finding) -> str:
        """Return the share of the step that a finding may gain, as text; empty without a gain."""
        if not finding.gain_hi_ns or not self.step_ns:
            return ""
        percent = 100 * finding.gain_hi_ns / self.step_ns
        return f"{percent:.0f} %" if percent >= 1 else "< 1 %"

    def __getitem__(self, rule: str | int) -> Finding:
        """Return the costliest finding of a rule, whatever its state, or the finding with a number in the report.

        Raises
        ------
        NpuprofError
            If there is no such rule or number.
        """
        if isinstance(rule, int):
            if 0 < rule <= len(self.fired):
                return self.fired[rule - 1]
            raise NpuprofError(f"there is no finding {rule}: the report has {counted(len(self.fired), 'finding')}")
        for finding in self.findings:
            if finding.rule == rule:
                return finding
        raise NpuprofError(
            f"there is no rule {rule!r}; the rules are {', '.join(finding.rule for finding in self.findings)}"
        )

    def to_frame(self) -> pd.DataFrame:
        """Return a row for each finding: first those that fire, by gain, then the clean ones and the undecided.

        Returns
        -------
        pandas.DataFrame
            ``rule``, ``state``, ``title``, ``cost_ns``, ``gain_lo_ns``, ``gain_hi_ns``, ``confidence``, ``place``,
            ``detail``, ``action``, ``collect``, ``rank`` and ``evidence_rows`` (their number).
        """
        rows = [
            {name: getattr(finding, name) for name in _COLUMNS} | {"evidence_rows": len(finding.rows)}
            for finding in self._sort()
        ]
        return pd.DataFrame(rows, columns=[*_COLUMNS, "evidence_rows"])

    def _sort(self) -> list[Finding]:
        other_findings = [finding for finding in self.findings if not any(finding is fired for fired in self.fired)]
        return self.fired + sorted(
            other_findings, key=lambda finding: ("fires", "clean", "cannot tell").index(finding.state)
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the findings as plain data, with row numbers of their evidence: ``notebooks/reference/advice.md``."""
        findings = [
            {name: getattr(finding, name) for name in _COLUMNS}
            | {"lines": [list(line) for line in finding.lines], "cause": finding.cause}
            | {"evidence": {"table": finding.table, "rows": [int(row) for row in finding.rows.index]}}
            for finding in self._sort()
        ]
        return {
            "version": _VERSION,
            "simulated": self.facts.info.simulated,
            "step_ns": self.step_ns,
            "usual_ns": self.usual_ns,
            "excess_ns": self.excess_ns,
            "steps": len(self.facts.basis.rows),
            "parts_ns": self.parts(),
            "budget": self.budget().to_dict("records"),
            "explained_ns": self.explained_ns,
            "incomplete": self.doubts,
            "findings": findings,
        }

    def to_json(self) -> str:
        """Return :meth:`to_dict` as JSON."""
        return json.dumps(self.to_dict(), indent=2)

    def parts(self) -> dict[str, int]:
        """Return the nanoseconds of a mean step by part, the three idle parts as one; they add up to the step.

        Of a run without a device these are 0, and what the host did follows.
        """
        parts = {name: self.facts.mean_step(parts) for name, parts in PARTS_OF_NAMES.items()}
        return {**parts, **self.facts.activities} if self.facts.accounting.of_host else parts

    def budget(self) -> pd.DataFrame:
        """Return where a mean step goes, to the nanosecond, and a usual one.

        Returns
        -------
        pandas.DataFrame
            ``part`` (``computing``, ``waiting``, ``moving``, ``communication``, ``copy``, ``host``, ``idle``,
            ``between_steps``, ``not_recorded``, and last ``unknown``: idle time without a known cause), ``cause`` (of
            idle time, and what the host did), ``time_ns``, ``usual_ns`` and ``collect``: what to record to know
            the cause.
        """
        return self._budget.copy()

    @cached_property
    def _budget(self) -> pd.DataFrame:
        table = budget(self.facts)
        return table.assign(collect="") if self.scope == "ranks" else table  # single ranks say what they lack

    def idle_parts(self) -> dict[str, int]:
        """Return the nanoseconds of the three idle parts of a mean step."""
        return {name: self.facts.mean_step([name]) for name in IDLE}

    def headline(self) -> str:
        """Return the duration of a step and the number of steps as text."""
        if not self.step_ns:
            needed = "load the whole result, or collect with --activities cpu,npu"
            needed = needed if self.facts.device == NPU else "record the operators of the host, or a GPU"
            return f"No step or device time: nothing can be concluded ({needed})"
        steps = self.facts.accounting.steps
        if not self.facts.accounting.has_steps:
            label = f"{duration(self.step_ns)} in all (the run has no steps)"
        else:
            devices, ranks = len(steps[["rank", "device_id"]].drop_duplicates()), steps["rank"].nunique()
            count = self.facts.basis.count
            owners = f" of {ranks} ranks" if ranks > 1 else f" of {devices} devices" if devices > 1 else ""
            basis = (f"mean of {count} steps" if count > 1 else "1 step") + owners
            if outliers := self.facts.basis.outliers:
                basis += f": {duration(self.usual_ns)} as usual, and {duration(self.excess_ns)} "
                basis += f"since {counted(outliers, 'step')} {'takes' if outliers == 1 else 'take'} longer"
            kind, others = self._kinds_of_steps()
            basis += f", the {kind}" * bool(kind) + f", {self.facts.basis.why}" * bool(self.facts.basis.why)
            label = f"{duration(self.step_ns)} a step ({basis}{others})"
        if self.facts.accounting.of_host:
            label = label.replace(")", ", no device was recorded)")
        if self.facts.stacks:
            label = label.replace(")", ", Python stacks recorded)")
        return label

    @cached_property
    def _steps_to_detect(self) -> str:
        """Return that a sequence of kernels could be the step of a run without steps; empty if there is none."""
        if self.facts.accounting.has_steps or self.facts.accounting.of_host:
            return ""
        steps = detected_steps(self.facts.tables["kernels"])
        if steps is None:
            return ""
        kind = str(steps["kind"].iloc[0]).removeprefix("detected ")
        return f"a {kind} comes {len(steps):,} times: run.with_detected_steps() makes steps of it"

    def _kinds_of_steps(self) -> tuple[str, str]:
        """Return the kind of the steps, empty unless there is one, and a remark on steps of other kinds."""
        steps = self.facts.tables["steps"]
        if "kind" not in steps:
            return "", ""
        is_counted = of_counted_kind(steps)
        kinds = steps["kind"][is_counted].dropna().unique()
        others = [
            f"; {len(times):,} of the {kind} take {duration(int(times.sum()) // len(times))} each"
            for kind, times in steps[~is_counted].groupby("kind", observed=True, sort=True)["duration_ns"]
        ]
        return str(kinds[0]) if len(kinds) == 1 else "", "".join(others)

    def lateness(self) -> list[str]:
        """Return that the host runs ahead, which makes the steps too short; none if it does not."""
        return [] if self.facts.backlog is None else [behind(self.facts.backlog)]

    def idle_lines(self) -> list[str]:
        """Return what to record to know why the device is idle, and idle time by cause."""
        if self.scope == "ranks" or not self.step_ns:
            return []
        texts = (first_line(self._budget, self.step_ns), idle_text(self._budget, self.step_ns))
        return [text for text in texts if text]

    def outside_steps(self) -> str:
        """Return how much of the cell the steps cover, and where the rest went, in a sentence; empty from 80 % on."""
        return outside_steps(self.facts) if self.scope == "run" else ""

    def explained(self) -> str:
        """Return the share of a step that the findings explain together; empty without any, and for mere launches."""
        if not self.fired or not self.explained_ns or self.facts.backlog is not None:
            return ""
        explained = f"{duration(self.explained_ns)} of {duration(self.step_ns)}"
        how = "each moment counted once" if self.together_ns is None else "replayed without all of them"
        return f"Together they explain {explained} ({share(self.explained_ns, self.step_ns)}), {how}."

    def remarks(self) -> list[str]:
        """Return the remarks besides the findings: data left out, no finding at all, and failed rules."""
        words = [self.left_out] if self.left_out else []
        words += [self._steps_to_detect] if self.scope == "run" and self._steps_to_detect else []
        unknown = self.scope != "ranks" and first_line(self._budget, self.step_ns)
        if self.step_ns and not (self.fired or self.left_out or unknown):
            step = "a step" if self.usual_ns == self.step_ns else "the usual step"
            words.append(f"no finding{' about the ranks together' * (self.scope == 'ranks')} would gain 1 % of {step}")
        if self.scope == "ranks":
            words.append("runs.advice() adds findings about the kernels, the host and the memory of single ranks")
        return words + [f"{finding.rule}: {FAILED}" for finding in self.cannot_tell if finding.collect == FAILED]

    @property
    def risks(self) -> list[Finding]:
        """The findings that fire and gain nothing now."""
        return [finding for finding in self.findings if finding.is_risk]

    def needing_data(self) -> str:
        """Return how many rules cannot tell, ``2 checks need more data``; empty for none."""
        count = sum(finding.collect != FAILED for finding in self.cannot_tell)
        return f"{counted(count, 'check')} need{'s' * (count == 1)} more data" if count else ""

    def to_collect(self) -> list[str]:
        """Return a line for each thing to record, with the rules that need it and what they may find."""
        lacks: dict[str, list[str]] = {}
        for finding in self.cannot_tell:
            at_most = f" (at most {duration(finding.cost_ns)})" if finding.cost_ns else ""
            lacks.setdefault(finding.collect, []).append(finding.rule.replace("_", " ") + at_most)
        return [f"{', '.join(rules)}: {subject}" for subject, rules in lacks.items()]

    @property
    def doubts(self) -> list[str]:
        """The missing and wrong data that keep gates from judging; empty for a complete recording."""
        return incomplete(self.facts.info.examination)

    @property
    def unknown_ns(self) -> int:
        """Nanoseconds of a mean step without a known cause: idle device time, or without a device, host time."""
        return unknown_ns(self._budget) + unexplained_host_ns(self._budget)

    @property
    def unjudged(self) -> str:
        """How many other runs have no rank and were not judged, as text; empty for none."""
        unranked = self.facts.unranked
        if not unranked:
            return ""
        others = f"{counted(unranked, 'other run')} here {'has' if unranked == 1 else 'have'}"
        return f"{others} no rank, and no part in these findings"

    def gains_at_least(self, least: float) -> bool | None:
        """Return whether a finding may gain a share of a step; None if the noise or lost records leave it open."""
        if self.doubts:
            return None
        answers = {finding.gains_at_least(least * self.judged_ns) for finding in self.findings}
        return True if True in answers else None if None in answers else False

    def _one_line(self) -> str:
        """Return how many findings fire, and the first of them."""
        fired = [finding for finding in self.findings if finding.state == "fires"]
        first = f", first of all: {fired[0].title}" if fired else ""
        return f"of {counted(len(self.findings), 'rule')}: {counted(len(fired), 'finding')}{first}; print() shows all"

    def __str__(self) -> str:
        if self.render is not None:
            return self.render(self, "text")
        return "\n".join([self.headline(), *(f"{finding.title}  {finding.gain}".rstrip() for finding in self)])

    def _repr_html_(self) -> str | None:
        return None if self.render is None else self.render(self, "html")


def _is_within(finding: Finding, launches: Finding) -> bool:
    """Return whether a finding about small kernels is part of one about their launches."""
    is_part = finding.rule in _OF_LAUNCHES and finding.gain_hi_ns <= launches.gain_hi_ns
    return is_part and set(finding.lines) <= set(launches.lines)


def advise(
    tables: Mapping[str, pd.DataFrame],
    info: Info,
    accounting: Accounting,
    explore: Callable[[Finding], Widget] | None = None,
    render: Render | None = None,
    *,
    aligned: Mapping[str, pd.DataFrame] | None = None,
    replay: Callable[[], Replay] | None = None,
) -> Advice:
    """Run every rule on a run.

    Parameters
    ----------
    tables, info
        The run, as recorded.
    accounting
        The parts of its steps, as :func:`npuprof.analysis.accounting.account` returns it.
    explore
        Opens the explorer of the run at a finding's evidence.
    render
        Writes the findings as HTML or text.
    aligned
        The tables on the clock of the accounting; evidence has the recorded times.
    replay
        Returns the replay of the run, where it is prepared elsewhere.
    """
    facts = Facts(tables if aligned is None else aligned, info, accounting, replay)
    judging = [rule for rule in rules() if facts.device in rule.devices]
    found = [finding for rule in judging for finding in _check(rule, facts)] if facts.step_ns else []
    found = [_with_lines(finding, facts) for finding in found]
    fused = next((each.action for each in found if each.rule == "fusible_repeats" and each.cause), "")
    found = [replace(each, action=fused) if fused and each.cause == LAUNCHES else each for each in found]
    return Advice(facts, [_as_recorded(finding, tables) for finding in found], explore, render=render)


def _with_lines(finding: Finding, facts: Facts) -> Finding:
    """Return a finding with the lines of its evidence, which its title names if they are few."""
    if finding.state != "fires" or finding.lines or not finding.gain_hi_ns:
        return finding
    rows = finding.rows.index.to_numpy(np.int64) if len(finding.rows) else np.zeros(0, np.int64)
    lines = facts.lines_of_evidence(finding.table, rows, finding.costs())
    if not lines or len(lines) > _MOST_NAMED:
        return replace(finding, lines=lines)
    cells = facts.tables["statements"]["file"].unique()
    called = lines_called(lines, str(cells[0]) if len(cells) == 1 else "").replace("Line", "line")
    return replace(finding, lines=lines, title=f"{finding.title}, {called}")


def _as_recorded(finding: Finding, tables: Mapping[str, pd.DataFrame]) -> Finding:
    """Return a finding whose evidence has the times of the recorded rows."""
    rows, table = finding.rows, tables.get(finding.table)
    if table is None or not len(rows) or not rows.index.isin(table.index).all():
        return finding
    times = {
        name: table[name].loc[rows.index] for name in ("start_ns", "duration_ns") if name in rows and name in table
    }
    return replace(finding, rows=rows.assign(**times))


def _check(rule: Rule, facts: Facts) -> list[Finding]:
    """Return the findings of a rule; a rule that raises, since it may come from another package, cannot tell."""
    try:
        made = rule.check(facts)
        findings = [_judged(_sound(each, rule), facts) for each in (made if isinstance(made, list) else [made])]
        return [replace(finding, action=for_framework(finding.action, facts.info)) for finding in findings]
    except Exception as error:  # noqa: BLE001 a report must not fail over one rule
        problem = encodable(f"{type(error).__name__}: {error}")
        return [Finding(encodable(str(rule.name)), "cannot tell", detail=problem, collect=FAILED)]


def _judged(finding: Finding, facts: Facts) -> Finding:
    """Return a finding whose confidence allows for what the examination found about its evidence."""
    sound = facts.sound and not facts.touches_doubt(finding.table, finding.rows)
    predicted = finding.confidence == "measured"
    limits = finding.gain_lo_ns, finding.gain_hi_ns
    return replace(
        finding, **gain_of(*limits, predicted=predicted, sound=sound, saves=finding.saves, gains_ns=finding.gains_ns)
    )


def _sound(finding: Any, rule: Rule) -> Finding:
    """Return a finding whose fields have their types.

    Raises
    ------
    TypeError
        If one has another.
    """
    if not isinstance(finding, Finding) or not isinstance(finding.rows, pd.DataFrame):
        raise TypeError("it returns no Finding with a table of rows")
    if len(finding.rows) and finding.rows.index.dtype.kind not in "iu":
        raise TypeError("its evidence is not known by the numbers of rows")
    if finding.state not in get_args(State) or finding.confidence not in get_args(Confidence):
        raise TypeError(f"its state is {finding.state!r} and its confidence {finding.confidence!r}")
    texts = {name: getattr(finding, name) for name in _TEXTS}
    if wrong := [name for name, text in texts.items() if not isinstance(text, str)]:
        raise TypeError(f"{', '.join(wrong)} of its finding is no text")
    lines = tuple((encodable(str(file)), operator.index(line)) for file, line in finding.lines)
    plain: dict[str, Any] = {"lines": lines}
    plain |= {name: encodable(text) for name, text in texts.items()}
    plain |= {name: min(operator.index(getattr(finding, name)), _LONGEST_NS) for name in _TIMES}
    return replace(finding, rule=encodable(str(rule.name)), **plain)

"""A job at a glance: the verdict, findings about its ranks, its groups, and the parts of each step of each rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pandas as pd

from npuprof.advice.findings import Advice
from npuprof.analysis.rank_groups import RankGroup, groups_by_kind, pipelines, rank_groups
from npuprof.analysis.rank_steps import ranks_by_step
from npuprof.errors import NpuprofError
from npuprof.figures.with_fallback import with_fallback
from npuprof.ranks.job import job_facts, recorded_groups, step_parts, waits_caused
from npuprof.ranks.rank_tables import RankTables
from npuprof.ranks.set_notes import notes_of
from npuprof.ranks.transfers import absent_ranks
from npuprof.sources.files.memory_limit import give_back
from npuprof.tables.info import Info
from npuprof.words.quantities import count, counted, duration, formatted_ranks, printable, share
from npuprof.words.texts import LongText

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from npuprof.advice.job import JobFacts


@dataclass(frozen=True, repr=False)
class Overview(LongText):
    """The result of :meth:`npuprof.ProfileSet.overview`.

    Attributes
    ----------
    verdict
        One line: the duration of a step, and its main causes.
    advice
        The findings about ranks, stages and waits.
    steps
        A row for each step of each rank: ``rank``, ``step`` (from 0 if the run has no numbers), ``duration_ns``,
        ``computing_ns``, ``waiting_ns``, ``moving_ns``, ``communication_ns`` (not known to be either), ``copy_ns``,
        ``idle_ns``, ``between_steps_ns`` and ``not_recorded_ns``, which add up to the step.
    groups
        The groups that communicate.
    communication
        A row for each kind of group: ``kind``, ``basis`` (``recorded`` or ``inferred``), ``groups``, ``size`` (of the
        largest), ``operators``, ``wait_ns`` and ``moving_ns`` (per rank and step).
    caused
        How long all ranks wait per step for the own time of each rank, by rank; empty without common collectives.
    ranks, absent
        The ranks that have a run, and the ranks that files refer to but that have none.
    warnings
        The number of notes of the set that are warnings or errors.
    info
        The metadata that the runs have in common.
    """

    verdict: str
    advice: Advice | None
    steps: pd.DataFrame
    groups: list[RankGroup] = field(repr=False)
    communication: pd.DataFrame
    caused: pd.Series[int]
    ranks: list[int]
    absent: list[int]
    warnings: int
    info: Info = field(repr=False)

    @property
    def pipelines(self) -> list[tuple[int, ...]]:
        """The ranks of each pipeline, by stage."""
        return pipelines(self.groups, self.ranks)

    @with_fallback("steps of all ranks")
    def plot(self) -> go.Figure:
        """Draw a heat map of ranks and steps for each part of steps, and the waiting that each rank causes."""
        from npuprof.figures.rank_steps import plot_rank_steps

        return plot_rank_steps(self.steps, self.caused, self.info, absent=self.absent[:64])

    def lines(self) -> list[str]:
        """Return the verdict, absent ranks, findings and kinds of groups as lines of text."""
        lines = [self.verdict]
        if self.absent:
            lines.append(f"absent ranks: {formatted_ranks(self.absent)}")
        if self.advice is not None:
            lines += self.advice.lines()[1:]
        if self.warnings:
            lines.append(self.warned())
        kinds = (f"{kind} (waits {wait}, moves {moving} a step)" for kind, *_, wait, moving in self.kinds())
        return lines + ([f"groups: {', '.join(kinds)}"] if len(self.communication) else [])

    def warned(self) -> str:
        """Return where the warnings are; empty without any."""
        return f"warnings: {count(self.warnings)}; runs.notes has them" if self.warnings else ""

    def kinds(self) -> list[tuple[str, ...]]:
        """Return kind, origin, groups, ranks of the largest, operators, waiting and moving of each kind of group."""
        most = "at most " if self.absent else ""  # waits for absent ranks look like moving
        least = "at least " if self.absent else ""
        waiting = [least + duration(int(time)) for time in self.communication["wait_ns"]]
        moving = [most + duration(int(time)) for time in self.communication["moving_ns"]]
        bases = self.communication["basis"]
        origin = [basis if basis == "recorded" else "inferred from its ranks" for basis in bases]
        counts = [self.communication[name].astype(str).tolist() for name in ("groups", "size", "operators")]
        return list(zip(self.communication["kind"].tolist(), origin, *counts, waiting, moving, strict=True))

    def _one_line(self) -> str:
        """Return the verdict."""
        return f"of a job: {self.verdict}"

    def __str__(self) -> str:
        return "\n".join(printable(line, 400) for line in self.lines())

    def _repr_html_(self) -> str:
        from npuprof.exports.set_overview import overview_html

        absent, warned = formatted_ranks(self.absent), self.warned()
        return overview_html(self.verdict, self.advice, self.kinds(), absent, self.info, warned=warned)


def overview(ranks: RankTables) -> Overview:
    """Return the overview of all ranks of a set."""
    from npuprof.advice.job_findings import advise_job

    ranks.scans.read_ahead()
    info = ranks.runs.merged_info
    steps = ranks_by_step(step_parts(ranks, newest=True))
    try:
        facts: JobFacts | None = job_facts(ranks)
    except NpuprofError:
        facts = None
    give_back()
    advice = None if facts is None else advise_job(facts, scope="ranks")
    if facts is None or facts.job is None:
        no_waits = pd.DataFrame(columns=["group", "rank", "wait_ns", "moving_ns"])
        groups, communication = [], groups_by_kind([], no_waits, 1)
    else:
        groups = rank_groups(facts.job.rows, recorded_groups(entry.known for entry in ranks.runs.entries))
        communication = groups_by_kind(groups, facts.job.rows, facts.steps)
    caused = pd.Series(dtype="int64") if facts is None else waits_caused(facts)
    absent = absent_ranks(ranks)
    verdict = _verdict(ranks, facts, advice, steps, absent)
    warnings = int((notes_of(ranks)["severity"] != "info").sum())
    return Overview(verdict, advice, steps, groups, communication, caused, ranks.runs.ranks, absent, warnings, info)


def _verdict(
    ranks: RankTables, facts: JobFacts | None, advice: Advice | None, steps: pd.DataFrame, absent: Sequence[int]
) -> str:
    """Return one line on the job: what stands out, that nothing stands out, or why that is unknown."""
    if advice is None or facts is None:
        runs = counted(len(ranks.runs.entries), "run")
        return f"{runs}, none with a known rank: nothing can be said about them together"
    said = " · ".join([advice.headline(), *_shares(steps)])
    if not advice.step_ns:
        return f"{_ranks(len(ranks.runs.ranks))} without steps or device time: nothing can be said about the job"
    if len(ranks.runs.ranks) == 1:
        return f"One rank alone: {said}"
    if facts.job is None:
        return f"No two ranks have collectives in common: who waits for whom is not known. {said}"
    if advice.fired:
        return f"{advice.fired[0].title}. {said}"
    if absent:
        are = "is" if len(absent) == 1 else "are"
        return f"{_ranks(len(absent))} {are} absent: who makes the others wait is not known. {said}"
    return f"No rank, stage or wait stands out. {said}"


def _ranks(number: int) -> str:
    return counted(number, "rank")


def _shares(steps: pd.DataFrame) -> list[str]:
    """Return the share of each part in the total time of all steps of all ranks."""
    whole = int(steps["duration_ns"].sum())
    parts = [name for name in steps if str(name).endswith("_ns") and name != "duration_ns"]
    sums = {str(name).removesuffix("_ns"): int(steps[name].sum()) for name in parts}
    return [f"{name} {share(time, whole)}" for name, time in sums.items() if time]

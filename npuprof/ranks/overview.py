"""A job at a glance: the verdict, findings about its ranks, its groups, and the parts of each step of each rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import pandas as pd

from npuprof import interactive
from npuprof.advice.findings import PARTS_OF_NAMES, Advice
from npuprof.analysis.accounting import IDLE
from npuprof.analysis.rank_groups import RankGroup, groups_by_kind, pipelines, rank_groups
from npuprof.analysis.rank_steps import ranks_by_step
from npuprof.errors import NpuprofError
from npuprof.figures.with_fallback import with_fallback
from npuprof.ranks.job import absent_last, job_facts, recorded_groups, step_parts, waits_caused
from npuprof.ranks.lanes import lanes
from npuprof.ranks.rank_tables import RankTables
from npuprof.ranks.set_notes import notes_of
from npuprof.ranks.transfers import absent_ranks
from npuprof.sources.files.memory_limit import give_back
from npuprof.tables.info import Info
from npuprof.words.quantities import duration
from npuprof.words.texts import LongText

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from npuprof.advice.job import JobFacts
    from npuprof.report.model import Report


@dataclass(frozen=True, repr=False)
class Overview(LongText):
    """The result of :meth:`npuprof.ProfileSet.overview`.

    Attributes
    ----------
    verdict
        The main cause, in one sentence.
    advice
        The findings about ranks, stages and waits.
    parts
        Nanoseconds of a mean step by part, which add up to it.
    by_rank
        The same of each rank: ``rank``, ``duration_ns`` and a column of nanoseconds for each part.
    lanes
        What at most eight ranks did in one step, on one clock; see the lanes of the report.
    slow
        The ranks that stand out: a step would be shorter without what they take longer.
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
    parts: Mapping[str, int]
    by_rank: pd.DataFrame = field(repr=False)
    lanes: pd.DataFrame = field(repr=False)
    slow: list[int]
    steps: pd.DataFrame
    groups: list[RankGroup] = field(repr=False)
    communication: pd.DataFrame
    caused: pd.Series[int]
    ranks: list[int]
    absent: list[int]
    warnings: int
    info: Info = field(repr=False)

    @property
    def title(self) -> str:
        """The verdict as the title of a figure."""
        return self.verdict.replace("`", "").rstrip(".")

    @property
    def pipelines(self) -> list[tuple[int, ...]]:
        """The ranks of each pipeline, by stage."""
        return pipelines(self.groups, self.ranks)

    @with_fallback("steps of all ranks")
    def plot(self) -> go.Figure:
        """Draw a heat map of ranks and steps for each part of steps, and the waiting that each rank causes."""
        from npuprof.figures.rank_steps import plot_rank_steps

        return plot_rank_steps(self.steps, self.caused, self.info, finding=self.title, absent=self.absent[:64])

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

    @cached_property
    def _report(self) -> Report:
        from npuprof.report.ranks import report_of_overview

        return report_of_overview(self)

    def _one_line(self) -> str:
        """Return the verdict."""
        return f"of a job: {self.verdict}"

    def __str__(self) -> str:
        from npuprof.report.text import report_text

        return report_text(self._report)

    def _repr_html_(self) -> str:
        from npuprof.report.html import report_html

        interactive.keep_keys()
        return report_html(self._report)


def overview(ranks: RankTables, advice: Advice | None = None) -> Overview:
    """Return the overview of all ranks of a set, with the findings of `advice` if they are known already."""
    from npuprof.advice.job import JobFacts
    from npuprof.advice.job_findings import advise_job
    from npuprof.report.ranks import main_cause

    ranks.scans.read_ahead()
    info = ranks.runs.merged_info
    steps = ranks_by_step(step_parts(ranks, newest=True))
    try:
        known = None if advice is None else advice.facts
        facts: JobFacts | None = known if isinstance(known, JobFacts) else job_facts(ranks)
    except NpuprofError:
        facts = None
    give_back()
    if advice is None and facts is not None:
        advice = advise_job(facts, scope="ranks")
    absent = absent_ranks(ranks)
    entries = [entry for entry in ranks.runs.entries if not entry.is_cluster]
    slow: list[int] = []
    parts: dict[str, int] = {}
    by_rank, seen = pd.DataFrame(), pd.DataFrame()
    groups, communication = [], groups_by_kind([], pd.DataFrame(columns=["group", "rank", "wait_ns", "moving_ns"]), 1)
    verdict = "None of these runs has a rank, so they are no job."
    if facts is not None and advice is not None:
        slow = sorted({rank for part in facts.parts("slow", "late", "stage") for rank in part.suspect.ranks})
        slow = [rank for rank in slow if rank not in facts.unseen]
        parts, by_rank = _means(facts, advice)
        seen = lanes(ranks, facts, _by_extra(facts, slow))
        verdict = main_cause(
            facts, advice, parts, runs=len(entries), ranked=sum(entry.info.rank is not None for entry in entries)
        )
        if facts.job is not None:
            groups = rank_groups(facts.job.rows, recorded_groups(entry.known for entry in ranks.runs.entries))
            communication = groups_by_kind(groups, facts.job.rows, facts.steps)
    caused = pd.Series(dtype="int64") if facts is None else waits_caused(facts, absent_last(ranks))
    warnings = int((notes_of(ranks)["severity"] != "info").sum())
    return Overview(
        verdict, advice, parts, by_rank, seen, slow, steps, groups, communication, caused, ranks.runs.ranks, absent,
        warnings, info,
    )  # fmt: skip


def _by_extra(facts: JobFacts, slow: Sequence[int]) -> list[int]:
    """Return ranks that stand out, that with the most extra time first."""
    extra = dict.fromkeys(slow, 0)
    for part in facts.parts("slow", "late", "stage"):
        for rank in part.suspect.ranks:
            if rank in extra:
                extra[rank] = max(extra[rank], part.suspect.extra_ns)
    return sorted(extra, key=lambda rank: (-extra[rank], rank))


def _means(facts: JobFacts, advice: Advice) -> tuple[dict[str, int], pd.DataFrame]:
    """Return the parts of a mean step, and of each rank's mean step."""
    rows = facts.by_part.iloc[facts.basis.rows]
    whole = rows.assign(idle=rows[list(IDLE)].sum(axis=1))
    names = ["duration_ns", *(name for name in PARTS_OF_NAMES if name in whole)]
    by_rank: pd.DataFrame = whole.groupby("rank")[names].sum() // whole.groupby("rank")[names].count()
    return advice.parts(), by_rank.reset_index()

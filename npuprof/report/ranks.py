"""The report on a set of ranks: the main cause, the ranks on one clock, findings, and the folded rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
import pandas as pd

from npuprof.advice.finding import Finding
from npuprof.advice.findings import Advice
from npuprof.advice.job import JobFacts
from npuprof.advice.job_rules import (
    JOB_RULES,
    absent_ranks,
    exposed_communication,
    fast_rank,
    late_host,
    pipeline_bubble,
    pipeline_imbalance,
    slow_link,
    slow_rank,
    waiting,
)
from npuprof.advice.wording import ranks_called
from npuprof.analysis.accounting import BETWEEN_STEPS
from npuprof.analysis.rank_absent import NO_RUN, RAISED
from npuprof.analysis.rank_groups import RankGroup
from npuprof.analysis.rank_stages import of_stages
from npuprof.report.damage import damage_lines, damaged_tables, headline_mark
from npuprof.report.facts import PART_LABELS, error_lines, note_rows
from npuprof.report.model import Fold, Lane, Markup, Part, Problem, Report, Segment, Strip, Table, Warned, code, plain
from npuprof.report.run import MOST_FINDINGS, bar_parts, headline_of, problem_of
from npuprof.report.strip import segments_of
from npuprof.tables.info import Info
from npuprof.words.quantities import counted, duration, formatted_ranks, printable, share
from npuprof.words.texts import cell_classes

_MOST_PIECES = 400  # of a lane: eight of them are drawn
_MOST_RANKS, _MOST_RUNS, _MOST_WAITS, _MOST_LINKS = 64, 40, 16, 8
_MOST_LISTED = 12  # runs of a set that is no job
_MOST_NOTES, _MOST_WARNINGS = 20, 3
_LONGEST_NAME = 160
_OF_JOBS = frozenset(rule.name for rule in JOB_RULES)


class ReportedOverview(Protocol):
    """The attributes of a set's overview that its report reads."""

    @property
    def verdict(self) -> str:
        """The main cause."""

    @property
    def advice(self) -> Advice | None:
        """The findings."""

    @property
    def parts(self) -> Mapping[str, int]:
        """The parts of a mean step."""

    @property
    def by_rank(self) -> pd.DataFrame:
        """The parts of a mean step of each rank."""

    @property
    def lanes(self) -> pd.DataFrame:
        """What some ranks did in one step."""

    @property
    def slow(self) -> list[int]:
        """The ranks that stand out."""

    @property
    def groups(self) -> list[RankGroup]:
        """The groups."""

    @property
    def pipelines(self) -> list[tuple[int, ...]]:
        """The ranks of each pipeline."""

    @property
    def caused(self) -> pd.Series[int]:
        """The waits that each rank causes."""

    @property
    def ranks(self) -> list[int]:
        """The ranks."""

    @property
    def absent(self) -> list[int]:
        """The ranks without a run."""

    @property
    def warnings(self) -> int:
        """The number of notes that are warnings or errors."""

    @property
    def info(self) -> Info:
        """The facts."""

    def kinds(self) -> list[tuple[str, ...]]:
        """Return the groups by kind."""


def report_of_overview(seen: ReportedOverview, notes: pd.DataFrame | None = None) -> Report:
    """Return the report on the ranks of a job together; `notes` belong to the set."""
    info, advice = seen.info, seen.advice
    name = info.name or "runs"
    number = counted(len(seen.ranks), "rank")
    warnings = [*_absent(seen.absent), *([] if notes is None else _damage(notes))]
    if advice is None or not advice.step_ns:
        said = seen.verdict if advice is None else "These ranks have no steps and no device time."
        return Report(name, "", [number] if seen.ranks else [], info.simulated, warnings, sentence=said)
    basis = advice.facts.basis
    shape = _shape(seen)
    steps = "no steps" if not advice.facts.accounting.has_steps else counted(basis.count, "step")
    why = f", {basis.why}" if basis.why and basis.why != "the only one" else ""
    outliers = f"usually {duration(advice.usual_ns)}" if basis.outliers else ""
    undecided = len(advice.cannot_tell)
    unknown = f"{counted(undecided, 'check')} need{'s' if undecided == 1 else ''} more data" if undecided else ""
    if advice.scope == "ranks":
        unknown = " · ".join(filter(None, (unknown, "runs.advice() judges single ranks too")))
    if notes is None and seen.warnings:
        unknown = " · ".join(filter(None, (unknown, f"{counted(seen.warnings, 'warning')} in runs.notes")))
    return Report(
        name,
        headline_of(advice) + ("" if notes is None else headline_mark(damaged_tables(notes))),
        [text for text in (f"{number}{shape and f': {shape}'}", info.chip, f"{steps}{why}") if text],
        info.simulated,
        warnings,
        outliers,
        "the mean of the steps that are no outliers" if outliers else "",
        sentence=seen.verdict,
        parts=_parts(seen, advice),
        strips=_strips(seen),
        problems=[_problem(finding, advice) for finding in advice.fired[:MOST_FINDINGS]],
        folds=_folds(seen, advice),
        cells=cell_classes(info.cells),
        unknown=unknown,
    )


def report_of_runs(info: Info, runs: pd.DataFrame, notes: pd.DataFrame, sentence: Markup) -> Report:
    """Return the report of runs that are no job, or that are not read yet: it lists them."""
    listed = _runs(runs, _MOST_LISTED)
    folds = [Fold(f"All runs ({len(runs):,})", tables=[_runs(runs, _MOST_RUNS)])] if len(runs) > _MOST_LISTED else []
    return Report(
        info.name or "runs",
        "",
        [counted(len(runs), "run")],
        info.simulated,
        _damage(notes),
        sentence=sentence,
        tables=[listed],
        folds=[*folds, *notes_fold(notes)],
    )


def main_cause(facts: JobFacts, advice: Advice, parts: Mapping[str, int], *, runs: int, ranked: int) -> Markup:
    """Return the main cause of the time of a step, in one sentence of at most 20 words.

    `runs` is the number of runs, `ranked` that of those whose rank is known.
    """
    ranks = sorted(facts.members)
    if len(ranks) == 1:
        only = ranks_called(ranks)
        if runs > 1 and ranked < runs:
            return (
                f"Of these {runs:,} runs only {ranked:,} {'has' if ranked == 1 else 'have'} a rank, so they are no job."
            )
        if runs > 1:
            return f"These {runs:,} runs are all of {only}, so they are no job: load one of them."
        return f"Only {only} is here. {_by_part(facts, advice, parts)}"
    if facts.job is None:
        return "These ranks have no collectives in common, so who waits for whom is unknown."
    found = advice.fired[0] if advice.fired else None
    if found is None:
        missing = " of the ranks that are here" if facts.missing else ""
        return f"None{missing} stands out. {_by_part(facts, advice, parts)}"
    cost = duration(found.cost_ns)
    said = {
        pipeline_imbalance.RULE.name: lambda: _uneven(facts),
        slow_rank.RULE.name: lambda: _slow(facts),
        late_host.RULE.name: lambda: _late(facts),
        slow_link.RULE.name: lambda: f"{found.title}: it costs {cost} a step.",
        exposed_communication.RULE.name: lambda: (
            f"Data moves between the ranks for {cost} a step while nothing computes."
        ),
        waiting.RULE.name: lambda: f"The ranks arrive at collectives at different times, and wait {cost} a step.",
        pipeline_bubble.RULE.name: lambda: f"The stages wait {cost} a step while the pipeline fills and drains.",
        fast_rank.RULE.name: lambda: f"{found.title}.",
        absent_ranks.RULE.name: lambda: f"{found.title}.",
    }.get(found.rule)
    if found.rank is not None and found.rule == waiting.RULE.name:  # as one rank sees it
        said = None
    return (said() if said else "") or _by_part(facts, advice, parts)


def _uneven(facts: JobFacts) -> str:
    """Return by how much the longest stage is longer than the others; empty where it may be something else."""
    parts = facts.parts("stage")
    stages = facts.stages()
    if facts.played is None or not parts or any(part.suspect.names for part in parts):
        return ""
    heavy = sorted(parts[0].suspect.ranks)
    at = next((number for number, stage in enumerate(stages) if sorted(stage) == heavy), None)
    if at is None or len([rank for rank in heavy if rank not in facts.unseen]) < 2:  # one rank may be slow instead
        return ""
    times = of_stages(facts.played, facts.punctual.own_ns, stages)
    others = [time for number, time in enumerate(times) if number != at]
    longer = duration(times[at] - int(np.median(others)))
    than = f"stage {1 - at}" if len(stages) == 2 else "the others"
    return f"Stage {at} ({_called(heavy)}) takes {longer} longer than {than}; the others wait for it."


def _slow(facts: JobFacts) -> str:
    parts = [part.suspect for part in facts.parts("slow", "late") if not set(part.suspect.ranks) <= facts.unseen]
    ranks = sorted({rank for suspect in parts for rank in suspect.ranks} - facts.unseen)
    if not ranks:
        return ""
    times = [time for suspect in parts if (time := facts.extra_ns(suspect)) is not None]
    subject = _called(ranks)
    one = len(ranks) == 1
    longest = f"{'' if one else 'up to '}{duration(max(times))} " if times else ""
    return (
        f"{subject[0].upper()}{subject[1:]} take{'s' if one else ''} {longest}longer than "
        f"ranks with the same work; the others wait."
    )


def _late(facts: JobFacts) -> str:
    parts = [
        part.suspect for part in facts.parts("late") if any(name.startswith("host ") for name in part.suspect.names)
    ]
    if not parts:
        return ""
    worst = max(parts, key=lambda suspect: suspect.extra_ns)
    return f"The host of {_called(worst.ranks)} is {duration(worst.extra_ns)} late; the others wait for it."


def _called(ranks: Sequence[int]) -> str:
    ordered = sorted(ranks)
    return f"ranks {ordered[0]} and {ordered[1]}" if len(ordered) == 2 else ranks_called(ordered)


def _by_part(facts: JobFacts, advice: Advice, parts: Mapping[str, int]) -> str:
    """Return the part with the most time, in a sentence."""
    device = f"{facts.device}s" if facts.device else "devices"
    whole = max(advice.step_ns, 1)
    if facts.accounting.of_host:
        return "No device was recorded."
    times = {name: time for name, time in parts.items() if name != BETWEEN_STEPS}
    times["idle"] = times.get("idle", 0) + parts.get(BETWEEN_STEPS, 0)
    most = max(times, key=lambda name: times[name])
    said = {
        "computing": "compute {} of the time.",
        "idle": "are idle {} of the time.",
        "waiting": "wait for each other {} of the time.",
        "moving": "move data {} of the time while nothing computes.",
        "communication": "wait for each other, or move data, {} of the time.",
        "copy": "copy {} of the time while nothing computes.",
    }.get(most, "do what is not recorded {} of the time.")
    return f"The {device} {said.format(share(times[most], whole))}"


def _shape(seen: ReportedOverview) -> str:
    """Return the stages, replicas and shards of a complete job; empty if they do not cover it."""
    if seen.absent or len(seen.ranks) < 2:
        return ""
    stages = {len(pipeline) for pipeline in seen.pipelines} or {1}
    shards = {len(group.ranks) for group in seen.groups if group.kind == "tp"} or {1}
    if len(stages) > 1 or len(shards) > 1:
        return ""
    (stage,), (shard,) = stages, shards
    replicas, rest = divmod(len(seen.ranks), stage * shard)
    if rest or stage * len(seen.pipelines or seen.ranks) != len(seen.ranks):
        return ""
    if stage * shard == 1 and not any(group.kind in ("dp", "all") for group in seen.groups):
        return ""
    sizes = (("stage", stage), ("replica", replicas), ("tensor shard", shard))
    return " × ".join(counted(size, name) for name, size in sizes if size > 1)


def _problem(finding: Finding, advice: Advice) -> Problem:
    """Return a finding; one about a single rank names it, and its share is of that rank's step."""
    problem, facts = problem_of(finding, advice), advice.facts
    if finding.rule in _OF_JOBS or finding.rank is None:
        return problem
    member = facts.members.get(finding.rank) if isinstance(facts, JobFacts) else None
    step_ns = 0 if member is None else member.advice.step_ns
    of_rank = share(finding.gain_hi_ns, step_ns) if finding.gain_hi_ns and step_ns else problem.share
    return replace(problem, title=f"{problem.title} (rank {finding.rank})", share=of_rank)


def _parts(seen: ReportedOverview, advice: Advice) -> list[Part]:
    if advice.facts.accounting.of_host:
        return bar_parts(advice)
    return [Part(PART_LABELS[name], seen.parts[name], name) for name in PART_LABELS if seen.parts.get(name)]


def _strips(seen: ReportedOverview) -> list[Strip]:
    """Return what some ranks did in one step, those that stand out marked."""
    rows = seen.lanes
    if not len(rows):
        return []
    length, step = int(rows.attrs["length_ns"]), rows.attrs["step"]
    lanes = []
    for rank, of_rank in rows.groupby("rank"):
        starts, ends = (of_rank[name].to_numpy(np.int64) for name in ("start_ns", "end_ns"))
        segments: list[Segment] = segments_of(starts, ends, of_rank["part"].astype(str), length, most=_MOST_PIECES)
        lanes.append(Lane(f"rank {rank}", segments, rank in seen.slow))
    count = len(seen.ranks)
    which = f"{len(lanes)} of {count:,} ranks" if len(lanes) < count else ""
    basis = None if seen.advice is None else seen.advice.facts.basis
    number = f"step {step}" if step is not None and basis is not None and basis.count > 1 else ""
    unread = "pale: between collectives, no kernels known" if (rows["part"] == "rest").any() else ""
    alike = "red: waiting or moving data" if (rows["part"] == "communication").any() else ""
    return [Strip(" · ".join(filter(None, (which, number, unread, alike))), length, lanes, in_text=True)]


def _absent(absent: Sequence[int]) -> list[Warned]:
    if not absent:
        return []
    called, are = _called(absent), "is" if len(absent) == 1 else "are"
    text = f"{called[0].upper()}{called[1:]} {are} not here: what looks like moving data may be waiting for them."
    return [Warned("warning", text.replace("for them", "for it") if len(absent) == 1 else text)]


def _damage(notes: pd.DataFrame) -> list[Warned]:
    """Return the reasons to distrust the figures: failures, missing data, and differences between ranks."""
    has_raised = notes["message"].str.startswith(RAISED).to_numpy(bool)
    raised = [
        Warned("error", plain(f"{source.capitalize()} raised {message.removeprefix(RAISED).strip()}"))
        for _, source, message in note_rows(notes[has_raised], _MOST_WARNINGS)
    ]
    if more := int(notes["count"][has_raised].sum()) - len(raised):
        raised.append(Warned("error", plain(f"{counted(more, 'more rank')} raised")))
    notes = notes[~has_raised]
    errors = [Warned("error", plain(line)) for line in error_lines(notes)]
    warned = notes[((notes["severity"] == "warning") & (notes["lacks"] == "")).to_numpy(bool)]
    warned = warned[~warned["message"].str.startswith(NO_RUN).to_numpy(bool)]
    lines = [f"{source}: {message}" for _, source, message in note_rows(warned, _MOST_WARNINGS)]
    if more := len(warned) - len(lines):
        lines.append(f"{counted(more, 'more warning')} in the notes below")
    return [*raised, *errors, *(Warned("warning", plain(line)) for line in [*damage_lines(notes), *lines])]


def _folds(seen: ReportedOverview, advice: Advice) -> list[Fold]:
    folds = [Fold(f"Ranks ({len(seen.ranks):,})", tables=[_ranks(seen)])] if len(seen.by_rank) else []
    if len(seen.caused):
        folds.append(Fold("Who waits for whom", tables=[_caused(seen)]))
    if kinds := seen.kinds():
        heads = ["groups of kind", "known", "groups", "ranks", *(f"{what} a step" for what in _COSTS)]
        folds.append(Fold("Communication", tables=[Table("Groups of ranks", heads, kinds, 5)]))
    more = advice.fired[MOST_FINDINGS:]
    undecided = [f"Not checked: {finding.rule.replace('_', ' ')}: {finding.collect}" for finding in advice.cannot_tell]
    risks = [f"{finding.title}: {finding.detail}" for finding in advice.findings if finding.is_risk]
    if more or undecided or risks:
        told = [_problem(finding, advice) for finding in more]
        texts = [" ".join(filter(None, (f"{each.title}:", f"{each.gain}.", each.action))) for each in told]
        folds.append(Fold("More findings", [*texts, *map(plain, risks), *map(plain, undecided)]))
    return folds


_COSTS = ("operators", "waiting", "moving")


def with_details(
    report: Report,
    *,
    timeline: str,
    heat: str,
    waits: pd.DataFrame,
    links: pd.DataFrame,
    kernels: pd.DataFrame,
    runs: pd.DataFrame,
    notes: pd.DataFrame,
    numbers: Sequence[tuple[str, str]],
) -> Report:
    """Return a report with what needs more than an overview.

    Parameters
    ----------
    timeline, heat
        All ranks on one clock, and the parts of all steps of all ranks, as SVG; empty to leave them out.
    waits
        ``rank``, ``root_rank`` and ``wait_ns`` of all steps: how long each rank waited for another.
    """
    folds = {fold.title.partition(" (")[0]: fold for fold in report.folds}
    ranks, who, groups = (folds.pop(name, None) for name in ("Ranks", "Who waits for whom", "Communication"))
    heats = [("The parts of each step of each rank", heat)] if heat else []
    pairs = [_pairs(waits)] if len(waits) else []
    slow = [_links(links)] if len(links) else []
    every = [
        ranks and Fold(ranks.title, ranks.texts, drawings=heats, tables=[*ranks.tables, _runs(runs, _MOST_RUNS)]),
        Fold("Timeline", drawings=[("All ranks on one clock", timeline)]) if timeline else None,
        who and Fold(who.title, tables=[*who.tables, *pairs]),
        groups and Fold(groups.title, tables=[*groups.tables, *slow]),
        Fold("Kernels", tables=[_kernels(kernels)]) if len(kernels) else None,
        *folds.values(),
        Fold("All numbers", figures=numbers),
        *notes_fold(notes),
    ]
    return replace(report, folds=[fold for fold in every if fold is not None])


def notes_fold(notes: pd.DataFrame) -> list[Fold]:
    """Return the most severe notes of a set; nothing without any."""
    if not len(notes):
        return []
    more = [f"{len(notes) - _MOST_NOTES:,} more in `runs.notes`."] if len(notes) > _MOST_NOTES else []
    rows = note_rows(notes, _MOST_NOTES)
    return [Fold(f"Notes ({len(notes):,})", [*(plain(f"{word}: {of}: {text}") for word, of, text in rows), *more])]


def _ranks(seen: ReportedOverview) -> Table:
    """Return a row for each rank: the parts of its step, and how long others wait for it."""
    rows = seen.by_rank
    parts = [name for name in PART_LABELS if name in rows and rows[name].any()]
    order = rows["rank"].isin(seen.slow).to_numpy(bool)
    shown = pd.concat([rows[order], rows[~order]]) if len(rows) > _MOST_RANKS else rows
    lines = [
        (
            f"rank {row['rank']}{', stands out' if row['rank'] in seen.slow else ''}",
            duration(int(row["duration_ns"])),
            *(duration(int(row[name])) for name in parts),
            *([duration(int(seen.caused.get(row["rank"], 0)))] if len(seen.caused) else []),
        )
        for _, row in shown[:_MOST_RANKS].iterrows()
    ]
    title = "A step of each rank"
    title += f" (the first {_MOST_RANKS} of {len(rows):,}; runs.overview().by_rank has all)" * (len(rows) > _MOST_RANKS)
    heads = ["rank", "step", *(PART_LABELS[name] for name in parts), *(["others wait"] if len(seen.caused) else [])]
    return Table(title, heads, lines, len(heads) - 1)


def _caused(seen: ReportedOverview) -> Table:
    whole = int(seen.caused.sum())
    most = seen.caused.sort_values(ascending=False)[:_MOST_WAITS]
    lines = [(f"rank {rank}", duration(int(time)), share(int(time), whole)) for rank, time in most.items() if time]
    title = "How long all ranks together wait a step for the own time of each"
    more = f" (the first {_MOST_WAITS} of {len(seen.caused):,})" if len(seen.caused) > _MOST_WAITS else ""
    return Table(title + more, ["rank", "others wait", "of these waits"], lines, 2)


def _pairs(waits: pd.DataFrame) -> Table:
    known = waits.dropna(subset="root_rank")
    sums = known.groupby(["rank", "root_rank"])["wait_ns"].sum().sort_values(ascending=False)
    whole = int(waits["wait_ns"].sum())
    lines = [
        (f"rank {rank} waits for rank {root}", duration(int(time)), share(int(time), whole))
        for (rank, root), time in sums[:_MOST_WAITS].items()
    ]
    return Table("The longest waits, over all steps", ["", "in all", "of all waits"], lines, 2)


def _links(links: pd.DataFrame) -> Table:
    lines = [
        (
            f"rank {row.src_rank} to rank {row.dst_rank}",
            str(row.transport),
            str(row.op_type),
            f"{row.gb_per_s:,.1f} GB/s",
            f"{row.usual_gb_per_s:,.1f} GB/s",
        )
        for row in links[:_MOST_LINKS].itertuples(index=False)
    ]
    return Table("Links slower than others of their kind", ["link", "over", "collective", "rate", "usual"], lines, 2)


def _kernels(kernels: pd.DataFrame) -> Table:
    lines = [
        (str(row["op_type"]), f"{int(row['count']):,}", duration(int(row["total_ns"])), f"{100 * row['share']:.1f} %")
        for _, row in kernels.iterrows()
    ]
    return Table("Kernels with the most time, of all ranks", ["type", "count", "total", "of kernel time"], lines, 3)


def _runs(runs: pd.DataFrame, most: int) -> Table:
    shown = runs[:most]
    columns = ["path", "rank", "host", "source", "started", "state", "problem"]
    started = shown["started"].dt.strftime("%Y-%m-%d %H:%M:%S").where(shown["started"].notna(), "")
    rows = [
        ["" if pd.isna(cell) else printable(str(cell), _LONGEST_NAME) for cell in row]
        for row in shown.assign(started=started)[columns].itertuples(index=False)
    ]
    kept = [at for at, _ in enumerate(columns) if at in (0, 1) or any(row[at] for row in rows)]
    title = f"Runs (the first {most} of {len(runs):,})" if len(runs) > most else "Runs"
    return Table(title, [columns[at] for at in kept], [[row[at] for at in kept] for row in rows], 0)


def numbers_of(seen: ReportedOverview) -> list[tuple[str, str]]:
    """Return the figures of a job by name."""
    advice = seen.advice
    figures = [("ranks", formatted_ranks(seen.ranks, 4))]
    if seen.absent:
        figures.append(("ranks that are not here", formatted_ranks(seen.absent, 4)))
    if advice is None or not advice.step_ns:
        return figures
    basis = advice.facts.basis
    figures += [("mean step", duration(advice.step_ns)), ("steps", f"{basis.count:,}")]
    if basis.outliers:
        figures += [("usual step", duration(advice.usual_ns)), ("outliers", f"{basis.outliers:,}")]
    figures += [
        (PART_LABELS[name], f"{duration(time)} ({share(time, advice.step_ns)})")
        for name, time in seen.parts.items()
        if time and name in PART_LABELS
    ]
    if advice.fired and advice.explained_ns:
        figures.append(("all findings together", f"{duration(advice.explained_ns)} of the usual step"))
    return figures


def unread_sentence(reads: str) -> Markup:
    """Return that runs are not read yet, and the call that reads them."""
    return (
        f"These runs are not read yet, and have no small files that tell of the job. {code(reads)} reads all of them."
    )
